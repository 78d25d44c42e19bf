"""A report as Markdown, with its figures as files beside it."""

from __future__ import annotations

import shutil
from pathlib import Path

from .document import Figure, Section, Table

FIGURES = "figures"


def render(section: Section, depth: int = 1, folder: str = FIGURES) -> str:
    """A section and those below it as text that links to the files of its figures."""
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
    """A table; all columns but the first are aligned to the right."""
    rule = ["---", *["--:"] * (len(cells.header) - 1)]
    return "\n".join(f"| {' | '.join(row)} |" for row in (cells.header, rule, *cells.rows))


def files(section: Section) -> dict[str, bytes]:
    """The files that the page of a section links to."""
    return {f"{FIGURES}/{figure.name}.svg": figure.svg for figure in section.figures()}


def write_figures(section: Section, folder: Path) -> None:
    """Write the figures of a page into `folder`, in place of earlier ones."""
    shutil.rmtree(folder / FIGURES, ignore_errors=True)
    (folder / FIGURES).mkdir()
    for name, svg in files(section).items():
        (folder / name).write_bytes(svg)


def between(text: str, marks: tuple[str, str], content: str) -> str:
    """A page with `content` between two marks, in place of what was there.

    >>> between("a <b>1</b> c", ("<b>", "</b>"), "2")
    'a <b>\\n2\\n</b> c'
    """
    start, end = text.index(marks[0]) + len(marks[0]), text.index(marks[1])
    return f"{text[:start]}\n{content}\n{text[end:]}"
