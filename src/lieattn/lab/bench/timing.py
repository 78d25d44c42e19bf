"""Times of all contestants on one case, taken in turns: a slow spell of the machine hits all."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from statistics import median
from typing import Any

from .cases import Case

LEAST, MOST = 3, 3.0  # turns that a contestant has even if slow; budgets after which it has none
TURN = 0.002  # seconds: short calls are repeated within a turn, as caches are cold at its start
Key = tuple[str, str]  # contestant and pass


@dataclass
class Cell:
    """What is known of a case."""

    case: Case
    times: dict[Key, list[float]] = field(default_factory=dict)  # seconds, one a turn
    memory: dict[Key, int] = field(default_factory=dict)  # bytes
    missing: dict[Key, str] = field(default_factory=dict)  # why there is no time
    memory_missing: dict[Key, str] = field(default_factory=dict)

    def records(self) -> list[dict[str, Any]]:
        """Plain data, one record for every contestant and pass."""
        records = []
        for key in dict.fromkeys([*self.times, *self.missing]):
            record: dict[str, Any] = {"contestant": key[0], "pass": key[1]}
            if times := self.times.get(key):
                record |= {
                    "minimum": _digits(min(times)),
                    "median": _digits(median(times)),
                    "repetitions": len(times),
                }
            elif key in self.missing:
                record["missing"] = self.missing[key]
            else:
                continue
            if key in self.memory:
                record["memory"] = self.memory[key]
            elif key in self.memory_missing:
                record["memory_missing"] = self.memory_missing[key]
            records.append(record)
        return records


def _digits(seconds: float) -> float:
    return float(f"{seconds:.5g}")


def take_turns(
    cell: Cell, calls: dict[Key, Callable[[], Any]], repeat: int, budget: float
) -> Iterator[tuple[Key, float]]:
    """Time every call `repeat` times, or until it has used its budget of seconds.

    Yields after every turn whose it was and how much of all turns is done.
    """
    for key, call in calls.items():
        first = _clock(call)
        # So long a call is not made twice; that it was the first is lost in its length.
        cell.times[key] = [first] if first > MOST * budget else []
        yield key, 0.0
    while turns := [key for key in calls if _share(cell.times[key], repeat, budget) < 1]:
        for key in turns:
            cell.times[key].append(_turn(calls[key]))
            shares = [_share(times, repeat, budget) for times in cell.times.values()]
            yield key, sum(shares) / len(shares)


def _share(times: list[float], repeat: int, budget: float) -> float:
    """How much of its turns a contestant has had."""
    spent = sum(times) / budget
    return min(max(len(times) / repeat, min(spent, len(times) / LEAST), spent / MOST), 1.0)


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
