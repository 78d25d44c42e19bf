"""TUM trajectories: lines `t x y z qx qy qz qw`, the scalar part last; commas may separate them."""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal

import torch

from ..._core.text import quoted
from ...groups import SE3
from .._draft import Draft
from .._numbers import mostly, number, whole_lines
from .._source import Source
from .._trajectory import read_rows
from ..sets import PoseSet
from .format import Format

_EXPECTS = "8 numbers, t x y z qx qy qz qw"


def _sniff(head: bytes, text: str) -> bool:
    lines = whole_lines(text)[:10]
    return any(mostly(lines, separator, lambda count: count == 8) for separator in (None, ","))


def _read(source: Source, notes: list[str]) -> list[Draft]:
    return [read_rows(source, "last", _EXPECTS)[0]]


def _write(sets: Sequence[PoseSet], nanoseconds: bool) -> bytes:
    """One trajectory; poses that are masked are rows of nan."""
    if len(sets) != 1 or sets[0].group is not SE3:
        raise ValueError("a .tum file takes one trajectory of SE(3); .npz takes any sets.")
    x = sets[0]
    q, t = SE3.to_quaternion_xyzw(x.poses)
    rows = torch.cat((t, q), -1).masked_fill(~x.mask[:, None], torch.nan).tolist()
    times = (_time(name, nanoseconds) for name in x.names)
    lines = (
        " ".join((time, *(f"{value:.15g}" for value in row)))
        for time, row in zip(times, rows, strict=True)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _time(name: str, nanoseconds: bool) -> str:
    """A time stamp in seconds, to the last digit.

    >>> _time("1403636580838555648", True), _time("1305031098.6659", False)
    ('1403636580.838555648', '1305031098.6659')
    """
    time = Decimal(name if number(name) is not None else "nan")
    # Zeros by the million, as of 1e999999, are not written out.
    if not time.is_finite() or abs(time.adjusted()) > 40:
        raise ValueError(
            f"a .tum file writes time stamps, and {quoted(name)} is none; .npz takes any names."
        )
    return f"{time.scaleb(-9):f}" if nanoseconds else name


FORMAT = Format(
    "tum", "TUM trajectory", (".tum",), "SE(3), one trajectory a file", _sniff, _read, _write
)
