"""`lieattn evaluate`: errors of trained models and of simple rivals on the same hidden poses."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.text import Text

from .._core.errors import RunError
from .._core.files import json_bytes
from .._core.folders import require_folder, write_bytes
from .._core.stopping import written
from .._core.text import printable
from .metrics import examine
from .sources import Parts, parts, read_sets, windows
from .store import Trained, load_trained
from .tables import print_errors
from .tensors import digest, examination, stack
from .train import hidden_of_test

# Settings that decide which poses are hidden.
EXAM = ("format", "group", "bad", "window", "stride", "gap", "hide", "gaps", "kinds", "seed")


def evaluate(
    checkpoints: list[Path],
    files: list[str],
    console: Console,
    *,
    as_json: bool = False,
    out: Path | None = None,
) -> None:
    """Errors on the test part of what a model was trained on, or on all of other files.

    Raises:
        RunError: something that the user can mend.
    """
    if out is not None:
        require_folder(out)
    models = [load_trained(path) for path in checkpoints]
    _require_comparable(models)
    first = models[0]
    if files:
        exam, note, notes = _others(first, files)
    else:
        own = _own_parts(first)
        exam, note, notes = (
            hidden_of_test(first.settings, own, first.preprocessing),
            "test part",
            own.notes,
        )
    notes = (*(x.note for x in models if x.note), *notes)
    named = {_name(x, models): x.model for x in models}
    result = {**examine(named, exam, first.preprocessing.scale), "data": note, "notes": list(notes)}
    if as_json:
        console.print(Text(json.dumps(result, indent=1)), soft_wrap=True)
    else:
        for line in notes:
            console.print(Text(line), style="dim", soft_wrap=True)
        print_errors(result, console)
    if out is not None:
        with written(out):
            write_bytes(out, json_bytes(result), option="--out")
        if not as_json:
            console.print(Text(str(out)), soft_wrap=True)


def _own_parts(trained: Trained) -> Parts:
    try:
        found = parts(trained.settings)
    except RunError as error:
        raise RunError(
            f"{printable(str(error), 300)} It was trained on, from the folder that the command was "
            "run in; --on FILE evaluates on another."
        ) from None
    if found.digest != trained.digest:
        names = printable(", ".join(trained.settings.files))
        raise RunError(
            f"{names} is not what {trained.path} was trained on any more, so its test part may "
            "hold poses of training. --on FILE evaluates on another."
        )
    return found


def _others(trained: Trained, files: list[str]) -> tuple[Any, str, tuple[str, ...]]:
    """Every window of other files, what they are, and notes; not of those that were trained on."""
    settings = trained.settings
    sets, notes = read_sets(files, settings.format, settings.group, "mask")
    if sets[0].group is not trained.group:
        raise RunError(
            f"{trained.path} is a model of {trained.group}, the files hold poses of "
            f"{sets[0].group}."
        )
    if any(digest([x], settings) in trained.learned for x in sets):
        raise RunError(
            "poses of these files were trained on; without --on the test part is evaluated."
        )
    cut = windows(sets, settings.window, settings.window)
    if not cut:
        raise RunError("the files have no window of three poses or more.")
    stacked = stack(cut, trained.preprocessing.scale, trained.preprocessing.kinds)
    exam = examination(stacked, settings.hide, settings.gaps, settings.seed, "test")
    return exam, ", ".join(files), notes


def _require_comparable(models: list[Trained]) -> None:
    """Models are compared on the same hidden poses in the same unit."""
    first = models[0]
    paths = [x.path.resolve() for x in models]
    for x, path in zip(models, paths, strict=True):
        if paths.count(path) > 1:
            raise RunError(f"{x.path} is given twice.")
    for other in models[1:]:
        if _exam(other) != _exam(first):
            raise RunError(
                f"{first.path} and {other.path} were trained on other data, windows, seeds, "
                "scales or kinds: evaluate them one by one."
            )


def _exam(x: Trained) -> tuple[Any, ...]:
    """What decides which poses are hidden, and how they are seen."""
    settings = (getattr(x.settings, name) for name in EXAM)
    return (*settings, x.digest, x.preprocessing.scale, x.preprocessing.kinds)


def _name(x: Trained, models: list[Trained]) -> str:
    """The model's letter, with its folder or its path where letters are not enough."""
    alike = [y for y in models if y.settings.model == x.settings.model]
    if len(alike) == 1:
        return x.settings.model
    folder = x.path.parent.name
    several = sum(y.path.parent.name == folder for y in alike) > 1
    return f"{x.settings.model} {x.path if several else folder}"
