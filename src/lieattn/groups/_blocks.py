"""Blocks of a Lie algebra: the pieces that scores weigh and errors are reported for."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, replace
from functools import reduce
from math import pi, sqrt

import torch
from torch import Tensor

KINDS = ("translation", "rotation", "scale", "shear", "parity", "other")


@dataclass(frozen=True)
class Block:
    """One O(n)-irreducible piece of a Lie algebra.

    Attributes:
        name: for people, unique among the blocks of a group.
        dim: the number of its coordinates.
        kind: for code, one of `KINDS`. Translations have a unit of length, rotations are angles.
            If it is left out, it is the name without trailing digits, or "other" where that is
            not a kind.

    >>> Block("translation2", 3)
    Block(name='translation2', dim=3, kind='translation')
    """

    name: str
    dim: int
    kind: str = ""

    def __post_init__(self) -> None:
        known = self.name.rstrip("0123456789")
        kind = self.kind or (known if known in KINDS else "other")
        if kind not in KINDS:
            raise ValueError(f"unknown kind {kind!r} of a block; known are {', '.join(KINDS)}.")
        object.__setattr__(self, "kind", kind)


PARITY = Block("parity", 1)


def numbered(blocks: Iterable[Block]) -> tuple[Block, ...]:
    """The same blocks with distinct names: the second rotation is "rotation2"."""
    seen: Counter[str] = Counter()
    out = []
    for block in blocks:
        name = block.name.rstrip("0123456789") or block.name
        seen[name] += 1
        out.append(replace(block, name=name if seen[name] == 1 else f"{name}{seen[name]}"))
    return tuple(out)


def rotation_clearance(blocks: Iterable[Block], w: Tensor) -> Tensor:
    """pi minus the largest angle among the rotation blocks of coordinates w, `[...]`."""
    blocks = tuple(blocks)
    parts = zip(blocks, w.split([block.dim for block in blocks], dim=-1), strict=True)
    squares = [part.square().sum(-1) for block, part in parts if block.kind == "rotation"]
    if not squares:
        return torch.full_like(w[..., 0], pi)
    return pi - reduce(torch.maximum, squares).sqrt() / sqrt(2)
