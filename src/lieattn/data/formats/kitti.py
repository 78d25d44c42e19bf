"""KITTI odometry poses: lines of 12 numbers, the upper three rows of a 4 x 4 matrix."""

from __future__ import annotations

from array import array

import torch

from ...groups import SE3
from .._draft import Draft, table
from .._numbers import mostly, row, whole_lines
from .._source import Source, stem
from .format import Format

_EXPECTS = "12 numbers, a 3 x 4 matrix by rows"


def _sniff(head: bytes, text: str) -> bool:
    return mostly(whole_lines(text)[:10], None, lambda count: count == 12)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    rows = array("d")
    places = []
    for line, text in source.lines():
        if text.lstrip().startswith("#"):
            continue
        rows.extend(row(source, line, text, 12, _EXPECTS))
        places.append((line, len(text) - len(text.lstrip()) + 1))
    g = SE3.identity(len(places), dtype=torch.float64)
    g[:, :3] = table(rows, 12).reshape(-1, 3, 4)
    names = [str(i) for i in range(len(places))]
    return [Draft(SE3, g, names, places, stem(source.path))]


FORMAT = Format("kitti", "KITTI poses", (".kitti",), "SE(3), one trajectory a file", _sniff, _read)
