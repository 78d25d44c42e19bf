"""TUM trajectories: lines `t x y z qx qy qz qw`, the scalar part last."""

from __future__ import annotations

from ._draft import Draft
from ._header import column_names, names_a_pose, require_order
from ._numbers import mostly, row, whole_lines
from ._source import Source, stem
from .format import Format

_EXPECTS = "8 numbers, t x y z qx qy qz qw"


def _sniff(head: bytes, text: str) -> bool:
    return mostly(whole_lines(text)[:10], None, lambda count: count == 8)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    rows, names, places = [], [], []
    for line, text in source.lines():
        if not text.strip():
            continue
        if text.lstrip().startswith("#"):
            _require_scalar_last(source, line, text)
            continue
        values = row(source, line, text, 8, _EXPECTS)
        rows.append(values[1:])
        names.append(text.split(maxsplit=1)[0])
        places.append((line, len(text) - len(text.lstrip()) + 1))
    return [Draft.from_quaternions(rows, names, places, stem(source.path))]


def _require_scalar_last(source: Source, line: int, text: str) -> None:
    """Refuse a comment that names the quaternion's parts in another order."""
    names = column_names(text)[-8:]
    if names_a_pose(names):
        require_order(source, line, names, "xyzxyzw", _EXPECTS)


FORMAT = Format("tum", "TUM trajectory", (".tum",), "SE(3), one trajectory a file", _sniff, _read)
