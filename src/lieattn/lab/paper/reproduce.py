"""`lieattn reproduce`: plan, run, resume, and report the experiments of the paper."""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console

from ..._core.errors import RunError
from ..._core.folders import exclusive, read_json, read_note, write_json, writing
from ..._core.stopping import held, keep, unwinding
from ..._core.text import unknown
from . import results
from .progress import follow
from .protocols import MODELS, PROTOCOLS, Settings, cost
from .storage import TIMING, RunFolder, claim
from .workers import Event, run_all

PAPER_GROUPS = ("SE2", "SO3", "Aff2")
OTHER_GROUPS = ("SO2", "SE3", "Aff3")
RESULTS, LOCK = "results.json", ".lock"
NEEDED = {
    "settings",
    "protocol",
    "made_with",
    "parameters",
    "rejected_steps",
    "blocks",
    "seeds",
    "examples",
}
CLOCK = 10.0  # seconds between notes of the time
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
            raise RunError(unknown(kind, name, known, ", and all"))
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


def run(asked: Request, out: Path, console: Console, *, jobs: int, overwrite: bool) -> None:
    """Do what is not yet done, then write results and report, and print the tables.

    Raises:
        RunError: something that the user can mend. What was computed is on disk.
    """
    from ..report import write_report  # now: what is not installed is not found out at the end
    from ..report.terminal import print_tables

    plan = asked.plan()
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_for_it=False):
        with held():
            claim(out, plan, results.made_with(), overwrite)
        keep(kept(overwrite))
        missing = [settings for settings in plan if not RunFolder(out, settings).finished]
        settle(asked, missing, out, jobs)
        if missing:
            _announce(plan, missing, console)
            with unwinding():
                follow(clocked(run_all(missing, out, jobs), asked, out, jobs), missing, console)
        found = collect(out)
        write_json(out / RESULTS, found, indent=None)
        paths = write_report(found, sessions(out), out)
    print_tables(found, console)
    if not missing:
        console.print("All of it was there already; --overwrite computes it anew.")
    for name, path in paths.items():
        line = f"{name + ':':<10} {path}"
        console.print(line, soft_wrap=True, highlight=False, markup=False)


def kept(overwrite: bool) -> str:
    """What is left of a command that is stopped, and how to go on."""
    then = "the same command, without --overwrite," if overwrite else "the same command"
    return f"What was computed is kept; {then} goes on from there."


def _announce(plan: list[Settings], missing: list[Settings], console: Console) -> None:
    runs = sum(len(settings.seeds) for settings in missing)
    text = f"{runs} run{'s' * (runs > 1)} in {len(missing)} configuration{'s' * (len(missing) > 1)}"
    if len(plan) > len(missing):
        text += f", {len(plan) - len(missing)} found finished"
    console.print(text + ".", highlight=False)
    if not can_compile():
        console.print(
            "There is no C++ compiler with Python's headers: training takes about twice as long."
        )


def collect(out: Path) -> dict[str, Any]:
    """The results of all finished configurations of a folder."""
    found = {}
    for protocol in PROTOCOLS:
        for path in sorted((out / protocol).glob("*/*/result.json")):
            result = read_json(path)
            if not isinstance(result, dict) or not result.keys() >= NEEDED:
                raise RunError(
                    f"{path} is not a result of lieattn reproduce. Run that configuration anew "
                    "with --overwrite."
                )
            found[f"{protocol}/{path.parent.parent.name}/{path.parent.name}"] = result
    return results.gather(found)


def clocked(events: Iterator[Event], asked: Request, out: Path, jobs: int) -> Iterator[Event]:
    """Events passed on, while the time that the command takes is kept on disk."""
    started = time.monotonic()
    before = sessions(out)
    session = _session(asked, jobs, [])
    written = started
    for event in events:
        now = time.monotonic()
        if finished := event.kind == "finished":
            session = _session(asked, jobs, [*session["finished"], event.settings.name])
        session["seconds"] = round(now - started, 1)
        if finished or now - written > CLOCK:
            write_json(out / TIMING, [*before, session])
            written = now
        yield event


_ASKED = ("protocols", "groups", "models", "processes")


def _session(asked: Request, jobs: int, finished: list[str]) -> dict[str, Any]:
    """The note of a command that finished some configurations."""
    return {
        "protocols": list(asked.protocols),
        "groups": list(asked.groups),
        "models": list(asked.models),
        "finished": finished,
        "runs": asked.seeds * len(finished),
        "processes": jobs,
        "seconds": 0.0,
    }


def settle(asked: Request, missing: list[Settings], out: Path, jobs: int) -> None:
    """Make the notes agree with the results, so that every run is counted once.

    A command that was killed may have left a result and no note of it; and what is computed anew
    was noted before.
    """
    before = sessions(out)
    if not all("finished" in session for session in before):  # of an earlier version
        return
    anew = {settings.name for settings in missing}
    noted = {name for session in before for name in session["finished"]}
    forgotten = [s.name for s in asked.plan() if s.name not in anew | noted]
    settled = []
    for session in before:
        left = [name for name in session["finished"] if name not in anew]
        each = session["runs"] // max(len(session["finished"]), 1)
        if left or not session["finished"]:
            settled.append({**session, "finished": left, "runs": each * len(left)})
    mine = _session(asked, jobs, forgotten)
    if forgotten:
        if not settled or any(settled[-1][key] != mine[key] for key in _ASKED):
            settled.append(_session(asked, jobs, []))
        settled[-1]["finished"] += forgotten
        settled[-1]["runs"] += mine["runs"]
    if settled != before:
        write_json(out / TIMING, settled)


def sessions(out: Path) -> list[dict[str, Any]]:
    """How long the commands in a folder took; what is damaged is left out."""
    noted = read_note(out / TIMING)
    if not isinstance(noted, list):
        return []
    keys = {"protocols", "groups", "models", "runs", "processes", "seconds"}
    return [session for session in noted if isinstance(session, dict) and session.keys() >= keys]
