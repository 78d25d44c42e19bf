"""The run: who can do what at which size, times in turns, memory, one case after the other."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from ...groups import get_group
from . import layer
from .cases import PASSES, SHORT, Case, Contestant, Problem
from .contestants import SDPA, everybody, own_backends, refusal
from .forecast import Forecast
from .memory import Meter, measurable
from .peers import missing
from .request import Request
from .timing import Cell, Key, Runner, take_turns

FIRST_PART = 0.5  # of the turns of those close to SDPA; the rest are when all others had theirs
TIMES_SHARE = 0.7  # of a case's progress; the rest is memory
LAYER = 10.0  # of the layer of a group beside `_expected` of cases
BUSY = 0.5  # processes that others keep running
INSTALL = "pip install -c constraints.txt -e '.[bench]'"
OVER_BUDGET, TOO_LARGE = "over budget", "too large"  # as tables say it, before a colon and more
Pair = tuple[Key, Runner, Runner | None]
Step = tuple[float, str, float]  # share of a case, and what an event says


@dataclass(frozen=True)
class Event:
    """What is measured next, and how far a run is."""

    title: str  # of the case
    done: float  # of the whole run
    text: str = ""
    seconds: float = 0.0  # that the next call is expected to take, where it is known
    cell: Cell | None = None  # that is finished


@dataclass
class Bench:
    """A request and what is measured so far; an interruption leaves it as it is."""

    asked: Request
    cells: list[Cell] = field(default_factory=list)
    layers: list[layer.LayerTimes] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        backends = self.asked.backends or own_backends()
        self.contestants = everybody(backends, self.asked.peers)
        self.refusals: dict[tuple[str, str, int, str], str | None] = {}
        self.refused: dict[str, list[str]] = {}  # groups by note
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
        """Measure everything, telling before every call that may be long whose it is."""
        before = torch.get_num_threads()
        torch.set_num_threads(self.asked.threads)
        plan = self.asked.plan()
        layers = self.asked.groups if self.asked.layer else ()
        whole, done = sum(map(_expected, plan)) + LAYER * len(layers), 0.0
        try:
            for group in layers:
                self.layers.append(layer.start(group))
                for text in self.layers[-1].measure(*self._layer_turns()):
                    yield Event(f"{get_group(group)}, N {layer.CASE['n']}", done / whole, text)
                done += LAYER
            with Meter(self.asked.threads) as meter:
                for case in plan:
                    cell = Cell(case)
                    for share, text, seconds in self._case(cell, Forecast(self.cells, meter)):
                        at = (done + share * _expected(case)) / whole
                        yield Event(f"{case}", at, text, seconds)
                    done += _expected(case)
                    yield Event(f"{case}", done / whole, cell=cell)
        finally:
            torch.set_num_threads(before)

    def _layer_turns(self) -> tuple[tuple[str, ...], int, float]:
        passes = tuple(PASSES) if self.asked.backward else ("forward",)
        return passes, self.asked.repeat, self.asked.budget

    def _case(self, cell: Cell, forecast: Forecast) -> Iterator[Step]:
        self.cells.append(cell)
        timed = [
            c for c in self.contestants.values() if not c.groups or cell.case.group in c.groups
        ]
        memory = self.asked.memory and self.measurable
        rivals: dict[str, Runner] = {}
        again: list[Pair] = []
        for i, contestant in enumerate(timed):
            steps = self._contestant(cell, contestant, rivals, again, forecast)
            for share, text, seconds in steps:
                yield (TIMES_SHARE if memory else 1) * (i + share) / len(timed), text, seconds
        yield from self._second_part(cell, again, TIMES_SHARE if memory else 1)
        keys = self._ends(cell) if memory else []
        for i, key in enumerate(keys):
            share = TIMES_SHARE + (1 - TIMES_SHARE) * i / len(keys)
            yield share, f"memory of {self._said(*key)}", min(cell.times[key])
            peak = self._plain_peak(cell, key) or forecast.meter.peak(key[0], cell.case, key[1])
            if isinstance(peak, int):
                cell.memory[key] = peak
            else:
                cell.memory_missing[key] = peak

    def _second_part(self, cell: Cell, again: list[Pair], share: float) -> Iterator[Step]:
        """The rest of the turns of those close to SDPA, after a while."""
        repeat = self.asked.repeat_of(cell.case)
        for key, own, rival in again:
            if own.close and repeat > 1:
                for _ in take_turns(own, rival, repeat, self.asked.budget):
                    yield share, f"{self._said(*key)}, again", 0.0

    def _plain_peak(self, cell: Cell, key: Key) -> int | None:
        """SDPA knows of no group: its memory is that of the same size on another."""
        if key[0] != SDPA:
            return None
        alike = (c for c in self.cells if replace(c.case, group=cell.case.group) == cell.case)
        return next((c.memory[key] for c in alike if key in c.memory), None)

    def _ends(self, cell: Cell) -> list[Key]:
        """The first and the last pass of everybody: memory grows from one to the other."""
        passes: dict[str, list[str]] = {}
        for name, which in cell.times:
            passes.setdefault(name, []).append(which)
        return [(n, w) for n, ws in passes.items() for w in dict.fromkeys((ws[0], ws[-1]))]

    def _contestant(
        self,
        cell: Cell,
        contestant: Contestant,
        rivals: dict[str, Runner],
        again: list[Pair],
        forecast: Forecast,
    ) -> Iterator[Step]:
        """All passes of a contestant, each in turns with SDPA's, who comes first."""
        case, asked = cell.case, self.asked
        passes = [which for which in asked.passes(case) if which in contestant.passes]
        for which in passes:
            yield 0.0, f"can {self._said(contestant.name, which)}?", 0.0
            self._ask(contestant, case, which)
        if self._refuses(contestant, case, passes):
            return
        problem: Problem | None = None
        for i, which in enumerate(passes):
            said, key = self._said(contestant.name, which), (contestant.name, which)
            yield i / len(passes), said, 0.0
            if why := self._why_not(contestant, case, which, forecast):
                cell.missing[key] = why
                continue
            yield i / len(passes), said, forecast.seconds(contestant, case, which)
            problem = problem or contestant.build(case)
            own = Runner(problem.call(which), cell.times.setdefault(key, []))
            if contestant.name == SDPA:  # the rest of its turns are with the others
                rivals[which] = own
                turns = take_turns(own, None, 1, asked.budget)
            else:
                rival = rivals.get("backward" if which == "poses" else which)
                turns = take_turns(own, rival, asked.repeat_of(case), asked.budget, FIRST_PART)
                again.append((key, own, rival))
            gc.collect()
            for share in turns:
                yield (i + share) / len(passes), said, 0.0

    def _said(self, name: str, which: str) -> str:
        return f"{self.contestants[name].short}, {SHORT[which]}"

    def _ask(self, contestant: Contestant, case: Case, which: str) -> str | None:
        """Why a contestant cannot, tried once for a group and a width."""
        asked = (contestant.name, case.group, case.width, which)
        if asked not in self.refusals:
            self.refusals[asked] = refusal(contestant, case, which)
        return self.refusals[asked]

    def _refuses(self, contestant: Contestant, case: Case, passes: list[str]) -> bool:
        """Does a contestant refuse all passes? It has a note then, and no row of dashes."""
        whys = [self._ask(contestant, case, which) for which in passes]
        if not all(whys):
            return False
        groups = self.refused.setdefault(f"{contestant.label} is left out: {whys[0]}", [])
        if case.group not in groups:
            groups.append(case.group)
        return True

    def left_out(self) -> list[str]:
        """Who refused, with the groups in front if it was not all of them."""
        return [
            note if len(groups) == len(self.asked.groups) else f"{_names(groups)}: {note}"
            for note, groups in self.refused.items()
        ]

    def _why_not(
        self, contestant: Contestant, case: Case, which: str, forecast: Forecast
    ) -> str | None:
        """Why a contestant is not timed, or None."""
        if why := self._ask(contestant, case, which):
            return why
        limit, patience = self.asked.limit, self.asked.patience_of(case)
        if forecast.bytes(contestant, case, which) > limit * 1e9:
            return f"{TOO_LARGE}: a call would take more than {limit:g} GB (--limit)"
        if forecast.seconds(contestant, case, which) > patience:
            return f"{OVER_BUDGET}: a call would take more than {patience:g} s (--patience)"
        return None


def _names(groups: list[str]) -> str:
    return ", ".join(str(get_group(name)) for name in groups)


def _expected(case: Case) -> float:
    """About how long a case takes beside others: what is slow drops out of large ones."""
    return case.n**0.5
