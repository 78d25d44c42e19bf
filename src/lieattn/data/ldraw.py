"""LDraw parts and models: the frames of their sub-files, lines of type 1."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

import torch

from ..groups import Aff3
from ._draft import Draft, Place
from ._numbers import all_numbers, fields, row, whole_lines
from ._source import Source, stem
from .errors import quoted
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
    rows: list[list[float]] = field(default_factory=list)
    names: list[str] = field(default_factory=list)
    places: list[Place] = field(default_factory=list)

    def draft(self) -> Draft:
        x = torch.tensor(self.rows, dtype=torch.float64)
        g = Aff3.identity(len(x), dtype=torch.float64)
        g[:, :3, 3], g[:, :3, :3] = x[:, :3], x[:, 3:].unflatten(-1, (3, 3))
        return Draft(Aff3, g, self.names, self.places, self.title)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    sections = [_Section(stem(source.path))]
    for line, text in source.lines():
        kind = text.split(maxsplit=1)[:1]
        if not kind:
            continue
        named = re.match(r"\s*0\s+FILE\s+(.*\S)", text)
        if named:
            sections.append(_Section(named[1]))
        elif kind == ["1"]:
            _add(source, line, text, sections[-1])
        elif kind[0] not in ("0", "2", "3", "4", "5"):
            column = len(text) - len(text.lstrip()) + 1
            problem = f"{quoted(kind[0])} is no kind of line; expected a digit from 0 to 5."
            raise source.error(problem, line, column)
    found = [section.draft() for section in sections if section.rows]
    if not found:
        raise source.error(
            "no line of type 1, so there are no frames: the part is made of triangles alone."
        )
    return found


def _add(source: Source, line: int, text: str, section: _Section) -> None:
    section.rows.append(row(source, line, text, 12, _EXPECTS, skip=2, more=True))
    pieces = fields(text)
    if len(pieces) < 15:
        problem = f"the name of the file is missing; expected {_EXPECTS}."
        raise source.error(problem + source.last_line_hint(line), line, len(text) + 1)
    section.names.append(text[pieces[14][0] - 1 :].strip())
    section.places.append((line, pieces[0][0]))


FORMAT = Format(
    "ldraw", "LDraw", (".dat", ".ldr", ".mpd"), "Aff(3), frames of sub-files", _sniff, _read
)
