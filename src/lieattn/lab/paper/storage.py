"""What a run leaves on disk: settings, checkpoints, logs, results. Written whole or not at all."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from math import inf, isfinite, nan
from pathlib import Path
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
LAST_BITS = ("compiled", "lieattn", "torch")  # may differ between runs that are finished


def signature(settings: Settings, made_with: dict[str, str]) -> dict[str, Any]:
    """What configurations of one protocol in one folder have in common."""
    common = settings.to_dict()
    for key in ("group", "model", "protocol"):
        del common[key]
    protocol = PROTOCOLS[settings.protocol].numbers()
    return {"format": FORMAT, **common, "protocol": protocol, **made_with}


def claim(out: Path, plan: list[Settings], made_with: dict[str, str], overwrite: bool) -> None:
    """Make sure that a folder holds nothing but what was run with the same settings.

    All of it is checked before anything is written. Runs of one protocol are compared with each
    other in one table, so they agree in everything but group and model.

    Args:
        overwrite: throw away what is planned and there already.
    """
    folders = [RunFolder(out, settings) for settings in plan]
    replaced = {folder.path for folder in folders} if overwrite else set()
    claims: dict[Path, dict[str, Any]] = {}
    for protocol in dict.fromkeys(settings.protocol for settings in plan):
        own = [folder for folder in folders if folder.settings.protocol == protocol]
        path, mine = out / protocol / SETTINGS, signature(own[0].settings, made_with)
        computing = overwrite or any(not folder.finished for folder in own)
        if any(held not in replaced for held in _held(out / protocol)):
            _require_same(path, mine, ignored=() if computing else LAST_BITS)
        if computing:
            claims[path] = mine
    for folder in folders:
        folder.make(empty=overwrite)
    for path, mine in claims.items():
        write_json(path, mine)


def _held(home: Path) -> list[Path]:
    """Folders of configurations in which something was computed."""
    files = (path for name in (RESULT, CHECKPOINT, PREVIOUS) for path in home.glob(f"*/*/{name}"))
    return sorted({path.parent for path in files})


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

    # ---- checkpoints -------------------------------------------------------------------------

    def save(self, state: State) -> None:
        """Write a checkpoint; the one before it is kept."""
        tensors = {name: getattr(state, name) for name in _TENSORS}
        about = {
            "format": CHECKPOINT_FORMAT,
            "epoch": state.epoch,
            "best_error": [x if isfinite(x) else None for x in state.best_error],
            "best_epoch": state.best_epoch,
            "history": [[_plain(line) for line in history] for history in state.history],
        }
        content = files.pack(tensors, about)
        write_bytes(self.path / CHECKPOINT, content, keep=self.path / PREVIOUS)

    def load(self, warn: Callable[[str], None]) -> State | None:
        """The newest checkpoint that is whole, if there is one. Damaged ones are set aside."""
        paths = (self.path / CHECKPOINT, self.path / PREVIOUS)
        return newest_whole(paths, self._read_state, warn)

    def _read_state(self, path: Path) -> State:
        """The state of a checkpoint; of an earlier one too, which has no format.

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
        fields: dict[str, Any] = {**about, **held.tensors(dict.fromkeys(_TENSORS, kind))}
        fields["best_error"] = [inf if x is None else x for x in about["best_error"]]
        fields["history"] = [[_with_nan(line) for line in lines] for lines in about["history"]]
        return State(**fields)

    def _is_state(self, about: dict[str, Any]) -> bool:
        """Whether JSON has what belongs to a `State` of these settings beside the tensors."""
        if about.keys() != {"epoch", "best_error", "best_epoch", "history"}:
            return False
        epoch, lists = about["epoch"], [x for name, x in about.items() if name != "epoch"]
        if type(epoch) is not int or not 0 <= epoch <= self.settings.epochs:
            return False
        if not all(isinstance(x, list) and len(x) == len(self.settings.seeds) for x in lists):
            return False
        histories = about["history"]
        return (
            all(x is None or type(x) in (int, float) for x in about["best_error"])
            and all(type(x) is int for x in about["best_epoch"])
            and all(isinstance(lines, list) and len(lines) == epoch for lines in histories)
            and all(_is_line(line) for lines in histories for line in lines)
        )

    # ---- logs and results --------------------------------------------------------------------

    def write_logs(self, state: State) -> None:
        """The logs of all seeds as far as a state has come, one JSON object a line and epoch."""
        for seed, history in zip(self.settings.seeds, state.history, strict=True):
            lines = "".join(json.dumps(line) + "\n" for line in history)
            write_bytes(self.path / f"seed-{seed}.jsonl", lines.encode())

    def append_logs(self, state: State) -> None:
        """The last epoch of a state."""
        for seed, history in zip(self.settings.seeds, state.history, strict=True):
            path = self.path / f"seed-{seed}.jsonl"
            with writing(path), open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(history[-1]) + "\n")

    @property
    def finished(self) -> bool:
        return (self.path / RESULT).exists()


_TENSORS = ("parameters", "mean", "square", "best")


def _is_line(line: Any) -> bool:
    """Whether it is an epoch of a history."""
    if not isinstance(line, dict) or line.keys() != set(HISTORY):
        return False
    return all(x is None or type(x) in (int, float) for x in line.values())


def _plain(line: dict[str, Any]) -> dict[str, Any]:
    """Numbers as JSON has them, None for those that are none."""
    return {key: x if isfinite(x) else None for key, x in line.items()}


def _with_nan(line: dict[str, Any]) -> dict[str, Any]:
    return {key: nan if x is None else x for key, x in line.items()}
