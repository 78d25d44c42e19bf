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
from collections.abc import Mapping
from dataclasses import asdict
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from .._core import files
from .._core.errors import RunError
from .._core.files import json_bytes
from .._core.folders import newest_whole, read_note, write_bytes, writing
from .._core.text import printable
from .preprocessing import Preprocessing
from .settings import TrainSettings, renamed
from .sources import Parts
from .trained import BEST, FORMAT, KIND, LAST, PREVIOUS, progress_of, require_kind
from .trained import Trained as Trained
from .trained import load_trained as load_trained
from .trainer import Progress, Trainer

SETTINGS, LOG, RESULT = "settings.json", "log.jsonl", "result.json"
_WRITTEN = (RESULT, LAST, PREVIOUS, BEST, LOG)  # beside the settings


class TrainFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    # ---- settings ----------------------------------------------------------------------------

    def require_claimable(
        self, settings: TrainSettings, digest: str, processes: int, overwrite: bool
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
        if not overwrite:
            _require_same(self.path, theirs, _claim_of(settings, digest, processes))

    def claim(self, settings: TrainSettings, digest: str, processes: int, overwrite: bool) -> None:
        """Take the folder for a run, if it is not its own already.

        Raises:
            RunError: as `require_claimable`.
        """
        self.require_claimable(settings, digest, processes, overwrite)
        with writing(self.path):
            self.path.mkdir(parents=True, exist_ok=True)
        if (self.path / SETTINGS).exists() and not overwrite:
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
        return found if type(found) is int and found > 0 else None

    # ---- checkpoints -------------------------------------------------------------------------

    def save(
        self, trainer: Trainer, preprocessing: Preprocessing, found: Parts, *, best: bool
    ) -> None:
        """The last checkpoint, and the best if this is it."""
        about = {
            "kind": KIND,
            "format": FORMAT,
            "lieattn": __version__,
            "group": trainer.model.group.name,
            "config": trainer.model.transformer.config.to_dict(),
            "settings": trainer.settings.to_dict(),
            "preprocessing": {
                k: list(v) if isinstance(v, tuple) else v for k, v in asdict(preprocessing).items()
            },
            "data": found.digest,
            "learned": list(found.learned),
            "longest": trainer.longest,
            "progress": _plain(trainer.progress),
        }
        tensors = trainer.tensors()
        if best:
            own = {name: x for name, x in tensors.items() if name.startswith("model.")}
            write_bytes(self.path / BEST, files.pack(own, about))
        content = files.pack(tensors, about)
        write_bytes(self.path / LAST, content, keep=self.path / PREVIOUS)

    def load(
        self, warn: Any, own: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], Progress] | tuple[None, None]:
        """The newest checkpoint that is whole. Damaged ones are set aside.

        Args:
            own: tensors of the trainer that goes on from it.
        Raises:
            RunError: it is whole, and of another model.
        """
        expected = {name: files.Kind(x.dtype, tuple(x.shape)) for name, x in own.items()}
        read = partial(_read_state, expected=expected)
        return newest_whole((self.path / LAST, self.path / PREVIOUS), read, warn) or (None, None)

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
        line = files.parse_json(text, finite=False)
    except ValueError:
        return None
    return line if isinstance(line, dict) and type(line.get("step")) is int else None


def _read_state(
    path: Path, expected: Mapping[str, files.Kind]
) -> tuple[dict[str, Tensor], Progress]:
    """Tensors and progress of a checkpoint.

    Raises:
        files.Damaged: it is not whole.
        RunError: it is of another model.
    """
    held = files.read_header(path)
    try:
        require_kind(held)
        progress = progress_of(held.about.get("progress"))
    except ValueError as error:
        raise files.Damaged(str(error)) from None
    if held.kinds != expected:
        raise RunError(
            f"{path.parent}: the checkpoint is of another model. Choose another --out, or "
            "--overwrite."
        )
    return held.tensors(expected), progress


def _plain(progress: Progress) -> dict[str, Any]:
    """As JSON holds it: a loss that is infinite, there being none, is null."""
    found = asdict(progress)
    return {**found, "best_loss": None if progress.best_loss == inf else progress.best_loss}


def _require_ours(path: Path, theirs: Any) -> None:
    if not isinstance(theirs, dict) or not isinstance(theirs.get("settings"), dict):
        raise RunError(
            f"{path / SETTINGS} is damaged, or not of lieattn train. Choose another --out, or move "
            "it away."
        )


def _require_same(path: Path, theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    differences = []
    defaults = TrainSettings().to_dict()  # of what an earlier version did not know
    was = renamed(theirs["settings"])
    for key, value in mine["settings"].items():
        held = was.get(key, defaults[key])
        if key != "files" and held != value:  # files may be called by another name
            before = printable(str(held or "not given"))
            differences.append(f"{key} was {before}, now {value or 'not given'}")
    if theirs.get("data") != mine["data"]:
        differences.append("the poses are others")
    if theirs.get("processes") != mine["processes"]:
        were = printable(str(theirs.get("processes")))
        differences.append(f"processes were {were}, now {mine['processes']}")
    if differences:
        raise RunError(
            f"{path} holds another run: {'; '.join(differences)}. Choose another folder with "
            "--out, or replace it with --overwrite."
        )
