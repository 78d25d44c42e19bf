"""`lieattn reproduce`: plan, run, resume, and report the experiments of the paper."""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from . import results
from .progress import follow
from .protocols import MODELS, PROTOCOLS, Settings, cost
from .storage import RunError, RunFolder, read_json, write_json
from .workers import exclusive, run_all

PAPER_GROUPS = ("SE2", "SO3", "Aff2")
OTHER_GROUPS = ("SO2", "SE3", "Aff3")
RESULTS, TIMING, LOCK = "results.json", "timing.json", ".lock"
QUICK_EPOCHS = 20
WORTH_COMPILING = 5000  # steps; compiling a configuration takes as long as it saves in 3,000


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    groups: tuple[str, ...] = PAPER_GROUPS
    models: tuple[str, ...] = tuple(MODELS)
    protocols: tuple[str, ...] = ("paper",)
    seeds: int = 3
    epochs: int | None = None  # None: the protocol's own, or fewer if quick
    instances: int = 5000
    quick: bool = False

    def plan(self) -> list[Settings]:
        """The configurations, the slowest first, so that no core is left with it at the end."""
        compiler = can_compile()
        plan = []
        for protocol in self.protocols:
            epochs = self.epochs or (QUICK_EPOCHS if self.quick else PROTOCOLS[protocol].epochs)
            steps = epochs * (self.instances // PROTOCOLS[protocol].batch)
            plan += [
                Settings(
                    group=group,
                    model=model,
                    protocol=protocol,
                    seeds=tuple(range(self.seeds)),
                    epochs=epochs,
                    train=self.instances,
                    validation=max(self.instances // 10, 1),
                    test=max(self.instances // 10, 1),
                    compiled=compiler and steps >= WORTH_COMPILING,
                )
                for group in self.groups
                for model in self.models
            ]
        return sorted(plan, key=cost, reverse=True)


def request(
    groups: Sequence[str],
    models: Sequence[str],
    protocols: Sequence[str],
    *,
    seeds: int,
    epochs: int | None,
    instances: int,
    quick: bool,
) -> Request:
    """A request with names checked; "all" stands for all groups, models or protocols."""
    every = (*PAPER_GROUPS, *OTHER_GROUPS)
    if instances < 64:
        raise RunError(f"--instances must be at least 64, one batch, got {instances}.")
    return Request(
        groups=_chosen("group", [_group(name) for name in groups], every) or PAPER_GROUPS,
        models=_chosen("model", models, tuple(MODELS)) or tuple(MODELS),
        protocols=_chosen("protocol", protocols, tuple(PROTOCOLS)) or ("paper",),
        seeds=seeds,
        epochs=epochs,
        instances=instances,
        quick=quick,
    )


def _chosen(kind: str, names: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    if "all" in (name.lower() for name in names):
        return known
    by_lower = {name.lower(): name for name in known}
    for name in names:
        if name.lower() not in by_lower:
            raise RunError(f"unknown {kind} {name!r}; known are {', '.join(known)}, and all.")
    return tuple(dict.fromkeys(by_lower[name.lower()] for name in names))


def _group(name: str) -> str:
    return name.replace("(", "").replace(")", "")


def can_compile() -> bool:
    """Is there what torch.compile needs on a CPU: a C++ compiler and Python's headers."""
    compilers = (os.environ.get("CXX", "g++"), "g++", "clang++")
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return any(shutil.which(name) for name in compilers) and headers.exists()


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(asked: Request, out: Path, console: Console, *, jobs: int, again: bool) -> None:
    """Do what is not yet done, then write results and report, and print the tables.

    Raises:
        RunError: something that the user can mend. What was computed is on disk.
    """
    from .report import write_report
    from .report.terminal import print_tables

    plan = asked.plan()
    _make(out)
    try:
        with exclusive(out / LOCK, wait_for_it=False):
            folders = [RunFolder(out, settings) for settings in plan]
            for folder in folders:
                folder.claim(again)
            missing = [folder.settings for folder in folders if not folder.finished]
            started = time.monotonic()
            if missing:
                follow(run_all(missing, out, jobs), missing, len(plan), console)
                _note_time(out, asked, missing, time.monotonic() - started, jobs)
            found = collect(out)
            write_json(out / RESULTS, found)
            paths = write_report(found, _sessions(out), out)
    except BlockingIOError:
        raise RunError(
            f"another lieattn is at work in {out}. Wait for it, or choose another folder with "
            "--out."
        ) from None
    print_tables(found, console)
    if not missing:
        console.print("All of it was there already; --again computes it anew.")
    for name, path in paths.items():
        console.print(f"{name + ':':<10} {path}", soft_wrap=True, highlight=False)


def collect(out: Path) -> dict[str, Any]:
    """The results of all finished configurations of a folder."""
    found = {}
    for protocol in PROTOCOLS:
        for path in sorted((out / protocol).glob("*/*/result.json")):
            found[f"{protocol}/{path.parent.parent.name}/{path.parent.name}"] = read_json(path)
    return results.gather(found)


def _make(out: Path) -> None:
    try:
        out.mkdir(parents=True, exist_ok=True)
        (out / LOCK).touch()
    except OSError as error:
        raise RunError(
            f"cannot write to {out}: {error.strerror or error}. Choose a folder you may write to "
            "with --out."
        ) from None


def _note_time(
    out: Path, asked: Request, computed: list[Settings], seconds: float, jobs: int
) -> None:
    """Remember how long a command took that came to its end."""
    path = out / TIMING
    session = {
        "protocols": list(asked.protocols),
        "groups": list(asked.groups),
        "models": list(asked.models),
        "runs": sum(len(settings.seeds) for settings in computed),
        "seconds": round(seconds, 1),
        "processes": jobs,
    }
    write_json(path, [*_sessions(out), session])


def _sessions(out: Path) -> list[dict[str, Any]]:
    return read_json(out / TIMING) if (out / TIMING).exists() else []
