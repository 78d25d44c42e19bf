"""What a run leaves on disk: settings, checkpoints, logs, results. Files are written whole."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from math import inf, isfinite, nan
from pathlib import Path
from types import NoneType
from typing import Any

import torch

from ..._core import files
from ..._core.errors import RunError
from ..._core.folders import newest_whole, read_json, write_bytes, write_json, writing
from ..._core.text import printable
from ...groups import get_group
from ...nn.pretrained import skeleton
from .protocols import PROTOCOLS, Settings
from .stacked import ParameterStack
from .training import HISTORY, State

FORMAT = 1  # of settings
CHECKPOINT_FORMAT = 2
SETTINGS, RESULT, TIMING = "settings.json", "result.json", "timing.json"
CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
LONGEST_HISTORY = 100_000_000  # bytes of a header: what safetensors reads
TENSORS = ("parameters", "mean", "square", "best")
LAST_BITS = ("compiled", "lieattn", "torch")  # may differ between runs that are finished


def signature(settings: Settings, made_with: dict[str, str]) -> dict[str, Any]:
    """What configurations of one protocol in one folder have in common."""
    common = settings.to_dict()
    for key in ("group", "model", "protocol"):
        del common[key]
    protocol = PROTOCOLS[settings.protocol].numbers()
    return {"format": FORMAT, **common, "protocol": protocol, **made_with}


def claim(out: Path, plan: list[Settings], made_with: dict[str, str], overwrite: bool) -> None:
    """Check that all results in a folder have the same settings, then write these settings.

    Everything is checked before anything is written. Runs of one protocol are compared with each
    other in one table, so they agree in everything but group and model.

    Args:
        overwrite: delete what is planned and there already.
    Raises:
        RunError: the folder holds runs with other settings.
    """
    folders = [RunFolder(out, settings) for settings in plan]
    replaced = {folder.path for folder in folders} if overwrite else set()
    claims: dict[Path, dict[str, Any]] = {}
    for protocol in dict.fromkeys(settings.protocol for settings in plan):
        own = [folder for folder in folders if folder.settings.protocol == protocol]
        path, mine = out / protocol / SETTINGS, signature(own[0].settings, made_with)
        computing = overwrite or any(not folder.finished for folder in own)
        names = (RESULT, CHECKPOINT, PREVIOUS)
        held = {file.parent for name in names for file in path.parent.glob(f"*/*/{name}")}
        if held - replaced:
            _require_same(path, mine, ignored=() if computing else LAST_BITS)
        if computing:
            claims[path] = mine
    for folder in folders:
        folder.make(empty=overwrite)
    for path, mine in claims.items():
        write_json(path, mine)


def _require_same(path: Path, mine: dict[str, Any], ignored: tuple[str, ...]) -> None:
    theirs = read_json(path)
    theirs = theirs if isinstance(theirs, dict) else {}
    differences = [
        f"{key} {printable(repr(theirs.get(key)))} there, {value!r} asked for"
        for key, value in mine.items()
        if theirs.get(key) != value and key not in ignored
    ]
    if differences:
        raise RunError(
            f"{path.parent} holds runs with other settings: {'; '.join(differences)}. Choose "
            "another folder with --out, or replace all of them with --overwrite."
        )


class RunFolder:
    """The folder of one configuration, `OUT/protocol/group/model`."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.settings = settings
        self.path = out / settings.name

    def make(self, empty: bool = False) -> None:
        """Make the folder; empty it if asked to."""
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
            if not empty:
                return
            # The result first: whatever is left by an interruption does not pass for finished.
            for name in (RESULT, CHECKPOINT, PREVIOUS, TIMING):
                (self.path / name).unlink(missing_ok=True)
            for path in self.path.glob("seed-*"):
                shutil.rmtree(path) if path.is_dir() else path.unlink()

    @property
    def finished(self) -> bool:
        return (self.path / RESULT).exists()

    # ---- checkpoints -------------------------------------------------------------------------

    def save(self, state: State) -> None:
        """Write a checkpoint; the one before it is kept."""
        about = {
            "format": CHECKPOINT_FORMAT,
            "epoch": state.epoch,
            "best_error": nested(_or_none, state.best_error),
            "best_epoch": state.best_epoch,
            "history": nested(_or_none, state.history),
        }
        content = files.pack({name: getattr(state, name) for name in TENSORS}, about)
        write_bytes(self.path / CHECKPOINT, content, keep=self.path / PREVIOUS)

    def load(self, warn: Callable[[str], None]) -> State | None:
        """The newest whole checkpoint, or None. Damaged ones are renamed, with a warning."""
        paths = (self.path / CHECKPOINT, self.path / PREVIOUS)
        return newest_whole(paths, self._read_state, warn)

    def _read_state(self, path: Path) -> State:
        """The state in a checkpoint; those of the earlier version have no format.

        Raises:
            files.Damaged: cut short, changed, or of another run.
        """
        held = files.read_header(path, LONGEST_HISTORY)
        about, seeds = held.about, len(self.settings.seeds)
        expected = CHECKPOINT_FORMAT if held.format == files.FORMAT else None
        if about.pop("format", None) != expected or not self._is_state(about):
            raise files.Damaged("it holds no state of this run")
        template = skeleton(get_group(self.settings.group), self.settings.build)
        kind = files.Kind(torch.float32, (seeds, sum(ParameterStack(template).sizes)))
        fields: dict[str, Any] = {**about, **held.tensors(dict.fromkeys(TENSORS, kind))}
        # JSON has no infinity, which is the best error before the first epoch, and no NaN.
        fields["best_error"] = [inf if x is None else x for x in about["best_error"]]
        fields["history"] = nested(lambda x: nan if x is None else x, about["history"])
        return State(**fields)

    def _is_state(self, about: dict[str, Any]) -> bool:
        """Whether JSON has the fields of a `State` of these settings, but for the tensors."""
        epoch, seeds = about.get("epoch"), len(self.settings.seeds)
        if type(epoch) is not int or not 0 <= epoch <= self.settings.epochs:
            return False
        integer, number = (int,), (int, float, NoneType)
        fields = {
            "epoch": integer,
            "best_error": [number] * seeds,
            "best_epoch": [integer] * seeds,
            "history": [[dict.fromkeys(HISTORY, number)] * epoch] * seeds,
        }
        return _fits(about, fields)

    # ---- logs --------------------------------------------------------------------------------

    def write_logs(self, state: State, start: int = 0) -> None:
        """Write the logs of all seeds, one JSON object per epoch.

        Args:
            start: the epochs that the logs hold already; those after it are appended.
        """
        for seed, history in zip(self.settings.seeds, state.history, strict=True):
            path = self.path / f"seed-{seed}.jsonl"
            with writing(path), open(path, "a" if start else "w", encoding="utf-8") as file:
                file.writelines(json.dumps(line) + "\n" for line in history[start:])

    def epochs(self) -> int:
        """How many epochs the logs hold."""
        path = self.path / f"seed-{self.settings.seeds[0]}.jsonl"
        return path.read_bytes().count(b"\n") if path.is_file() else 0


def _or_none(x: float) -> float | None:
    return x if isfinite(x) else None


def nested(function: Callable[[Any], Any], value: Any) -> Any:
    """A function applied to every number of nested lists and dictionaries."""
    if isinstance(value, dict):
        return {key: nested(function, x) for key, x in value.items()}
    if isinstance(value, list):
        return [nested(function, x) for x in value]
    return function(value)


def _fits(value: Any, form: Any) -> bool:
    """Whether JSON has a form: a dictionary or list of forms, or a tuple of types."""
    if isinstance(form, dict):
        same = isinstance(value, dict) and value.keys() == form.keys()
        return same and all(_fits(value[key], x) for key, x in form.items())
    if isinstance(form, list):
        same = isinstance(value, list) and len(value) == len(form)
        return same and all(map(_fits, value, form))
    return type(value) in form
