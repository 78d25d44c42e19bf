"""Folders and checkpoints of `lieattn train`. Nothing in them is trusted before it is checked.

    settings.json      the settings, and a digest of the data
    log.jsonl          a line for every validation
    last.safetensors   model, optimiser and step, from which the same command resumes
    best.safetensors   the model of the least validation loss, for predict and evaluate
    result.json        errors on the test part

A checkpoint is one file, written beside its place, synced and moved there.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

from .. import __version__
from .._core import files
from .._core.errors import RunError
from .._core.folders import newest_whole, read_note, write_bytes, writing
from .._core.options import option, read
from .._core.text import printable
from ..groups import Group, get_group
from ..models.infill.model import InfillModel
from ..nn.config import LieTransformerConfig
from ..nn.pretrained import require_finite, require_plausible, skeleton
from .preprocessing import Preprocessing, make_model
from .settings import LONGEST_WINDOW, TrainSettings, from_dict, renamed
from .sources import Parts
from .trainer import MOMENTS, Progress, Trainer

SETTINGS, LOG, RESULT = "settings.json", "log.jsonl", "result.json"
LAST, PREVIOUS, BEST = "last.safetensors", "last.previous.safetensors", "best.safetensors"
_WRITTEN = (RESULT, LAST, PREVIOUS, BEST, LOG)  # beside the settings
KIND, FORMAT = "lieattn infill", 5
# The format of the file by that of the checkpoint. Format 3 has a checksum over the data alone;
# formats before 5 have other names of fields.
FORMATS = {3: files.EARLIER, 4: files.FORMAT, FORMAT: files.FORMAT}
_EARLIER = (
    "{} was written by an earlier lieattn: no checksum covers the names and sizes in it. Train "
    "again to have one."
)


@dataclass(frozen=True)
class Header:
    """The JSON of a checkpoint."""

    kind: str
    format: int
    lieattn: str
    group: str
    config: dict[str, Any]
    settings: dict[str, Any]
    preprocessing: dict[str, Any]
    data: str
    learned: tuple[str, ...]
    progress: dict[str, Any]
    longest: int = option(least=0, most=LONGEST_WINDOW)

    @classmethod
    def of(cls, held: files.Checked) -> Header:
        """The header of a file.

        Raises:
            files.Damaged: another kind or format, or one that disagrees with the file's.
            ValueError: a field is missing or wrong.
        """
        kind, format = held.about.get("kind"), held.about.get("format")
        if kind != KIND or type(format) is not int or FORMATS.get(format) != held.format:
            found = printable(f"kind {kind!r}, format {format!r}")
            raise files.Damaged(f"{found}; this lieattn, {__version__}, reads formats 3 to 5")
        earlier = {"preprocessing": held.about.get("choice")} if format < FORMAT else {}
        header: Header = read(cls, held.about | earlier)
        return header

    def reached(self) -> Progress:
        loss = self.progress.get("best_loss")
        progress = {**self.progress, "best_loss": inf if loss is None else loss}
        found: Progress = read(Progress, progress)
        return found


# ---- trained models ------------------------------------------------------------------------------


@dataclass(frozen=True)
class Trained:
    """The model of a checkpoint, and what is needed to use it."""

    model: InfillModel
    settings: TrainSettings
    preprocessing: Preprocessing
    digest: str  # of the data that it was trained on
    learned: frozenset[str]  # digests of the sets of the training and validation parts
    longest: int  # poses of the longest gap that it was trained on
    step: int
    path: Path
    note: str = ""  # about the file, for the user

    @property
    def group(self) -> Group:
        return self.model.group


def load_trained(path: str | Path) -> Trained:
    """The model of a checkpoint, or the best model of a folder.

    Raises:
        RunError: no checkpoint, or one that is damaged or of another kind.
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
        return _built(file)
    except files.Damaged as error:
        others = [file.parent / n for n in (BEST, LAST, PREVIOUS) if n != file.name]
        hint = next((f" There is also {other}." for other in others if other.exists()), "")
        raise RunError(
            f"{file} is no whole checkpoint of lieattn train ({error}). Copy it again, or train "
            f"again.{hint}"
        ) from None
    except (RunError, KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        why = printable(str(error).rstrip("."), 300)
        raise RunError(f"{file} does not fit together: {why}. Train again.") from None


def _built(file: Path) -> Trained:
    """The model of a file. Sizes are compared before memory is allocated."""
    held = files.read_header(file)
    header = Header.of(held)
    settings = from_dict(header.settings, "settings")
    config = LieTransformerConfig.from_dict(header.config)
    preprocessing = read(Preprocessing, header.preprocessing)
    group = get_group(header.group)
    require_plausible(config, held.kinds)
    make = partial(make_model, group, settings, config, len(preprocessing.kinds))
    tensors = held.tensors(_kinds(skeleton(group, make), held.kinds))
    own = {n.removeprefix("model."): x for n, x in tensors.items() if n.startswith("model.")}
    require_finite(own, InfillModel.may_be_infinite)
    model = make()
    model.load_state_dict(own)
    model.transformer.check_inputs = False  # poses are checked when they are read, in float64
    return Trained(
        model.eval(),
        settings,
        preprocessing,
        header.data,
        frozenset(header.learned),
        header.longest,
        header.reached().step,
        file,
        _EARLIER.format(file) if held.format == files.EARLIER else "",
    )


def _kinds(model: InfillModel, held: Mapping[str, files.Kind]) -> dict[str, files.Kind]:
    """Types and shapes of the tensors of a model, and of its optimiser if the file has one."""
    shapes = {f"model.{name}": tuple(x.shape) for name, x in model.state_dict().items()}
    if any(name.startswith("optimiser.") for name in held):
        for name, x in model.named_parameters():
            own = {"step": (), **dict.fromkeys(MOMENTS, tuple(x.shape))}
            shapes |= {f"optimiser.{name}.{key}": shape for key, shape in own.items()}
    return {name: files.Kind(torch.float32, shape) for name, shape in shapes.items()}


# ---- folders -------------------------------------------------------------------------------------


class TrainFolder:
    """The folder of one run."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def require_claimable(
        self, settings: TrainSettings, digest: str, processes: int, overwrite: bool
    ) -> None:
        """Make sure that the folder is empty, holds the same run, or may be overwritten.

        Raises:
            RunError: it holds another run, with what differs, or other files.
        """
        theirs = read_note(self.path / SETTINGS)
        if not (self.path / SETTINGS).exists():
            for name in _WRITTEN:  # somebody else's, without settings
                if (self.path / name).exists():
                    raise RunError(
                        f"{self.path} holds a {name}, but no {SETTINGS} of lieattn train: it would "
                        "be lost. Choose another folder with --out, or move the file."
                    )
        elif not isinstance(theirs, dict) or not isinstance(theirs.get("settings"), dict):
            raise RunError(
                f"{self.path / SETTINGS} is damaged, or not of lieattn train. Choose another "
                "--out, or move it away."
            )
        elif not overwrite:
            _require_same(self.path, theirs, _note(settings, digest, processes))

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
        with writing(self.path):
            # The result first: an interruption must not leave a run that seems finished. The
            # settings stay until they are replaced: they mark the files as ours.
            for name in _WRITTEN:
                (self.path / name).unlink(missing_ok=True)
        write_bytes(self.path / SETTINGS, files.json_bytes(_note(settings, digest, processes)))

    def threads(self) -> int | None:
        """Threads of the run in the folder, if there is one: they decide the last digits."""
        note = read_note(self.path / SETTINGS)
        found = note.get("threads") if isinstance(note, dict) else None
        return found if type(found) is int and found > 0 else None

    def save(
        self, trainer: Trainer, preprocessing: Preprocessing, found: Parts, *, best: bool
    ) -> None:
        """Write the last checkpoint, and the best one if this is it."""
        progress = asdict(trainer.progress)
        header = Header(
            KIND,
            FORMAT,
            __version__,
            trainer.model.group.name,
            trainer.model.transformer.config.to_dict(),
            trainer.settings.to_dict(),
            asdict(preprocessing),
            found.digest,
            found.learned,
            {name: None if x == inf else x for name, x in progress.items()},
            trainer.longest,
        )
        tensors = trainer.tensors()
        if best:
            own = {name: x for name, x in tensors.items() if name.startswith("model.")}
            write_bytes(self.path / BEST, files.pack(own, asdict(header)))
        content = files.pack(tensors, asdict(header))
        write_bytes(self.path / LAST, content, keep=self.path / PREVIOUS)

    def load(
        self, warn: Callable[[str], None], own: Mapping[str, Tensor]
    ) -> tuple[dict[str, Tensor], Progress] | tuple[None, None]:
        """Tensors and progress of the newest checkpoint that is whole; damaged ones are set aside.

        Args:
            own: tensors of the trainer that resumes from it.
        Raises:
            RunError: it is whole, and of another model.
        """
        expected = {name: files.Kind(x.dtype, tuple(x.shape)) for name, x in own.items()}
        state = partial(_read_state, expected=expected)
        return newest_whole((self.path / LAST, self.path / PREVIOUS), state, warn) or (None, None)

    def rewind_log(self, step: int) -> None:
        """Keep the lines of the log up to a step."""
        path = self.path / LOG
        if path.exists():
            kept = [line for line in self.log() if line["step"] <= step]
            write_bytes(path, "".join(json.dumps(line) + "\n" for line in kept).encode())

    def append_log(self, line: dict[str, Any]) -> None:
        path = self.path / LOG
        with writing(path), open(path, "a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    def log(self) -> list[dict[str, Any]]:
        """The lines of the log without those that are damaged."""
        lines = []
        for text in (self.path / LOG).read_text("utf-8", errors="replace").splitlines():
            try:
                line = files.parse_json(text, finite=False)
            except ValueError:
                continue
            if isinstance(line, dict) and type(line.get("step")) is int:
                lines.append(line)
        return lines


def _note(settings: TrainSettings, digest: str, processes: int) -> dict[str, Any]:
    """The content of `settings.json`."""
    return {
        "format": FORMAT,
        "settings": settings.to_dict(),
        "data": digest,
        "processes": processes,
        "threads": torch.get_num_threads(),
    }


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
        progress = Header.of(held).reached()
    except ValueError as error:
        raise files.Damaged(str(error)) from None
    if held.kinds != expected:
        raise RunError(
            f"{path.parent}: the checkpoint is of another model. Choose another --out, or "
            "--overwrite."
        )
    return held.tensors(expected), progress


def _require_same(path: Path, theirs: dict[str, Any], mine: dict[str, Any]) -> None:
    differences = []
    # What an earlier version did not know has the value that it had then.
    held = TrainSettings().to_dict() | renamed(theirs["settings"])
    for key, value in mine["settings"].items():
        if key != "files" and held[key] != value:  # files may be called by another name
            before = printable(str(held[key] or "not given"))
            differences.append(f"{key} was {before}, now {value or 'not given'}")
    if theirs.get("data") != mine["data"]:
        differences.append("the poses are others")
    if theirs.get("processes") != mine["processes"]:
        before = printable(str(theirs.get("processes")))
        differences.append(f"processes were {before}, now {mine['processes']}")
    if differences:
        raise RunError(
            f"{path} holds another run: {'; '.join(differences)}. Choose another folder with "
            "--out, or replace it with --overwrite."
        )
