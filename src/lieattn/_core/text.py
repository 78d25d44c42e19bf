"""Text from files, made safe to print: short, on one line, without control characters."""

from __future__ import annotations

import difflib
from collections.abc import Iterable

LINE = 2000  # most characters of a note or a message, with its names and paths


def quoted(text: str, width: int = 24) -> str:
    """A piece of a file in quotes; characters that cannot be printed are escaped."""
    return repr(_cut(text, width))


def printable(text: str, width: int = 120) -> str:
    r"""A name or a message from a file; characters that cannot be printed are escaped.

    They include control characters and those that change the direction of text.

    >>> print(printable("a\x1b]0;title\x07 b"))
    a\x1b]0;title\x07 b
    """
    text = text.strip()[: width + 1]
    return _cut(text if text.isprintable() else "".join(map(_escaped, text)), width)


def listed(names: list[str], most: int = 5) -> str:
    """The first names of a list, and how many more there are.

    >>> listed([str(i) for i in range(9)])
    '0, 1, 2, 3, 4 and 4 more'
    """
    some = ", ".join(printable(name, 24) for name in names[:most])
    return f"{some} and {len(names) - most:,} more" if len(names) > most else some


def unknown(kind: str, name: object, known: Iterable[str], more: str = "") -> str:
    """The message for an unknown name: the known ones, and the nearest of them.

    >>> print(unknown("group", "SE4", ["SO3", "SE3"]))
    unknown group 'SE4'; known are SO3, SE3. Did you mean 'SE3'?
    """
    names = list(known)
    text = f"unknown {kind} {quoted(str(name), 40)}; known are {', '.join(names)}{more}."
    near = difflib.get_close_matches(str(name)[:40], names, 1)
    return f"{text} Did you mean {near[0]!r}?" if near else text


def _escaped(character: str) -> str:
    return character if character.isprintable() else repr(character)[1:-1]


def _cut(text: str, width: int) -> str:
    return text if len(text) <= width else text[: width - 3] + "..."
