"""Numbers in lines of text, and the column of the first thing that is none."""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from contextlib import suppress

from .._core.text import quoted
from ._source import Source

_NUMBER = re.compile(
    r"[+-]?(?:(?:\d+(?:\.\d*)?|\.\d+)(?:[eE][+-]?\d+)?|nan|inf|infinity)",
    re.IGNORECASE | re.ASCII,
)


def fields(text: str, separator: str | None = None) -> list[tuple[int, str]]:
    """Columns from 1 and texts of the pieces of a line, without the blanks around them."""
    if separator is None:
        return [(m.start() + 1, m.group()) for m in re.finditer(r"\S+", text)]
    found, start = [], 0
    for piece in text.split(separator):
        blanks = len(piece) - len(piece.lstrip())
        found.append((start + blanks + 1, piece.strip()))
        start += len(piece) + len(separator)
    return found


def number(text: str) -> float | None:
    """The number that a text is, NaN and infinity included; None if it is none.

    >>> number("-1.5e3"), number("1_000"), number("1,5")
    (-1500.0, None, None)
    """
    return float(text) if _NUMBER.fullmatch(text) else None


def row(
    source: Source,
    line: int,
    text: str,
    count: int,
    expects: str,
    *,
    skip: int = 0,
    more: bool = False,
    separator: str | None = None,
) -> list[float]:
    """The `count` numbers of a line after its first `skip` pieces.

    Args:
        expects: what the line should be, for the message.
        more: whether anything may follow them.
        separator: between pieces; blanks if None.
    """
    most = skip + count if more else -1  # splits: what follows may be long
    texts = [piece.strip() for piece in text.split(separator, most)][skip:]
    enough = len(texts) == count or (more and len(texts) > count)
    if enough and "_" not in text and text.isascii():  # float takes 1_000 and digits of all scripts
        with suppress(ValueError):
            return [float(piece) for piece in texts[:count]]
    values, pieces = [], fields(text, separator)[skip:]
    for column, piece in pieces[:count]:
        value = number(piece)
        if value is None:
            hint = " Write decimals with a point." if re.fullmatch(r"-?\d+,\d+", piece) else ""
            problem = f"{quoted(piece)} is no number; expected {expects}.{hint}"
            raise source.error(problem, line, column)
        values.append(value)
    problem = f"{len(pieces)} numbers, expected {expects}."
    if len(pieces) < count:
        raise source.error(problem + source.last_line_hint(line), line, len(text) + 1)
    if len(pieces) > count and not more:
        raise source.error(problem, line, pieces[count][0])
    return values


def whole_lines(head: str) -> list[str]:
    """Lines of the beginning of a file that say something: no blanks, no comments.

    The last one is left out unless it is the only one: the beginning may end inside it.
    """
    lines = head.split("\n")
    lines = lines[:-1] if len(lines) > 1 else lines
    return [x.strip() for x in lines if x.strip() and not x.lstrip().startswith("#")]


def mostly(lines: Sequence[str], separator: str | None, fits: Callable[[int], bool]) -> bool:
    """Whether most of these lines are numbers alone, and as many as fits.

    Most: one damaged line does not make another format of a file.
    """
    rows = [line.split(separator) for line in lines]
    good = sum(fits(len(row)) and all_numbers(row[:8]) for row in rows)
    return 2 * good > len(rows)


def all_numbers(pieces: Sequence[str]) -> bool:
    """Whether all of them are numbers."""
    return all(number(piece.strip()) is not None for piece in pieces)
