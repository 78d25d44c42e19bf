"""What a file format is to the registry."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from .._draft import Draft
from .._source import Source
from ..sets import PoseSet

HEAD = 65536  # bytes that sniffing looks at


@dataclass(frozen=True)
class Format:
    """A file format: what it is called, how it is recognised, read and written.

    Attributes:
        name: for `read(path, format=name)`.
        title: as people call it.
        extensions: endings of file names, with the dot. They decide where contents do not.
        holds: what a file of it gives, in a phrase.
        sniff: whether the file is of this format. Takes the first `HEAD` bytes, and the same as
            text; returns True only where no other format is possible.
        read: takes the file and a list, to which it adds notes about what was left out. Returns
            the sets. Raises `source.error(...)` on what it cannot read. Whether matrices are poses
            is checked afterwards.
        write: the content of a file of sets, for `save`, if the format can be written. The second
            argument says whether names are time stamps in nanoseconds. Raises ValueError on sets
            that the format cannot hold.
        nanoseconds: whether time stamps may be in nanoseconds; those that are fit for it are.
    """

    name: str
    title: str
    extensions: tuple[str, ...]
    holds: str
    sniff: Callable[[bytes, str], bool]
    read: Callable[[Source, list[str]], list[Draft]]
    write: Callable[[Sequence[PoseSet], bool], bytes] | None = None
    nanoseconds: bool = False
