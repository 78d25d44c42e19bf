"""EuRoC ground truth: comma-separated `t, x, y, z, qw, qx, qy, qz, ...`, the scalar part first."""

from __future__ import annotations

from collections.abc import Sequence

from .._draft import Draft
from .._numbers import mostly, whole_lines
from .._source import Source
from .._trajectory import read_rows, write_rows
from ..sets import PoseSet
from .format import Format

_EXPECTS = "t, x, y, z, qw, qx, qy, qz with commas between them; more may follow"
_BARE = (
    "has no header: numbers 5 to 8 of a row are taken for qw, qx, qy, qz, the scalar part first. "
    "If it comes last, use format='tum' (--format tum)."
)


def _sniff(head: bytes, text: str) -> bool:
    return mostly(whole_lines(text)[:10], ",", lambda count: count >= 8)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    draft, named = read_rows(source, "first", _EXPECTS, separator=",")
    if len(draft) and not named:
        notes.append(_BARE)
    return [draft]


def _write(sets: Sequence[PoseSet], nanoseconds: bool) -> bytes:
    """One trajectory with a header; time stamps keep their unit."""
    return b"t,x,y,z,qw,qx,qy,qz\n" + write_rows(sets, ".csv", ",", scalar="first")


FORMAT = Format(
    "euroc",
    "EuRoC csv",
    (".csv",),
    "SE(3), one trajectory a file",
    _sniff,
    _read,
    _write,
    nanoseconds=True,
)
