"""The Triton backend: its kernels in Triton's interpreter, and what it declines."""

import os
import subprocess
import sys
from dataclasses import replace
from importlib.util import find_spec
from pathlib import Path

import pytest
import torch

import lieattn as la
from interpreted import run_in_interpreter
from lieattn.ops import Request, dispatch
from lieattn.ops import triton as backend

ROOT = Path(__file__).parents[2]


@pytest.mark.slow
@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_in_the_interpreter() -> None:
    done = run_in_interpreter("tests/ops/triton_cases.py")
    assert done.returncode == 0, done.stdout[-8000:] + done.stderr[-2000:]
    assert "skipped" not in done.stdout


@pytest.mark.skipif(find_spec("triton") is None, reason="triton is not installed")
def test_kernels_are_accepted_by_the_compiler() -> None:
    """No GPU needed: the interpreter takes Python that the compiler refuses."""
    environment = {k: v for k, v in os.environ.items() if k != "TRITON_INTERPRET"}
    command = [sys.executable, "tools/compile_triton.py", "--ir"]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
    assert done.stdout.count("lines") == 6, done.stderr[-4000:]


def request(**changes: object) -> Request:
    poses = la.SE3.random(1, 3)
    asked = Request(la.SE3, poses, poses, torch.zeros(1, 2, 3, 4), torch.ones(2, 2))
    return replace(asked, **changes)


@pytest.mark.parametrize(
    ("change", "reason"),
    [
        ({"group": la.Aff3}, "SO2, SE2, SO3, SE3, Aff2, not Aff"),
        ({"group": la.matrix_group("SE3", la.SE3.basis())}, "not SE3"),
        ({"group": la.Aff2, "chart": "polar"}, "principal chart"),
        ({"weights": lambda w: w}, "block weights"),
        ({"neighbours": torch.zeros(1, 3, 1, dtype=torch.int64)}, "neighbours"),
        ({"q_content": torch.zeros(1, 2, 3, 4)}, "contents"),
        ({"scale": torch.ones(1, 1, 6)}, "scales"),
        ({"dtype": torch.float64}, "dtype of coordinates"),
        ({"first": 2}, "blocks"),
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
    assert reason in str(dispatch.refusal(request(**change), "triton"))


def test_without_triton_it_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TRITON_INTERPRET", "1")
    monkeypatch.setattr(backend, "find_spec", lambda name: None)
    assert "lieattn[triton]" in str(backend.unsupported(request()))
