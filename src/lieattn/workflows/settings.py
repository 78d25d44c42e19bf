"""What `lieattn train` was asked for: from flags, or from a TOML file."""

from __future__ import annotations

import difflib
import re
import tomllib
from dataclasses import asdict, dataclass, fields, replace
from pathlib import Path
from typing import Any

from .._core.errors import RunError
from .._core.files import require_shallow
from .._core.random import MAX_SEED
from .._core.text import printable, quoted
from ..data import DATASETS, formats
from ..groups import get_group
from ..groups.base import CHARTS
from ..models.baselines import BASELINES
from ..nn.pretrained import DEEPEST

OWN = {"G": "algebra-norm score", "C": "learned kernel on the same invariant"}
AUTO = "auto"
ENOUGH = 5000  # training windows
LONGEST_TOML = 1_000_000  # letters
# Keys of so many parts take tomllib time and memory that grow with the square of their number.
_DEEP_KEY = re.compile(r"""(?<![\w-])(?:(?:[\w-]++|"[^"\n]*+"|'[^'\n]*+')[ \t]*+\.[ \t]*+){33}""")
# Of `lieattn train`, where neither flags nor the file say otherwise: for filling gaps of any
# length. The settings' own defaults are those of the published comparison of models.
PRACTICE: dict[str, Any] = {"stride": -1, "gaps": "any", "second_differences": 2}
GAPS = ("tokens", "runs", "mixed", "any")


def models() -> dict[str, str]:
    """What `--model` can be, with a phrase each: our own models and the registered baselines."""
    return {**OWN, **{name: baseline.title for name, baseline in BASELINES.items()}}


