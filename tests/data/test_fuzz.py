"""Damaged files: a thousand of each format, in every way that files are damaged."""

from __future__ import annotations

import random

import pytest
import torch
from real_files import FILES

from lieattn import data
from lieattn.data._source import Source
from lieattn.data.reading import read_source

MUTANTS = 1000
CONTENTS = {path: (path.read_bytes(), data.read(path).format) for path in FILES}
# What numbers and names are made of: these get further into a reader than random bytes.
TASTY = b"0123456789.-+eE ,;:_#\"'<>&/(){}[]\n\r\tnaif\0\xff\xc3\xe2"


def damaged(content: bytes, rng: random.Random) -> bytes:
    """The content with a few things wrong."""
    raw = bytearray(content)
    kind = rng.randrange(5)
    if kind == 0:
        return bytes(raw[: rng.randrange(len(raw))])
    for _ in range(rng.choice((1, 1, 2, 8, 64))):
        at = rng.randrange(max(1, len(raw)))
        if kind == 1:
            raw[at : at + 1] = bytes([rng.randrange(256)])
        elif kind == 2:
            raw[at : at + 1] = bytes([rng.choice(TASTY)])
        elif kind == 3:
            del raw[at : at + rng.choice((1, 3, 40))]
        else:
            start = rng.randrange(max(1, len(raw)))
            raw[at:at] = raw[start : start + rng.choice((1, 5, 100))]
    return bytes(raw)


def require_clean(error: data.DataError, source: Source) -> None:
    message = str(error)
    assert message.startswith(source.path)
    assert len(message) < 1000
    assert message.isprintable(), ascii(message)
    ends = source.data.count(b"\n") + source.data.count(b"\r")
    assert error.line is None or 1 <= error.line <= ends + 2


@pytest.mark.parametrize("name", list(data.formats()))
def test_damaged_files_give_poses_or_a_clean_error(name: str) -> None:
    rng = random.Random(f"fuzz {name}")
    originals = [(path, content) for path, (content, kind) in CONTENTS.items() if kind == name]
    errors = 0
    for i in range(MUTANTS):
        path, content = originals[i % len(originals)]
        source = Source(path.name, damaged(content, rng))
        try:
            sets = read_source(source, rng.choice((name, None)), bad=rng.choice(("error", "mask")))
        except data.DataError as error:
            require_clean(error, source)
            errors += 1
        else:
            for x in sets:
                x.group.check(x.poses)
                assert len(x) == len(x.names) == len(x.mask)
                assert x.mask.any()
                assert x.poses.dtype == torch.float64
    assert errors > 0  # the damage was damage


@pytest.mark.parametrize("name", list(data.formats()))
def test_garbage_is_refused(name: str) -> None:
    rng = random.Random(f"garbage {name}")
    for size in (1, 2, 10, 1000, 70_000):
        for alphabet in (bytes(range(256)), TASTY, b" \n", b"0"):
            garbage = bytes(rng.choice(alphabet) for _ in range(size))
            with pytest.raises(data.DataError, match=r"^noise"):
                read_source(Source("noise", garbage), name)


@pytest.mark.parametrize("name", list(data.formats()))
def test_a_file_of_another_format_is_refused(name: str) -> None:
    for path, (content, kind) in CONTENTS.items():
        if kind != name:
            with pytest.raises(data.DataError):
                read_source(Source(path.name, content), name)
