"""Files that the library writes and reads back: written atomically, and checked when read.

Tensors and JSON are in one safetensors file. Its only metadata entry, `lieattn`, is a line of the
format and two SHA-256 checksums, then the JSON text:

    2 <of the header> <of the data>
    {"kind": ...}

The first checksum covers the eight bytes of the header's length and the header: names, types,
shapes, offsets, padding and the second checksum. It is computed with zeros in its own place. The
second checksum covers the tensors. So every changed bit is detected, and the header is checked
before any of it is used and before any tensor is allocated. Nothing in a file is executed.
"""

from __future__ import annotations

import contextlib
import json
import os
from collections.abc import Mapping
from dataclasses import dataclass
from hashlib import sha256
from math import isfinite, prod
from pathlib import Path
from typing import Any, NamedTuple

import torch
from safetensors import SafetensorError
from safetensors.torch import load, save
from torch import Tensor

from .stopping import held
from .text import quoted

FORMAT, EARLIER = 2, 1
KEY = "lieattn"  # of the metadata
EARLIER_KEYS = ("state", "config")  # JSON with a checksum over the tensors, and JSON alone
BLANK = "0" * 64  # stands where a checksum will be
LONGEST_HEADER = 16 * 2**20
LONGEST_JSON = 64 * 2**20
DEEPEST = 32  # levels of nested lists and objects
WIDEST = 1_000_000  # lists and objects: they take twenty times their text in memory
DTYPES = {
    "F64": torch.float64,
    "F32": torch.float32,
    "F16": torch.float16,
    "BF16": torch.bfloat16,
    "I64": torch.int64,
    "I32": torch.int32,
    "I16": torch.int16,
    "I8": torch.int8,
    "U8": torch.uint8,
    "BOOL": torch.bool,
}


class Damaged(ValueError):
    """A file that is damaged or of another kind; the message says why."""


class Kind(NamedTuple):
    """Type and shape of a tensor."""

    dtype: torch.dtype
    shape: tuple[int, ...]

    def __str__(self) -> str:
        return f"{list(self.shape)} of {str(self.dtype).removeprefix('torch.')}"


# ---- writing -------------------------------------------------------------------------------------


def write_whole(files: Mapping[Path, bytes], keep: Path | None = None, part: str = ".part") -> None:
    """Write files atomically: a reader, or a resumed run, never sees half of one.

    Every file is written beside its place and synced; then all are moved.

    Args:
        files: contents by path.
        keep: where a replaced file is moved.
        part: suffix of the name of a file until it is moved.
    """
    parts = {path: path.with_name(path.name + part) for path in files}
    with held():
        try:
            for path, content in files.items():
                with open(parts[path], "wb") as file:
                    file.write(content)
                    file.flush()
                    os.fsync(file.fileno())
            for path, written in parts.items():
                if keep is not None and path.exists():
                    os.replace(path, keep)
                os.replace(written, path)
        except OSError:
            for written in parts.values():
                with contextlib.suppress(OSError):
                    written.unlink(missing_ok=True)
            raise


def json_bytes(value: Any, indent: int | None = 1) -> bytes:
    """JSON with sorted keys: equal values are equal files. Without indent it is one line."""
    text = json.dumps(value, indent=indent, sort_keys=True, allow_nan=False)
    return (text + "\n").encode()


# ---- JSON ----------------------------------------------------------------------------------------


def read_json(path: Path, most: int = LONGEST_JSON) -> Any:
    """JSON of a file.

    Raises:
        OSError, ValueError: it cannot be read, is not JSON, or is too large.
    """
    with open(path, "rb") as file:
        content = file.read(most + 1)
    if len(content) > most:
        raise ValueError(f"it has more than {most:,} bytes")
    return parse_json(content.decode("utf-8-sig"))


