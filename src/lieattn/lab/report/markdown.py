"""A report as Markdown, with its figures as files beside it."""

from __future__ import annotations

from .document import Figure, Section, Table

FIGURES = "figures"


def render(section: Section, depth: int = 1, folder: str = FIGURES) -> str:
    """Text of a section and of those below it; figures are files of a folder beside it."""
    parts = [f"{'#' * depth} {section.title}"]
    for part in section.parts:
        if isinstance(part, Section):
            parts.append(render(part, depth + 1, folder).rstrip())
        elif isinstance(part, Table):
            parts.append(table(part))
        elif isinstance(part, Figure):
            parts.append(f"![{part.caption}]({folder}/{part.name}.svg)\n\n*{part.caption}*")
        else:
            parts.append(part)
    return "\n\n".join(parts) + "\n"


def table(cells: Table) -> str:
    """A table, numbers to the right."""
    rule = ["---", *["--:"] * (len(cells.header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells.header, rule, *cells.rows))
