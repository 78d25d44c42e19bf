"""Times of a call, in turns with a rival: a slow spell of the machine affects both."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .cases import Case

# A ratio near one needs more turns than one of a hundred.
CLOSE = 8.0  # times the rival's time: up to here a call has its budget and this many turns,
LEAST, MOST = 12, 5.0  # however long they are, unless they take this many budgets
FAR = 0.25  # of its budget is what others have
TURN = 0.002  # seconds: short calls are repeated within a turn, as caches are cold at its start
Key = tuple[str, str]  # contestant and pass


@dataclass
class Cell:
    """What is known of a case."""

    case: Case
    times: dict[Key, list[float]] = field(default_factory=dict)  # seconds, one a turn
    memory: dict[Key, int | str] = field(default_factory=dict)  # bytes, or why they are unknown
    missing: dict[Key, str] = field(default_factory=dict)  # why there is no time

    def records(self) -> list[dict[str, Any]]:
        """Plain data, one record for every contestant and pass."""
        records = []
        for key in dict.fromkeys([*self.times, *self.missing]):
            record: dict[str, Any] = {"contestant": key[0], "pass": key[1]}
            if times := self.times.get(key):
                least, middle = (float(f"{x:.5g}") for x in (min(times), median(times)))
                record |= {"minimum": least, "median": middle, "repetitions": len(times)}
            elif key in self.missing:
                record["missing"] = self.missing[key]
            else:
                continue
            if (peak := self.memory.get(key)) is not None:
                record["memory" if isinstance(peak, int) else "memory_missing"] = peak
            records.append(record)
        return records


@dataclass
class Runner:
    """A call, and the times of its turns so far."""

    call: Callable[[], Any]
    times: list[float]
    close: bool = False  # to its rival


def take_turns(
    own: Runner, rival: Runner | None, repeat: int, budget: float, part: float = 1.0
) -> None:
    """Time a call `repeat` times, or until it has used its budget of seconds.

    Before each of its turns the rival has one. Calls close to their rival stop after a part of
    their turns, and have the rest when called again: then a slow spell that is longer than all
    turns of a short call does not decide.
    """
    first = _clock(own.call)
    if first > budget:  # so long a call counts, although it is the first
        own.times.append(first)
    own.close = rival is not None and first < CLOSE * min(rival.times, default=0.0)
    share, until = (_close_share, part) if own.close else (_far_share, 1.0)
    while share(own.times, repeat, budget) < until:
        if rival is not None:
            rival.times.append(_turn(rival.call))
        own.times.append(_turn(own.call))


def _close_share(times: list[float], repeat: int, budget: float) -> float:
    """How much of its turns a contestant has had."""
    spent = sum(times) / budget
    return max(len(times) / repeat, min(spent, len(times) / LEAST), spent / MOST)


def _far_share(times: list[float], repeat: int, budget: float) -> float:
    return max(len(times) / repeat, sum(times) / (FAR * budget))


def _turn(call: Callable[[], Any]) -> float:
    """The least time of the calls of one turn."""
    least = spent = _clock(call)
    while spent < TURN:
        seconds = _clock(call)
        least, spent = min(least, seconds), spent + seconds
    return least


def _clock(call: Callable[[], Any]) -> float:
    start = time.perf_counter()
    call()
    return time.perf_counter() - start
