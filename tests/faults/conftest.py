"""`tally`: what was tried, how often, and what failed; a line of JSON for every promise."""

import json
import os
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from command_cases import Bench
from fault_counts import LEVEL, SEED

LOG = os.environ.get("LIEATTN_FAULT_LOG")  # a file of lines, see tools/reliability.py


@dataclass
class Tally:
    """The tries of one promise. `seed` is that of the run; failures are said at the end."""

    promise: str
    how: str
    seed: int = SEED
    tries: int = 0
    failures: list[str] = field(default_factory=list)
    notes: dict[str, Any] = field(default_factory=dict)  # what else is worth counting

    def check(self, holds: object, what: str, times: int = 1) -> None:
        """Count tries, and a failure where the promise does not hold."""
        self.tries += times
        if not holds:
            self.failures.append(what)

    def count(self, what: str, times: int = 1) -> None:
        """Count something that is no failure."""
        self.notes[what] = self.notes.get(what, 0) + times


@pytest.fixture
def tally(request: pytest.FixtureRequest) -> Callable[[str, str], Any]:
    """`with tally(promise, how) as t: t.check(...)`; fails at the end with how to repeat it."""

    @contextmanager
    def counted(promise: str, how: str) -> Iterator[Tally]:
        found, start = Tally(promise, how), time.monotonic()
        yield found
        assert found.tries, f"nothing was tried: {promise}"
        _log(found, request.node.nodeid, time.monotonic() - start)
        again = f"LIEATTN_FAULTS={LEVEL} LIEATTN_FAULT_SEED={SEED} pytest '{request.node.nodeid}'"
        some = "\n  ".join(found.failures[:10])
        assert not found.failures, (
            f"{len(found.failures)} of {found.tries} tries failed: {promise}\n  {some}\n"
            f"Repeat with: {again}"
        )

    return counted


@pytest.fixture(scope="session")
def bench(tmp_path_factory: pytest.TempPathFactory) -> Bench:
    """Folders to run commands in."""
    return Bench(tmp_path_factory.mktemp("commands"))


def _log(found: Tally, test: str, seconds: float) -> None:
    if LOG is None:
        return
    line = {
        "promise": found.promise,
        "how": found.how,
        "test": test.rsplit("/", 1)[-1],
        "level": LEVEL,
        "seed": found.seed,
        "tries": found.tries,
        "failures": len(found.failures),
        "seconds": round(seconds, 1),
        "notes": found.notes,
    }
    with Path(LOG).open("a", encoding="utf-8") as file:
        file.write(json.dumps(line) + "\n")


def pytest_report_header() -> str:
    return f"faults: level {LEVEL}, seed {SEED}"
