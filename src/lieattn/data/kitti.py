"""KITTI odometry poses: lines of 12 numbers, the upper three rows of a 4 x 4 matrix."""

from __future__ import annotations

import torch

from ..groups import SE3
from ._draft import Draft
from ._numbers import mostly, row, whole_lines
from ._source import Source, stem
from .format import Format

_EXPECTS = "12 numbers, a 3 x 4 matrix by rows"


def _sniff(head: bytes, text: str) -> bool:
    return mostly(whole_lines(text)[:10], None, lambda count: count == 12)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    rows, places = [], []
    for line, text in source.lines():
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        rows.append(row(source, line, text, 12, _EXPECTS))
        places.append((line, len(text) - len(text.lstrip()) + 1))
    g = SE3.identity(len(rows), dtype=torch.float64)
    g[:, :3] = torch.tensor(rows, dtype=torch.float64).reshape(-1, 3, 4)
    names = [str(i) for i in range(len(rows))]
    return [Draft(SE3, g, names, places, stem(source.path))]


FORMAT = Format("kitti", "KITTI poses", (".kitti",), "SE(3), one trajectory a file", _sniff, _read)
