"""`lieattn train` that is killed at a chosen point, as by kill -9: no clean-up, no last words.

    python killed.py POINT ARGUMENTS...

POINT is "step 37", before that step, or "replace 9", before the ninth time that a file is moved to
its place: a checkpoint is then written but not there, or the one before it is already moved away.
"""

import os
import signal
import sys
from typing import Any

from lieattn.cli.app import app
from lieattn.workflows.trainer import Trainer


def kill_at_step(number: int) -> None:
    step = Trainer.step

    def killed(self: Trainer) -> float:
        if self.progress.step >= number:
            os.kill(os.getpid(), signal.SIGKILL)
        return step(self)

    Trainer.step = killed  # type: ignore[method-assign]


def kill_at_replace(number: int) -> None:
    replace, calls = os.replace, 0

    def killed(*arguments: Any) -> None:
        nonlocal calls
        calls += 1
        if calls >= number:
            os.kill(os.getpid(), signal.SIGKILL)
        replace(*arguments)

    os.replace = killed


if __name__ == "__main__":
    kind, number = sys.argv[1].split()
    {"step": kill_at_step, "replace": kill_at_replace}[kind](int(number))
    app(sys.argv[2:])
