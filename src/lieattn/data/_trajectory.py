"""Trajectories as rows `t x y z` and a quaternion: TUM and EuRoC.

Rows are read by place, so the order that a header names must fit.
"""

from __future__ import annotations

import re
from array import array

from .._core.text import quoted
from ._draft import Draft
from ._numbers import fields, number, row
from ._source import Source, stem

# Brackets are not nested, so that each character is looked at once.
_UNITS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|[#\"']")
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
        rows.extend(row(source, line, text, 8, expects, more=more, separator=between)[1:])
        names.append(text.split(between, maxsplit=1)[0].strip())
        places.append((line, len(text) - len(text.lstrip()) + 1))
        named |= more and text.count(",") > 7
    return Draft.from_quaternions(rows, names, places, stem(source.path), scalar), named


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
