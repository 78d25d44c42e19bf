"""TUM trajectories: lines `t x y z qx qy qz qw`, the scalar part last."""

from __future__ import annotations

from ._draft import Draft
from ._numbers import mostly, row, whole_lines
from ._source import Source, stem
from .format import Format

_EXPECTS = "8 numbers, t x y z qx qy qz qw"


def _sniff(head: bytes, text: str) -> bool:
    return mostly(whole_lines(text)[:10], None, lambda count: count == 8)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    rows, names, places = [], [], []
    for line, text in source.lines():
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        values = row(source, line, text, 8, _EXPECTS)
        rows.append(values[1:])
        names.append(text.split(maxsplit=1)[0])
        places.append((line, len(text) - len(text.lstrip()) + 1))
    return [Draft.from_quaternions(rows, names, places, stem(source.path))]


FORMAT = Format("tum", "TUM trajectory", (".tum",), "SE(3), one trajectory a file", _sniff, _read)
