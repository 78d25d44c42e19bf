"""`lieattn train`: read, choose the preprocessing, train, and print the errors on the test part."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import torch
from rich.console import Console

from .._core.errors import RunError
from .._core.files import json_bytes
from .._core.folders import exclusive, write_bytes, writing
from .._core.random import generator
from .._core.stopping import held, keep, unwinding
from ..data.describe import about
from .display import Display
from .metrics import examine
from .preprocessing import Preprocessing, choose_preprocessing, make_model, model_config
from .process_group import ProcessGroup
from .settings import TrainSettings, models
from .sources import Parts, parts
from .store import RESULT, TrainFolder, load_trained
from .tables import print_errors
from .tensors import Exam, examination, stack
from .trainer import Trainer

LOCK = ".lock"


def train(
    settings: TrainSettings,
    out: Path,
    console: Console,
    processes: ProcessGroup,
    *,
    overwrite: bool = False,
    tensorboard: bool = False,
) -> None:
    """Train to the end, from the last checkpoint of the folder if there is one.

    Args:
        console: quiet in all processes but one.
    Raises:
        RunError: an error that the user can correct. Checkpoints are on disk.
    """
    found = parts(settings)
    preprocessing = choose_preprocessing(settings, found.train)
    folder, claim = TrainFolder(out), (settings, found.digest, processes.size, overwrite)
    if not processes.writes:
        trainer = make_trainer(settings, found, preprocessing, processes)
        trainer.restore(None, None)
        with unwinding():
            list(_lines(trainer, Display(console, settings.steps, trainer.progress.step)))
        return
    with writing(out):
        out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_for_it=False):
        folder.require_claimable(*claim)
        trainer = make_trainer(settings, found, preprocessing, processes)
        writer = _summary_writer() if tensorboard else None
        folder.claim(*claim)  # last: it may empty the folder
        _announce(trainer, found, preprocessing, console)
        _restore(trainer, folder, console)
        if trainer.finished:
            console.print(f"Finished before: {out}. --overwrite trains anew.", soft_wrap=True)
        _keep(trainer.progress.step, overwrite)
        board: Any = writer(str(out / "tensorboard")) if writer else nullcontext()
        display = Display(console, settings.steps, trainer.progress.step)
        with unwinding(), board as curves, display:
            for line in _lines(trainer, display):
                _require_finite(trainer, out)
                with held():
                    folder.append_log(line)
                    folder.save(trainer, preprocessing, found, best=line["best"])
                    _keep(line["step"], overwrite)
                display.validated(line)
                for part in ("train", "valid") if curves else ():
                    curves.add_scalar(f"loss/{part}", line[f"{part}_loss"], line["step"])
        _test(settings, found, preprocessing, out, console)


def make_trainer(
    settings: TrainSettings,
    found: Parts,
    preprocessing: Preprocessing,
    processes: ProcessGroup | None = None,
) -> Trainer:
    """A trainer at its start. The model depends on the settings and the data alone."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator("initialisation", settings.seed).initial_seed())
        config = model_config(settings, preprocessing)
        model = make_model(found.group, settings, config, len(preprocessing.kinds))
    train, valid = (
        stack(part, preprocessing.scale, preprocessing.kinds) for part in (found.train, found.valid)
    )
    return Trainer(settings, model, train, valid, processes)


def hidden_of_test(settings: TrainSettings, found: Parts, preprocessing: Preprocessing) -> Exam:
    """The hidden tokens of the test part: the same for all models of one seed."""
    windows = stack(found.test, preprocessing.scale, preprocessing.kinds)
    return examination(windows, settings.hide, settings.gaps, settings.seed, "test")


def _test(
    settings: TrainSettings, found: Parts, preprocessing: Preprocessing, out: Path, console: Console
) -> None:
    """Errors of the best model on the test part: into the folder, and as a table."""
    exam = hidden_of_test(settings, found, preprocessing)
    best = {settings.model: load_trained(out).model}
    result = examine(best, exam, preprocessing.scale)
    write_bytes(out / RESULT, json_bytes(result))
    print_errors(result, console)
    names = f"{shlex.quote(str(out))} {shlex.quote(settings.files[0])}"
    _print(console, f"\nmodel      {out}\nnext       lieattn predict {names} --hide 10%")


def _lines(trainer: Trainer, display: Display) -> Iterator[dict[str, Any]]:
    """Train to the end; the line of the log for each validation."""
    started, losses = time.monotonic(), []
    while not trainer.finished:
        losses.append(trainer.step())
        display.step()
        step = trainer.progress.step
        if step % trainer.settings.every and not trainer.finished:
            continue
        yield {
            "step": step,
            "rate": trainer.rate(step - 1),
            "train_loss": sum(losses) / len(losses),
            **trainer.validate(),
            "seconds": round(time.monotonic() - started, 2),
        }
        losses = []


def _keep(step: int, overwrite: bool) -> None:
    """Set what is said of the run if it is stopped now."""
    then = "the same command, without --overwrite," if overwrite else "the same command"
    if step:
        keep(f"The last checkpoint (step {step}) is kept; {then} goes on from there.")
    else:
        keep(f"There is no checkpoint yet: {then} starts anew.")


def _require_finite(trainer: Trainer, out: Path) -> None:
    if not all(x.isfinite().all() for x in trainer.model.parameters()):
        raise RunError(
            f"training diverged before step {trainer.progress.step}: parameters are not finite. "
            f"{out} keeps the checkpoints before that. Try a smaller --rate, or --scale."
        )


def _restore(trainer: Trainer, folder: TrainFolder, console: Console) -> None:
    warn = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    tensors, progress = folder.load(lambda text: warn.print(f"warning: {text}"), trainer.tensors())
    trainer.restore(tensors, progress)
    folder.rewind_log(trainer.progress.step)
    if 0 < trainer.progress.step < trainer.settings.steps:
        console.print(f"Going on from step {trainer.progress.step}.", highlight=False)


def _summary_writer() -> Any:
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RunError(
            "--tensorboard needs tensorboard: pip install tensorboard. Without it log.jsonl holds "
            "the same numbers."
        ) from None
    return SummaryWriter


def _announce(
    trainer: Trainer, found: Parts, preprocessing: Preprocessing, console: Console
) -> None:
    """Print what is about to be trained, on what, and why."""
    settings, model = trainer.settings, trainer.model
    names = ", ".join(Path(x).name for x in settings.files[:3])
    names += f" and {len(settings.files) - 3} more" if len(settings.files) > 3 else ""
    count = sum(p.numel() for p in model.parameters())
    title = models()[settings.model]
    lines = [
        *(("note", note) for note in found.notes),
        ("data", f"{names}, windows of {settings.window}: {found.counts}"),
        ("split", found.how),
        *(("advice", reason) for reason in preprocessing.reasons),
        ("model", f"{settings.model} on {found.group}, {title}, {count:,} parameters"),
    ]
    kinds = [b.kind for b in found.group.blocks]
    if "translation" in kinds:
        typical = about(model.unit[kinds.index("translation")].item() * preprocessing.scale)
        lines.append(("start", f"interpolation, whose loss is 1: off by {typical} in position"))
    for name, text in lines:
        console.print(f"[dim]{name:<9}[/dim] ", end="")
        _print(console, text)


def _print(console: Console, text: str) -> None:
    console.print(text, highlight=False, markup=False, soft_wrap=True)
