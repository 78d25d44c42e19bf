"""`torchrun -m lieattn.cli train`: two processes train as one with a batch twice as large."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from walks import command, write_tum

from held import unpack
from lieattn.workflows.store import LAST

SIZE = ["--steps", "12", "--every", "4", "--dim", "16", "--layers", "1"]


def losses(folder: Path) -> list[float]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [x for line in lines for x in (line["train_loss"], line["valid_loss"])]


def torchrun(*arguments: str) -> subprocess.CompletedProcess[str]:
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    free = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    return subprocess.run(
        [*launch, *free, "-m", "lieattn.cli", *arguments],
        capture_output=True,
        text=True,
        timeout=120,
        env={**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"},
    )


@pytest.mark.slow
def test_two_processes_train_as_one_with_twice_the_batch(tmp_path: Path) -> None:
    walk = str(write_tum(tmp_path / "walk.tum"))
    two, one = tmp_path / "two", tmp_path / "one"
    done = torchrun("train", walk, *SIZE, "--batch", "4", "--out", str(two))
    assert done.returncode == 0, done.stderr[-3000:]
    assert done.stdout.count("step 12 of 12") == 1  # one of them talks
    assert command("train", walk, *SIZE, "--batch", "8", "--out", one)[0] == 0
    assert losses(two) == pytest.approx(losses(one), rel=1e-3)
    ours, theirs = (unpack(folder / LAST)[0] for folder in (two, one))
    for name, x in ours.items():
        torch.testing.assert_close(x, theirs[name], rtol=1e-2, atol=1e-4)
    # And from a checkpoint of both on: what is finished stays as it is.
    again = torchrun("train", walk, *SIZE, "--batch", "4", "--out", str(two))
    assert again.returncode == 0
    assert again.stdout.count("Finished before") == 1
