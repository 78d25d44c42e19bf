"""Random numbers for one purpose."""

from __future__ import annotations

import hashlib

import torch

MAX_SEED = 2**63 - 1  # of torch's generators


def generator(purpose: str, seed: int, epoch: int = 0) -> torch.Generator:
    """Random numbers for one purpose: a stream of its own for each purpose, seed and epoch."""
    digest = hashlib.sha256(f"{purpose} {seed} {epoch}".encode()).digest()
    return torch.Generator().manual_seed(int.from_bytes(digest[:8], "little") >> 1)
