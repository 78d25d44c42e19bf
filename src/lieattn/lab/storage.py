"""What a run leaves on disk: settings, checkpoints, logs, results. Written whole or not at all."""

from __future__ import annotations

import hashlib
import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor

from .protocols import Settings
from .training import State

FORMAT = 1
SETTINGS, RESULT, TIMING = "settings.json", "result.json", "timing.json"
CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"


class RunError(Exception):
    """What a user can mend: said without a traceback."""


def write_bytes(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Put a file in place whole: a reader, or a resumed run, never sees half of it.

    Args:
        keep: where the file that is replaced goes.
    """
    part = path.with_name(path.name + ".part")
    try:
        with open(part, "wb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(part, path)
    except OSError as error:
        part.unlink(missing_ok=True)
        raise RunError(
            f"cannot write {path}: {error.strerror or error}. Nothing that was there is lost: free "
            "some space or choose another folder with --out, then run the same command to go on."
        ) from None


def write_json(path: Path, value: Any) -> None:
    """JSON with sorted keys: equal values are equal files."""
    write_bytes(path, (json.dumps(value, indent=1, sort_keys=True) + "\n").encode())


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read ({error}). Delete it, or choose another folder with --out."
        ) from None


class RunFolder:
    """The folder of one configuration, `OUT/protocol/group/model`."""

    def __init__(self, out: Path, settings: Settings) -> None:
        self.settings = settings
        self.path = out / settings.name

    # ---- settings ----------------------------------------------------------------------------

    def claim(self, again: bool = False) -> None:
        """Make the folder, or make sure that what it holds is this configuration's.

        Args:
            again: throw away what it holds.
        """
        mine = {"format": FORMAT, **self.settings.to_dict()}
        path = self.path / SETTINGS
        if path.exists() and not again:
            self._require_same(read_json(path), mine)
            return
        try:
            self.path.mkdir(parents=True, exist_ok=True)
            if again:
                self._empty()
        except OSError as error:
            raise RunError(
                f"cannot make {self.path}: {error.strerror or error}. Choose a folder you may "
                "write to with --out."
            ) from None
        write_json(path, mine)

    def _require_same(self, theirs: Any, mine: dict[str, Any]) -> None:
        theirs = theirs if isinstance(theirs, dict) else {}
        differences = [
            f"{key} {theirs.get(key)!r} there, {value!r} asked for"
            for key, value in mine.items()
            if theirs.get(key) != value
        ]
        if differences:
            raise RunError(
                f"{self.path} holds a run with other settings: {'; '.join(differences)}. Choose "
                "another folder with --out, or replace that run with --again."
            )

    def _empty(self) -> None:
        own = (SETTINGS, RESULT, TIMING, CHECKPOINT, PREVIOUS)
        for path in [*(self.path / name for name in own), *self.path.glob("seed-*.jsonl")]:
            path.unlink(missing_ok=True)

    # ---- checkpoints -------------------------------------------------------------------------

    def save(self, state: State) -> None:
        """Write a checkpoint; the one before it is kept."""
        tensors = _tensors(state)
        rest = {
            "epoch": state.epoch,
            "best_error": state.best_error,
            "best_epoch": state.best_epoch,
            "history": state.history,
        }
        text = json.dumps(rest)
        metadata = {"state": text, "sha256": _digest(tensors, text)}
        content = save(tensors, metadata)
        write_bytes(self.path / CHECKPOINT, content, keep=self.path / PREVIOUS)

    def load(self, warn: Callable[[str], None]) -> State | None:
        """The newest checkpoint that is whole; None if there is none."""
        found = [p for p in (self.path / CHECKPOINT, self.path / PREVIOUS) if p.exists()]
        for path in found:
            state = _read_state(path)
            if isinstance(state, State):
                return state
            then = "going on from the one before it" if path is not found[-1] else "starting anew"
            warn(f"{path} is damaged ({state}): {then}.")
        return None

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
            try:
                with open(path, "a", encoding="utf-8") as file:
                    file.write(json.dumps(history[-1]) + "\n")
            except OSError as error:
                raise RunError(f"cannot write {path}: {error.strerror or error}.") from None

    @property
    def finished(self) -> bool:
        return (self.path / RESULT).exists()

    def result(self) -> dict[str, Any]:
        return read_json(self.path / RESULT)

    def add_time(self, seconds: float) -> None:
        """Seconds of work, summed over all the times that a run was taken up again."""
        path = self.path / TIMING
        write_json(path, {"seconds": round(self.time() + seconds, 3)})

    def time(self) -> float:
        path = self.path / TIMING
        return float(read_json(path)["seconds"]) if path.exists() else 0.0


def _tensors(state: State) -> dict[str, Tensor]:
    return {
        "parameters": state.parameters,
        "mean": state.mean,
        "square": state.square,
        "best": state.best,
    }


def _read_state(path: Path) -> State | str:
    """A state, or what is wrong with its file."""
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        if metadata.get("sha256") != _digest(tensors, metadata.get("state", "")):
            return "its checksum does not match"
        return State(**tensors, **json.loads(metadata["state"]))
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        return str(error)


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
