"""Trajectories as rows `t x y z` and a quaternion: TUM and EuRoC.

Rows are read by place, so the order that a header names must fit. A row without a pose has `nan`
seven times, or between commas nothing, as pandas writes it.
"""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from decimal import Decimal

import torch

from .._core.text import quoted
from ..groups import SE3
from ._draft import Draft
from ._numbers import fields, number, row
from ._source import Source, stem
from .sets import PoseSet

# Brackets are not nested, so that each character is looked at once.
_UNITS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|[#\"']")
_EMPTY = re.compile(r"[^,]*(?:,\s*){7}(?:,.*)?")  # a time stamp, and seven cells without a number
_LONGEST = 10_000  # characters of a header; what is longer is no list of columns
# How names of the parts of a quaternion end: qx, q_i, q1.
_ENDINGS = {"w": ("w", "r", "s", "0"), "x": "xi1", "y": "yj2", "z": "zk3"}
Names = list[tuple[int, str]]  # columns from 1, and what they are called


def read_rows(
    source: Source, scalar: str, expects: str, separator: str | None = None
) -> tuple[Draft, bool]:
    """The trajectory of a file, and whether a header names its columns or there are more than 8.

    Args:
        scalar: "first" or "last" of the quaternion.
        separator: a comma, after which more columns may follow; by default a comma or blanks,
            line by line, and 8 columns.
    """
    rows, names, places, named = array("d"), list[str](), list[tuple[int, int]](), False
    for line, text in source.lines():
        comment = text.lstrip().startswith("#")
        if comment or (not rows and _is_header(text)):
            named |= _require_order(source, line, text, scalar, expects, comment=comment)
            continue
        between, more = separator or _separator_of(text), separator is not None
        if between and _EMPTY.fullmatch(text):
            text = text.split(",", 1)[0] + ",nan" * 7
        rows.extend(row(source, line, text, 8, expects, more=more, separator=between)[1:])
        names.append(text.split(between, maxsplit=1)[0].strip())
        places.append((line, len(text) - len(text.lstrip()) + 1))
        named |= more and text.count(",") > 7
    return Draft.from_quaternions(rows, names, places, stem(source.path), scalar), named


def write_rows(
    sets: Sequence[PoseSet],
    ending: str,
    separator: str,
    *,
    scalar: str,
    nanoseconds: bool = False,
) -> bytes:
    """Lines of one trajectory; poses that are masked are rows of nan.

    Args:
        ending: of the file, for messages.
        scalar: "first" or "last" of the quaternion.
        nanoseconds: whether names are nanoseconds, to be written as seconds.
    """
    if len(sets) != 1 or sets[0].group is not SE3:
        raise ValueError(f"a {ending} file takes one trajectory of SE(3); .npz takes any sets.")
    x = sets[0]
    to_quaternion = SE3.to_quaternion_wxyz if scalar == "first" else SE3.to_quaternion_xyzw
    q, t = to_quaternion(x.poses)
    rows = torch.cat((t, q), -1).masked_fill(~x.mask[:, None], torch.nan).tolist()
    times = (_time(name, ending, nanoseconds) for name in x.names)
    lines = (
        separator.join((time, *(f"{value:.15g}" for value in row)))
        for time, row in zip(times, rows, strict=True)
    )
    return "".join(f"{line}\n" for line in lines).encode()


def _time(name: str, ending: str, nanoseconds: bool) -> str:
    """A time stamp in seconds, to the last digit.

    >>> _time("1403636580838555648", ".tum", True), _time("1305031098.6659", ".tum", False)
    ('1403636580.838555648', '1305031098.6659')
    """
    time = Decimal(name if number(name) is not None else "nan")
    # Zeros by the million, as of 1e999999, are not written out.
    if not time.is_finite() or abs(time.adjusted()) > 40:
        raise ValueError(
            f"a {ending} file writes time stamps, and {quoted(name)} is none; .npz takes any names."
        )
    return f"{time.scaleb(-9):f}" if nanoseconds else name


def in_nanoseconds(names: Sequence[str]) -> bool:
    """Whether time stamps are nanoseconds: whole numbers, 100,000 apart in the mean.

    Poses 0.1 ms apart are nearer than any sensor takes them, poses a day apart are no trajectory.

    >>> in_nanoseconds(["1403636580838555648", "1403636580843555648"])
    True
    >>> in_nanoseconds(["0.00", "0.05"]), in_nanoseconds(["17", "18"])
    (False, False)
    """
    times = [time for name in names if (time := number(name)) is not None and time.is_integer()]
    if not times or len(times) < len(names):
        return False
    first = times[0] if len(times) > 1 else 0
    return times[-1] - first >= 100_000 * len(times)


def column_names(text: str) -> Names:
    """Columns from 1 and names of what a header or a comment lists, without units and marks.

    >>> column_names("# t [s] q_x []")
    [(3, 't'), (9, 'q_x')]
    """
    bare = _bare(text)
    return fields(bare, _separator_of(bare))


def _bare(text: str) -> str:
    return _UNITS.sub(lambda found: " " * len(found[0]), text)


def _separator_of(text: str) -> str | None:
    """A comma where a line of a trajectory has them between its eight numbers, else blanks."""
    return "," if text.count(",") >= 7 else None


def _is_header(text: str) -> bool:
    """Whether a line without # names columns, as most programs write it: no number in it."""
    if len(text) > _LONGEST:
        return False
    pieces = fields(text, _separator_of(text))
    return len(pieces) >= 8 and all(number(piece) is None for _, piece in pieces)


def _require_order(
    source: Source, line: int, text: str, scalar: str, expects: str, *, comment: bool
) -> bool:
    """Refuse names of a time, a position and a quaternion, its scalar "first" or "last", that
    are in another order; True if the line names them.

    Args:
        comment: a line that may say anything, and is a header only if it looks like one.
    """
    if len(text) > _LONGEST:
        return False
    names, commas = column_names(text), _separator_of(_bare(text)) is not None
    if len(names) < 8 or (comment and not _lists_columns(names, commas)):
        return False
    names = names[:8] if commas else names[-8:]  # words may come first
    order = "xyzwxyz" if scalar == "first" else "xyzxyzw"
    for i, ((column, name), letter) in enumerate(zip(names[1:], order, strict=True)):
        low = name.lower()
        endings = (letter,) if i < 3 else tuple(_ENDINGS[letter])
        if not low.endswith(endings) or (i < 3 and low.startswith("q")):
            index = " Drop the first column, an index without a name." if not names[0][1] else ""
            other = "tum" if scalar == "first" else "euroc"
            problem = (
                f"the header has {quoted(name)} here, expected {expects}.{index} Reorder or rename "
                f"the columns; a quaternion that ends otherwise may be for format {other!r}."
            )
            raise source.error(problem, line, column)
    return True


def _lists_columns(names: Names, commas: bool) -> bool:
    """Whether eight names and more in a comment are columns: words, of which some are axes."""
    words = names[1:8] if commas else names[-7:]
    axes = sum(name.lower().endswith(tuple("xyzw")) for _, name in words)
    return not any(" " in name for _, name in words) and axes >= (3 if commas else 7)
