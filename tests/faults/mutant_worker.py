"""Reads mutated files as `lieattn data` does, in one process; a line of JSON for each.

    python mutant_worker.py SEED FOLDER COUNT

The files stay in the folder.
"""

from __future__ import annotations

import io
import json
import signal
import sys
import time
import warnings
from pathlib import Path
from typing import Any

from mutants import FOLDER, mutant
from rich.console import Console

from lieattn import data
from lieattn.workflows.inspection.findings import Request
from lieattn.workflows.inspection.run import run

HANGS = 30  # seconds


def originals() -> dict[str, list[Path]]:
    """Real files of every format, by its name."""
    found: dict[str, list[Path]] = {name: [] for name in data.formats()}
    for path in sorted(FOLDER.iterdir()):
        found[data.read(path).format].append(path)
    return found


def _stop(*_: Any) -> None:
    raise TimeoutError(f"more than {HANGS} s")


def peak() -> float:
    """The most memory that this process had, in MB; getrusage has that of the parent too."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    return int(status.split("VmHWM:")[1].split()[0]) / 1024


def tried(path: Path, bad: str) -> dict[str, Any]:
    """What comes of a file: what was shown, and how."""
    out, start = io.StringIO(), time.process_time()
    signal.alarm(HANGS)
    try:
        errors = run(Request([path], bad=bad), Console(file=out, width=100))
        outcome = "refused" if errors else "read"
        out.write("\n".join(errors))
    except Exception as error:  # whatever it is, it is a failure and no end of the test
        outcome = f"{type(error).__name__}: {error}"[:500]
    signal.alarm(0)
    shown = out.getvalue()
    return {
        "outcome": outcome,
        "seconds": time.process_time() - start,
        "megabytes": peak(),
        "printable": shown.replace("\n", "").isprintable(),
        "longest": max(map(len, errors), default=0) if outcome == "refused" else 0,
    }


def main(seed: int, folder: Path, count: int) -> None:
    """Mutants of all formats in turn."""
    warnings.simplefilter("error")
    signal.signal(signal.SIGALRM, _stop)
    files = originals()
    for number in range(count):
        name = list(files)[number % len(files)]
        ending, raw = mutant(name, files[name], seed, number)
        path = folder / f"{name}-{number}{ending}"
        path.write_bytes(raw)
        bad = ("error", "mask")[number // len(files) % 2]
        print(json.dumps({"file": path.name, **tried(path, bad)}), flush=True)


if __name__ == "__main__":
    main(int(sys.argv[1]), Path(sys.argv[2]), int(sys.argv[3]))
