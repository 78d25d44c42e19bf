"""TUM trajectories: lines `t x y z qx qy qz qw`, the scalar part last; commas may separate them."""

from __future__ import annotations

from array import array

from .._draft import Draft
from .._header import is_header, require_order, separator_of
from .._numbers import mostly, row, whole_lines
from .._source import Source, stem
from .format import Format

_EXPECTS = "8 numbers, t x y z qx qy qz qw"


def _sniff(head: bytes, text: str) -> bool:
    lines = whole_lines(text)[:10]
    return any(mostly(lines, separator, lambda count: count == 8) for separator in (None, ","))


def _read(source: Source, notes: list[str]) -> list[Draft]:
    rows = array("d")
    names, places = [], []
    for line, text in source.lines():
        comment = text.lstrip().startswith("#")
        if comment or (not rows and is_header(text)):
            require_order(source, line, text, "last", _EXPECTS, comment=comment)
            continue
        separator = separator_of(text)
        values = row(source, line, text, 8, _EXPECTS, separator=separator)
        rows.extend(values[1:])
        names.append(text.split(separator, maxsplit=1)[0].strip())
        places.append((line, len(text) - len(text.lstrip()) + 1))
    return [Draft.from_quaternions(rows, names, places, stem(source.path))]


FORMAT = Format("tum", "TUM trajectory", (".tum",), "SE(3), one trajectory a file", _sniff, _read)
