"""The command `lieattn bench`: its options, bad input, Ctrl-C."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from typer.testing import CliRunner

import lieattn as la
from lieattn._core.errors import RunError
from lieattn.cli.app import app
from lieattn.lab.bench.request import request

ROOT = Path(__file__).parents[2]


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"groups": ["SE9"]}, "unknown group 'SE9'; known are SO2, .*, and all"),
        ({"backends": ["warp"]}, "unknown backend 'warp'; known are auto, reference"),
        ({"sizes": [0]}, "--n must be at least 1, got 0"),
        ({"sizes": [8], "long": [8]}, "--n or for --long, and 8 is for both"),
        ({"repeat": 0}, "--repeat must be at least 1, got 0"),
        ({"widths": [-1]}, "--head-width must be at least 1"),
        ({"budget": 0.0}, "--budget must be above 0"),
    ],
)
def test_bad_requests_are_met_with_a_line(wrong: dict[str, Any], message: str) -> None:
    with pytest.raises(RunError, match=message):
        request(quick=True, **wrong)


def test_requests_have_defaults_and_take_names_as_people_write_them() -> None:
    asked = request(quick=True, groups=["se(3)", "aff2"])
    assert asked.groups == ("SE3", "Aff2")
    assert (asked.sizes, asked.repeat) == ((128, 512), 5)
    full = request(groups=["all"], sizes=[9, 3], heads=2)
    assert full.groups == tuple(la.available_groups())
    assert (full.sizes, full.widths, full.heads) == ((3, 9), (16, 64), 2)


def test_the_command_says_in_a_line_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, message in (
        (["--out", str(tmp_path / "file")], "cannot write .*file: .*--out"),
        (["--group", "SE9"], "unknown group 'SE9'; .*"),
        (["--n", "0"], "--n must be .*"),
    ):
        done = CliRunner().invoke(app, ["bench", "--quick", *arguments])
        assert done.exit_code == 2
        assert done.stdout == ""
        assert re.fullmatch(rf"lieattn: {message}[.?]\n", done.stderr)


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    sizes = ("--n", "8", "--n", "600", "--no-memory", "--no-peers", "--no-backward")
    sizes += ("--no-layer",)
    command = [sys.executable, "-m", "lieattn.cli", "bench", "--quick", "--threads", "1", *sizes]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background would ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert any("1 of 2" in line for line in process.stdout)  # 8 is done; 600 is not
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    kept = f"What was measured is in {tmp_path}."
    assert errors == f"lieattn bench: stopped by Ctrl-C. {kept}\n"
    found = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert not found["complete"]
    assert found["cells"][0]["records"][0]["minimum"] > 0
    assert "SDPA" in out
    assert "stopped before its end" in (tmp_path / "bench.md").read_text(encoding="utf-8")
