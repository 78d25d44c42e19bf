"""The bytes of a file, taken in no further than a limit, and as lines of text."""

from __future__ import annotations

import codecs
import gzip
import io
import math
import os
import re
import zlib
from collections.abc import Iterator
from functools import cached_property
from pathlib import Path
from typing import IO

from .errors import DataError

LIMIT = 256_000_000  # bytes, of the file and of what is unpacked from it
SET_SIZE = 1024  # bytes that a set takes besides its poses, about
_GZIP = b"\x1f\x8b"
_BLOCK = 1 << 20
_LINE = re.compile(rb"\S[^\n]*")
_LONGEST_LINE = 1 << 20  # bytes


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

    def require_few(self, count: int, what: str, size: int = 200) -> None:
        """Refuse more things of a size than fit into the limit, whatever they take in the file.

        A line or an element becomes a pose, a name and a place, of some hundred bytes: a file of
        many short ones would take far more memory and time than its bytes let expect.
        """
        most = max(LIMIT // 20, self.limit) // size
        if count > most:
            raise self.too_large(f"{count:,} {what}, more than {most:,}")

    @cached_property
    def _utf8(self) -> bytes:
        r"""The file as UTF-8 without a byte order mark, its lines ended by \n."""
        data = self.data
        if data.startswith((codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)):
            data = data.decode("utf-16", errors="replace").encode()
        data = data.removeprefix(codecs.BOM_UTF8).replace(b"\r\n", b"\n").replace(b"\r", b"\n")
        at = data.find(b"\0")
        if at >= 0:
            line = data.count(b"\n", 0, at) + 1
            column = len(data[data.rfind(b"\n", 0, at) + 1 : at].decode(errors="replace")) + 1
            problem = "a zero byte: this is a binary file or a damaged one, expected text."
            raise self.error(problem, line, column)
        self.require_few(data.count(b"\n"), "lines")
        return data

    @cached_property
    def text(self) -> str:
        r"""The file as text, its lines ended by \n.

        Bytes that are no text become U+FFFD, and numbers with it an error.
        """
        return self._utf8.decode(errors="replace")

    def lines(self) -> Iterator[tuple[int, str]]:
        """Lines that are not blank, without their ends, with their numbers as editors count them.

        They are decoded one by one: a single emoji would make a whole text four times as large.
        """
        data, line, before = self._utf8, 1, 0
        for found in _LINE.finditer(data):
            start = data.rfind(b"\n", 0, found.start()) + 1
            line += data.count(b"\n", before, start)
            before = start
            if found.end() - start > _LONGEST_LINE:
                problem = f"a line of {_bytes(found.end() - start)}, the longest that is read has"
                raise self.error(f"{problem} {_bytes(_LONGEST_LINE)}. Is it a text file?", line)
            text = data[start : found.end()].decode(errors="replace")
            if not text.isspace():  # of blanks that are not ASCII
                yield line, text

    @cached_property
    def cut_short(self) -> str:
        """A sentence for errors in the last line of a file that does not end with one."""
        return "" if self._utf8.endswith(b"\n") else " The file may have been cut short here."

    def last_line_hint(self, line: int) -> str:
        """`cut_short` if that is the last line."""
        return self.cut_short if line == self._utf8.count(b"\n") + 1 else ""


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
            data = up_to(file, limit)  # a pipe does not tell its size
    except IsADirectoryError:
        raise DataError(name, "is a folder; pass the files in it.") from None
    except OSError as error:
        raise DataError(name, f"cannot be read: {error.strerror or error}.") from None
    if data is None:
        raise _too_large(name, f"more than {_bytes(limit)}", limit)
    if data.startswith(_GZIP):
        data = _gunzip(name, data, limit)
    return Source(name, data, limit)


def up_to(file: IO[bytes] | gzip.GzipFile, limit: int) -> bytes | None:
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
        unpacked = up_to(gzip.GzipFile(fileobj=io.BytesIO(data)), limit)
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
