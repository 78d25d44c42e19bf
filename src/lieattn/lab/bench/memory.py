"""Peak memory of one call, in a process that does nothing else.

Kernels allocate outside torch, so what counts is the resident memory of the process: Linux keeps
its peak (VmHWM) and lets one reset it. A server imports torch once and forks for every call, so
that nobody measures what somebody else has left behind.
"""

from __future__ import annotations

import contextlib
import ctypes
import json
import os
import subprocess
import sys
from dataclasses import asdict, replace
from importlib import import_module
from pathlib import Path
from typing import IO, Any, cast

import torch

from ...ops import BACKENDS
from ...ops.dispatch import MODULES
from .cases import Case
from .contestants import REFUSALS, everybody
from .peers import PEERS

METHOD = (
    "peak resident memory (VmHWM) of one call over what is resident before it, inputs included, "
    "in a process of its own, after a call on 64 poses"
)
WARM_UP = 64  # poses; what is allocated for the full size is to be seen
STATUS, RESET = Path("/proc/self/status"), Path("/proc/self/clear_refs")
# Freed blocks go back to the system at once: what stays would hide in the next call's baseline.
ALLOCATOR = {"MALLOC_MMAP_THRESHOLD_": "65536", "MALLOC_TRIM_THRESHOLD_": "65536"}

# What calls would import by themselves, each process anew, for seconds: backends, peers, and what
# custom operators and autograd need of torch.
LATE = (
    *MODULES.values(),
    *(name.replace("-", "_") for name in PEERS),
    "torch._dynamo",
    "torch.fx.experimental.symbolic_shapes",
)


def measurable() -> bool:
    """Does the system keep a peak that can be reset?"""
    return os.access(RESET, os.W_OK) and "VmHWM" in STATUS.read_text()


class Meter:
    """A server that measures; close it, or use it in a `with`."""

    def __init__(self, threads: int) -> None:
        self.threads = threads
        self.server: subprocess.Popen[str] | None = None

    def peak(self, contestant: str, case: Case, which: str) -> int | str:
        """Bytes, or why there are none."""
        task = {"contestant": contestant, "case": asdict(case), "which": which}
        try:
            server = self.server = self.server or self._start()
            tasks, answers = cast(IO[str], server.stdin), cast(IO[str], server.stdout)
            tasks.write(json.dumps({**task, "threads": self.threads}) + "\n")
            tasks.flush()
            answer = json.loads(answers.readline())
        except (OSError, ValueError) as error:
            self.close()
            return f"the memory could not be measured ({error})"
        return answer.get("bytes", answer.get("error"))

    def _start(self) -> subprocess.Popen[str]:
        return subprocess.Popen(
            [sys.executable, "-c", "from lieattn.lab.bench import memory; memory.serve()"],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            env={**os.environ, **ALLOCATOR},
            start_new_session=True,  # Ctrl-C is for the command, which then ends the server
        )

    def close(self) -> None:
        if self.server is not None:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(self.server.pid, 9)  # a call that is running too
            self.server.communicate()
            self.server = None

    def __enter__(self) -> Meter:
        return self

    def __exit__(self, *error: object) -> None:
        self.close()


def serve() -> None:
    """Answer tasks, a line of JSON each, until there are no more."""
    for module in LATE:
        with contextlib.suppress(ImportError, OSError):
            import_module(module)
    for line in sys.stdin:
        child = os.fork()
        if child == 0:
            print(json.dumps(_answer(json.loads(line))), flush=True)
            os._exit(0)
        code = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
        if code:
            why = "it was killed for want of memory" if code == -9 else f"it ended with {code}"
            print(json.dumps({"error": why}), flush=True)


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    torch.set_num_threads(task["threads"])
    try:
        return {"bytes": measure(task["contestant"], Case(**task["case"]), task["which"])}
    except REFUSALS as error:
        return {"error": str(error).strip().splitlines()[0]}


def measure(contestant: str, case: Case, which: str) -> int:
    """Bytes that a call takes at its peak, results included, in this very process."""
    backends = [contestant] if contestant in BACKENDS else []
    build = everybody(backends, peers=True)[contestant].build
    for _ in range(2):
        build(replace(case, n=min(WARM_UP, case.n))).call(which)()
    call = build(case).call(which)
    with contextlib.suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).malloc_trim(0)
    RESET.write_text("5")
    before = _status("VmRSS")
    call()
    return max(_status("VmHWM") - before, 0)


def _status(name: str) -> int:
    line = next(line for line in STATUS.read_text().splitlines() if line.startswith(name))
    return int(line.split()[1]) * 1024
