"""Tests of Triton's kernels on a CPU: the interpreter is chosen when triton is imported, for good.

`torch.compile` imports triton, so they run in a process of their own and no other test sees it.
"""

import os
import subprocess
import sys
from pathlib import Path

ROOT = Path(__file__).parents[1]


def run_in_interpreter(tests: str, *options: str) -> subprocess.CompletedProcess[str]:
    """Run a file of tests with `TRITON_INTERPRET=1`."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTEST_")}
    environment["TRITON_INTERPRET"] = "1"
    command = [sys.executable, "-m", "pytest", "-p", "no:xdist", *options, tests]
    return subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True)
