"""Configurations trained side by side, one process a core, each with one thread."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Iterator
from dataclasses import dataclass
from multiprocessing import resource_tracker
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any, Literal

from ..._core.errors import RunError
from ..._core.folders import exclusive, write_json, writing
from ..._core.stopping import SIGNALS, held
from .protocols import Settings
from .storage import RESULT, RunFolder

SAVE_EVERY = 5.0  # seconds, or a tenth of the epochs; what is computed does not depend on it


@dataclass(frozen=True)
class Event:
    """News of a worker about a configuration."""

    kind: Literal["started", "epoch", "finished", "warning", "failed"]
    settings: Settings
    epoch: int = 0
    text: str = ""  # a warning or an error
    error: float = 0.0  # mean validation pose error of the seeds


def run_configuration(settings: Settings, out: Path, send: Any) -> None:
    """Train a configuration from where it is to its result, telling `send` about it."""
    from .results import result_of
    from .training import Trainer

    folder = RunFolder(out, settings)
    with exclusive(folder.path / ".lock"):
        if folder.finished:
            send(Event("finished", settings, settings.epochs))
            return
        saved = time.monotonic()
        trainer = Trainer(settings)
        state = folder.load(lambda text: send(Event("warning", settings, text=text)))
        if state is not None:
            trainer.restore(state)
        folder.write_logs(trainer.state)
        send(Event("started", settings, trainer.state.epoch))
        while not trainer.finished:
            trainer.epoch()
            folder.append_logs(trainer.state)
            now, tenth = time.monotonic(), max(settings.epochs // 10, 1)
            if now - saved > SAVE_EVERY or trainer.state.epoch % tenth == 0 or trainer.finished:
                folder.save(trainer.state)
                saved = now
            errors = [history[-1]["validation_pose_error"] for history in trainer.state.history]
            send(Event("epoch", settings, trainer.state.epoch, error=sum(errors) / len(errors)))
        for i, seed in enumerate(settings.seeds):
            best = folder.path / f"seed-{seed}-best"
            with writing(best):
                trainer.model(i, "best").save_pretrained(best)
        write_json(folder.path / RESULT, result_of(trainer), indent=None)
        send(Event("finished", settings, settings.epochs))


def run_all(plan: list[Settings], out: Path, jobs: int) -> Iterator[Event]:
    """Train all configurations on some processes; yields their news.

    Raises:
        RunError: a worker failed or was killed. What was computed is on disk.
    """
    waiting = list(plan)
    workers: dict[Any, Any] = {}
    try:
        for _ in range(min(jobs, len(waiting))):
            connection, process = _start(out)
            workers[connection] = process
            _send(connection, process, waiting.pop(0))
        while workers:
            for connection in wait(list(workers)):
                event = _receive(connection, workers[connection])
                yield event
                if event.kind == "failed":
                    raise RunError(event.text)
                if event.kind == "finished" and waiting:
                    _send(connection, workers[connection], waiting.pop(0))
                elif event.kind == "finished":
                    _send(connection, workers.pop(connection), None)
    finally:
        for process in workers.values():
            process.kill()


def _start(out: Path) -> tuple[Any, Any]:
    """A worker, and the connection to it. Signals are the parent's to hear, from the start."""
    context = multiprocessing.get_context("spawn")
    if os.name == "posix":
        # Its helper process lets signals through again when it is started: not in the middle.
        resource_tracker.ensure_running()
    mine, theirs = context.Pipe()
    process = context.Process(target=_work, args=(theirs, out), daemon=True)
    with signals_held_back():  # which the child inherits and keeps
        process.start()
    theirs.close()
    return mine, process


@contextlib.contextmanager
def signals_held_back() -> Iterator[None]:
    """Signals wait until the end: blocked, not ignored, so that none is lost.

    Processes started meanwhile never hear them: a terminal sends Ctrl-C, and `timeout` and systemd
    send SIGTERM, to all processes of a command, and its parent ends the workers.
    """
    with held():  # this process may hear one in another thread
        if not hasattr(signal, "pthread_sigmask"):  # not a POSIX system
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, set(SIGNALS))
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _send(connection: Any, process: Any, settings: Settings | None) -> None:
    try:
        connection.send(settings)
    except OSError:
        raise _ended(process) from None


def _receive(connection: Any, process: Any) -> Event:
    try:
        event: Event = connection.recv()
        return event
    except (EOFError, OSError):
        raise _ended(process) from None


def _ended(process: Any) -> RunError:
    process.join()
    code = process.exitcode
    why = f"was killed by signal {-code}" if code < 0 else f"ended with exit code {code}"
    memory = " (often for want of memory: try --jobs 1)" if code == -9 else ""
    return RunError(
        f"a worker {why}{memory}. Run the command again, without --overwrite, to go on from where "
        "it was."
    )


def _work(connection: Connection, out: Path) -> None:
    """A worker's life: configurations one after the other, until there are none."""
    die_with_parent()  # from before torch is imported
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError, AttributeError):
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # the other core has a worker of its own
    settings: Any = None
    try:
        while (settings := connection.recv()) is not None:
            run_configuration(settings, out, connection.send)
    except EOFError:
        pass  # the parent is gone
    except (RunError, OSError) as error:
        with contextlib.suppress(OSError):  # the parent may be gone
            connection.send(Event("failed", settings, text=str(error)))


def die_with_parent() -> None:
    """A parent that is killed outright takes this worker along: two would write one folder."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
