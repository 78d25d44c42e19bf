"""TUM trajectories: lines `t x y z qx qy qz qw`, the scalar part last; commas may separate them."""

from __future__ import annotations

from collections.abc import Sequence

from .._draft import Draft
from .._numbers import mostly, whole_lines
from .._source import Source
from .._trajectory import read_rows, write_rows
from ..sets import PoseSet
from .format import Format

_EXPECTS = "8 numbers, t x y z qx qy qz qw"


def _sniff(head: bytes, text: str) -> bool:
    lines = whole_lines(text)[:10]
    return any(mostly(lines, separator, lambda count: count == 8) for separator in (None, ","))


def _read(source: Source, notes: list[str]) -> list[Draft]:
    return [read_rows(source, "last", _EXPECTS)[0]]


def _write(sets: Sequence[PoseSet], nanoseconds: bool) -> bytes:
    return write_rows(sets, ".tum", " ", scalar="last", nanoseconds=nanoseconds)


FORMAT = Format(
    "tum", "TUM trajectory", (".tum",), "SE(3), one trajectory a file", _sniff, _read, _write
)
