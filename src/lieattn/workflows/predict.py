"""`lieattn predict`: fill the gaps of files, as text, JSON, files of poses, or a picture."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from pathlib import Path

import torch
from rich.console import Console
from rich.text import Text
from torch import Tensor

from .. import data
from .._core.errors import RunError
from .._core.folders import require_folder, require_other, writing
from .._core.random import generator
from .._core.stopping import written
from .._core.text import LINE, printable, quoted
from ..groups import SE3
from .answers import print_filled, to_dict
from .filling import Filled, Unfillable, fill_set
from .inspection.findings import built_in, is_builtin
from .store import Trained, load_trained


@dataclass(frozen=True)
class PredictRequest:
    """The options of the command."""

    checkpoint: Path
    files: list[str]
    hide: str = ""  # "10%", or places such as "3,7-9"
    level: float = 0.9
    format: str = ""
    group: str = ""
    seed: int = 0


def predict(
    asked: PredictRequest,
    console: Console,
    *,
    as_json: bool = False,
    plot: Path | None = None,
    save: Path | None = None,
) -> list[str]:
    """Fill the gaps and show them. Returns a sentence for each file or set that was not filled.

    Raises:
        RunError: an error that concerns all of it.
    """
    trained = _checked_model(asked, plot, save)
    done = _Done(notes=[trained.note] if trained.note else [])
    for name in asked.files:
        _fill_file(asked, trained, name, done)
    if not done.filled and not done.problems:
        raise RunError(
            f"nothing is missing in {', '.join(asked.files)}: every row has a pose. Write nan "
            "where there is none, or hide some with --hide 10% or --hide 3,7-9."
        )
    if as_json:
        found = to_dict(trained, done.filled, asked.level)
        found |= {"problems": done.problems, "notes": done.notes}
        console.print(Text(json.dumps(found, indent=1)), soft_wrap=True)
    elif done.filled:
        print_filled(trained, done.filled, asked.level, console)
        for note in done.notes:
            console.print(Text(printable(note, LINE)), style="dim", soft_wrap=True)
    if plot is not None and done.filled:
        from .picture import draw

        draw(trained, done.filled, plot)
    if save is not None and done.filled:
        with written(save):
            _save(save, done)
    if done.filled and not as_json:
        for path in filter(None, (plot, save)):
            console.print(Text(str(path)), soft_wrap=True)
    return [printable(problem, LINE) for problem in done.problems]


def _checked_model(asked: PredictRequest, plot: Path | None, save: Path | None) -> Trained:
    """The model, after a check that files can be written: before the work is done."""
    if plot is not None:
        from .drawing import require_drawable

        require_drawable(plot)
    if save is not None and save.suffix not in (".npz", ".tum", ".csv"):
        raise RunError(f"--save writes .npz, .tum or .csv, got {save.name!r}.")
    for path in filter(None, (plot, save)):
        require_folder(path)
        require_other(path, asked.files)
    trained = load_trained(asked.checkpoint)
    one = trained.group is SE3 and len(asked.files) == 1
    if save is not None and save.suffix != ".npz" and not one:
        raise RunError(f"--save x{save.suffix} takes one trajectory of SE(3); .npz takes any sets.")
    return trained


@dataclass
class _Done:
    """What has been done of the files.

    Attributes:
        filled: sets in which poses were missing.
        after: all sets, those without gaps too.
        problems: a sentence for each file or set that was not filled.
        notes: of the readers.
        nanoseconds: whether names of poses are nanoseconds.
    """

    filled: list[Filled] = field(default_factory=list)
    after: list[data.PoseSet] = field(default_factory=list)
    problems: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    nanoseconds: bool = False


def _save(path: Path, done: _Done) -> None:
    try:
        with writing(path, "--save"):
            data.save(path, done.after, nanoseconds=done.nanoseconds)
    except ValueError as error:
        raise RunError(f"cannot write {path}: {error}") from None


def _fill_file(asked: PredictRequest, trained: Trained, name: str, done: _Done) -> None:
    """Fill the sets of a file."""
    try:
        sets = _read(asked, trained, name, done)
    except data.DataError as error:
        done.problems.append(str(error))
        return
    if sets[0].group is not trained.group:
        done.problems.append(
            f"{trained.path} is a model of {trained.group}, and {name} holds poses of "
            f"{sets[0].group}. Train one on such poses, or give files of {trained.group}; --group "
            f"{trained.group.name} takes poses that are nearly of {trained.group} as such."
        )
        return
    for k, x in enumerate(sets):
        try:
            hidden = to_hide(asked, x, k)
            if hidden.any():
                done.filled.append(fill_set(trained, x, hidden, asked.level))
                x = done.filled[-1].after
        except Unfillable as error:
            done.problems.append(f"{name}: {error}")
        done.after.append(x)


def _read(asked: PredictRequest, trained: Trained, name: str, done: _Done) -> list[data.PoseSet]:
    """The sets of a file; those without any pose are problems."""
    if is_builtin(name):
        return built_in(name, asked.format, asked.group).test  # the rest was trained on
    group = asked.group or trained.settings.group
    try:
        found = data.read(name, asked.format or None, group=group or None, bad="mask")
    except data.DataError:
        raise
    except ValueError as error:
        raise RunError(str(error)) from None
    done.nanoseconds = found.nanoseconds
    done.notes += [f"{name}: {note}" for note in found.notes]  # not gaps: they are to be filled
    done.problems += [
        f"{name}: set {quoted(x, 60)} has no pose to fill gaps from." for x in found.left_out
    ]
    return list(found)


def to_hide(asked: PredictRequest, x: data.PoseSet, number: int) -> Tensor:
    """Places without a pose, and those that were asked to be hidden, `[N]`."""
    missing = ~x.mask
    text = asked.hide.strip()
    if not text:
        return missing
    if text.endswith("%"):
        try:
            share = float(text[:-1]) / 100
        except ValueError:
            share = 0.0
        if not 0 < share < 1:
            raise RunError(f"--hide takes a share such as 10%, got {text!r}.")
        if int(x.mask.sum()) < 3:
            raise Unfillable(f"{quoted(x.name, 60)} has fewer than 3 poses: too few to hide any.")
        own = generator("predict", asked.seed, number)
        return missing | data.hide(x.mask, share, generator=own)[1]
    places = parse_places(text)
    beyond = [i for i in places if i >= len(x)]
    if beyond:
        raise Unfillable(
            f"{quoted(x.name, 60)} has {len(x)} poses, 0 to {len(x) - 1}: there is no "
            f"{beyond[0]} to hide."
        )
    return missing | torch.isin(torch.arange(len(x)), torch.tensor(places))


def parse_places(text: str) -> list[int]:
    """Numbers and ranges.

    >>> parse_places("3, 7-9")
    [3, 7, 8, 9]
    """
    places: list[int] = []
    for part in map(str.strip, text.split(",")):
        found = re.fullmatch(r"(\d+)(?:-(\d+))?", part)
        if found is None:
            raise RunError(
                f"--hide takes a share such as 10%, or places such as 3,7-9, counted from 0; got "
                f"{part!r}."
            )
        first, last = int(found[1]), int(found[2] or found[1])
        if not first <= last <= first + 1_000_000:
            raise RunError(f"--hide: {part!r} is no range of places.")
        places += range(first, last + 1)
    return places
