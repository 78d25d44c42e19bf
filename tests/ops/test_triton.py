"""The Triton backend: its kernels in Triton's interpreter, and what it declines.

The interpreter is chosen for good when triton is imported, and torch.compile imports triton: the
kernels run in a process of their own, so that no other test sees the choice.
"""

import os
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

import lieattn as la
from lieattn.ops import triton as backend

ROOT = Path(__file__).parents[2]


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_in_the_interpreter() -> None:
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", "tests/ops/triton_cases.py"]
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["TRITON_INTERPRET"] = "1"
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_are_accepted_by_the_compiler() -> None:
    """No GPU needed: the interpreter takes Python that the compiler refuses."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "tools/compile_triton.py", "--ir"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.count("lines") == 6, done.stderr[-4000:]


def request(**changes: object) -> SimpleNamespace:
    poses = la.SE3.random(1, 3)
    asked = {
        "group": la.SE3,
        "q_poses": poses,
        "k_poses": poses,
        "values": torch.zeros(1, 2, 3, 4),
        "weights": torch.ones(2, 2),
        "mask": None,
        "bias": None,
        "exclude_self": True,
        "chart": "principal",
        "neighbours": None,
        "margin": 0.0,
    }
    return SimpleNamespace(**{**asked, **changes})


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"group": la.Aff3}, "SO2, SE2, SO3, SE3, Aff2, not Aff"),
        ({"group": la.matrix_group("SE3", la.SE3.basis())}, "not SE3"),
        ({"group": la.Aff2, "chart": "polar"}, "principal chart"),
        ({"weights": lambda w: w}, "block weights"),
        ({"neighbours": torch.zeros(1, 3, 1, dtype=torch.int64)}, "neighbours"),
        ({"margin": 2.0}, "margins from 0 to pi/2"),
        ({"q_poses": la.SE3.random(1, 3, dtype=torch.float64)}, "float64"),
        ({"values": torch.zeros(1, 2, 3, 4, dtype=torch.float64)}, "values are torch.float64"),
        ({"weights": torch.ones(2, 2, device="meta")}, "several devices"),
        ({}, "CUDA devices, and tensors are on cpu"),
    ],
)
def test_what_is_declined_is_declined_with_a_reason(
    change: dict[str, object], reason: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    answer = backend.unsupported(request(**change))
    assert answer is not None
    assert reason in answer


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    assert "lieattn[triton]" in str(backend.unsupported(request()))
