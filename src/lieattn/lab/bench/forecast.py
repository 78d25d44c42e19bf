"""What a call would take, in seconds and in bytes, told from smaller ones."""

from __future__ import annotations

import time
from dataclasses import dataclass, field, replace

from .cases import Case, Contestant
from .memory import Meter, measurable
from .timing import Cell

PROBED = 256  # poses that are tried where nothing smaller was measured; twice as many are let be
ENOUGH = 0.3  # seconds of a probe
PAIR_BYTES = 4096  # where memory cannot be measured: more than any of them takes for a pair
Tried = tuple[str, Case, str]  # contestant, case and pass


@dataclass
class Forecast:
    """Of the cells of a run, and of probes that are made when there is nothing to go by."""

    cells: list[Cell]
    meter: Meter
    seconds_of: dict[Tried, float] = field(default_factory=dict)
    bytes_of: dict[Tried, int | str] = field(default_factory=dict)

    def seconds(self, contestant: Contestant, case: Case, which: str) -> float:
        """All pairs take their time. 0 where the call is small enough to be tried."""
        for cell in self._smaller(case):
            if times := cell.times.get((contestant.name, which)):
                return min(times) * (case.n / cell.case.n) ** 2
        if case.n <= 2 * PROBED:
            return 0.0
        small = replace(case, n=PROBED)
        tried = (contestant.name, small, which)
        if tried not in self.seconds_of:
            self.seconds_of[tried] = _probe(contestant, small, which)
        return self.seconds_of[tried] * (case.n / PROBED) ** 2

    def bytes(self, contestant: Contestant, case: Case, which: str) -> float:
        """All pairs take their place, of those who keep them; others are given 0."""
        if not contestant.pairs or case.n <= 2 * PROBED:
            return 0.0
        if not measurable():
            return PAIR_BYTES * case.batch * case.n**2
        for cell in self._smaller(case):
            if cell.case.n >= PROBED and (peak := cell.memory.get((contestant.name, which))):
                return peak * (case.n / cell.case.n) ** 2
        tried = (contestant.name, replace(case, n=PROBED), which)
        if tried not in self.bytes_of:
            self.bytes_of[tried] = self.meter.peak(*tried)
        peak_or_why = self.bytes_of[tried]
        return peak_or_why * (case.n / PROBED) ** 2 if isinstance(peak_or_why, int) else 0.0

    def _smaller(self, case: Case) -> list[Cell]:
        """Cells of other sizes, the largest first."""
        alike = [c for c in self.cells if c.case.n < case.n and replace(c.case, n=case.n) == case]
        return sorted(alike, key=lambda cell: -cell.case.n)


def _probe(contestant: Contestant, case: Case, which: str) -> float:
    """Seconds of a call that is not the first; the least of three, if they are short."""
    call = contestant.build(case).call(which)
    call()
    times: list[float] = []
    while len(times) < 3 and sum(times) < ENOUGH:
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return min(times)
