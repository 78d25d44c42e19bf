"""What a file format is to the registry."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from .._draft import Draft
from .._source import Source

HEAD = 65536  # bytes that sniffing looks at


@dataclass(frozen=True)
class Format:
    """A file format: what it is called, how it is recognised, how it is read.

    Attributes:
        name: for `read(path, format=name)`.
        title: as people call it.
        extensions: endings of file names, with the dot. They decide where contents do not.
        holds: what a file of it gives, in a phrase.
        sniff: whether a file that begins so is of this format. Given the first `HEAD` bytes, and
            the same as text; a format that cannot be mistaken for another.
        read: the sets of a file, and sentences about what was left out. Raises `source.error(...)`
            on what it cannot read; `draft.finish` then checks that poses are poses.
        nanoseconds: whether poses are named by time stamps in nanoseconds.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    holds: str
    sniff: Callable[[bytes, str], bool]
    read: Callable[[Source, list[str]], list[Draft]]
    nanoseconds: bool = False
