"""Files of poses, mutated: the same for the same seed, format and number."""

from __future__ import annotations

import gzip
import io
import random
import re
import struct
import zipfile
from collections.abc import Callable
from pathlib import Path

import numpy as np

FOLDER = Path(__file__).parents[1] / "data" / "files"
HOSTILE = (
    *(b"\x1b]0;title\x07", b"\x1b[2J\x1b[1;31m", b"\x9b1m", "\u202e\u2066\u200b".encode()),
    *(b"\r", b"\0", b"\xff\xfe", b"\x85", "\N{LINE SEPARATOR}".encode()),
    *(b"[red]", b"[/]", b"$\\frac{$"),
    *(b"1e999999", b"-1e308", b"1e-320", b"nan", b"inf", b"9" * 10_000, b"1" * 50_000 + b"x"),
    *(b"(" * 20_000, b"[" * 20_000, b"{" * 5000, b"'" * 5000, b'"' * 5000, b"# (" * 9),
    *(b" " * 50_000, b"\t" * 20_000, b"\n" * 50_000, b"a" * 100_000, b"0 FILE" + b" " * 50_000),
    *(b"<g>" * 3000, b"<g transform='rotate(1)'>" * 500, b"&x;" * 1000),
    *(b"\nloop_\n_a\n", b"\ndata_x\n", b"\nTER\nEND\n"),
)
SHAPES = (
    *("(2, 4, 4", f"({2**63},)", "(-1, 4, 4)", "(True,)", "(0,)", "()", "(3, 2, 4, 4)"),
    *("(2, 4, 4)" * 500, "((" * 900),
)
DTYPES = (
    *("<f8", "<f8", ">f8", "|O", "<U3", "<U999999999", ">i4", "<f2", "<c16", "|V8"),
    *("<M8[ns]", "f8,f8", "<f3", "x"),
)
Mutate = Callable[[bytes, random.Random], bytes]


def _place(raw: bytes, rng: random.Random) -> int:
    return rng.randrange(len(raw) + 1)


def flip(raw: bytes, rng: random.Random) -> bytes:
    out = bytearray(raw)
    for _ in range(rng.choice((1, 1, 3, 30))):
        out[rng.randrange(len(out))] ^= 1 << rng.randrange(8)
    return bytes(out)


def truncate(raw: bytes, rng: random.Random) -> bytes:
    return raw[: _place(raw, rng)]


def duplicate(raw: bytes, rng: random.Random) -> bytes:
    a, b = sorted((_place(raw, rng), _place(raw, rng)))
    return raw[:b] + raw[a:b] * rng.choice((1, 1, 5, 50)) + raw[b:]


def delete(raw: bytes, rng: random.Random) -> bytes:
    at = _place(raw, rng)
    return raw[:at] + raw[at + rng.choice((1, 5, 100)) :]


def insert(raw: bytes, rng: random.Random) -> bytes:
    at = _place(raw, rng)
    return raw[:at] + rng.choice(HOSTILE) + raw[at:]


def replace_token(raw: bytes, rng: random.Random) -> bytes:
    """Hostile text in place of a word or a number."""
    found = list(re.finditer(rb"[\w.+-]+", raw))
    if not found:
        return raw
    token, other = rng.choice(found), rng.choice(found)
    text = rng.choice((*HOSTILE, other[0], b"\x1b[31m" + token[0]))
    return raw[: token.start()] + text + raw[token.end() :]


def shuffle_lines(raw: bytes, rng: random.Random) -> bytes:
    lines = raw.split(b"\n")
    rng.shuffle(lines)
    return rng.choice((b"\n", b"\r", b" ", b"\n\n")).join(lines)


def encode(raw: bytes, rng: random.Random) -> bytes:
    """Other text encodings, whatever the file says; gzip, which may be cut short or damaged."""
    kind = rng.randrange(4)
    if kind == 0:
        return raw.decode("latin-1").encode("utf-16")
    if kind == 1:
        return raw.replace(b"?>", b" encoding='cp037'?>", 1)
    packed = gzip.compress(raw) * rng.choice((1, 3))
    return packed if kind == 2 else flip(packed, rng)


def _array(shape: str, descr: str, content: bytes) -> bytes:
    text = f"{{'descr': '{descr}', 'fortran_order': False, 'shape': {shape}, }}".encode()
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text) % 65536) + text + content


def craft_archive(raw: bytes, rng: random.Random) -> bytes:
    """An .npz of which a header, a directory or a text lies."""
    poses = np.tile(np.eye(4), (3, 2, 1, 1))
    poses[0, 0] *= rng.choice((1, 1e-300, 1e300, np.nan, 0))
    text = rng.choice(HOSTILE)[:3000].decode("latin-1").rstrip("\0") or "x"
    entries = {"poses": poses, "set_names": np.full(3, text), "names": np.full((3, 2), text)}
    out = io.BytesIO()
    method = rng.choice((0, 8, 8, 8, 12, 14))
    with zipfile.ZipFile(out, "w", method) as archive:
        for name, value in entries.items():
            array = io.BytesIO()
            np.save(array, value)
            content = array.getvalue()
            if rng.random() < 0.3:
                content = _array(rng.choice(SHAPES), rng.choice(DTYPES), content[128:])
            if rng.random() < 0.1:
                content = raw  # an archive in an archive
            archive.writestr(f"{name}.npy", content)
        if rng.random() < 0.2:
            archive.writestr("group", _array("()", f"<U{len(text)}", text.encode("utf-32-le")))
            archive.writestr(text.replace("\0", "")[:200] or "x", b"")
    content = out.getvalue()
    return patch_directory(content, rng) if rng.random() < 0.5 else content


def patch_directory(raw: bytes, rng: random.Random) -> bytes:
    """Other numbers in the directory of an archive: flags, methods, sizes, places, counts."""
    out = bytearray(raw)
    starts = [m.start() for m in re.finditer(rb"PK\x01\x02|PK\x03\x04|PK\x05\x06", raw)]
    for _ in range(rng.choice((1, 2, 5)) if starts else 0):
        at = rng.choice(starts) + rng.randrange(4, 46, 2)
        value = struct.pack("<I", rng.choice((0, 1, 8, 200, 2**16 - 1, 2**31, 2**32 - 1)))
        size = rng.choice((2, 4))
        out[at : at + size] = value[:size]
    return bytes(out)


ANY = (flip, truncate, duplicate, delete, insert, insert, replace_token, replace_token)
TEXT = (*ANY, shuffle_lines, encode)
ARCHIVE = (*ANY, craft_archive, craft_archive, patch_directory)


def mutant(name: str, originals: list[Path], seed: int, number: int) -> tuple[str, bytes]:
    """The ending and the content of a mutated file of a format."""
    rng = random.Random(f"{seed} {name} {number}")
    path = rng.choice(originals)
    raw = path.read_bytes()
    for _ in range(rng.choice((1, 1, 2, 4))):
        mutate: Mutate = rng.choice(ARCHIVE if name == "npz" else TEXT)
        raw = mutate(raw, rng) or raw
    return path.suffix, raw
