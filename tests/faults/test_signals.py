"""Ctrl-C and SIGTERM at any moment of any command: one line, and nothing half done."""

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

from command_cases import CASES, Bench, Case, with_model
from fault_counts import SEED, tries

from started import Started

CODES = {signal.SIGINT: 130, signal.SIGTERM: 143}
NAMES = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
FIRST = 0.2  # seconds, in which Python starts


def _stopped(
    bench: Bench, case: Case, number: signal.Signals, share: float, name: str
) -> tuple[Any, int, str]:
    """A command stopped after a share of its time, or sooner if it ended before."""
    _, seconds = bench.uninterrupted(case)
    for again in range(8):
        folder = bench.folder(f"{name}-{again}")
        started, start = Started(*case.arguments, cwd=folder), time.monotonic()
        time.sleep(max(FIRST, share * 0.8**again * seconds))
        if started.process.poll() is None:
            code, errors = started.stopped_by(number, everyone=share > 0.5)
            if code != 0:
                return folder, code, errors
        else:
            started.end()
            seconds = min(seconds, time.monotonic() - start)  # measured when the machine was busy
    return folder, 0, "it ended before the signal eight times"


def test_signals_end_every_command_with_one_line(bench: Bench, tally: Callable[..., Any]) -> None:
    number = tries("signals")
    chance = random.Random(SEED)
    with tally(
        "Ctrl-C and SIGTERM end a command with one line and exit code 130 or 143. train, reproduce "
        "and realdata then end with the same bits when they are run again; other commands leave "
        "no partial file",
        "all commands, from 0.2 s after their start to their end; to the process or to its group",
    ) as t:
        for i in range(number):
            case = list(CASES.values())[i % len(CASES)]
            if case.name in ("predict", "evaluate"):
                with_model(bench)
            sent = (signal.SIGINT, signal.SIGTERM)[(i + i // len(CASES)) % 2]
            share = chance.random()
            folder, code, errors = _stopped(bench, case, sent, share, f"signal-{i}")
            about = f"try {i}, {case.name}, {sent.name} at {share:.2f}: "
            line = f"lieattn {case.name}: stopped by {NAMES[sent]}. "
            good = errors.startswith(line) and errors.count("\n") == 1
            t.check(good and code == CODES[sent], f"{about}exit code {code}, {errors!r}")
            if not case.resumes:
                partial = bench.partial(case, folder)
                t.check(not partial, f"{about}partial {partial}", times=0)
            elif case.name != "realdata" or i < len(CASES):  # that takes the longest
                code, _, errors = bench.run(case, folder)
                t.check(code == 0, f"{about}run again: {errors}", times=0)
                different = bench.same(case, folder)
                t.check(not different, f"{about}run again: {different}", times=0)
            t.count(case.name)


def test_two_signals_give_one_line(bench: Bench, tally: Callable[..., Any]) -> None:
    number = tries("signals") // 8
    chance = random.Random(SEED)
    with tally(
        "A second signal while a command ends gives no second line and no traceback",
        "SIGINT and SIGTERM one after the other, as torchrun and timeout send them",
    ) as t:
        for i in range(max(number, 1)):
            case = list(CASES.values())[i % 2]
            _, seconds = bench.uninterrupted(case)
            started = Started(*case.arguments, cwd=bench.folder(f"two-{i}"))
            time.sleep(max(FIRST, chance.random() * 0.7 * seconds))
            for sent in (signal.SIGINT, signal.SIGTERM):
                if started.process.poll() is None:
                    os.kill(started.process.pid, sent)
            code, _, errors = started.end()
            if code == 0:
                t.count("ended before the signal")
            good = code == 0 or (errors.count("\n") == 1 and "stopped by" in errors)
            t.check(good, f"try {i}, {case.name}: exit code {code}, {errors!r}")
