"""EuRoC ground truth: comma-separated `t, x, y, z, qw, qx, qy, qz, ...`, the scalar part first."""

from __future__ import annotations

from ._draft import Draft
from ._header import column_names, names_a_pose, require_order
from ._numbers import mostly, number, row, whole_lines
from ._source import Source, stem
from .format import Format

_EXPECTS = "t, x, y, z, qw, qx, qy, qz with commas between them; more may follow"


def _sniff(head: bytes, text: str) -> bool:
    return mostly(whole_lines(text)[:10], ",", lambda count: count >= 8)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    rows, names, places = [], [], []
    for line, text in source.lines():
        if text.lstrip().startswith("#") or (line == 1 and _is_header(text)):
            _require_scalar_first(source, line, text)
        elif text.strip():
            values = row(source, line, text, 8, _EXPECTS, more=True, separator=",")
            rows.append(values[1:])
            names.append(text.split(",", 1)[0].strip())
            places.append((line, len(text) - len(text.lstrip()) + 1))
    return [Draft.from_quaternions(rows, names, places, stem(source.path), scalar="first")]


def _is_header(text: str) -> bool:
    """Whether a first line without # names columns, as most programs write it."""
    pieces = text.split(",")
    return len(pieces) >= 8 and not any(number(piece.strip()) is not None for piece in pieces)


def _require_scalar_first(source: Source, line: int, text: str) -> None:
    """Refuse a header that names the quaternion's parts in another order."""
    names = column_names(text)[:8]
    listed = text.count(",") >= 7 and "time" in names[0][1].lower()
    if listed or names_a_pose(names):
        require_order(source, line, names, "xyzwxyz", _EXPECTS)


FORMAT = Format("euroc", "EuRoC csv", (".csv",), "SE(3), one trajectory a file", _sniff, _read)