def parse_json(text: str, finite: bool = True) -> Any:
    """JSON whose depth and width are limited, so that it exhausts neither stack nor memory.

    Args:
        finite: refuse NaN and infinity, which earlier versions wrote.
    Raises:
        ValueError: it is not such JSON; the message says why.

    >>> parse_json('{"a": [1, NaN]}')
    Traceback (most recent call last):
    ...
    ValueError: it holds 'NaN', which is not a finite number
    """
    if text.count("[") + text.count("{") > WIDEST:
        raise ValueError(f"it holds more than {WIDEST:,} lists and objects")
    try:
        rules: Any = {"parse_constant": _finite, "parse_float": _finite} if finite else {}
        value = json.loads(text, **rules)
    except RecursionError:
        raise ValueError("it is nested too deeply") from None
    require_shallow(value)
    return value


def require_shallow(value: Any) -> None:
    """Refuse lists and dictionaries that are nested too deeply to be walked through, or shown.

    Raises:
        ValueError: there are more than `DEEPEST` levels.
    """
    level = [value]
    for _ in range(DEEPEST):
        parts = (x.values() if isinstance(x, dict) else x for x in level if _is_part(x))
        level = [x for part in parts for x in part if _is_part(x)]
        if not level:
            return
    raise ValueError("it is nested too deeply")


def _is_part(x: Any) -> bool:
    return isinstance(x, dict | list)


def _finite(text: str) -> float:
    value = float(text)
    if not isfinite(value):
        raise ValueError(f"it holds {quoted(text)}, which is not a finite number")
    return value


# ---- tensors and JSON ----------------------------------------------------------------------------


def pack(tensors: dict[str, Tensor], about: dict[str, Any]) -> bytes:
    """The bytes of a file of tensors and JSON; equal values give equal bytes."""
    text = json.dumps(about, allow_nan=False)
    # One entry, because safetensors writes several in any order.
    content = save(tensors, {KEY: f"{FORMAT} {BLANK} {BLANK}\n{text}"})
    start = 8 + int.from_bytes(content[:8], "little")
    data = memoryview(content)[start:]
    # Metadata comes before the names of tensors, so the first blanks in the header are these.
    blanks, filled = f"{BLANK} {BLANK}", f"{BLANK} {sha256(data).hexdigest()}"
    head = content[:start].replace(blanks.encode(), filled.encode(), 1)
    head = head.replace(BLANK.encode(), sha256(head).hexdigest().encode(), 1)
    return b"".join((head, data))


@dataclass(frozen=True)
class Checked:
    """A file whose header is read and checked. Nothing else of it is in memory.

    Attributes:
        about: its JSON.
        kinds: types and shapes of its tensors.
        format: `FORMAT`, or `EARLIER` for a file without the checksum of the header.
    """

    path: Path
    about: dict[str, Any]
    kinds: dict[str, Kind]
    format: int
    head: bytes
    digest: str  # of the data; of an earlier file of text and data, or empty
    text: str

    @property
    def size(self) -> int:
        """Bytes of the file."""
        return len(self.head) + _size(self.kinds)

    def require(self, expected: Mapping[str, Kind]) -> None:
        """Compare names, types and shapes with those of a model.

        Raises:
            Damaged: they differ, with the first that does.
        """
        for name in sorted({*self.kinds, *expected}):
            held, own = self.kinds.get(name), expected.get(name)
            if held != own:
                raise Damaged(
                    f"its tensor {quoted(name, 80)} is {held or 'absent'}, expected "
                    f"{own or 'absent'}"
                )

    def tensors(self, expected: Mapping[str, Kind]) -> dict[str, Tensor]:
        """The tensors, after their sizes are compared with the expected ones.

        Raises:
            Damaged: other tensors are expected, or the file was changed.
        """
        self.require(expected)
        try:
            with open(self.path, "rb") as file:
                content = file.read(self.size + 1)
            if len(content) != self.size or not content.startswith(self.head):
                raise Damaged("it was changed while it was read")
            data = memoryview(content)[len(self.head) :]
            if self.format == FORMAT and sha256(data).hexdigest() != self.digest:
                raise Damaged("its checksum does not match")
            tensors: dict[str, Tensor] = load(content)
        except (SafetensorError, OSError) as error:
            raise Damaged(str(error)) from None
        if self.format == EARLIER and self.digest and _earlier(tensors, self.text) != self.digest:
            raise Damaged("its checksum does not match")
        return tensors


