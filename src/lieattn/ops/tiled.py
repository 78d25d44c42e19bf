"""A backend for sets of any size: the reference on blocks of queries, in memory linear in N.

It does all that the reference does: every group, chart, score, dtype and device. Nothing of a block
is kept for the backward pass, which computes it again.
"""

from __future__ import annotations

import torch
from torch import Tensor

from . import reference
from ._blocks import by_blocks
from ._derivatives import Function
from .request import Request

# Pairs that are in memory at once. The backward pass of SE(3) holds about 1 kB for each, which
# makes a block of tens of MB, and one number of all of them, 128 kB, stays in a core's cache. In
# blocks a quarter as large the calls of torch begin to cost more than what they compute.
PAIRS = 2**15


# The fields of a request that are answered. A list of its own: a new field that has queries must
# be divided into blocks, see `ROWS`. `prune` allows to leave keys out, and none are.
ANSWERS = frozenset(
    {
        *("group", "q_poses", "k_poses", "values", "weights"),
        *("mask", "bias", "exclude_self", "chart", "neighbours", "margin"),
        *("q_content", "k_content", "scale", "dtype", "prune", "first"),
    }
)


def unsupported(request: Request) -> str | None:
    """Nothing: the blocks are the reference's."""
    return None


def rows_of(request: Request) -> int:
    """Queries of a block, at least one."""
    return max(1, PAIRS // max(1, request.pairs_of_a_query))


def single_block(request: Request) -> bool:
    """True where one block is all, so that it is the reference.

    While tracing too: a program for sets of any size has no loop over their blocks.
    """
    return torch.compiler.is_compiling() or request.queries <= rows_of(request)


def run(request: Request) -> tuple[Tensor, Tensor]:
    """The two sums of a request, block by block."""
    return sums_by_rows(reference.run, request)


def sums_by_rows(function: Function, request: Request) -> tuple[Tensor, Tensor]:
    """Two sums over the keys of every query, `[..., Nq, C]`, computed block by block."""
    if single_block(request):
        return function(request)
    return by_blocks(function, request, rows_of(request))
