"""The bytes of a file, taken in no further than a limit, and as lines of text."""

from __future__ import annotations

import codecs
import gzip
import io
import math
import os
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import BinaryIO

from .errors import DataError

LIMIT = 256_000_000  # bytes, of the file and of what is unpacked from it
_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 20


class Source:
    """A file that a reader is given.

    Attributes:
        path: for messages.
        data: its bytes, unpacked if it was gzipped.
        limit: the most bytes that may be unpacked from it.
    """

    def __init__(self, path: str, data: bytes, limit: int = LIMIT) -> None:
        self.path, self.data, self.limit = path, data, limit

    def error(self, problem: str, line: int | None = None, column: int | None = None) -> DataError:
        """What to raise about a place in this file."""
        return DataError(self.path, problem, line, column)

    def too_large(self, size: str) -> DataError:
        """What to raise when the limit is passed."""
        return _too_large(self.path, size, self.limit)

    @cached_property
    def text(self) -> str:
        r"""The file as text, its lines ended by \n.

        Bytes that are no text become U+FFFD, and numbers with it an error.
        """
        if self.data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            return one_line_end(self.data.decode("utf-16", errors="replace"))
        before, zero, _ = self.data.partition(b"\0")
        text = one_line_end(before.decode("utf-8-sig", errors="replace"))
        if zero:
            problem = "a zero byte: this is a binary file or a damaged one, expected text."
            raise self.error(problem, text.count("\n") + 1, len(text) - text.rfind("\n"))
        return text

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines with their numbers from 1, as editors count them, without their ends."""
        yield from enumerate(self.text.split("\n"), 1)

    @cached_property
    def cut_short(self) -> str:
        """A sentence for errors in the last line of a file that does not end with one."""
        return "" if self.text.endswith("\n") else " The file may have been cut short here."

    def last_line_hint(self, line: int) -> str:
        """`cut_short` if that is the last line."""
        return self.cut_short if line == self.text.count("\n") + 1 else ""


def one_line_end(text: str) -> str:
    r"""The text with \n for line ends of all kinds.

    >>> one_line_end("a\r\nb\rc\n")
    'a\nb\nc\n'
    """
    return text.replace("\r\n", "\n").replace("\r", "\n")


def load(path: str | os.PathLike[str], limit: int = LIMIT) -> Source:
    """The file's bytes; a `DataError` if it cannot be read or is larger than the limit."""
    # A name that is no text, as Linux allows, is printed with question marks.
    name = os.fsencode(path).decode("utf-8", errors="replace")
    if not 1 <= limit < math.inf:
        raise ValueError(f"limit is a finite number of bytes, at least 1, got {limit}.")
    try:
        with open(path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            if size > limit:
                raise _too_large(name, _bytes(size), limit)
            data = _up_to(file, limit)  # a pipe does not tell its size
    except IsADirectoryError:
        raise DataError(name, "is a folder; pass the files in it.") from None
    except OSError as error:
        raise DataError(name, f"cannot be read: {error.strerror or error}.") from None
    if data is None:
        raise _too_large(name, f"more than {_bytes(limit)}", limit)
    if data.startswith(_GZIP):
        data = _gunzip(name, data, limit)
    return Source(name, data, limit)


def _up_to(file: BinaryIO | gzip.GzipFile, limit: int) -> bytes | None:
    """All bytes of a file, None if there are more than the limit.

    In blocks, as `read(n)` makes room for n bytes however few there are.
    """
    blocks, size = [], 0
    while block := file.read(_BLOCK):
        blocks.append(block)
        size += len(block)
        if size > limit:
            return None
    return b"".join(blocks)


def stem(path: str) -> str:
    """The file's name without folders and endings, those of gzip included."""
    name = Path(path).name
    return Path(name.removesuffix(".gz")).stem or name


def _gunzip(name: str, data: bytes, limit: int) -> bytes:
    """Unpack no more than the limit, whatever the file claims."""
    try:
        unpacked = _up_to(gzip.GzipFile(fileobj=io.BytesIO(data)), limit)
    except EOFError:
        raise DataError(name, "is gzip that was cut short. Copy it again.") from None
    except (OSError, zlib.error) as error:
        raise DataError(name, f"is damaged gzip ({error}). Copy it again.") from None
    if unpacked is None:
        raise _too_large(name, f"more than {_bytes(limit)} when unpacked", limit)
    return unpacked


def _too_large(name: str, size: str, limit: int) -> DataError:
    return DataError(
        name,
        f"is {size}; the limit is {_bytes(limit)}. If you trust the file, raise it: "
        "read(..., limit=bytes), or lieattn data --limit MB.",
    )


def _bytes(size: int) -> str:
    for unit, one in (("GB", 10**9), ("MB", 10**6), ("kB", 10**3)):
        if size >= one:
            return f"{size / one:.3g} {unit}"
    return f"{size} bytes"