@dataclass(frozen=True)
class TrainSettings:
    """Everything that a trained model depends on, beside the data themselves.

    Attributes:
        files: files of poses, or the name of a data set that comes with the library.
        format, group, bad: as of `data.read`.
        model: "G", "C", or a baseline: "A", or on SE(3) "IPA", which needs a library.
        chart: "principal", "polar", or "auto": what `data.describe` advises.
        scale: translations are divided by it; "auto" for the advised number.
        normalise: whether w is divided by its size in each set; "auto" as advised.
        window, stride: poses of a set, and from one to the next; 0 for a quarter of a window, -1
            for the least that gives no more than `ENOUGH` windows, or that quarter.
        gap: poses left out between parts of one trajectory; -1 for a window, at most a twentieth.
        hide: share of the poses of a set that is hidden.
        gaps: "tokens" hides them one by one, "runs" in a row, "mixed" does either; "any" too, with
            rows of up to half a window.
        second_differences, absolute_frame, copies, analogies: of `InfillModel`; vector tokens
            always have absolute-frame features.
        kinds: how many kinds of tokens, at most, are told apart by their names; 0 for none.
        dim, heads, layers, dropout, pose_updates: of the transformer.
        steps, batch: batches, and windows of a batch in each process.
        rate, clip: peak learning rate of Adam, largest norm of a gradient.
        every: steps between validations, each with a checkpoint.
        seed: of everything that is drawn.
    """

    files: tuple[str, ...] = ()
    format: str = ""
    group: str = ""
    bad: str = "gaps"
    model: str = "G"
    chart: str = AUTO
    scale: str | float = AUTO
    normalise: str | bool = AUTO
    window: int = 32
    stride: int = 0
    gap: int = -1
    hide: float = 0.15
    gaps: str = "mixed"
    dim: int = 64
    heads: int = 4
    layers: int = 3
    dropout: float = 0.0
    second_differences: int = 0
    kinds: int = 0
    absolute_frame: bool = False
    copies: bool = False
    analogies: bool = False
    pose_updates: bool = False
    steps: int = 2000
    batch: int = 32
    rate: float = 2e-3
    clip: float = 1.0
    every: int = 100
    seed: int = 0

    def __post_init__(self) -> None:
        known = {
            "model": tuple(models()),
            "chart": (AUTO, *CHARTS),
            "gaps": GAPS,
            "bad": ("error", "gaps", "mask"),
            "format": ("", *formats()),
        }
        for name, values in known.items():
            if getattr(self, name) not in values:
                shown = ", ".join(x for x in values if x)
                given = quoted(getattr(self, name), 40)
                raise RunError(f"unknown {name} {given}; known are {shown}.")
        _require_group(self.group)
        for name, least in _LEAST.items():
            if getattr(self, name) < least:
                raise RunError(f"{name} must be at least {least}, got {getattr(self, name)}.")
        for name, most in _MOST.items():
            if getattr(self, name) > most:
                raise RunError(f"{name} must be at most {most:,}.")
        if self.analogies and not self.copies:
            raise RunError("analogies are voted on beside copies: add --copies (copies = true).")
        if not 0 < self.hide < 1:
            raise RunError(f"hide is a share between 0 and 1, got {self.hide}.")
        if not 0 <= self.dropout < 1:
            raise RunError(f"dropout is a share from 0 to below 1, got {self.dropout}.")
        if not (self.rate > 0 and self.clip > 0):
            raise RunError(f"rate and clip must be above 0, got {self.rate} and {self.clip}.")
        if self.dim < 1 or self.heads < 1 or self.dim % self.heads:
            raise RunError(f"dim must be a multiple of heads, got {self.dim} and {self.heads}.")
        if isinstance(self.scale, str) and self.scale != AUTO:
            raise RunError(f"scale is a number or {AUTO!r}, got {quoted(self.scale)}.")
        if not isinstance(self.scale, str) and not 1 / _LARGEST <= self.scale <= _LARGEST:
            told = f"{1 / _LARGEST:g} to {_LARGEST:g}"
            raise RunError(f"scale must be a number from {told}, got {self.scale}.")
        if isinstance(self.normalise, str) and self.normalise != AUTO:
            given = quoted(self.normalise)
            raise RunError(f"normalise is true, false or {AUTO!r}, got {given}.")

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**asdict(self), "files": list(self.files)}

    def step_of_windows(self, poses: int) -> int:
        """From one training window to the next, where there are so many poses."""
        quarter = max(self.window // 4, 1)
        if self.stride < 0:
            return min(max(-(-poses // ENOUGH), 1), quarter)
        return self.stride or quarter


_LEAST = {
    "window": 3,  # two to see and one to hide
    "stride": -1,
    "gap": -1,
    "layers": 1,
    "second_differences": 0,
    "kinds": 0,
    "steps": 1,
    "batch": 1,
    "every": 1,
    "seed": 0,
}
LONGEST_WINDOW = 10**6
_MOST = {
    **dict.fromkeys(("window", "stride", "gap"), LONGEST_WINDOW),
    **dict.fromkeys(("batch", "kinds", "second_differences"), 10**6),
    **dict.fromkeys(("dim", "heads"), 10**5),
    "layers": DEEPEST,
    **dict.fromkeys(("steps", "every"), 10**9),
    "seed": MAX_SEED,
    "rate": 1e6,
    "clip": 1e12,
}
_LARGEST = 1e12  # of a scale: in float32 the squares of what is left are numbers still


def _require_group(name: str) -> None:
    try:
        get_group(name or "SE3")
    except ValueError as error:
        raise RunError(printable(str(error))) from None


# Earlier names, in configs, in checkpoints up to format 4 and on the command line.
RENAMED = {"again": "overwrite", "bends": "second_differences", "framed": "absolute_frame"}


def renamed(values: dict[str, Any]) -> dict[str, Any]:
    """Stored settings under the names that they have now.

    >>> renamed({"bends": 2, "steps": 10})
    {'second_differences': 2, 'steps': 10}
    """
    return {RENAMED.get(key, key): value for key, value in values.items()}


def from_dict(values: dict[str, Any], where: str = "the config") -> TrainSettings:
    """Settings of a dictionary; what is not known, or of another type, is said.

    >>> from_dict({"step": 10})
    Traceback (most recent call last):
    ...
    lieattn._core.errors.RunError: the config has an unknown key 'step'. Did you mean 'steps'?
    """
    values = renamed(values)
    known = {field.name: field for field in fields(TrainSettings)}
    for key, value in values.items():
        if key not in known:
            shown = quoted(key, 40)
            if key in ("out", "threads", "tensorboard", "overwrite"):
                raise RunError(f"{where} has the key {key!r}, which is for the command: --{key}.")
            near = difflib.get_close_matches(key[:40], known, 1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(known)}."
            raise RunError(f"{where} has an unknown key {shown}. {hint}")
        _require_type(key, value, known[key].default, where)
    plain: dict[str, Any] = {k: tuple(v) if k == "files" else v for k, v in values.items()}
    if "model" in plain:
        plain["model"] = plain["model"].upper()  # as --model takes it
    return TrainSettings(**plain)


def _require_type(key: str, value: Any, default: Any, where: str) -> None:
    number = isinstance(value, int | float) and not isinstance(value, bool)
    fits = {
        "files": isinstance(value, list | tuple) and all(isinstance(x, str) for x in value),
        "scale": number or isinstance(value, str),
        "normalise": isinstance(value, bool | str),
    }.get(key, number if isinstance(default, float) else type(value) is type(default))
    if not fits:
        expected = _SAID.get(key) or _SAID[type(default).__name__]
        raise RunError(f"{where}: {key} must be {expected}, got {_as_toml(value)}.")


# What is expected, by key and by type.
_SAID = {
    "files": "a list of names",
    "scale": "a number",
    "normalise": "true or false",
    "int": "a whole number",
    "float": "a number",
    "bool": "true or false",
    "str": "text in quotes",
}


def _as_toml(value: Any) -> str:
    return str(value).lower() if isinstance(value, bool) else printable(repr(value), 60)


def read_toml(path: Path) -> dict[str, Any]:
    """The keys of a TOML file; files are taken as beside it."""
    try:
        with open(path, encoding="utf-8") as file:
            text = file.read(LONGEST_TOML + 1)
        if len(text) > LONGEST_TOML:
            raise RunError(f"{path} is too long for a config: more than {LONGEST_TOML:,} letters.")
        if _DEEP_KEY.search(text):
            raise RecursionError
        values = tomllib.loads(text)
        require_shallow(values)
    except OSError as error:
        raise RunError(f"cannot read {path}: {error.strerror}.") from None
    except ValueError as error:
        raise RunError(f"{path} is no TOML: {printable(str(error))}.") from None
    except RecursionError:
        raise RunError(f"{path} is no TOML: it is nested too deeply.") from None
    files = values.get("files")
    if isinstance(files, str):
        values["files"] = files = [files]
    if isinstance(files, list) and all(isinstance(x, str) for x in files):
        values["files"] = [_beside(path, name) for name in files]
    return values


def _beside(path: Path, name: str) -> str:
    return name if name in DATASETS else str(path.parent / name)


def merged(config: Path | None, flags: dict[str, Any]) -> TrainSettings:
    """Settings of a TOML file, if there is one, with those of flags in their place."""
    given = {key: value for key, value in flags.items() if value is not None and value != []}
    read = read_toml(config) if config is not None else {}
    base = from_dict({**PRACTICE, **read}, str(config))
    settings = replace(base, **{**given, "files": tuple(given.get("files", base.files))})
    if not settings.files:
        raise RunError(
            "there is nothing to train on: give files of poses, or the name of a data set "
            f"({', '.join(DATASETS)})."
        )
    return settings
