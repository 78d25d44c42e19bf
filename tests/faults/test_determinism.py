"""Equal inputs and equal threads give equal bits."""

from collections.abc import Callable
from typing import Any

import torch
from fault_counts import SEED, tries
from torch import Tensor

import lieattn as la


def _answer(model: la.LieTransformer, poses: Tensor, threads: int) -> tuple[Tensor, list[Tensor]]:
    """The outputs of a model and the gradients of its parameters, with so many threads."""
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        out = model(poses)
        gradients = torch.autograd.grad(
            out.hidden.sum() + out.delta.sum(), list(model.parameters())
        )
    finally:
        torch.set_num_threads(before)
    return torch.cat([out.hidden, out.delta], dim=-1).detach(), list(gradients)


def test_equal_threads_give_equal_bits(group: la.Group, tally: Callable[..., Any]) -> None:
    generator = torch.Generator().manual_seed(SEED)
    torch.manual_seed(SEED)
    model = la.LieTransformer(group, la.LieTransformerConfig(dim=32, heads=2, layers=2))
    with tally(
        "Equal inputs and an equal number of threads give equal bits, forward and backward",
        "models of two layers on sets of 4 to 300 tokens, with 1 and with 2 threads",
    ) as t:
        for i in range(tries("sets for determinism", least=3)):
            size = (4, 40, 300)[i % 3]
            poses = group.random(2, size, generator=generator)
            found = {threads: _answer(model, poses, threads) for threads in (1, 2)}
            for threads, (out, gradients) in found.items():
                again, others = _answer(model, poses, threads)
                same = torch.equal(out, again) and all(map(torch.equal, gradients, others))
                t.check(same, f"{group}, {size} tokens, {threads} threads, set {i}")
            # Not promised: a matrix product of torch may be divided among threads.
            (one, by_one), (two, by_two) = found.values()
            if not torch.equal(one, two):
                t.count("where 1 and 2 threads differ in outputs")
            if not all(map(torch.equal, by_one, by_two)):
                t.count("where 1 and 2 threads differ in gradients")
