"""Mutated files of poses: read or refused, with an error that is meant for people."""

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from fault_counts import SEED, tries
from mutant_worker import originals
from mutants import mutant

WORKER = Path(__file__).with_name("mutant_worker.py")
SECONDS, MEGABYTES = 10, 1000
ONE_IN = 50  # that is tried as a command


def _wrong(found: dict[str, Any]) -> list[str]:
    """What is wrong with the answer to a file."""
    wrong = [] if found["outcome"] in ("read", "refused") else [found["outcome"]]
    if found["seconds"] > SECONDS:
        wrong.append(f"{found['seconds']:.1f} s")
    if found["megabytes"] > MEGABYTES:
        wrong.append(f"{found['megabytes']:.0f} MB")
    if not found["printable"]:
        wrong.append("shows control characters")
    if found["longest"] > 2500:
        wrong.append(f"an error of {found['longest']} characters")
    return wrong


@pytest.mark.skipif(sys.platform != "linux", reason="alarms, and memory by /proc")
def test_mutated_files_are_read_or_refused(tmp_path: Path, tally: Callable[..., Any]) -> None:
    number = tries("mutated files", least=20)
    with tally(
        "A damaged or hostile file of poses is read or refused: no other error, "
        f"at most {SECONDS} s and {MEGABYTES / 1000:g} GB, nothing shown that is not printable",
        "files of ten formats: bits flipped, cut, doubled, shuffled, encoded otherwise, with "
        "hostile strings and numbers; archives whose headers and directories lie",
    ) as t:
        command = [sys.executable, str(WORKER), str(SEED), str(tmp_path), str(number)]
        done = subprocess.run(command, capture_output=True, text=True, timeout=60 + 2 * number)
        answers = [json.loads(line) for line in done.stdout.splitlines()]
        for found in answers:
            wrong = _wrong(found)
            t.check(not wrong, f"{found['file']}: {', '.join(wrong)}")
            t.count(found["outcome"] if not wrong else "wrong")
        ended = f"the process ended with {done.returncode} after {len(answers)} files"
        t.check(len(answers) == number, f"{ended}: {done.stderr[-500:]}", times=0)
    assert {"read", "refused"} <= t.notes.keys()


@pytest.mark.skipif(sys.platform != "linux", reason="alarms, and memory by /proc")
def test_mutated_files_as_commands(tmp_path: Path, tally: Callable[..., Any]) -> None:
    number = tries("mutated files", least=20)
    with tally(
        "`lieattn data` of a damaged or hostile file ends with code 0 or 2, without a traceback "
        "or an escape sequence",
        f"one in {ONE_IN} of the mutated files, each a process of its own",
    ) as t:
        files = originals()
        for i in range(0, number, ONE_IN):
            name = list(files)[i // ONE_IN % len(files)]
            ending, raw = mutant(name, files[name], SEED + 1, i)
            path = tmp_path / f"{name}-{i}{ending}"
            path.write_bytes(raw)
            command = [sys.executable, "-m", "lieattn.cli", "data", str(path)]
            done = subprocess.run(command, capture_output=True, timeout=120)
            output = done.stdout + done.stderr
            t.check(done.returncode in (0, 2), f"{path.name}: code {done.returncode}")
            t.check(b"Traceback" not in output, f"{path.name}: a traceback", times=0)
            clean = output.decode(errors="replace").replace("\n", "").isprintable()
            t.check(clean, f"{path.name}: {ascii(output)[:200]}", times=0)
