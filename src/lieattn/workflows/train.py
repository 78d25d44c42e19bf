"""`lieattn train`: read, choose, train, and say what came out."""

from __future__ import annotations

import shlex
import time
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
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
from ..models.infill.model import InfillModel
from .display import Display
from .metrics import examine
from .preprocessing import Preprocessing, choose_preprocessing, make_model, model_config
from .process_group import ProcessGroup
from .settings import TrainSettings, models
from .sources import Parts, parts
from .store import RESULT, TrainFolder, load_trained
from .tables import print_errors
from .tensors import examination, stack
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
    """Train to the end, from where the folder is; print the table of test errors.

    Raises:
        RunError: something that the user can mend. Checkpoints are on disk.
    """
    found = parts(settings)
    preprocessing = choose_preprocessing(settings, found.train)
    folder = TrainFolder(out)
    with _lock(out, processes):
        if processes.writes:
            folder.require_claimable(settings, found.digest, processes.size, overwrite)
        trainer = make_trainer(settings, found, preprocessing, processes)
        board = _board_of(out) if tensorboard and processes.writes else nullcontext()
        if processes.writes:  # last: it may empty the folder
            folder.claim(settings, found.digest, processes.size, overwrite)
            _announce(settings, found, preprocessing, trainer.model, console)
        _restore(trainer, folder, console)
        if processes.writes:
            if trainer.finished:
                console.print(f"Finished before: {out}. --overwrite trains anew.", soft_wrap=True)
            _keep(trainer.progress.step, overwrite)
        with unwinding(), board as writer:
            _loop(trainer, folder, preprocessing, found, console, writer, overwrite)
        if processes.writes:
            result = examine_best(trainer.settings, found, preprocessing, folder)
            print_errors(result, console)
            _say_next(out, settings, console)


def make_trainer(
    settings: TrainSettings,
    found: Parts,
    preprocessing: Preprocessing,
    processes: ProcessGroup | None = None,
) -> Trainer:
    """A trainer at its start; the model is a function of the seed."""
    with torch.random.fork_rng(devices=[]):
        torch.manual_seed(generator("initialisation", settings.seed).initial_seed())
        config = model_config(settings, preprocessing)
        model = make_model(found.group, settings, config, len(preprocessing.kinds))
    train, valid = (
        stack(part, preprocessing.scale, preprocessing.kinds) for part in (found.train, found.valid)
    )
    return Trainer(settings, model, train, valid, processes)


def examine_best(
    settings: TrainSettings, found: Parts, preprocessing: Preprocessing, folder: TrainFolder
) -> dict[str, Any]:
    """Errors of the best model on the test part; kept in the folder."""
    trained = load_trained(folder.path)
    exam = hidden_of_test(settings, found, preprocessing)
    result = examine({settings.model: trained.model}, exam, preprocessing.scale)
    write_bytes(folder.path / RESULT, json_bytes(result))
    return result


def hidden_of_test(settings: TrainSettings, found: Parts, preprocessing: Preprocessing) -> Any:
    """The hidden tokens of the test part: the same for all models of one seed."""
    windows = stack(found.test, preprocessing.scale, preprocessing.kinds)
    return examination(windows, settings.hide, settings.gaps, settings.seed, "test")


def _loop(
    trainer: Trainer,
    folder: TrainFolder,
    preprocessing: Preprocessing,
    found: Parts,
    console: Console,
    board: Any,
    overwrite: bool,
) -> None:
    settings, writes = trainer.settings, trainer.processes.writes
    started, losses = time.monotonic(), []
    quiet = Console(quiet=True)
    done = trainer.progress.step
    with Display(console if writes else quiet, settings.steps, done) as display:
        while not trainer.finished:
            losses.append(trainer.step())
            display.step()
            step = trainer.progress.step
            if step % settings.every and not trainer.finished:
                continue
            line: dict[str, Any] = {
                "step": step,
                "rate": trainer.rate(step - 1),
                "train_loss": sum(losses) / len(losses),
                **trainer.validate(),
                "seconds": round(time.monotonic() - started, 2),
            }
            losses = []
            if writes and not all(x.isfinite().all() for x in trainer.model.parameters()):
                raise RunError(_diverged(folder, step))
            if writes:
                with held():
                    folder.append_log(line)
                    folder.save(trainer, preprocessing, found, best=line["best"])
                    _keep(step, overwrite)
                display.validated(step, line)
                if board is not None:
                    board.add_scalar("loss/train", line["train_loss"], step)
                    board.add_scalar("loss/valid", line["valid_loss"], step)


