"""Run a command and write what it took: `python measured.py OUT.json SECONDS COMMAND...`

Seconds are of work, whatever else the machine does. Memory is that of the command alone: a child of
the tests would count theirs too, as a process counts what it was before it became another program.
"""

import contextlib
import json
import resource
import subprocess
import sys
from pathlib import Path
from typing import Any


def measured(limit: float, command: list[str]) -> dict[str, Any]:
    """Code (None where it did not end), output, seconds and megabytes."""
    code, output = None, b""
    with contextlib.suppress(subprocess.TimeoutExpired):
        done = subprocess.run(command, capture_output=True, timeout=limit)
        code, output = done.returncode, done.stdout + done.stderr
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return {
        "code": code,
        "output": output.decode(errors="replace"),
        "seconds": used.ru_utime + used.ru_stime,
        "megabytes": used.ru_maxrss / 1024,
    }


if __name__ == "__main__":
    Path(sys.argv[1]).write_text(json.dumps(measured(float(sys.argv[2]), sys.argv[3:])))
