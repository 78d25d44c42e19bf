"""How a command ends on Ctrl-C and SIGTERM: it prints one line and returns the exit code.

`watch` installs the handlers. Only the command line calls it, because a library should leave
signals alone. Without `watch` nothing here has an effect.

A signal ends the process at once, because an exception can be lost in the middle of an import.
Two contexts change that: a signal waits until `held` is left, and inside `unwinding` it raises
`Stopped`, so that `finally` clauses run.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Any, NoReturn

from .text import printable

SIGNALS: dict[int, str] = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}
REPEAT = 1.0  # seconds in which signals are one: timeout(1) and torchrun send several


class Stopped(BaseException):
    """A signal was received inside `unwinding`."""


@dataclass
class _State:
    watching: bool = False
    silent: bool = False
    command: str = "lieattn"
    kept: str = ""
    written: list[Path] = field(default_factory=list)
    signal: int = 0  # the first one
    since: float = 0.0
    held: int = 0
    unwinding: bool = False
    in_thread: bool = False
    ending: threading.Lock = field(default_factory=threading.Lock)


_state = _State()


def watch(command: str, kept: str, silent: bool = False) -> None:
    """Handle signals until the process ends. Ignored ones, as under `nohup`, stay ignored.

    Args:
        command: the beginning of the line.
        kept: a sentence on what is kept; `keep` replaces it.
        silent: print nothing, because another process prints the line.
    """
    _state.command, _state.kept, _state.silent = command, kept, silent
    _state.watching = True
    sys.unraisablehook = _not_lost
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)


def keep(text: str) -> None:
    """Replace the sentences of the line: what is kept, and how to resume."""
    _state.kept = text


@contextmanager
def held() -> Iterator[None]:
    """A signal waits until the end: for work that must not be interrupted."""
    _state.held += 1
    try:
        yield
    finally:
        _state.held -= 1
        if _state.signal and not _state.held:
            _deliver()


@contextmanager
def written(path: Path) -> Iterator[None]:
    """A signal waits while a file is written; from then on the line names the file."""
    with held():
        yield
        _state.written.append(path)


@contextmanager
def unwinding() -> Iterator[None]:
    """A signal raises `Stopped` inside. The process ends when the context is left."""
    _state.unwinding = True
    try:
        yield
    finally:
        _state.unwinding = False
        leave_if_stopped()


def leave_if_stopped() -> None:
    """End the process if there was a signal, even if its exception was lost."""
    if _state.signal:
        what = f"stopped by {SIGNALS[_state.signal]}"
        say_and_exit(what, 128 + _state.signal, silent=_state.silent)


def finished() -> None:
    """The command has done its work: signals are ignored from now on."""
    leave_if_stopped()
    if _state.watching:
        _ignore()


def say_and_exit(what: str, code: int, *, silent: bool = False) -> NoReturn:
    """Print the line and end the process without clean-up."""
    _ignore()
    if not _state.ending.acquire(blocking=False):
        threading.Event().wait()  # another thread is about to end the process
    kept = _state.kept
    if _state.written:
        kept = f"Written: {', '.join(printable(str(x), 500) for x in _state.written)}."
    if not silent:
        with suppress(OSError):  # not through sys.stderr, which may be in the middle of a line
            os.write(2, f"{_state.command}: {what}. {kept}\n".encode(errors="replace"))
    os._exit(code)


@contextmanager
def heard_by_thread(act: Callable[[int], Any]) -> Iterator[None]:
    """Signals call `act` in a thread, because the main thread may be blocked in a collective."""
    if not _state.watching:
        yield
        return
    ours, theirs = socket.socketpair()
    theirs.setblocking(False)

    def listen() -> None:
        while heard := ours.recv(1):
            if heard[0] in SIGNALS:
                act(heard[0])

    threading.Thread(target=listen, daemon=True).start()
    signal.set_wakeup_fd(theirs.fileno(), warn_on_full_buffer=False)
    _state.in_thread = True
    try:
        yield
    finally:
        _state.in_thread = False
        signal.set_wakeup_fd(-1)
        theirs.close()


def _hear(number: int, frame: FrameType | None) -> None:
    if _state.in_thread:
        return
    if not _state.signal:
        _state.signal, _state.since = number, time.monotonic()
        if not _state.held:
            _deliver()
    elif time.monotonic() - _state.since > REPEAT:
        leave_if_stopped()


def _deliver() -> None:
    if _state.unwinding:
        raise Stopped
    leave_if_stopped()


def _not_lost(problem: Any) -> None:
    """Python prints and drops what is raised in a finaliser; a stop must not be dropped."""
    if isinstance(problem.exc_value, Stopped):
        leave_if_stopped()
    sys.__unraisablehook__(problem)


def _ignore() -> None:
    with suppress(ValueError):  # outside of the main thread
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
