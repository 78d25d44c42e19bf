"""`lieattn train` that is killed at a chosen point, as by kill -9: no clean-up, no last words.

    python killed.py POINT ARGUMENTS...

POINT is "step 37", before that step, or "replace 9", before the ninth time that a file is moved to
its place: a checkpoint is then written but not there, or the one before it is already moved away.
"""

import os
import signal
import sys
from typing import Any

from lieattn.lab.commands import app
from lieattn.lab.infill.trainer import Trainer

kind, number = sys.argv[1].split()
calls = 0


def kill_at(count: int) -> None:
    if count >= int(number):
        os.kill(os.getpid(), signal.SIGKILL)


step, replace = Trainer.step, os.replace


def killed_step(self: Trainer) -> float:
    kill_at(self.progress.step)
    return step(self)


def killed_replace(*arguments: Any) -> None:
    global calls
    calls += 1
    kill_at(calls)
    replace(*arguments)


if kind == "step":
    Trainer.step = killed_step  # type: ignore[method-assign]
else:
    os.replace = killed_replace
app(sys.argv[2:])
