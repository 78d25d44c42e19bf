"""`lieattn` in a process of its own, to be stopped or killed while it works."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

PATIENCE = 600.0  # seconds, on a busy machine too


class Started:
    """A command that was started, in a session and a process group of its own.

    Args:
        arguments: of `lieattn`.
        launch: what runs the module; torchrun, for example.
        before: called in the child before it starts, to take rights away from it.
        environment: what to add to that of the tests.
    """

    def __init__(
        self,
        *arguments: Any,
        launch: tuple[str, ...] = (),
        before: Callable[[], None] | None = None,
        cwd: Path | None = None,
        **environment: str,
    ) -> None:
        def prepare() -> None:
            # Shells let what they start in the background ignore it.
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if before is not None:
                before()

        self.process = subprocess.Popen(
            [sys.executable, *launch, "-m", "lieattn.cli", *map(str, arguments)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=cwd,
            env={**os.environ, "COLUMNS": "100", "NO_COLOR": "1", **environment},
            start_new_session=True,
            preexec_fn=prepare,
        )

    def wait_for(self, what: Callable[[], bool]) -> bool:
        """Wait until something is so; False if the command ended before."""
        until = time.monotonic() + PATIENCE
        while self.process.poll() is None:
            if what():
                return True
            if time.monotonic() > until:
                self.end()
                raise AssertionError("waited too long")
            time.sleep(0.01)
        return False

    def stopped_by(self, number: int, everyone: bool = False) -> tuple[int, str]:
        """Send a signal, to all its processes too; exit code and errors."""
        if self.process.poll() is None:
            (os.killpg if everyone else os.kill)(self.process.pid, number)
        return self.end()[::2]

    def end(self, seconds: float = PATIENCE) -> tuple[int, str, str]:
        """Exit code, output and errors, once it and all its processes have ended."""
        try:
            out, errors = self.process.communicate(timeout=seconds)
        except subprocess.TimeoutExpired:
            os.killpg(self.process.pid, signal.SIGKILL)
            out, errors = self.process.communicate()
            raise AssertionError(f"still running after {seconds} s: {errors}") from None
        return self.process.returncode, out, errors
