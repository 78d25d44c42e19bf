"""Sets shared out between two processes: the numbers of one."""

from __future__ import annotations

import json
import os
import re
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
    """Of the operator and a model: uneven shares, masks, biases, other keys, a single token."""
    found = json.loads(torchrun(str(HERE / "shard_worker.py")).splitlines()[-1])
    worst = {
        f"{case}, {name}": value for case, each in found.items() for name, value in each.items()
    }
    # float32 sums in another order; 8e-7 is the largest that was seen.
    assert max(worst.values()) < 4e-6, worst


def test_the_example_runs() -> None:
    out = torchrun(str(HERE.parent / "examples" / "long_set.py"), "--tokens", "101")
    assert "A set of 101 tokens on 2 processes, 51 tokens in this one." in out
    found = re.search(r"loss ([\d.]+)\.\n.* loss ([\d.]+); gradients differ by (\S+) of", out)
    assert found is not None, out
    assert float(found[1]) == pytest.approx(float(found[2]), rel=1e-5)
    assert float(found[3]) < 1e-5


def test_one_process_is_the_ordinary_call() -> None:
    poses, values = la.SE3.random(1, 9), torch.randn(1, 4, 9, 8)
    weights, bias = torch.ones(4, 2), torch.randn(9, 9)
    assert distributed.shard(poses, -3).equal(distributed.gather(poses, -3))
    one = distributed.sharded_attention(la.SE3, poses, values, weights, bias=bias)
    other = la.lie_attention(la.SE3, poses, poses, values, weights, bias=bias)
    for x, y in zip(one, other, strict=True):
        torch.testing.assert_close(x, y)
    keys = la.SE3.random(1, 4)
    one = distributed.sharded_attention(la.SE3, poses, values[:, :, :4], weights, key_poses=keys)
    other = la.lie_attention(la.SE3, poses, keys, values[:, :, :4], weights, exclude_self=False)
    for x, y in zip(one, other, strict=True):
        torch.testing.assert_close(x, y)
    model = la.LieTransformer(la.SE3)
    torch.testing.assert_close(distributed.sharded_forward(model, poses).poses, model(poses).poses)


def test_what_needs_the_whole_set_is_refused() -> None:
    plain = la.LieTransformer(la.SE3)
    pairs = torch.ones(1, 5, 5, dtype=torch.bool)
    with pytest.raises(ValueError, match=r"mask must have shape \[1, 5\], one value a token of"):
        distributed.sharded_forward(plain, la.SE3.random(1, 5), mask=pairs)
    with pytest.raises(ValueError, match="holds NaN or infinity"):
        distributed.sharded_forward(plain, torch.full((1, 5, 4, 4), torch.nan))
    with pytest.raises(ValueError, match=r"values must have shape \[1, H, 5, dv\]"):
        distributed.sharded_attention(
            la.SE3, la.SE3.random(1, 5), torch.randn(1, 4, 6, 8), torch.ones(4, 2)
        )
