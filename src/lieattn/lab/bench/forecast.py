"""Seconds and bytes of a call, predicted from smaller ones: both grow with the square of N."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from functools import cache, partial

from .cases import Case, Contestant
from .memory import measurable, peak
from .timing import Cell, Runner, take_turns

PROBED = 256  # poses of a probe, for sizes above twice as many where nothing smaller was measured
BUDGET = 1.2  # seconds of a probe
PAIR_BYTES = 4096  # where memory cannot be measured: more than any contestant takes for a pair


def seconds(cells: Iterable[Cell], contestant: Contestant, case: Case, which: str) -> float:
    """From the cells of a run or from a probe; 0 where the call is small enough to be tried."""
    key = (contestant.name, which)
    known = {cell.case: min(cell.times[key]) for cell in cells if cell.times.get(key)}
    return _grown(case, known, partial(_seconds, contestant, which))


def memory(
    cells: Iterable[Cell], contestant: Contestant, case: Case, which: str, threads: int
) -> float:
    """In bytes; 0 for small calls, and for contestants that keep no tensors of all pairs."""
    if not contestant.pairs:
        return 0.0
    found = {c.case: c.memory.get((contestant.name, which)) for c in cells if c.case.n >= PROBED}
    known = {at: float(size) for at, size in found.items() if isinstance(size, int)}
    return _grown(case, known, partial(_bytes, contestant.name, which, threads))


def _grown(case: Case, known: Mapping[Case, float], probe: Callable[[Case], float]) -> float:
    """The value of the largest smaller case, or of a probe, scaled to this size."""
    smaller = [at for at in known if at.n < case.n and replace(at, n=case.n) == case]
    if not smaller and case.n <= 2 * PROBED:
        return 0.0
    nearest = max(smaller, key=lambda at: at.n, default=replace(case, n=PROBED))
    value = known[nearest] if smaller else probe(nearest)
    return value * (case.n / nearest.n) ** 2


@cache
def _seconds(contestant: Contestant, which: str, case: Case) -> float:
    runner = Runner(contestant.build(case).call(which), [])
    take_turns(runner, None, 3, BUDGET)
    return min(runner.times)


@cache
def _bytes(contestant: str, which: str, threads: int, case: Case) -> float:
    if not measurable():
        return float(PAIR_BYTES * case.batch * case.n**2)
    found = peak(contestant, case, which, threads)
    return found if isinstance(found, int) else 0.0
