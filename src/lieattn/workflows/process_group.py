"""The process group of a run: one process, or those that torchrun started."""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import torch
import torch.distributed as dist
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

from .._core import stopping
from .._core.errors import RunError
from ..distributed import leave

ROLL_CALL = 2.0  # seconds, of the 30 that torchrun gives
MOST_THREADS = 4  # batches are small: more would wait for each other
THREADS_A_CORE = 4  # that may be asked for: OpenMP has no room for any number


@dataclass(frozen=True)
class ProcessGroup:
    """The rank of this process, and how many there are."""

    rank: int = 0
    size: int = 1

    @property
    def writes(self) -> bool:
        """Whether it prints and writes files: one of them does."""
        return self.rank == 0

    def share(self, count: int) -> slice:
        """The rows of a batch for this process."""
        each = count // self.size
        return slice(self.rank * each, (self.rank + 1) * each)

    def wrap(self, model: nn.Module) -> nn.Module:
        """The model with gradients averaged over all processes."""
        return DistributedDataParallel(model) if self.size > 1 else model

    def send(self, tensors: Iterable[Tensor]) -> None:
        """Copy the values of the first process to all."""
        if self.size > 1:
            for x in tensors:
                dist.broadcast(x, 0)

    def total(self, x: Tensor) -> Tensor:
        """The sum over all processes."""
        if self.size > 1:
            x = x.clone()
            dist.all_reduce(x)
        return x


# Messages of gloo and the store when another process has ended.
_GONE = ("closed by peer", "Connection reset", "Broken pipe", "Connection was likely closed")


class RollCall:
    """Finds out which processes have died, when one is stopped or loses another.

    Every process that ends in order notes this in a store. The first of these prints the line.
    """

    def __init__(self, processes: ProcessGroup) -> None:
        self.processes = processes
        self.store: Any = None

    def connect(self) -> None:
        """Open a second connection: that of the process group is busy while it waits."""
        host, port = os.environ["MASTER_ADDR"], int(os.environ["MASTER_PORT"])
        self.store = dist.TCPStore(host, port, wait_for_workers=False)  # type: ignore[attr-defined]

    def answer(self) -> None:
        """Note that this process ends in order."""
        with contextlib.suppress(RuntimeError):  # the store is gone
            if self.store is not None:
                self.store.set(_key(self.processes.rank), "")

    def end(self, number: int = 0) -> None:
        """End this process; the first that ended in order prints a line.

        Args:
            number: of the signal, if there was one.
        """
        self.answer()
        gone = self._gone()
        speaker = min(set(range(self.processes.size)) - set(gone))
        if gone:
            ranks = f"rank{'s' * (len(gone) > 1)} {', '.join(map(str, gone))}"
            what = f"{ranks} of {self.processes.size} ended"
        else:
            what = f"stopped by {stopping.SIGNALS.get(number, 'the loss of another rank')}"
        code = 128 + number if number else 1
        stopping.say_and_exit(what, code, silent=self.processes.rank != speaker)

    def _gone(self) -> list[int]:
        """The processes that have not answered after `ROLL_CALL` seconds."""
        others = [rank for rank in range(self.processes.size) if rank != self.processes.rank]
        until = time.monotonic() + ROLL_CALL
        try:
            while self.store is not None:
                gone = [rank for rank in others if not self.store.check([_key(rank)])]
                if not gone or time.monotonic() > until:
                    return gone
                time.sleep(0.02)
        except RuntimeError:  # without torchrun, the first process keeps the store
            return [0] if self.processes.rank else []
        return []


def _key(rank: int) -> str:
    return f"lieattn ended {os.environ.get('TORCHELASTIC_RESTART_COUNT', 0)} {rank}"


@contextlib.contextmanager
def process_group() -> Iterator[ProcessGroup]:
    """The process group that torchrun set in the environment; one process without it."""
    size = int(os.environ.get("WORLD_SIZE", "1"))
    if size == 1:
        yield ProcessGroup()
        return
    here = ProcessGroup(int(os.environ["RANK"]), size)
    calls = RollCall(here)
    with stopping.heard_by_thread(calls.end):
        try:
            if os.environ.get("TORCHELASTIC_USE_AGENT_STORE") == "True":  # it is there already
                calls.connect()
            dist.init_process_group("gloo")
            if calls.store is None:
                calls.connect()
            yield here
            calls.answer()
        except RuntimeError as error:
            if any(text in str(error) for text in _GONE):
                calls.end()
            raise
        except BaseException:
            if here.writes:  # it says why; of others the first one says that they ended
                calls.answer()
            raise
        finally:
            if dist.is_initialized():
                leave()


def set_threads(asked: int | None, processes: ProcessGroup) -> None:
    """Set the threads of this process: as asked, or its share of the cores up to `MOST_THREADS`."""
    cores = os.cpu_count() or 1
    if asked is not None and asked > THREADS_A_CORE * cores:
        raise RunError(
            f"{asked:,} threads are too many for {cores} cores: at most {THREADS_A_CORE * cores} "
            "are taken. Give fewer with --threads; a run that was made with more goes on, and its "
            "last digits may differ."
        )
    here = torch.get_num_threads()
    if processes.size > 1:  # torchrun leaves one to each, however many cores there are
        here = cores // int(os.environ.get("LOCAL_WORLD_SIZE", processes.size))
    torch.set_num_threads(asked or max(1, min(here, MOST_THREADS)))
