"""The processes of a run: one, or those that torchrun started."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from ...distributed import leave

MOST_THREADS = 4  # batches are small: more would wait for each other


@dataclass(frozen=True)
class World:
    """Which process this is, of how many."""

    rank: int = 0
    size: int = 1

    @property
    def writes(self) -> bool:
        """Whether it prints and writes files: one does."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The rows of a batch that are this one's."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def wrap(self, model: nn.Module) -> nn.Module:
        """A model whose gradients are the mean over all processes."""
        return DistributedDataParallel(model) if self.size > 1 else model

    def send(self, tensors: Iterable[Tensor]) -> None:
        """Give all processes the values of the first."""
        if self.size > 1:
            for x in tensors:
                dist.broadcast(x, 0)

    def total(self, x: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            x = x.clone()
            dist.all_reduce(x)
        return x


def lost(error: RuntimeError) -> bool:
    """Whether another process has ended: it says why, this one has nothing to add."""
    return any(text in str(error) for text in ("Connection closed by peer", "Connection reset"))


@contextlib.contextmanager
def world() -> Iterator[World]:
    """The processes that torchrun tells of in the environment; one without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield World()
        return
    dist.init_process_group("gloo")
    try:
        yield World(dist.get_rank(), size)
    finally:
        leave()


def set_threads(asked: int | None, world: World) -> None:
    """Threads of this process: as asked, or its share of the cores, up to `MOST_THREADS`."""
    here = torch.get_num_threads()
    if world.size > 1:  # torchrun leaves one to each, however many cores there are
        here = (os.cpu_count() or 1) // int(os.environ.get("LOCAL_WORLD_SIZE", world.size))
    torch.set_num_threads(asked or max(1, min(here, MOST_THREADS)))
