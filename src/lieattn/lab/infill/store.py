"""What a run of `lieattn train` leaves in its folder, and how it is read again.

    settings.json      what was asked for, and a digest of the data
    log.jsonl          a line for every validation
    last.safetensors   model, optimiser and step: from here the same command goes on
    best.safetensors   the model of the least validation loss: what predict and evaluate take
    result.json        errors on the test part

Checkpoints are one file each, written beside their place, synced and moved there.
"""

from __future__ import annotations

import json
import os
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from ... import __version__
from ...config import LieTransformerConfig
from ...groups import Group, get_group
from ...infill import InfillModel
from ..checksummed import Damaged, pack, unpack
from ..storage import RunError, json_bytes, read_note, write_bytes, writing
from .advice import Choice
from .settings import TrainSettings, from_dict
from .sources import Parts
from .trainer import Progress, Trainer, make_model

FORMAT = 3
SETTINGS, LOG, RESULT = "settings.json", "log.jsonl", "result.json"
LAST, PREVIOUS, BEST = "last.safetensors", "last.previous.safetensors", "best.safetensors"
_WRITTEN = (RESULT, LAST, PREVIOUS, BEST, LOG)  # beside the settings
KIND = "lieattn infill"


@dataclass(frozen=True)
class Trained:
    """A model of a checkpoint, and all that is needed to use it."""

    model: InfillModel
    settings: TrainSettings
    choice: Choice
    digest: str  # of the data that it was trained on
    learned: frozenset[str]  # digests of the sets that were trained or validated on
    longest: int  # poses in a row that it learned to find
    step: int
    path: Path

    @property
    def group(self) -> Group:
        return self.model.group


class TrainFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # ---- settings ----------------------------------------------------------------------------

    def require_claimable(
        self, settings: TrainSettings, digest: str, processes: int, again: bool
    ) -> None:
        """Make sure that what is there, if anything, is the same run, or may be replaced.

        Raises:
            RunError: it holds another run, with what differs, or something else.
        """
        if not (self.path / SETTINGS).exists():
            self._require_free()
            return
        theirs = read_note(self.path / SETTINGS)
        _require_ours(self.path, theirs)
        if not again:
            _require_same(self.path, theirs, _claim_of(settings, digest, processes))

    def claim(self, settings: TrainSettings, digest: str, processes: int, again: bool) -> None:
        """Take the folder for a run, if it is not its own already.

        Raises:
            RunError: as `require_claimable`.
        """
        self.require_claimable(settings, digest, processes, again)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / SETTINGS).exists() and not again:
            return
        mine = _claim_of(settings, digest, processes)
        with writing(self.path):
            # The result first: what an interruption leaves does not pass for finished. The settings
            # stay until they are replaced: without them files are somebody else's.
            for name in _WRITTEN:
                (self.path / name).unlink(missing_ok=True)
        write_bytes(self.path / SETTINGS, json_bytes(mine))

    def _require_free(self) -> None:
        """Files of these names in a folder without settings are not ours to replace."""
        for name in _WRITTEN:
            if (self.path / name).exists():
                raise RunError(
                    f"{self.path} holds a {name}, but no {SETTINGS} of lieattn train: it would be "
                    "lost. Choose another folder with --out, or move the file."
                )

    def threads(self) -> int | None:
        """Those of the run that is here, if there is one: sums in their order, bit for bit."""
        note = read_note(self.path / SETTINGS)
        found = note.get("threads") if isinstance(note, dict) else None
        return found if isinstance(found, int) and found > 0 else None

    # ---- checkpoints -------------------------------------------------------------------------

    def save(self, trainer: Trainer, choice: Choice, found: Parts, *, best: bool) -> None:
        """The last checkpoint, and the best if this is it."""
        about = {
            "kind": KIND,
            "format": FORMAT,
            "lieattn": __version__,
            "group": trainer.model.group.name,
            "config": trainer.model.config.to_dict(),
            "settings": trainer.settings.to_dict(),
            "choice": {
                k: list(v) if isinstance(v, tuple) else v for k, v in asdict(choice).items()
            },
            "data": found.digest,
            "learned": list(found.learned),
            "longest": trainer.longest,
            "progress": asdict(trainer.progress),
        }
        tensors = trainer.tensors()
        if best:
            own = {name: x for name, x in tensors.items() if name.startswith("model.")}
            write_bytes(self.path / BEST, pack(own, about))
        write_bytes(self.path / LAST, pack(tensors, about), keep=self.path / PREVIOUS)

    def load(self, warn: Any) -> tuple[dict[str, Tensor], Progress] | tuple[None, None]:
        """The newest checkpoint that is whole. Damaged ones are set aside."""
        found = [p for p in (self.path / LAST, self.path / PREVIOUS) if p.exists()]
        for path in found:
            state = _read_state(path)
            if not isinstance(state, str):
                return state
            then = "starting anew" if path is found[-1] else "going on from the one before it"
            warn(f"{path} is damaged ({state}): {then}.")
            with writing(path):
                os.replace(path, path.with_name(path.name + ".damaged"))
        return None, None

    # ---- log ---------------------------------------------------------------------------------

    def rewind_log(self, step: int) -> None:
        """Leave the lines of the log up to a step."""
        path = self.path / LOG
        if path.exists():
            kept = [line for line in self.log() if line["step"] <= step]
            write_bytes(path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def append_log(self, line: dict[str, Any]) -> None:
        path = self.path / LOG
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log; one that was cut short is left out."""
        texts = (self.path / LOG).read_text(encoding="utf-8", errors="replace").splitlines()
        return [line for line in map(_line, texts) if line is not None]

    def result(self) -> Any:
        """The result of a finished run, or None."""
        return read_note(self.path / RESULT)


def _claim_of(settings: TrainSettings, digest: str, processes: int) -> dict[str, Any]:
    """What `settings.json` holds."""
    return {
        "format": FORMAT,
        "settings": settings.to_dict(),
        "data": digest,
        "processes": processes,
        "threads": torch.get_num_threads(),
    }


def _line(text: str) -> dict[str, Any] | None:
    try:
        line = json.loads(text)
    except ValueError:
        return None
    return line if isinstance(line, dict) and isinstance(line.get("step"), int) else None


def _read_state(path: Path) -> tuple[dict[str, Tensor], Progress] | str:
    """Tensors and progress of a checkpoint, or what is wrong with its file."""
    try:
        tensors, about = unpack(path)
        return tensors, Progress(**about["progress"])
    except (Damaged, KeyError, TypeError) as error:
        return str(error)


def _require_ours(path: Path, theirs: Any) -> None:
    if not isinstance(theirs, dict) or not isinstance(theirs.get("settings"), dict):
        raise RunError(
            f"{path / SETTINGS} is damaged, or not of lieattn train. Choose another --out, or move "
            "it away."
        )


def _require_same(path: Path, theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    differences = []
    defaults = TrainSettings().to_dict()  # of what an earlier version did not know
    for key, value in mine["settings"].items():
        held = theirs["settings"].get(key, defaults[key])
        if key != "files" and held != value:  # files may be called by another name
            differences.append(f"{key} was {held or 'not given'}, now {value or 'not given'}")
    if theirs.get("data") != mine["data"]:
        differences.append("the poses are others")
    if theirs.get("processes") != mine["processes"]:
        differences.append(f"processes were {theirs.get('processes')}, now {mine['processes']}")
    if differences:
        raise RunError(
            f"{path} holds another run: {'; '.join(differences)}. Choose another folder with "
            "--out, or replace it with --again."
        )


def load_trained(path: str | Path) -> Trained:
    """The model of a folder, its best one, or of a checkpoint file.

    Raises:
        RunError: nothing there, a file cut short, or of something else.
    """
    file = path = Path(path)
    if path.is_dir():
        file = next((path / n for n in (BEST, LAST) if (path / n).exists()), path / BEST)
    if not file.is_file():
        raise RunError(
            f"there is no checkpoint at {str(path)!r}. Give the folder that lieattn train wrote, "
            f"or a {BEST} of it."
        )
    try:
        tensors, about = unpack(file)
    except Damaged as error:
        others = [
            n for n in (BEST, LAST, PREVIOUS) if (file.parent / n).exists() and n != file.name
        ]
        hint = f" There is also {file.parent / others[0]}." if others else ""
        raise RunError(
            f"{file} is no whole checkpoint of lieattn train ({error}). Copy it again, or train "
            f"again.{hint}"
        ) from None
    return _build(file, tensors, about)


def _build(file: Path, tensors: dict[str, Tensor], about: dict[str, Any]) -> Trained:
    if about.get("kind") != KIND or about.get("format") != FORMAT:
        raise RunError(
            f"{file} is not a checkpoint that this lieattn ({__version__}) reads: kind "
            f"{about.get('kind')!r}, format {about.get('format')!r}."
        )
    try:
        settings = from_dict(about["settings"], str(file))
        config = LieTransformerConfig.from_dict(about["config"])
        choice = _choice(about["choice"])
        model = make_model(get_group(about["group"]), settings, config, len(choice.kinds))
        own = {n.removeprefix("model."): x for n, x in tensors.items() if n.startswith("model.")}
        model.load_state_dict(own)
        model.transformer.check_inputs = False  # poses are checked when they are read, in float64
        step = int(about["progress"]["step"])
        learned, longest = frozenset(about["learned"]), int(about["longest"])
        return Trained(model.eval(), settings, choice, about["data"], learned, longest, step, file)
    except (KeyError, TypeError, ValueError, RuntimeError) as error:
        raise RunError(f"{file} does not fit together: {error}. Train again.") from None


def _choice(held: dict[str, Any]) -> Choice:
    lists = {name: tuple(held[name]) for name in ("kinds", "reasons")}
    return Choice(**{**held, **lists})
