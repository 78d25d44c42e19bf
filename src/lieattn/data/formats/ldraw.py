"""LDraw parts and models: the frames of their sub-files, lines of type 1.

A flat part has a matrix that is singular, which LDraw allows. It is no pose of Aff(3): such parts
are masked, and a note counts them.
"""

from __future__ import annotations

from array import array
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..._core.text import quoted
from ...groups import Aff3
from .._draft import FARTHEST, Draft, Place, table
from .._numbers import all_numbers, row, whole_lines
from .._source import Source, stem
from .format import Format

_EXPECTS = "1 colour x y z a b c d e f g h i file"
_PIECES = {"2": 8, "3": 11, "4": 14, "5": 14}  # of lines of other types: a colour and points


def _sniff(head: bytes, text: str) -> bool:
    lines = [x.split() for x in whole_lines(text)[:50]]
    # Rows of numbers alone may begin so as well: there must be a comment, or a file's name.
    words = any(x[0] == "0" and len(x) > 1 and not all_numbers(x[1:2]) for x in lines)
    placed = any(x[0] == "1" and len(x) > 14 and not all_numbers(x[14:]) for x in lines)
    return all(_is_line(x) for x in lines) and (words or placed)


def _is_line(pieces: list[str]) -> bool:
    """Whether a line has as many pieces as its type needs; rows of trajectories do not."""
    kind = pieces[0]
    if kind == "1":
        return len(pieces) > 14
    return kind == "0" or _PIECES.get(kind) == len(pieces)


@dataclass
class _Section:
    """The sub-files of one file; a model may hold several."""

    title: str
    names: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    sections = [_Section(stem(source.path))]
    rows = array("d")
    for line, text in source.lines():
        kind, *rest = text.split(maxsplit=2)
        if kind == "0" and len(rest) == 2 and rest[0] == "FILE":
            sections.append(_Section(rest[1].strip()))
        elif kind == "1":
            rows.extend(_add(source, line, text, sections[-1]))
        elif kind not in ("0", "2", "3", "4", "5"):
            column = len(text) - len(text.lstrip()) + 1
            problem = f"{quoted(kind)} is no kind of line; expected a digit from 0 to 5."
            raise source.error(problem, line, column)
    if not rows:
        raise source.error(
            "no line of type 1, so there are no frames: the part is made of triangles alone."
        )
    return _drafts(source, table(rows, 12), [x for x in sections if x.names], notes)


def _add(source: Source, line: int, text: str, section: _Section) -> list[float]:
    """The numbers of a line of type 1; its name and place go to the section."""
    values = row(source, line, text, 12, _EXPECTS, skip=2, more=True)
    pieces = text.split(maxsplit=14)
    if len(pieces) < 15:
        problem = f"the name of the file is missing; expected {_EXPECTS}."
        raise source.error(problem + source.last_line_hint(line), line, len(text) + 1)
    section.names.append(pieces[14].strip())
    section.places.append((line, len(text) - len(text.lstrip()) + 1))
    return values


def _drafts(source: Source, x: Tensor, sections: list[_Section], notes: list[str]) -> list[Draft]:
    """Sets of the sections from all rows `[N, 12]`; parts without an inverse are masked."""
    g = Aff3.identity(len(x), dtype=torch.float64)
    g[:, :3, 3], g[:, :3, :3] = x[:, :3], x[:, 3:].unflatten(-1, (3, 3))
    finite = (x.abs() <= FARTHEST).all(-1)  # others are for `finish` to refuse
    flat = finite & ~Aff3.contains(g)
    if flat.all():
        problem = "every part is flat: a singular matrix, which LDraw allows, is no pose of Aff(3)."
        raise source.error(problem, *sections[0].places[0])
    if count := int(flat.sum()):
        parts = "1 part is" if count == 1 else f"{count:,} parts are"
        notes.append(
            f"{parts} flat and masked: a singular matrix, which LDraw allows, is no pose of Aff(3)."
        )
    sizes = [len(section.names) for section in sections]
    return [
        Draft(Aff3, own, section.names, section.places, section.title, mask=mask)
        for section, own, mask in zip(sections, g.split(sizes), (~flat).split(sizes), strict=True)
    ]


FORMAT = Format(
    "ldraw", "LDraw", (".dat", ".ldr", ".mpd"), "Aff(3), frames of sub-files", _sniff, _read
)
