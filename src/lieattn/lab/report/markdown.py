"""A report as Markdown, with its figures as files beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

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


def write_figures(section: Section, folder: Path) -> None:
    """The figures of a page in `folder`, in the place of those that were there."""
    figures = folder / FIGURES
    shutil.rmtree(figures, ignore_errors=True)
    figures.mkdir()
    for figure in section.figures():
        (figures / f"{figure.name}.svg").write_bytes(figure.svg)


def between(text: str, marks: tuple[str, str], content: str) -> str:
    """A page with `content` between two marks, in the place of what was there.

    >>> between("a <b>1</b> c", ("<b>", "</b>"), "2")
    'a <b>\\n2\\n</b> c'
    """
    start, end = text.index(marks[0]) + len(marks[0]), text.index(marks[1])
    return f"{text[:start]}\n{content}\n{text[end:]}"
