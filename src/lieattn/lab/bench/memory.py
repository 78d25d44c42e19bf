"""Peak memory of one call, in a process that does nothing else.

Kernels allocate outside torch, so what counts is `ru_maxrss`, the peak of the process. A fork
server imports torch once; each call has a new process.
"""

from __future__ import annotations

import contextlib
import ctypes
import os
import signal
import sys
from dataclasses import replace
from importlib.util import find_spec
from multiprocessing import get_context
from multiprocessing.connection import Connection

import torch

from ...ops import BACKENDS
from .cases import Case
from .contestants import REFUSALS, everybody

METHOD = (
    "peak resident memory (ru_maxrss) of one call over that before it, inputs included, "
    "in a process of its own, after a call on 64 poses; to about 0.25 MB"
)
WARM_UP = 64  # poses: few, so that the memory of the measured call is not allocated before it
STEP = 4096  # bytes
SERVER = {
    "OMP_NUM_THREADS": "1",  # a process with a pool of threads cannot be forked
    # Freed blocks go back to the system at once. The measured call could reuse them otherwise.
    "MALLOC_MMAP_THRESHOLD_": "65536",
    "MALLOC_TRIM_THRESHOLD_": "65536",
}


def measurable() -> bool:
    """Does the system report the peak of a process?"""
    return find_spec("resource") is not None


def peak(contestant: str, case: Case, which: str, threads: int) -> int | str:
    """Bytes that a call takes at its peak, or why they are unknown."""
    context = get_context("forkserver")
    context.set_forkserver_preload([f"{__package__}.preload", __name__])
    answers, answer = context.Pipe(duplex=False)
    task = (answer, contestant, case, which, threads)
    child = context.Process(target=_answer, args=task, daemon=True)
    environment = dict(os.environ)
    os.environ.update(SERVER)  # which is started with the first child
    try:
        child.start()
    finally:
        os.environ.clear()
        os.environ.update(environment)
    answer.close()
    try:
        return answers.recv()
    except EOFError:
        child.join()
        killed = child.exitcode == -signal.SIGKILL
        return "it was killed for want of memory" if killed else f"it ended with {child.exitcode}"
    finally:
        child.kill()  # Ctrl-C leaves it running
        child.join()


def _answer(answer: Connection, contestant: str, case: Case, which: str, threads: int) -> None:
    signal.signal(signal.SIGINT, signal.SIG_IGN)  # the command ends this process
    torch.set_num_threads(threads)
    try:
        answer.send(measure(contestant, case, which))
    except REFUSALS as error:
        answer.send(str(error).strip().splitlines()[0])


def measure(contestant: str, case: Case, which: str) -> int:
    """Bytes that a call takes at its peak, results included, in this very process."""
    backends = [contestant] if contestant in BACKENDS else []
    build = everybody(backends, peers=True)[contestant].build
    for _ in range(2):
        build(replace(case, n=min(WARM_UP, case.n))).call(which)()
    call = build(case).call(which)
    with contextlib.suppress(OSError, AttributeError):  # another C library than GNU's
        ctypes.CDLL(None).malloc_trim(0)
    # The peak so far may lie above what is resident. Fill the difference up, until the peak moves.
    before, ballast = _peak(), []
    while _peak() == before:
        ballast.append(bytearray(STEP))
    before = _peak()
    call()
    return _peak() - before


def _peak() -> int:
    import resource  # not on Windows

    unit = 1 if sys.platform == "darwin" else 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * unit
