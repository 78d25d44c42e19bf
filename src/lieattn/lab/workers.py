"""Tasks run side by side: one process per task, one thread per process, progress on the console."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import threading
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ProcessPoolExecutor, wait
from concurrent.futures.process import BrokenProcessPool
from typing import TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from .._core.errors import RunError
from .._core.stopping import SIGNALS, held
from ..workflows.display import clock

LINES = 20  # of progress, where there is no terminal
Task = TypeVar("Task")


def run_all(
    function: Callable[[Task], None],
    tasks: Sequence[Task],
    jobs: int,
    console: Console,
    *,
    done: Callable[[], float],
    total: float,
    tick: Callable[[], None] = lambda: None,
) -> None:
    """Call a function on every task, each in one of `jobs` processes, and show the progress.

    The processes end with this one, even if it is killed. They never receive Ctrl-C or SIGTERM
    themselves: a terminal, `timeout` and systemd send these to all processes of a command.

    Args:
        done: the work that is done, from 0 to `total`, as the tasks leave it on disk.
        tick: called about once a second.
    Raises:
        RunError: a worker failed or was killed. The others are stopped.
    """
    context = multiprocessing.get_context("spawn")
    with ProcessPoolExecutor(min(jobs, len(tasks)), context, _prepare) as pool:
        try:
            with _signals_blocked():  # the workers, which start here, inherit this
                futures = [pool.submit(function, task) for task in tasks]
            _follow(futures, console, done, total, tick)
        except BrokenProcessPool:
            raise RunError(
                "a worker was killed, often for want of memory: try --jobs 1. Run the command "
                "again, without --overwrite, to go on from where it was."
            ) from None
        except OSError as error:
            raise RunError(str(error)) from None
        finally:
            for process in list((pool._processes or {}).values()):
                process.kill()


def _prepare() -> None:
    """Prepare a worker: one thread, and an end with its parent, or two would write one folder."""
    parent = multiprocessing.parent_process()

    def watch() -> None:
        if parent is not None:
            parent.join()
            os._exit(1)

    threading.Thread(target=watch, daemon=True).start()
    import torch

    torch.set_num_threads(1)
    with contextlib.suppress(ImportError, AttributeError):
        import torch._inductor.config as inductor

        inductor.compile_threads = 1  # the other core has a worker of its own


@contextlib.contextmanager
def _signals_blocked() -> Iterator[None]:
    """Signals wait until the end, and processes that start meanwhile never receive them."""
    with held():  # another thread of this process may receive one
        if not hasattr(signal, "pthread_sigmask"):  # not a POSIX system
            yield
            return
        before = signal.pthread_sigmask(signal.SIG_BLOCK, set(SIGNALS))
        try:
            yield
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, before)


def _follow(
    futures: Sequence[Future[None]],
    console: Console,
    done: Callable[[], float],
    total: float,
    tick: Callable[[], None],
) -> None:
    """Show the progress until all futures are done or one has failed, which is raised."""
    columns = (
        TextColumn("{task.description}"),
        BarColumn(bar_width=24),
        TextColumn("{task.percentage:>3.0f}%"),
        TimeElapsedColumn(),
        TextColumn("left"),
        TimeRemainingColumn(),
    )
    started, first = time.monotonic(), done()  # by an earlier command
    shown = int(LINES * first / total)
    with Progress(*columns, console=console, disable=not console.is_terminal) as bar:
        shown_bar = bar.add_task("", total=total, completed=int(first))
        waiting = set(futures)
        while waiting:
            finished, waiting = wait(waiting, timeout=1.0)
            work = done()
            note = f"{len(futures) - len(waiting)} of {len(futures)} done"
            bar.update(shown_bar, completed=work, description=note)
            if not console.is_terminal and LINES * work / total >= shown + 1:
                shown = int(LINES * work / total)
                seconds = time.monotonic() - started
                left = clock(seconds / max(work - first, 1e-9) * (total - work))
                console.print(f"{note}, {clock(seconds)}, {left} left", highlight=False)
            tick()
            for future in finished:
                future.result()
