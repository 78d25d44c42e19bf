"""Threads, forks and spawned processes: the same numbers, and no process that never ends."""

import multiprocessing
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import pytest
import torch
from fault_counts import SEED, tries
from torch import Tensor

import lieattn as la


def _model(group: str, seed: int) -> la.LieTransformer:
    torch.manual_seed(seed)
    return la.LieTransformer(group, la.LieTransformerConfig(dim=16, heads=2, layers=2))


def _answer(model: la.LieTransformer, seed: int) -> list[Tensor]:
    """Outputs and gradients of a model on a random set."""
    generator = torch.Generator().manual_seed(seed)
    out = model(model.group.random(2, 9, generator=generator))
    gradients = torch.autograd.grad(out.hidden.sum() + out.delta.sum(), list(model.parameters()))
    return [out.hidden.detach(), out.poses.detach(), *gradients]


def _same(one: list[Tensor], other: list[Tensor]) -> bool:
    return all(torch.equal(a, b) for a, b in zip(one, other, strict=True))


def _child(group: str, seed: int, queue: Any) -> None:
    torch.set_num_threads(1)
    queue.put([x.numpy() for x in _answer(_model(group, seed), seed)])


def test_threads_of_python_give_the_same_bits(group: la.Group, tally: Callable[..., Any]) -> None:
    number = tries("threads", least=8)
    with tally(
        "Models may be called from several threads of Python",
        "eight threads, forward and backward, against one thread, bit for bit",
    ) as t:
        model = _model(group.name, SEED)
        alone = [_answer(model, SEED + i) for i in range(4)]
        with ThreadPoolExecutor(8) as pool:
            found = list(pool.map(lambda i: _answer(model, SEED + i % 4), range(number)))
        for i, one in enumerate(found):
            t.check(_same(one, alone[i % 4]), f"{group} call {i}")


@pytest.mark.parametrize("method", ["fork", "spawn"])
@pytest.mark.filterwarnings("ignore:.*multi-threaded, use of fork:DeprecationWarning")
def test_child_processes_give_the_same_bits(method: str, tally: Callable[..., Any]) -> None:
    number = tries("forks", least=1)
    context = multiprocessing.get_context(method)
    with tally(
        "Child processes give the same bits as their parent",
        f"one thread of torch, processes started by {method}",
    ) as t:
        for i in range(number):
            name = list(la.available_groups())[(SEED + i) % len(la.available_groups())]
            queue = context.Queue()
            child = context.Process(target=_child, args=(name, SEED + i, queue))
            child.start()
            found = [torch.from_numpy(x) for x in queue.get(timeout=120)]
            child.join(60)
            t.check(
                _same(found, _answer(_model(name, SEED + i), SEED + i)), f"{name}, {method}, {i}"
            )
            t.check(child.exitcode == 0, f"{name}, {method}, {i}: exit {child.exitcode}")
