"""Checkpoints that somebody made: valid checksums over anything else."""

from __future__ import annotations

import copy
import json
import random
import struct
from collections.abc import Callable
from typing import Any

from held import opened, signed

EVIL = "\x1b]0;owned\x07\u202e"
DEEP = "a deep list"  # stands for one that Python cannot write
RAW = {f'"{DEEP}"': "[" * 100_000 + "]" * 100_000}
VALUES: list[Any] = [
    *(None, True, False, "", "x", "SE3", "polar", EVIL, EVIL + "x" * 2_000_000, "\ud800", DEEP),
    *(0, 1, -1, 2, 7, 1000, 20_000, 10**5, 2**31, 2**63, 10**30, 10**400),
    *(0.0, -0.0, 0.5, -1.5, 1e-300, 1e38, 1e300, float("nan"), float("inf"), -float("inf")),
    *([], [1], [[]], ["x"] * 5, [EVIL], [None], {}, {"a": 1}, {EVIL: EVIL}, [[[[1]]]]),
]
NUMBERS = [float("nan"), float("inf"), -float("inf"), 1e38, -1e38, 3e38, 0.0, -1.0, 1e-38, 1e20]
SIZES = ["layers", "dim", "heads", "second_differences", "bends", "kinds", "window", "features"]

Craft = Callable[[random.Random, dict[str, Any], dict[str, Any], bytearray], None]


def crafted(content: bytes, draw: random.Random) -> bytes:
    """A checkpoint with one to three things changed, signed."""
    entries, about, rest = opened(content)
    data = bytearray(rest)
    for _ in range(draw.choice((1, 1, 1, 2, 3))):
        draw.choice(CRAFTS)(draw, entries, about, data)
    text = json.dumps(about)
    for short, long in RAW.items():
        text = text.replace(short, long)
    return signed(entries, text, bytes(data))


def _replace(draw: random.Random, entries: Any, about: dict[str, Any], data: bytearray) -> None:
    part, key = _place(draw, about)
    part[key] = copy.deepcopy(draw.choice(VALUES))


def _remove(draw: random.Random, entries: Any, about: dict[str, Any], data: bytearray) -> None:
    part, key = _place(draw, about)
    del part[key]


def _add(draw: random.Random, entries: Any, about: dict[str, Any], data: bytearray) -> None:
    inside = draw.choice([x for x in (about, *about.values()) if isinstance(x, dict)])
    inside[draw.choice((EVIL, "x", "step", "x" * 2_000_000))] = copy.deepcopy(draw.choice(VALUES))


def _resize(draw: random.Random, entries: Any, about: dict[str, Any], data: bytearray) -> None:
    """Other sizes, the same in all places that tell them."""
    name, value = draw.choice(SIZES), draw.choice([x for x in VALUES if type(x) is int])
    for part in (about.get("settings"), about.get("config")):
        if isinstance(part, dict) and name in part:
            part[name] = value


def _tensor(draw: random.Random, entries: Any, about: Any, data: bytearray) -> None:
    """Another name, type, shape or place of a tensor; or none, or one more."""
    if not entries:
        return
    name = draw.choice(sorted(entries))
    entry, kind = entries[name], draw.randrange(6)
    if kind == 0:
        del entries[name]
    elif kind == 1:
        entries[draw.choice((EVIL, "x", "model.h0", name * 1000))] = entries.pop(name)
    elif kind == 2:
        shapes = ([10**10], [2**60, 2**60], [], [0], [-1], "x", [1.5], [1] * 20, [[1]], [5, 7])
        entry["shape"] = draw.choice(shapes)
    elif kind == 3:
        entry["dtype"] = draw.choice(("F64", "I64", "F16", "U8", "BOOL", "F8_E4M3", EVIL, 3, None))
    elif kind == 4:
        entry["data_offsets"] = draw.choice(([0, 4], [0, 0], [10**15, 2], [-1, 4], "x", None))
    else:
        size = draw.choice((0, 1, 1000))
        place = [len(data), len(data) + 4 * size]
        entries[draw.choice((EVIL, "model.x"))] = {
            "dtype": "F32",
            "shape": [size],
            "data_offsets": place,
        }
        data += bytes(4 * size)


def _numbers(draw: random.Random, entries: Any, about: Any, data: bytearray) -> None:
    """A share of the weights, or one of them."""
    value = struct.pack("<f", draw.choice(NUMBERS))
    count = len(data) // 4
    step = draw.choice((1, 2, 17, count))
    for i in range(draw.randrange(step), count, step):
        data[4 * i : 4 * i + 4] = value


CRAFTS: tuple[Craft, ...] = (*(_replace,) * 6, _remove, _add, _resize, _tensor, _numbers, _numbers)


def _place(draw: random.Random, about: dict[str, Any]) -> tuple[Any, Any]:
    """A field anywhere in JSON: what it is in, and its key or number."""
    part: Any = about
    while True:
        key = draw.choice(sorted(part)) if isinstance(part, dict) else draw.randrange(len(part))
        inner = part[key]
        if not isinstance(inner, dict | list) or not inner or draw.random() < 0.2:
            return part, key
        part = inner
