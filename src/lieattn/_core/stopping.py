"""How a command ends on Ctrl-C and SIGTERM: one line on what is kept, and the exit code.

`watch` installs the handlers. Only the command line calls it: a library leaves signals alone, and
without `watch` nothing here has an effect.

A signal ends the process at once, wherever it is, because an exception can get lost in the middle
of an import. Two contexts change that: a signal waits until `held` is left, and inside of
`unwinding` it raises `Stopped`, so that `finally` clauses run.
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
    """A signal came inside of `unwinding`."""


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
    """Take over signals until the process ends; one that is ignored, as by `nohup`, stays so.

    Args:
        command: what the line begins with.
        kept: a sentence on what is kept, until `keep` says another.
        silent: another process prints the line.
    """
    _state.command, _state.kept, _state.silent = command, kept, silent
    _state.watching = True
    sys.unraisablehook = _not_lost
    for number in SIGNALS:
        if signal.getsignal(number) is not signal.SIG_IGN:
            signal.signal(number, _hear)


def keep(text: str) -> None:
    """What the line says from now on is kept, and how to go on: sentences."""
    _state.kept = text


@contextmanager
def held() -> Iterator[None]:
    """A signal waits until the end: for what is done whole or not at all."""
    _state.held += 1
    try:
        yield
    finally:
        _state.held -= 1
        if _state.signal and not _state.held:
            _deliver()


@contextmanager
def written(path: Path) -> Iterator[None]:
    """A file is written whole, and the line names it from then on."""
    with held():
        yield
        _state.written.append(path)


@contextmanager
def unwinding() -> Iterator[None]:
    """A signal raises `Stopped` inside, and ends the process at the end."""
    _state.unwinding = True
    try:
        yield
    finally:
        _state.unwinding = False
        leave_if_stopped()


def leave_if_stopped() -> None:
    """End the process if a signal came, whatever became of its exception."""
    if _state.signal:
        what = f"stopped by {SIGNALS[_state.signal]}"
        say_and_exit(what, 128 + _state.signal, silent=_state.silent)


def finished() -> None:
    """The command has done its work: signals do nothing to the rest of the process."""
    leave_if_stopped()
    if _state.watching:
        _ignore()


def say_and_exit(what: str, code: int, *, silent: bool = False) -> NoReturn:
    """Print the line, with what is kept, and end the process without clean-up."""
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
    """Signals call `act` in a thread: the main thread may be deaf, waiting in a collective."""
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
    """Python prints and drops what is raised in a finaliser; a stop is not to be dropped."""
    if isinstance(problem.exc_value, Stopped):
        leave_if_stopped()
    sys.__unraisablehook__(problem)


def _ignore() -> None:
    with suppress(ValueError):  # outside of the main thread
        for number in SIGNALS:
            signal.signal(number, signal.SIG_IGN)
