"""`lieattn reproduce`: plan, run, resume, and report the experiments of the paper."""

from __future__ import annotations

import os
import shutil
import sysconfig
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from rich.console import Console

from ..._core.errors import RunError
from ..._core.folders import exclusive, read_json, read_note, write_json, writing
from ..._core.stopping import held, keep, unwinding
from ..._core.text import unknown
from ..workers import run_all
from . import results
from .protocols import MODELS, PROTOCOLS, Settings
from .storage import RESULT, TIMING, RunFolder, claim
from .training import Trainer

PAPER_GROUPS = ("SE2", "SO3", "Aff2")
GROUPS = (*PAPER_GROUPS, "SO2", "SE3", "Aff3")
RESULTS, LOCK = "results.json", ".lock"
SAVE_EVERY = 5.0  # seconds, or a tenth of the epochs; what is computed does not depend on it
CLOCK = 10.0  # seconds between notes of the time
QUICK_EPOCHS = 20
WORTH_COMPILING = 5000  # steps; compiling a configuration takes as long as it saves in 3,000


def plan_of(
    groups: Sequence[str] = (),
    models: Sequence[str] = (),
    protocols: Sequence[str] = (),
    *,
    seeds: int = 3,
    epochs: int | None = None,
    instances: int = 5000,
    quick: bool = False,
) -> list[Settings]:
    """The configurations asked for, the slowest first, so that all cores are busy to the end.

    Args:
        groups, models, protocols: names; "all" stands for all. The defaults are the paper's.
        epochs: the protocol's own, or fewer if `quick`, unless given.
    Raises:
        RunError: an unknown name, or too few instances.
    """
    if instances < 64:
        raise RunError(f"--instances must be at least 64, one batch, got {instances}.")
    names = [name.replace("(", "").replace(")", "") for name in groups]
    chosen_groups = _chosen("group", names, GROUPS) or PAPER_GROUPS
    chosen_models = _chosen("model", models, tuple(MODELS)) or tuple(MODELS)
    compiler = can_compile()
    plan = []
    for protocol in _chosen("protocol", protocols, tuple(PROTOCOLS)) or ("paper",):
        length = epochs or (QUICK_EPOCHS if quick else PROTOCOLS[protocol].epochs)
        steps = length * (instances // PROTOCOLS[protocol].batch)
        plan += [
            Settings(
                group=group,
                model=model,
                protocol=protocol,
                seeds=tuple(range(seeds)),
                epochs=length,
                train=instances,
                validation=instances // 10,
                test=instances // 10,
                compiled=compiler and steps >= WORTH_COMPILING,
            )
            for group in chosen_groups
            for model in chosen_models
        ]
    return sorted(plan, key=lambda settings: settings.cost * settings.epochs, reverse=True)


def _chosen(kind: str, names: Sequence[str], known: tuple[str, ...]) -> tuple[str, ...]:
    if "all" in (name.lower() for name in names):
        return known
    by_lower = {name.lower(): name for name in known}
    for name in names:
        if name.lower() not in by_lower:
            raise RunError(unknown(kind, name, known, ", and all"))
    return tuple(dict.fromkeys(by_lower[name.lower()] for name in names))


def can_compile() -> bool:
    """Whether there is what torch.compile needs on a CPU: a C++ compiler and Python's headers."""
    compilers = (os.environ.get("CXX", "g++"), "g++", "clang++")
    headers = Path(sysconfig.get_path("include")) / "Python.h"
    return any(shutil.which(name) for name in compilers) and headers.exists()


def cores() -> int:
    """Processors that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def run(plan: list[Settings], out: Path, console: Console, *, jobs: int, overwrite: bool) -> None:
    """Do what is not yet done, then write results and report, and print the tables.

    Raises:
        RunError: an error that the user can correct. What was computed is on disk.
    """
    from ..report import write_report  # now: what is not installed is not found out at the end
    from ..report.terminal import print_tables

    folders = [RunFolder(out, settings) for settings in plan]
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_for_it=False):
        with held():
            claim(out, plan, results.made_with(), overwrite)
        keep(kept(overwrite))
        missing = [folder for folder in folders if not folder.finished]
        _announce(plan, missing, console)
        with unwinding():
            _train(plan, missing, out, console, jobs)
        found = collect(out)
        write_json(out / RESULTS, found, indent=None)
        paths = write_report(found, sessions(out, found), out)
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


def _announce(plan: list[Settings], missing: list[RunFolder], console: Console) -> None:
    if not missing:
        return
    runs = sum(len(folder.settings.seeds) for folder in missing)
    text = f"{runs} run{'s' * (runs > 1)} in {len(missing)} configuration{'s' * (len(missing) > 1)}"
    if len(plan) > len(missing):
        text += f", {len(plan) - len(missing)} found finished"
    console.print(text + ".", highlight=False)
    if not can_compile():
        console.print(
            "There is no C++ compiler with Python's headers: training takes about twice as long."
        )


def _train(
    plan: list[Settings], missing: list[RunFolder], out: Path, console: Console, jobs: int
) -> None:
    """Train configurations, while the time that it takes and what is finished are kept on disk."""
    earlier = sessions(out, collect(out))
    started, written = time.monotonic(), -CLOCK
    asked = {
        kind: sorted({getattr(settings, kind) for settings in plan}, key=order.index)
        for kind, order in (("protocol", [*PROTOCOLS]), ("group", GROUPS), ("model", [*MODELS]))
    }
    session: dict[str, Any] = {f"{kind}s": names for kind, names in asked.items()}

    def note() -> None:
        nonlocal written
        seconds = time.monotonic() - started
        finished = [folder.settings.name for folder in missing if folder.finished]
        if seconds - written < CLOCK and finished == session["finished"]:
            return
        written = seconds
        session.update(finished=finished, processes=jobs, seconds=round(seconds, 1))
        write_json(out / TIMING, [*earlier, session])

    def warn(text: str) -> None:
        console.print(f"warning: {text}", style="yellow", markup=False, soft_wrap=True)

    for folder in missing:  # damaged checkpoints are set aside here, where a warning is seen
        folder.load(warn)
    note()
    if missing:
        run_all(
            run_one,
            missing,
            jobs,
            console,
            done=lambda: sum(x.settings.cost * x.epochs() for x in missing),
            total=sum(x.settings.cost * x.settings.epochs for x in missing),
            tick=note,
        )


def run_one(folder: RunFolder) -> None:
    """Train a configuration from where it is to its result."""
    settings = folder.settings
    with exclusive(folder.path / ".lock"):  # a worker of a killed command may not have ended yet
        if folder.finished:
            return
        saved = time.monotonic()
        trainer = Trainer(settings)
        state = folder.load(print)
        if state is not None:
            trainer.restore(state)
        folder.write_logs(trainer.state)
        while not trainer.finished:
            trainer.epoch()
            epoch = trainer.state.epoch
            folder.write_logs(trainer.state, start=epoch - 1)
            now, tenth = time.monotonic(), max(settings.epochs // 10, 1)
            if now - saved > SAVE_EVERY or epoch % tenth == 0 or trainer.finished:
                folder.save(trainer.state)
                saved = now
        for i, seed in enumerate(settings.seeds):
            best = folder.path / f"seed-{seed}-best"
            with writing(best):
                trainer.model(i, "best").save_pretrained(best)
        write_json(folder.path / RESULT, results.result_of(trainer), indent=None)


def collect(out: Path) -> dict[str, Any]:
    """The results of all finished configurations of a folder."""
    found = {}
    for protocol in PROTOCOLS:
        for path in sorted((out / protocol).glob(f"*/*/{RESULT}")):
            result = read_json(path)
            if not isinstance(result, dict) or not result.keys() >= results.FIELDS:
                raise RunError(
                    f"{path} is not a result of lieattn reproduce. Run that configuration anew "
                    "with --overwrite."
                )
            found[f"{protocol}/{path.parent.parent.name}/{path.parent.name}"] = result
    return results.gather(found)


def sessions(out: Path, found: dict[str, Any]) -> list[dict[str, Any]]:
    """How long the commands in a folder took; notes that are damaged are left out.

    Every result found is counted once: with the last command that noted it or, if a command was
    killed before it could note it, with the last one of all.
    """
    keys = {"protocols", "groups", "models", "processes", "seconds"}
    noted = read_note(out / TIMING)
    noted = [x for x in noted if isinstance(x, dict)] if isinstance(noted, list) else []
    noted = [session for session in noted if session.keys() >= keys]
    if not all("finished" in session for session in noted):  # of an earlier version
        return noted
    runs = {name: len(result["seeds"]) for name, result in found["configurations"].items()}
    left = dict(runs)
    for session in reversed(noted):
        session["finished"] = [name for name in session["finished"] if left.pop(name, None)]
    if noted:
        noted[-1]["finished"] += left
    for session in noted:
        session["runs"] = sum(runs[name] for name in session["finished"])
    return [session for session in noted if session["runs"] or session["seconds"]]
