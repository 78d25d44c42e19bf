"""The command line, in a process of its own as users run it."""

import io
import os
import re
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from rich.console import Console

import lieattn
from lieattn import SE2
from lieattn.cli.app import COMMANDS, load
from lieattn.groups import Block
from lieattn.lab import verify


def run(*arguments: str, **environment: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "lieattn.cli", *arguments]
    env = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment}
    return subprocess.run(command, capture_output=True, text=True, timeout=120, env=env)


def test_verify_succeeds_and_prints_both_tables() -> None:
    done = run("verify", "--samples", "100")
    assert done.returncode == 0, done.stderr
    assert "Instantiations" in done.stdout
    count = 14 * len(lieattn.available_groups())  # the row, 5 properties, 4 laws in 2 dtypes
    assert f"{count} of {count} checks hold" in done.stdout


def test_verify_fails_when_a_law_is_broken(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(type(SE2), "_exp", lambda self, x: self.identity(*x.shape[:-1]).to(x))
    console = Console(record=True, width=100, file=io.StringIO())
    assert not verify.run(console, samples=10)
    text = console.export_text()
    assert "FAILED  SE(2) float32: round trip" in text


def test_verify_fails_when_the_table_disagrees(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(verify.PAPER, "SO3", (3, (2, 1), True))
    assert not verify.instantiation(lieattn.SO3).agrees


@pytest.mark.parametrize(
    ("name", "blocks", "broken"),
    [
        ("invariance", (Block("translation", 2), Block("rotation", 4)), "SE3"),
        ("irreducible", (Block("rotation", 6),), "SE3"),
        ("irreducible", (Block("scale", 1), Block("shear", 3)), "Sim2"),
    ],
)
def test_verify_fails_when_blocks_are_not_those_of_the_theory(
    name: str, blocks: tuple[Block, ...], broken: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    group = lieattn.get_group(broken)
    monkeypatch.setattr(group, "blocks", blocks)
    assert verify.property_errors(group)[name] > 0.1
    console = Console(record=True, width=100, file=io.StringIO())
    monkeypatch.setattr(verify, "measure", lambda *_: None)
    monkeypatch.setattr(verify, "_law_table", lambda *_: "")
    monkeypatch.setattr(verify, "LAWS", ())
    assert not verify.run(console, samples=10)
    assert f"FAILED  {group}: {name} is off by" in console.export_text()


@pytest.mark.parametrize("name", ["closure", "Jacobi", "orthonormal"])
def test_verify_fails_when_generators_are_wrong(name: str) -> None:
    basis = lieattn.Aff2.basis(dtype=torch.float64)
    basis = basis + 0.1 * torch.randn(basis.shape, generator=torch.Generator().manual_seed(0))
    assert verify.property_errors(_Algebra(basis))[name] > 1e-3


class _Algebra:
    """What `property_errors` reads of a group."""

    def __init__(self, basis: torch.Tensor) -> None:
        self._basis, self.dim, self.blocks = basis, len(basis), (Block("rotation", len(basis)),)

    def basis(self, dtype: torch.dtype) -> torch.Tensor:
        return self._basis.to(dtype)


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


# ---- help ------------------------------------------------------------------------------------


def test_help_does_not_import_torch_and_is_quick() -> None:
    code = (
        "import sys, time; sys.argv = ['lieattn', '--help']\n"
        "from lieattn.cli import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "assert not {'torch', 'numpy', 'scipy', 'matplotlib'} & set(sys.modules)\n"
        "assert time.process_time() < 0.5, time.process_time()"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert all(name in done.stdout for name in COMMANDS)


@pytest.mark.parametrize("name", COMMANDS)
def test_help_of_a_command_is_that_of_its_docstring(name: str) -> None:
    assert (load(name).help or "").split("\n\n")[0] == COMMANDS[name]


@pytest.mark.parametrize("name", COMMANDS)
def test_help_leaves_room_for_descriptions(name: str) -> None:
    done = run(name, "--help", COLUMNS="80")
    assert done.returncode == 0
    assert not re.search(r"<\w+(\[\w+\])?>|range", done.stdout)
    rows = re.findall(r"^│ --(.*)│$", done.stdout, re.MULTILINE)
    assert rows
    for row in rows:
        described = re.search(r"(?<=  )\S.*$", row.replace(" N ", "   ").replace(" X ", "   "))
        assert described is None or len(row) - described.start() >= 40, row


def test_every_file_of_a_command_is_listed() -> None:
    home = Path(lieattn.__file__).parent / "cli"
    shared = {"__init__", "__main__", "app", "shared"}
    assert {path.stem for path in home.glob("*.py")} - shared == set(COMMANDS)
