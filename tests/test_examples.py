"""The example scripts run."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import torch

from lieattn import data

EXAMPLES = Path(__file__).parents[1] / "examples"


def test_the_walk_is_written_with_its_gaps(tmp_path: Path) -> None:
    command = [sys.executable, str(EXAMPLES / "make_walk.py"), str(tmp_path)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=300)
    assert done.returncode == 0, done.stderr
    walk, broken, truth = (
        data.read(tmp_path / f"{name}.tum", bad="gaps")[0] for name in ("walk", "broken", "truth")
    )
    assert (len(walk), len(broken), len(truth)) == (2000, 400, 400)
    assert walk.mask.all()
    assert truth.mask.all()
    assert int((~broken.mask).sum()) == 22
    assert torch.equal(broken.poses[broken.mask], truth.poses[broken.mask])
