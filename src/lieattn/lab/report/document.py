"""A report as data: sections of text, tables and figures, for any page to render."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import cached_property

from ...workflows.drawing import Canvas, encoded


@dataclass(frozen=True)
class Table:
    """Cells of text under a header; the first column names the row."""

    header: list[str]
    rows: list[list[str]]


@dataclass(frozen=True)
class Figure:
    """A picture, drawn when it is asked for: the name of its file and what it shows."""

    name: str
    caption: str
    draw: Callable[[], Canvas]

    @cached_property
    def svg(self) -> bytes:
        return encoded(self.draw)


@dataclass(frozen=True)
class Section:
    """A title and what stands below it, in order; sections nest."""

    title: str
    parts: list[str | Table | Figure | Section] = field(default_factory=list)

    def figures(self) -> Iterator[Figure]:
        for part in self.parts:
            if isinstance(part, Figure):
                yield part
            elif isinstance(part, Section):
                yield from part.figures()