def read_header(path: Path, longest: int = LONGEST_HEADER) -> Checked:
    """The header of a file, checked against its checksum and the size of the file.

    Args:
        longest: the most bytes that a header may have.
    Raises:
        Damaged: the file is truncated, changed or of another kind, or its header is too long.
    """
    try:
        head, size = _head(path, longest)
        entries = parse_json(head[8:].decode())
        metadata = entries.pop("__metadata__", None) if isinstance(entries, dict) else None
        if not isinstance(metadata, dict) or len(metadata) != 1:
            raise Damaged("it was not written by lieattn")
        ((key, held),) = metadata.items()
        format, digest, text = _opened(key, str(held), head)
        kinds = {name: _kind(name, entry) for name, entry in entries.items()}
        about = parse_json(text, finite=format == FORMAT)
    except OSError as error:
        raise Damaged(error.strerror or str(error)) from None
    except Damaged:
        raise
    except ValueError as error:
        raise Damaged(f"its header is damaged: {quoted(str(error), 120)}") from None
    if not isinstance(about, dict):
        raise Damaged("its JSON is not an object")
    if len(head) + _size(kinds) != size:
        raise Damaged(f"it has {size:,} bytes, expected {len(head) + _size(kinds):,}")
    return Checked(path, about, kinds, format, head, digest, text)


def _head(path: Path, longest: int) -> tuple[bytes, int]:
    """The bytes of the length and the header, and the size of the file."""
    with open(path, "rb") as file:
        size = os.fstat(file.fileno()).st_size
        first = file.read(8)
        length = int.from_bytes(first, "little")
        if size < 8 + length:
            raise Damaged("it is cut short")
        if length > longest:
            raise Damaged(f"its header has {length:,} bytes, at most {longest:,} are read")
        return first + file.read(length), size


def _opened(key: str, held: str, head: bytes) -> tuple[int, str, str]:
    """Format, checksum of the tensors, and JSON text of a metadata entry."""
    if key in EARLIER_KEYS:
        digest, _, text = held.partition("\n") if key == "state" else ("", "", held)
        return EARLIER, digest, text
    first, _, text = held.partition("\n")
    words = first.split(" ")
    if key != KEY or len(words) != 3:
        raise Damaged("it was not written by lieattn")
    if words[0] != str(FORMAT):
        raise Damaged(f"its format is {quoted(words[0])}, this lieattn reads {FORMAT}")
    blank = head.replace(words[1].encode(), BLANK.encode(), 1)
    if len(words[1]) != len(BLANK) or sha256(blank).hexdigest() != words[1]:
        raise Damaged("the checksum of its header does not match")
    return FORMAT, words[2], text


def _kind(name: str, entry: Any) -> Kind:
    shape = entry.get("shape") if isinstance(entry, dict) else None
    if not isinstance(shape, list) or len(shape) > 8 or str(entry.get("dtype")) not in DTYPES:
        raise Damaged(f"its tensor {quoted(name, 80)} has no known type and shape")
    if not all(type(n) is int and 0 <= n < 2**40 for n in shape):
        raise Damaged(f"its tensor {quoted(name, 80)} has no shape")
    return Kind(DTYPES[entry["dtype"]], tuple(shape))


def _size(kinds: Mapping[str, Kind]) -> int:
    return sum(prod(kind.shape) * kind.dtype.itemsize for kind in kinds.values())


def _earlier(tensors: dict[str, Tensor], text: str) -> str:
    """The checksum of earlier files. It covers text and data, but not names and shapes."""
    digest = sha256(text.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].numpy().tobytes())
    return digest.hexdigest()
