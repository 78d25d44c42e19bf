"""The run: who can do what at which size, times in turns, memory, one case after the other."""

from __future__ import annotations

import gc
import os
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import torch

from ...groups import get_group
from .cases import Case, Contestant
from .contestants import everybody, own_backends, refusal
from .memory import Meter, measurable
from .peers import missing
from .request import Request
from .timing import Cell, Key, take_turns

PROBED = 256  # poses from whose memory that of more is told; up to twice as many are let be
PAIR_BYTES = 4096  # where memory cannot be measured: more than any of them takes for a pair
TIMES_SHARE = 0.6  # of a case's progress; the rest is memory
BUSY = 0.5  # processes that others keep running
INSTALL = "pip install -c constraints.txt -e '.[bench]'"


@dataclass(frozen=True)
class Event:
    """How far a run is."""

    case: Case
    share: float  # of the case
    text: str = ""
    finished: bool = False


@dataclass
class Bench:
    """A request and what is measured so far; an interruption leaves it as it is."""

    asked: Request
    cells: list[Cell] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        backends = self.asked.backends or own_backends()
        self.contestants = everybody(backends, self.asked.peers)
        self.refusals: dict[tuple[str, str, int, str], str | None] = {}
        self.probes: dict[tuple[str, Case, str], int | str] = {}
        for name in missing() if self.asked.peers else ():
            del self.contestants[name]
            self.notes.append(f"{name} is not installed: {INSTALL}")
        peers = [c.label for c in self.contestants.values() if c.groups]
        if peers and "SE3" not in self.asked.groups:
            self.notes.append(f"{' and '.join(peers)} stand beside SE(3) alone: --group SE3")
        if (load := os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0) > BUSY:
            self.notes.append(
                f"the machine is busy (load {load:.1f}): a short call may slip through, a long one "
                "cannot, so ratios of slow contestants are too high"
            )
        self.measurable = measurable()
        if self.asked.memory and not self.measurable:
            self.notes.append("memory is left out: this system keeps no peak that can be reset")

    def run(self) -> Iterator[Event]:
        """Measure everything, telling how far it is."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.asked.threads)
        try:
            with Meter(self.asked.threads) as meter:
                for case in self.asked.plan():
                    cell = Cell(case)
                    self.cells.append(cell)
                    yield from self._times(cell, meter)
                    yield from self._memory(cell, meter)
                    yield Event(case, 1.0, finished=True)
        finally:
            torch.set_num_threads(before)

    def _times(self, cell: Cell, meter: Meter) -> Iterator[Event]:
        calls: dict[Key, Callable[[], Any]] = {}
        for contestant in self.contestants.values():
            if contestant.groups and cell.case.group not in contestant.groups:
                continue
            yield Event(cell.case, 0.0, f"can {contestant.label}?")
            whys = {
                which: self._why_not(contestant, cell.case, which, meter)
                for which in self.asked.passes
                if which in contestant.passes
            }
            if self._refuses(contestant, cell.case, tuple(whys)):
                continue
            cell.missing |= {(contestant.name, which): why for which, why in whys.items() if why}
            able = [which for which, why in whys.items() if not why]
            if able:
                problem = contestant.build(cell.case)
                calls |= {(contestant.name, which): problem.call(which) for which in able}
        gc.collect()
        share = TIMES_SHARE if self.asked.memory and self.measurable else 1.0
        for (name, _), done in take_turns(cell, calls, self.asked.repeat, self.asked.budget):
            yield Event(cell.case, share * done, self.contestants[name].label)

    def _memory(self, cell: Cell, meter: Meter) -> Iterator[Event]:
        if not (self.asked.memory and self.measurable):
            return
        for i, key in enumerate(cell.times):
            share = TIMES_SHARE + (1 - TIMES_SHARE) * i / len(cell.times)
            yield Event(cell.case, share, f"memory, {self.contestants[key[0]].label}")
            peak = meter.peak(key[0], cell.case, key[1])
            if isinstance(peak, int):
                cell.memory[key] = peak
            else:
                cell.memory_missing[key] = peak

    def _refuses(self, contestant: Contestant, case: Case, passes: tuple[str, ...]) -> bool:
        """Does a contestant refuse all passes? It has a note then, and no row of dashes."""
        asked = [self.refusals[contestant.name, case.group, case.width, which] for which in passes]
        if not all(asked):
            return False
        note = f"{contestant.label} is left out on {get_group(case.group)}: {asked[0]}"
        if note not in self.notes:
            self.notes.append(note)
        return True

    def _why_not(self, contestant: Contestant, case: Case, which: str, meter: Meter) -> str | None:
        """Why a contestant is not timed, or None."""
        asked = (contestant.name, case.group, case.width, which)
        if asked not in self.refusals:
            self.refusals[asked] = refusal(contestant, case, which)
        if self.refusals[asked]:
            return self.refusals[asked]
        if self._predicted_seconds(contestant, case, which) > self.asked.patience:
            return f"a call would take more than {self.asked.patience:g} s (--patience)"
        if self._predicted_bytes(contestant, case, which, meter) > self.asked.limit * 1e9:
            return f"a call would take more than {self.asked.limit:g} GB (--limit)"
        return None

    def _predicted_seconds(self, contestant: Contestant, case: Case, which: str) -> float:
        """From the size before, as all pairs take their time; 0 if there is none."""
        for cell in reversed(self.cells):
            times = cell.times.get((contestant.name, which))
            if replace(cell.case, n=case.n) == case and times:
                return min(times) * (case.n / cell.case.n) ** 2
        return 0.0

    def _predicted_bytes(
        self, contestant: Contestant, case: Case, which: str, meter: Meter
    ) -> float:
        if not contestant.pairs or case.n <= 2 * PROBED:
            return 0.0
        if not self.measurable:
            return PAIR_BYTES * case.batch * case.n**2
        probe = (contestant.name, replace(case, n=PROBED), which)
        if probe not in self.probes:
            self.probes[probe] = meter.peak(*probe)
        peak = self.probes[probe]
        return peak * (case.n / PROBED) ** 2 if isinstance(peak, int) else 0.0
