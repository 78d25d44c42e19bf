"""A trained model, read from a checkpoint of which nothing is believed before it is checked."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import partial
from math import inf
from pathlib import Path
from typing import Any

import torch

from .. import __version__
from .._core import files
from .._core.errors import RunError
from .._core.text import printable
from ..groups import Group, get_group
from ..groups.base import CHARTS
from ..models.infill.model import InfillModel
from ..nn.config import LieTransformerConfig
from ..nn.pretrained import require_finite, require_plausible, skeleton
from .preprocessing import Preprocessing
from .settings import LONGEST_WINDOW, TrainSettings, from_dict
from .trainer import MOMENTS, Progress, make_model

FORMAT = 5
# The format of the file by that of the checkpoint. Format 3 has a checksum over the data alone, and
# formats before 5 have other names of fields.
FORMATS = {3: files.EARLIER, 4: files.FORMAT, FORMAT: files.FORMAT}
KIND = "lieattn infill"
LAST, PREVIOUS, BEST = "last.safetensors", "last.previous.safetensors", "best.safetensors"
LARGEST = 1e30  # of a scale, and one over it: what is divided by it is a number still


@dataclass(frozen=True)
class Trained:
    """A model of a checkpoint, and all that is needed to use it."""

    model: InfillModel
    settings: TrainSettings
    preprocessing: Preprocessing
    digest: str  # of the data that it was trained on
    learned: frozenset[str]  # digests of the sets that were trained or validated on
    longest: int  # poses in a row that it learned to find
    step: int
    path: Path
    note: str = ""  # what to know about the file

    @property
    def group(self) -> Group:
        return self.model.group


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
        return _built(file)
    except files.Damaged as error:
        others = [
            n for n in (BEST, LAST, PREVIOUS) if (file.parent / n).exists() and n != file.name
        ]
        hint = f" There is also {file.parent / others[0]}." if others else ""
        raise RunError(
            f"{file} is no whole checkpoint of lieattn train ({error}). Copy it again, or train "
            f"again.{hint}"
        ) from None
    except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
        why = printable(str(error), 300)
        raise RunError(f"{file} does not fit together: {why}. Train again.") from None


def _built(file: Path) -> Trained:
    """The model of a file; sizes are compared before anything is allocated.

    Raises:
        files.Damaged, ValueError and others: what is wrong with it.
    """
    held = files.read_header(file)
    about = held.about
    require_kind(held)
    try:
        settings = from_dict(_field(about, "settings", dict))
    except RunError as error:
        raise ValueError(str(error).removesuffix(".")) from None
    config = LieTransformerConfig.from_dict(_field(about, "config", dict))
    preprocessing = _choice(
        _field(about, "choice" if about["format"] < 5 else "preprocessing", dict)
    )
    group = get_group(_field(about, "group", str))
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
        _field(about, "data", str),
        frozenset(_field(about, "learned", list)),
        _field(about, "longest", int, 0, LONGEST_WINDOW),
        progress_of(about.get("progress")).step,
        file,
        _NOTE.format(file) if held.format == files.EARLIER else "",
    )


_NOTE = (
    "{} is of an earlier lieattn: damage to the names and sizes in it is not told by a checksum. "
    "Train again to have one over all of it."
)


def require_kind(held: files.Checked) -> None:
    """It is a checkpoint of this command, in a format that is known and agrees with its file."""
    kind, format = held.about.get("kind"), held.about.get("format")
    if kind != KIND or type(format) is not int or FORMATS.get(format) != held.format:
        told = printable(f"kind {kind!r}, format {format!r}")
        raise files.Damaged(f"{told}; this lieattn, {__version__}, reads formats 3 to 5")


def _kinds(model: InfillModel, held: Mapping[str, files.Kind]) -> dict[str, files.Kind]:
    """Types and shapes of the tensors of a model, and of its optimiser where a file has such."""
    shapes = {f"model.{name}": tuple(x.shape) for name, x in model.state_dict().items()}
    if any(name.startswith("optimiser.") for name in held):
        for name, x in model.named_parameters():
            own = {"step": (), **dict.fromkeys(MOMENTS, tuple(x.shape))}
            shapes |= {f"optimiser.{name}.{key}": shape for key, shape in own.items()}
    return {name: files.Kind(torch.float32, shape) for name, shape in shapes.items()}


def progress_of(held: Any) -> Progress:
    loss = held.get("best_loss") if isinstance(held, dict) else None
    best = inf if loss is None else _field(held, "best_loss", float)
    step, best_step = (_field(held, name, int, 0, 10**9) for name in ("step", "best_step"))
    return Progress(step, best, best_step)


def _choice(held: dict[str, Any]) -> Preprocessing:
    chart = _field(held, "chart", str)
    if chart not in CHARTS:
        raise ValueError(f"its chart is {chart!r}, expected {' or '.join(CHARTS)}")
    return Preprocessing(
        chart,
        float(_field(held, "scale", float, 1 / LARGEST, LARGEST)),
        _field(held, "normalise", bool),
        tuple(_field(held, "kinds", list)),
        tuple(_field(held, "reasons", list)),
    )


def _field(held: Any, name: str, kind: type, least: float = -inf, most: float = inf) -> Any:
    """A value of a JSON object, of a type, and within bounds if it is a number; lists are of text.

    Raises:
        ValueError: it is missing, or another.
    """
    value: Any = held.get(name) if isinstance(held, dict) else None
    fits = type(value) is kind or (kind is float and type(value) is int)
    if fits and kind in (int, float):
        fits = least <= value <= most
    if fits and kind is list:
        fits = all(isinstance(x, str) for x in value)
    if not fits:
        bounds = f" from {least:g} to {most:g}" if most < inf else ""
        raise ValueError(
            f"its {name} is {printable(repr(value), 40)}, expected {_SAID[kind]}{bounds}"
        )
    return value


_SAID = {
    int: "a whole number",
    float: "a number",
    bool: "true or false",
    str: "text",
    list: "a list of texts",
    dict: "an object",
}
