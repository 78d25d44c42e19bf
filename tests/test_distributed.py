"""Sets shared out between two processes: the numbers of one."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest
import torch

import lieattn as la
from lieattn import distributed

HERE = Path(__file__).parent


def torchrun(*arguments: str) -> str:
    """What a script prints, run on two processes of this machine."""
    launch = [sys.executable, "-m", "torch.distributed.run", "--nproc-per-node=2"]
    free = ["--rdzv-backend=c10d", "--rdzv-endpoint=localhost:0"]
    environment = {**os.environ, "OMP_NUM_THREADS": "1", "PYTHONWARNINGS": "ignore"}
    done = subprocess.run(
        [*launch, *free, *arguments], capture_output=True, text=True, env=environment, timeout=120
    )
    assert done.returncode == 0, done.stderr[-3000:]
    return done.stdout


def test_two_processes_give_the_numbers_of_one() -> None:
    found = json.loads(torchrun(str(HERE / "shard_worker.py")).splitlines()[-1])
    worst = {
        f"{case}, {name}": value for case, each in found.items() for name, value in each.items()
    }
    # float32 sums in another order: 1e-7 a term; gradients of softmax cancel some digits.
    assert max(worst.values()) < 2e-5, worst


def test_the_example_runs() -> None:
    out = torchrun(str(HERE.parent / "examples" / "long_set.py"), "--tokens", "101")
    assert "101 tokens in 2 processes" in out
    assert "gradients differ by" in out


def test_one_process_is_the_ordinary_call() -> None:
    poses, values = la.SE3.random(1, 9), torch.randn(1, 4, 9, 8)
    weights = torch.ones(4, 2)
    one = distributed.sharded_attention(la.SE3, poses, values, weights)
    other = la.lie_attention(la.SE3, poses, poses, values, weights)
    for x, y in zip(one, other, strict=True):
        torch.testing.assert_close(x, y)
    model = la.LieTransformer(la.SE3)
    torch.testing.assert_close(distributed.sharded_forward(model, poses).poses, model(poses).poses)


def test_what_needs_the_whole_set_is_refused() -> None:
    model = la.LieTransformer(la.SE3, la.LieTransformerConfig(normalise=True))
    with pytest.raises(ValueError, match="normalise wants the whole set"):
        distributed.sharded_forward(model, la.SE3.random(1, 5))
