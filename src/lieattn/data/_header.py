"""Lines that name the columns of a trajectory: rows are read by place, so their order must fit."""

from __future__ import annotations

import re

from ._numbers import fields
from ._source import Source
from .errors import quoted

_UNITS = re.compile(r"\[[^\]]*\]|\([^)]*\)|[#\"']")


def column_names(text: str) -> list[tuple[int, str]]:
    """Columns from 1 and names of what a header or a comment lists, without units and marks.

    >>> column_names("# t [s] q_x []")
    [(3, 't'), (9, 'q_x')]
    """
    bare = _UNITS.sub(lambda found: " " * len(found[0]), text)
    return fields(bare, "," if bare.count(",") >= 7 else None)


def names_a_pose(names: list[tuple[int, str]]) -> bool:
    """Whether eight names are those of a time and of seven numbers, in any order."""
    return len(names) == 8 and all(name.lower().endswith(tuple("xyzw")) for _, name in names[1:])


def require_order(
    source: Source, line: int, names: list[tuple[int, str]], letters: str, expects: str
) -> None:
    """Refuse names that do not end with these letters, after the first, position before q."""
    for i, ((column, name), letter) in enumerate(zip(names[1:], letters, strict=True)):
        low = name.lower()
        if not low.endswith(letter) or (i < 3 and low.startswith("q")):
            problem = f"the header has {quoted(name)} here, expected {expects}. Reorder them."
            raise source.error(problem, line, column)