def _keep(step: int, overwrite: bool) -> None:
    """What is left for the same command if it is stopped now."""
    then = "the same command, without --overwrite," if overwrite else "the same command"
    if step:
        keep(f"The last checkpoint (step {step}) is kept; {then} goes on from there.")
    else:
        keep(f"There is no checkpoint yet: {then} starts anew.")


def _diverged(folder: TrainFolder, step: int) -> str:
    return (
        f"training diverged before step {step}: parameters are not finite. {folder.path} keeps the "
        "checkpoints before that. Try a smaller --rate, or --scale."
    )


def _restore(trainer: Trainer, folder: TrainFolder, console: Console) -> None:
    if not trainer.processes.writes:
        trainer.restore(None, None)
        return
    warn = Console(stderr=True, highlight=False, markup=False, soft_wrap=True)
    tensors, progress = folder.load(lambda text: warn.print(f"warning: {text}"), trainer.tensors())
    trainer.restore(tensors, progress)
    folder.rewind_log(trainer.progress.step)
    if 0 < trainer.progress.step < trainer.settings.steps:
        console.print(f"Going on from step {trainer.progress.step}.", highlight=False)


@contextmanager
def _lock(out: Path, processes: ProcessGroup) -> Iterator[None]:
    if processes.writes:
        with writing(out):
            out.mkdir(parents=True, exist_ok=True)
    with exclusive(out / LOCK, wait_for_it=False) if processes.writes else nullcontext():
        yield


def _board_of(out: Path) -> Any:
    """What writes curves for TensorBoard, once it is entered."""
    try:
        from torch.utils.tensorboard import SummaryWriter
    except ImportError:
        raise RunError(
            "--tensorboard needs tensorboard: pip install tensorboard. Without it log.jsonl holds "
            "the same numbers."
        ) from None

    @contextmanager
    def board() -> Iterator[Any]:
        with SummaryWriter(str(out / "tensorboard")) as writer:
            yield writer

    return board()


def _announce(
    settings: TrainSettings,
    found: Parts,
    preprocessing: Preprocessing,
    model: InfillModel,
    console: Console,
) -> None:
    """What is about to be done, and why so."""

    def line(name: str, text: str) -> None:
        console.print(f"[dim]{name:<9}[/dim] ", end="")
        console.print(text, highlight=False, markup=False, soft_wrap=True)

    for note in found.notes:
        line("note", note)
    names = ", ".join(Path(x).name for x in settings.files[:3])
    more = f" and {len(settings.files) - 3} more" if len(settings.files) > 3 else ""
    line("data", f"{names}{more}, windows of {settings.window}: {found.counts}")
    line("split", found.how)
    for reason in preprocessing.reasons:
        line("advice", reason)
    count = sum(p.numel() for p in model.parameters())
    title = models()[settings.model]
    line("model", f"{settings.model} on {found.group}, {title}, {count:,} numbers")
    kinds = [b.kind for b in found.group.blocks]
    if "translation" in kinds:
        typical = model.unit[kinds.index("translation")].item() * preprocessing.scale
        line("start", f"interpolation, whose loss is 1: off by {about(typical)} in position")


def _say_next(out: Path, settings: TrainSettings, console: Console) -> None:
    folder, example = shlex.quote(str(out)), shlex.quote(settings.files[0])
    for text in (
        f"\nmodel      {out}",
        f"next       lieattn predict {folder} {example} --hide 10%",
    ):
        console.print(text, highlight=False, markup=False, soft_wrap=True)
