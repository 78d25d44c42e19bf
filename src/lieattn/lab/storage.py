"""What a run leaves on disk: settings, checkpoints, logs, results. Written whole or not at all."""

from __future__ import annotations

import contextlib
import json
import os
import shutil
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from torch import Tensor

from .checksummed import Damaged, pack, unpack
from .protocols import PROTOCOLS, Settings
from .training import State

FORMAT = 1
SETTINGS, RESULT, TIMING = "settings.json", "result.json", "timing.json"
CHECKPOINT, PREVIOUS = "checkpoint.safetensors", "checkpoint.previous.safetensors"
DAMAGED = ".damaged"
LAST_BITS = ("compiled", "lieattn", "torch")  # may differ between runs that are finished


class RunError(Exception):
    """What a user can mend: said without a traceback."""


@contextlib.contextmanager
def writing(path: Path) -> Iterator[None]:
    """Tell a user why a file could not be written."""
    try:
        yield
    except OSError as error:
        raise RunError(
            f"cannot write {path}: {error.strerror or error}. Nothing that was there is lost: free "
            "some space or choose another folder with --out, then run the command again, without "
            "--again, to go on."
        ) from None


def require_folder(path: Path) -> None:
    """The folder that a file is to be written into is there: said before the work is done."""
    if not path.absolute().parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.absolute().parent}.")
    if path.is_dir():
        raise RunError(f"cannot write {path}: it is a folder. Name a file in it.")


def require_other(path: Path, files: Iterable[str | Path]) -> None:
    """A file that is read is not written over."""
    for name in files:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise RunError(f"{path} is what is read: it would be lost. Choose another name.")


def write_bytes(path: Path, content: bytes, keep: Path | None = None) -> None:
    """Put a file in place whole: a reader, or a resumed run, never sees half of it.

    Args:
        keep: where the file that is replaced goes.
    """
    part = path.with_name(path.name + ".part")
    with writing(path):
        try:
            with open(part, "wb") as file:
                file.write(content)
                file.flush()
                os.fsync(file.fileno())
            if keep is not None and path.exists():
                os.replace(path, keep)
            os.replace(part, path)
        except OSError:
            with contextlib.suppress(OSError):
                part.unlink(missing_ok=True)
            raise


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """JSON with sorted keys: equal values are equal files. Without indent it is one line."""
    write_bytes(path, json_bytes(value, indent))


def json_bytes(value: Any, indent: int | None = 1) -> bytes:
    text = json.dumps(value, indent=indent, sort_keys=True, allow_nan=False)
    return (text + "\n").encode()


def read_json(path: Path) -> Any:
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read ({error}). Choose another folder with --out, or run what it "
            "holds anew with --again."
        ) from None


def read_note(path: Path) -> Any:
    """JSON that nothing depends on: None if it is missing or damaged."""
    try:
        return json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None


def signature(settings: Settings, made_with: dict[str, str]) -> dict[str, Any]:
    """What configurations of one protocol in one folder have in common."""
    common = settings.to_dict()
    for key in ("group", "model", "protocol"):
        del common[key]
    protocol = PROTOCOLS[settings.protocol].numbers()
    return {"format": FORMAT, **common, "protocol": protocol, **made_with}


def claim(out: Path, plan: list[Settings], made_with: dict[str, str], again: bool) -> None:
    """Make sure that a folder holds nothing but what was run with the same settings.

    All of it is checked before anything is written. Runs of one protocol are compared with each
    other in one table, so they agree in everything but group and model.

    Args:
        again: throw away what is planned and there already.
    """
    folders = [RunFolder(out, settings) for settings in plan]
    replaced = {folder.path for folder in folders} if again else set()
    claims: dict[Path, dict[str, Any]] = {}
    for protocol in dict.fromkeys(settings.protocol for settings in plan):
        own = [folder for folder in folders if folder.settings.protocol == protocol]
        path, mine = out / protocol / SETTINGS, signature(own[0].settings, made_with)
        computing = again or any(not folder.finished for folder in own)
        if any(held not in replaced for held in _held(out / protocol)):
            _require_same(path, mine, ignored=() if computing else LAST_BITS)
        if computing:
            claims[path] = mine
    for folder in folders:
        folder.make(empty=again)
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
        f"{key} {theirs.get(key)!r} there, {value!r} asked for"
        for key, value in mine.items()
        if theirs.get(key) != value and key not in ignored
    ]
    if differences:
        raise RunError(
            f"{path.parent} holds runs with other settings: {'; '.join(differences)}. Choose "
            "another folder with --out, or replace all of them with --again."
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
        tensors = _tensors(state)
        rest = {
            "epoch": state.epoch,
            "best_error": state.best_error,
            "best_epoch": state.best_epoch,
            "history": state.history,
        }
        write_bytes(self.path / CHECKPOINT, pack(tensors, rest), keep=self.path / PREVIOUS)

    def load(self, warn: Callable[[str], None]) -> State | None:
        """The newest checkpoint that is whole, if there is one. Damaged ones are set aside."""
        found = [p for p in (self.path / CHECKPOINT, self.path / PREVIOUS) if p.exists()]
        for path in found:
            state = _read_state(path)
            if isinstance(state, State):
                return state
            then = "going on from the one before it" if path is not found[-1] else "starting anew"
            warn(f"{path} is damaged ({state}): {then}.")
            with writing(path):
                os.replace(path, path.with_name(path.name + DAMAGED))
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
            with writing(path), open(path, "a", encoding="utf-8") as file:
                file.write(json.dumps(history[-1]) + "\n")

    @property
    def finished(self) -> bool:
        return (self.path / RESULT).exists()


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
        tensors, rest = unpack(path)
        fields: dict[str, Any] = {**tensors, **rest}
        return State(**fields)
    except (Damaged, TypeError) as error:
        return str(error)
