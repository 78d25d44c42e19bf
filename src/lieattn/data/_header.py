"""Lines that name the columns of a trajectory: rows are read by place, so their order must fit."""

from __future__ import annotations

import re

from .._core.text import quoted
from ._numbers import fields, number
from ._source import Source

# Brackets are not nested, so that each character is looked at once.
_UNITS = re.compile(r"\[[^\[\]]*\]|\([^()]*\)|[#\"']")
_LONGEST = 10_000  # characters of a header; what is longer is no list of columns
# How names of the parts of a quaternion end: qx, q_i, q1.
_ENDINGS = {"w": ("w", "r", "s", "0"), "x": "xi1", "y": "yj2", "z": "zk3"}
Names = list[tuple[int, str]]  # columns from 1, and what they are called


def column_names(text: str) -> Names:
    """Columns from 1 and names of what a header or a comment lists, without units and marks.

    >>> column_names("# t [s] q_x []")
    [(3, 't'), (9, 'q_x')]
    """
    bare = _bare(text)
    return fields(bare, separator_of(bare))


def _bare(text: str) -> str:
    return _UNITS.sub(lambda found: " " * len(found[0]), text)


def separator_of(text: str) -> str | None:
    """A comma where a line of a trajectory has them between its eight numbers, else blanks."""
    return "," if text.count(",") >= 7 else None


def is_header(text: str) -> bool:
    """Whether a line without # names columns, as most programs write it: no number in it."""
    if len(text) > _LONGEST:
        return False
    pieces = fields(text, separator_of(text))
    return len(pieces) >= 8 and all(number(piece) is None for _, piece in pieces)


def require_order(
    source: Source, line: int, text: str, scalar: str, expects: str, *, comment: bool
) -> bool:
    """Refuse names of a time, a position and a quaternion, its scalar "first" or "last", that
    are in another order; True if the line names them.

    Args:
        comment: a line that may say anything, and is a header only if it looks like one.
    """
    if len(text) > _LONGEST:
        return False
    names, commas = column_names(text), separator_of(_bare(text)) is not None
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
