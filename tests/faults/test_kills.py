"""kill -9 at any moment: the same command ends with the same bits, and what was there is whole."""

import os
import random
import signal
import time
from collections.abc import Callable
from typing import Any

import pytest
from command_cases import CASES, TRAIN, Bench, Case, with_model
from fault_counts import LEVEL, SEED, tries

from started import Started

KILLED = ("predict", "train", "reproduce", "data", "train", "realdata")  # in turns
TORCHRUN = ("-m", "torch.distributed.run", "--nproc-per-node=2", "--rdzv-backend=c10d")
TORCHRUN += ("--rdzv-endpoint=localhost:0",)
RANKS = Case("train", f"{TRAIN} --out out", CASES["train"].results, resumes=True)


def test_killed_commands_lose_nothing(bench: Bench, tally: Callable[..., Any]) -> None:
    number = tries("kills")
    chance = random.Random(SEED)
    with tally(
        "After kill -9 the same command ends with the same bits, and a file that was there before "
        "is whole, the old one or the new one",
        "train, reproduce, realdata, predict --save and data --save, at random moments, some twice",
    ) as t:
        for i in range(number):
            name = KILLED[i % len(KILLED)] if LEVEL != "smoke" else "data"
            case = CASES[name]
            if name == "predict":
                with_model(bench)
            _, seconds = bench.uninterrupted(case)
            folder = bench.folder(f"kill-{i}")
            before = b"what was there before"
            if not case.resumes:
                (folder / "out.npz").write_bytes(before)
            for _ in range(1 + case.resumes * chance.randrange(2)):
                started = Started(*case.arguments, cwd=folder)
                time.sleep(chance.random() * seconds)
                os.kill(started.process.pid, signal.SIGKILL)
                started.end()  # its workers too
            about = f"try {i}, {name}: "
            if not case.resumes:
                if (folder / "out.npz").read_bytes() == before:
                    (folder / "out.npz").unlink()
                partial = bench.partial(case, folder, beside=True)
                t.check(not partial, f"{about}partial {partial}", times=0)
            code, _, errors = bench.run(case, folder)
            different = bench.same(case, folder) if code == 0 else errors
            t.check(code == 0 and not different, about + different)
            t.count(name)


@pytest.mark.skipif(LEVEL == "smoke", reason="takes a minute; tests/lab has a kill of train")
def test_a_lost_rank_is_named_and_loses_nothing(bench: Bench, tally: Callable[..., Any]) -> None:
    number = max(tries("kills") // 6, 1)
    chance = random.Random(SEED)
    with tally(
        "When a rank of torchrun is killed, another says in one line which, and the same command "
        "ends with the same bits",
        "two ranks, one of them killed while they train",
    ) as t:
        whole = bench.folder("ranks-whole")
        code, _, errors = Started(*RANKS.arguments, launch=TORCHRUN, cwd=whole).end()
        assert code == 0, errors
        for i in range(number):
            victim = (SEED + i) % 2
            folder = bench.folder(f"ranks-{i}")
            started = Started(*RANKS.arguments, launch=TORCHRUN, cwd=folder)
            least = chance.randrange(1, 6)  # validations, of 8
            log = folder / "out" / "log.jsonl"
            there = started.wait_for(
                lambda log=log, least=least: log.exists() and log.read_text().count("\n") >= least
            )
            assert there, started.end()
            os.kill(_ranks(started.process.pid)[victim], signal.SIGKILL)
            _, _, errors = started.end()
            said = [x for x in errors.splitlines() if x.startswith("lieattn train:")]
            good = len(said) == 1 and said[0].startswith(f"lieattn train: rank {victim} of 2 ended")
            good &= "the same command goes on" in errors and errors.count("Traceback") <= 1  # torch
            t.check(good, f"try {i}, rank {victim}: {said}, {errors.count('Traceback')} tracebacks")
            code, _, errors = Started(*RANKS.arguments, launch=TORCHRUN, cwd=folder).end()
            same = all(
                (folder / name).read_bytes() == (whole / name).read_bytes()
                for name in RANKS.results
            )
            t.check(code == 0 and same, f"try {i}, run again: {errors[-300:]}", times=0)


def _ranks(torchrun: int) -> dict[int, int]:
    """Process ids of the ranks that torchrun started."""
    with open(f"/proc/{torchrun}/task/{torchrun}/children") as file:
        children = [int(x) for x in file.read().split()]
    found = {}
    for child in children:
        with open(f"/proc/{child}/environ") as file:
            variables = dict(x.split("=", 1) for x in file.read().split("\0") if "=" in x)
        found[int(variables["RANK"])] = child
    return found
