"""Two commands on one folder at once: one is told that it is in use, or both leave whole files."""

from collections.abc import Callable
from typing import Any

import pytest
from command_cases import CASES, Bench, with_model
from fault_counts import LEVEL, tries

from started import Started

TURNS = ("data", "train", "predict", "reproduce", "realdata")
IN_USE = "another lieattn is at work in"


@pytest.mark.slow
def test_two_commands_on_one_folder(bench: Bench, tally: Callable[..., Any]) -> None:
    number = tries("concurrent commands", least=1 if LEVEL == "smoke" else 2)
    with tally(
        "Of two commands on one folder at once, one says that the folder is in use, or both end "
        "with whole files",
        "train, reproduce and realdata into one folder; data --save and predict --save to one file",
    ) as t:
        for i in range(number):
            case = CASES[TURNS[i % len(TURNS)]]
            if case.name == "predict":
                with_model(bench)
            bench.uninterrupted(case)
            folder = bench.folder(f"two-at-once-{i}")
            both = [Started(*case.arguments, cwd=folder) for _ in range(2)]
            ends = [started.end() for started in both]
            about = f"try {i}, {case.name}: {[(code, errors) for code, _, errors in ends]}"
            refused = [errors for code, _, errors in ends if code == 2]
            t.check(
                len(refused) < 2 and all(IN_USE in x and x.count("\n") == 1 for x in refused), about
            )
            t.check(all(code in (0, 2) for code, _, _ in ends), about, times=0)
            different = bench.same(case, folder)
            t.check(not different, f"{about}: {different}", times=0)
            t.check(not list(folder.rglob("*.part")), f"{about}: parts are left", times=0)
