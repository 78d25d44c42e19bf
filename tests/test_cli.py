"""The command line, in a process of its own as users run it."""

import io
import os
import subprocess
import sys

import pytest
import torch
from rich.console import Console

import lieattn
from lieattn import SE2
from lieattn.lab import verify


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lieattn.cli", *arguments]
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


def test_verify_succeeds_and_prints_both_tables() -> None:
    done = run("verify", "--samples", "100")
    assert done.returncode == 0, done.stderr
    assert "Instantiations" in done.stdout
    assert "72 of 72 checks hold" in done.stdout


def test_verify_fails_when_a_law_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(SE2), "_exp", lambda self, x: self.identity(*x.shape[:-1]).to(x))
    console = Console(record=True, width=100, file=io.StringIO())
    assert not verify.run(console, samples=10)
    text = console.export_text()
    assert "FAILED  SE(2) float32: round trip" in text


def test_verify_fails_when_the_table_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verify.PAPER, "SO3", (3, (2, 1), True))
    assert not verify.instantiation(lieattn.SO3).agrees


def test_version_and_mistakes() -> None:
    assert run("--version").stdout.strip() == f"lieattn {lieattn.__version__}"
    for arguments in (("verify", "--samples", "0"), ("nonsense",)):
        done = run(*arguments)
        assert done.returncode == 2
        assert "Traceback" not in done.stderr


def test_missing_extra_is_explained(tmp_path) -> None:
    (tmp_path / "typer.py").write_text("raise ImportError('no', name='typer')")
    done = run("verify", PYTHONPATH=str(tmp_path))
    assert done.returncode == 2
    assert "needs typer" in done.stderr
    assert "lieattn[lab]" in done.stderr
    assert "Traceback" not in done.stderr


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="no full device here")
@pytest.mark.parametrize("options", [[], ["--json"]])
def test_a_full_disk_is_told(options: list[str]) -> None:
    command = [sys.executable, "-m", "lieattn.cli", "data", "headings", *options]
    with open("/dev/full", "w") as full:
        done = subprocess.run(command, stdout=full, stderr=subprocess.PIPE, text=True, timeout=120)
    assert done.returncode == 2
    assert done.stderr == "lieattn: cannot write the output: No space left on device.\n"


def test_import_loads_no_optional_dependency() -> None:
    optional = ["typer", "rich", "matplotlib", "numpy", "scipy", "triton", "hypothesis", "gemmi"]
    # torch itself imports numpy when it is there: compare with what torch brings.
    code = (
        "import sys, torch; before = set(sys.modules); import lieattn; "
        f"print([m for m in {optional} if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr


def test_torch_default_thread_count_is_left_alone() -> None:
    code = "import torch; n = torch.get_num_threads(); import lieattn; "
    code += "assert torch.get_num_threads() == n"
    assert subprocess.run([sys.executable, "-c", code]).returncode == 0
    assert torch.get_num_threads() == 1  # set by the tests themselves
