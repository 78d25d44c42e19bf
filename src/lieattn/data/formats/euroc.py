"""EuRoC ground truth: comma-separated `t, x, y, z, qw, qx, qy, qz, ...`, the scalar part first."""

from __future__ import annotations

from array import array

from .._draft import Draft
from .._header import is_header, require_order
from .._numbers import mostly, row, whole_lines
from .._source import Source, stem
from .format import Format

_EXPECTS = "t, x, y, z, qw, qx, qy, qz with commas between them; more may follow"
_BARE = (
    "has no header: numbers 5 to 8 of a row are taken for qw, qx, qy, qz, the scalar part first. "
    "If it comes last, use format='tum' (--format tum)."
)


def _sniff(head: bytes, text: str) -> bool:
    return mostly(whole_lines(text)[:10], ",", lambda count: count >= 8)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    rows = array("d")
    names, places = [], []
    named, columns = False, 0
    for line, text in source.lines():
        comment = text.lstrip().startswith("#")
        if comment or (not rows and is_header(text)):
            told = require_order(source, line, text, "first", _EXPECTS, comment=comment)
            named = named or told
        else:
            values = row(source, line, text, 8, _EXPECTS, more=True, separator=",")
            rows.extend(values[1:])
            names.append(text.split(",", 1)[0].strip())
            places.append((line, len(text) - len(text.lstrip()) + 1))
            columns = max(columns, text.count(",") + 1)
    if columns == 8 and not named:
        notes.append(_BARE)
    return [Draft.from_quaternions(rows, names, places, stem(source.path), scalar="first")]


FORMAT = Format(
    "euroc",
    "EuRoC csv",
    (".csv",),
    "SE(3), one trajectory a file",
    _sniff,
    _read,
    nanoseconds=True,
)
