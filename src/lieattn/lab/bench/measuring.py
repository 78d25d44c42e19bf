"""The run: refusals, times in turns, memory, one case after the other."""

from __future__ import annotations

import gc
import os
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import torch

from ...groups import get_group
from . import forecast, layer
from .cases import SHORT, Case, Contestant
from .contestants import SDPA, everybody, own_backends, refusal
from .memory import measurable, peak
from .peers import missing
from .request import Request
from .timing import Cell, Key, Runner, take_turns

FIRST_PART = 0.5  # of the turns of calls close to SDPA; the rest come after all others
TIMES_SHARE = 0.7  # of a case's progress; the rest is memory
BUSY = 0.5  # processes of others
INSTALL = "pip install -c constraints.txt -e '.[bench]'"
OVER_BUDGET, TOO_LARGE = "over budget", "too large"  # begin the reasons that tables show
Step = tuple[float, str, float]  # share of a case; text and seconds of an event


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
    layers: list[Cell] = field(default_factory=list)
    chosen: dict[str, str] = field(default_factory=dict)  # backends of layers, by group
    notes: list[str] = field(default_factory=list)

    def __post_init__(self) -> None:
        asked = self.asked
        self.contestants = everybody(asked.backends or own_backends(), asked.peers)
        self.refused: dict[str, dict[str, None]] = {}  # groups by note
        for name in missing() if asked.peers else ():
            del self.contestants[name]
            self.notes.append(f"{name} is not installed: {INSTALL}")
        peers = [c.label for c in self.contestants.values() if c.groups]
        if peers and "SE3" not in asked.groups:
            self.notes.append(f"{' and '.join(peers)} are measured on SE(3) alone: --group SE3")
        if (load := os.getloadavg()[0] if hasattr(os, "getloadavg") else 0.0) > BUSY:
            self.notes.append(
                f"the machine is busy (load {load:.1f}): a short call may find a quiet moment, a "
                "long one cannot, so ratios of slow contestants are too high"
            )
        self.memory = asked.memory and measurable()
        if asked.memory and not self.memory:
            self.notes.append("memory is left out: this system does not report a process's peak")

    def run(self) -> Iterator[Event]:
        """Measure everything. An event comes before every call that may be long."""
        asked, before = self.asked, torch.get_num_threads()
        torch.set_num_threads(asked.threads)
        layers = [Case(group, **layer.CASE) for group in asked.groups if asked.layer]
        cases = [*layers, *asked.plan()]
        whole, done = sum(map(_expected, cases)), 0.0
        try:
            for i, case in enumerate(cases):
                cell, is_layer = Cell(case), i < len(layers)
                (self.layers if is_layer else self.cells).append(cell)
                for share, text, seconds in self._layer(cell) if is_layer else self._case(cell):
                    yield Event(f"{case}", (done + share * _expected(case)) / whole, text, seconds)
                done += _expected(case)
                if not is_layer:
                    yield Event(f"{case}", done / whole, cell=cell)
        finally:
            torch.set_num_threads(before)

    def _layer(self, cell: Cell) -> Iterator[Step]:
        contestants = layer.contestants(cell.case)
        self.chosen[cell.case.group] = contestants[-1].label
        return self._times(cell, contestants)

    def _case(self, cell: Cell) -> Iterator[Step]:
        case = cell.case
        timed = [c for c in self.contestants.values() if not c.groups or case.group in c.groups]
        share = TIMES_SHARE if self.memory else 1.0
        for at, text, seconds in self._times(cell, timed):
            yield at * share, text, seconds
        keys = _ends(cell) if self.memory else []
        for i, (name, which) in enumerate(keys):
            said = f"memory of {self.contestants[name].short}, {SHORT[which]}"
            yield share + (1 - share) * i / len(keys), said, min(cell.times[name, which])
            known = self._plain_peak(cell, (name, which))
            cell.memory[name, which] = known or peak(name, case, which, self.asked.threads)

    def _times(self, cell: Cell, contestants: list[Contestant]) -> Iterator[Step]:
        """All passes of every contestant, each in turns with the same pass of the first one."""
        case, asked = cell.case, self.asked
        calls = []
        for contestant in contestants:
            passes = [which for which in asked.passes(case) if which in contestant.passes]
            yield 0.0, f"can {contestant.short}?", 0.0
            if not self._refuses(contestant, case, passes):
                calls += [(contestant, which) for which in passes]
        base: dict[str, Runner] = {}
        timed: list[tuple[str, Runner, Runner | None]] = []
        for i, (contestant, which) in enumerate(calls):
            share, said = i / len(calls), f"{contestant.short}, {SHORT[which]}"
            yield share, said, 0.0
            if why := self._why_not(contestant, case, which):
                cell.missing[contestant.name, which] = why
                continue
            yield share, said, forecast.seconds(self.cells, contestant, case, which)
            times = cell.times.setdefault((contestant.name, which), [])
            own = Runner(contestant.build(case).call(which), times)
            gc.collect()
            if contestant is contestants[0]:  # the rest of its turns are with the others
                base[which] = own
                take_turns(own, None, 1, asked.budget)
            else:
                rival = base.get(which) or base.get("backward")
                take_turns(own, rival, asked.repeat_of(case), asked.budget, FIRST_PART)
                timed.append((said, own, rival))
        for said, own, rival in timed:
            if own.close and asked.repeat_of(case) > 1:
                yield 1.0, f"{said}, again", 0.0
                take_turns(own, rival, asked.repeat_of(case), asked.budget)

    def _plain_peak(self, cell: Cell, key: Key) -> int | str | None:
        """SDPA knows of no group: its memory is that of the same size on another one."""
        if key[0] != SDPA:
            return None
        alike = (c for c in self.cells if replace(c.case, group=cell.case.group) == cell.case)
        return next((c.memory[key] for c in alike if key in c.memory), None)

    def _refuses(self, contestant: Contestant, case: Case, passes: list[str]) -> bool:
        """Does a contestant refuse all passes? Then it has a note, and no row of dashes."""
        whys = [refusal(contestant, case, which) for which in passes]
        if not all(whys):
            return False
        note = f"{contestant.label} is left out: {whys[0]}"
        self.refused.setdefault(note, {})[case.group] = None
        return True

    def left_out(self) -> list[str]:
        """Who refused, with the groups in front unless it was all of them."""
        return [
            note
            if len(groups) == len(self.asked.groups)
            else f"{', '.join(str(get_group(name)) for name in groups)}: {note}"
            for note, groups in self.refused.items()
        ]

    def _why_not(self, contestant: Contestant, case: Case, which: str) -> str | None:
        """Why a contestant is not timed, or None."""
        if why := refusal(contestant, case, which):
            return why
        asked, patience = self.asked, self.asked.patience_of(case)
        size = forecast.memory(self.cells, contestant, case, which, asked.threads)
        if size > asked.limit * 1e9:
            return f"{TOO_LARGE}: a call would take more than {asked.limit:g} GB (--limit)"
        if forecast.seconds(self.cells, contestant, case, which) > patience:
            return f"{OVER_BUDGET}: a call would take more than {patience:g} s (--patience)"
        return None


def _ends(cell: Cell) -> list[Key]:
    """The first and the last pass of everybody: memory grows from one to the other."""
    passes: dict[str, list[str]] = {}
    for name, which in cell.times:
        passes.setdefault(name, []).append(which)
    return [(n, w) for n, ws in passes.items() for w in dict.fromkeys((ws[0], ws[-1]))]


def _expected(case: Case) -> float:
    """About how long a case takes beside others: slow contestants drop out of large ones."""
    return float((case.batch * case.n) ** 0.5)
