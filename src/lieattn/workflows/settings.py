"""The settings of a training, from flags or from a TOML file. Each is defined once, here."""

from __future__ import annotations

import contextlib
import difflib
import re
import tomllib
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

from .._core.errors import RunError
from .._core.files import require_shallow
from .._core.options import option, options, require
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
LONGEST_WINDOW = MANY = 10**6
LARGEST = 1e12  # scale: in float32 the squares of what is left are still finite
DATA, MODEL, TRAINING = "Data", "Model", "Training"  # groups of options
BAD, GAPS = ("gaps", "error", "mask"), ("tokens", "runs", "mixed", "any")
ADVISED = "auto: as advised"
STRIDES = "0: a quarter of a window, -1: 1, more in long files"
GAP = "-1: a window, at most a twentieth"
BOTH = "any: mixed, with long runs"


def models() -> dict[str, str]:
    """What `--model` can be, with a phrase each: our own models and the registered baselines."""
    return {**OWN, **{name: baseline.title for name, baseline in BASELINES.items()}}


def _formats() -> tuple[str, ...]:
    return ("", *formats())


@dataclass(frozen=True)
class TrainSettings:
    """All that a trained model depends on, except for the data.

    The defaults are those of the published comparison of models. Where `practice` is given, it is
    the default of `lieattn train`, which fills gaps of any length.
    """

    files: tuple[str, ...] = option(())
    format: str = option("", "Format of the files; by default detected", DATA, choices=_formats)
    group: str = option("", "Read poses as elements of this group.", DATA)
    bad: str = option("gaps", "Invalid poses; gaps: all but NaN are errors", DATA, choices=BAD)
    model: str = option("G", "C has a learned kernel, A vector tokens", MODEL, choices=models)
    chart: str = option(AUTO, "Chart; auto: as advised", MODEL, choices=(AUTO, *CHARTS))
    scale: str | float = option(
        AUTO,
        f"Divide translations by X; {ADVISED}.",
        DATA,
        1 / LARGEST,
        LARGEST,
        choices=(AUTO,),
    )
    normalise: str | bool = option(
        AUTO, f"Scale each set by its size; {ADVISED}.", DATA, choices=(AUTO,)
    )
    window: int = option(32, "Poses of a window.", DATA, 3, LONGEST_WINDOW)
    stride: int = option(0, f"Poses from window to window; {STRIDES}.", DATA, -1, MANY, practice=-1)
    gap: int = option(-1, f"Poses left out between parts; {GAP}.", DATA, -1, MANY)
    hide: float = option(0.15, "Share of poses to hide.", DATA, 0, 1, "()")
    gaps: str = option("mixed", f"How to hide; {BOTH}", DATA, choices=GAPS, practice="any")
    dim: int = option(64, "Width of the model.", MODEL, 1, 10**5)
    heads: int = option(4, "Attention heads.", MODEL, 1, 10**5)
    layers: int = option(3, "Layers.", MODEL, 1, DEEPEST)
    dropout: float = option(0.0, "Share of dropout.", MODEL, 0, 1, "[)")
    second_differences: int = option(
        0, "Second differences as features: poses on each side.", MODEL, 0, MANY, practice=2
    )
    kinds: int = option(0, "Kinds of poses, at most, distinguished by name.", DATA, 0, MANY)
    absolute_frame: bool = option(False, "Absolute-frame features; A always has them.", MODEL)
    copies: bool = option(False, "Let answers copy parts of visible poses.", MODEL)
    analogies: bool = option(False, "With --copies: let answers repeat visible steps.", MODEL)
    pose_updates: bool = option(False, "Move missing poses between layers.", MODEL)
    steps: int = option(2000, "Batches.", TRAINING, 1, 10**9)
    batch: int = option(32, "Windows of a batch in each process.", TRAINING, 1, MANY)
    rate: float = option(2e-3, "Peak learning rate.", TRAINING, 0, MANY, "(]")
    clip: float = option(1.0, "Largest norm of a gradient.", TRAINING, 0, 1e12, "(]")
    every: int = option(100, "Steps from checkpoint to checkpoint.", TRAINING, 1, 10**9)
    seed: int = option(0, "Seed of everything random.", TRAINING, 0, MAX_SEED)

    def __post_init__(self) -> None:
        try:
            require(TrainSettings, vars(self))
            get_group(self.group or "SE3")
        except ValueError as error:
            raise RunError(printable(str(error), 600)) from None
        if self.analogies and not self.copies:
            raise RunError("analogies need copies: add --copies (copies = true).")
        if self.dim % self.heads:
            raise RunError(f"dim must be a multiple of heads, got {self.dim} and {self.heads}.")

    def to_dict(self) -> dict[str, Any]:
        """For JSON."""
        return {**asdict(self), "files": list(self.files)}

    def step_of_windows(self, poses: int) -> int:
        """Poses from one training window to the next, for a number of training poses."""
        quarter = max(self.window // 4, 1)
        if self.stride < 0:  # the least that gives no more than `ENOUGH` windows
            return min(max(-(-poses // ENOUGH), 1), quarter)
        return self.stride or quarter


OPTIONS = options(TrainSettings)
PRACTICE = {name: x.practice for name, x in OPTIONS.items() if x.practice is not None}
COMMAND_ONLY = ("out", "threads", "tensorboard", "overwrite")
# Earlier names, in configs, in checkpoints up to format 4 and on the command line.
RENAMED = {"again": "overwrite", "bends": "second_differences", "framed": "absolute_frame"}


def renamed(values: dict[str, Any], where: str = "the config") -> dict[str, Any]:
    """Stored settings under the names that they have now; two names of one are an error.

    >>> renamed({"bends": 2, "steps": 10})
    {'second_differences': 2, 'steps': 10}
    """
    for earlier in RENAMED.keys() & values:
        if RENAMED[earlier] in values:
            raise RunError(
                f"{where} has {RENAMED[earlier]!r}, and {earlier!r}, its earlier name. Keep one."
            )
    return {RENAMED.get(key, key): value for key, value in values.items()}


def from_dict(values: dict[str, Any], where: str = "the config") -> TrainSettings:
    """Settings of a dictionary; unknown keys and wrong types are errors.

    >>> from_dict({"step": 10})
    Traceback (most recent call last):
    ...
    lieattn._core.errors.RunError: the config has an unknown key 'step'. Did you mean 'steps'?
    """
    values = renamed(values, where)
    for key in values:
        if key in COMMAND_ONLY:
            raise RunError(f"{where} has the key {key!r}, which is for the command: --{key}.")
        if key not in OPTIONS:
            near = difflib.get_close_matches(key[:40], OPTIONS, 1, cutoff=0.5)
            hint = f"Did you mean {near[0]!r}?" if near else f"Known are {', '.join(OPTIONS)}."
            raise RunError(f"{where} has an unknown key {quoted(key, 40)}. {hint}")
    try:
        return TrainSettings(**_plain(values))
    except RunError as error:
        raise RunError(f"{where}: {error}") from None


def _plain(values: dict[str, Any]) -> dict[str, Any]:
    """Values as the settings hold them: lists as tuples, letters in capitals, text as a number."""
    model, files, scale = (values.get(key) for key in ("model", "files", "scale"))
    found = dict(values)
    if isinstance(model, str):
        found["model"] = model.upper()
    if isinstance(files, list):
        found["files"] = tuple(files)
    if isinstance(scale, str):
        with contextlib.suppress(ValueError):
            found["scale"] = float(scale)
    return found


def read_toml(path: Path) -> dict[str, Any]:
    """The keys of a TOML file; paths are relative to it."""
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
        values["files"] = [x if x in DATASETS else str(path.parent / x) for x in files]
    return values


def merged(config: Path | None, flags: dict[str, Any]) -> TrainSettings:
    """Settings of a TOML file, if there is one; flags take precedence."""
    read = read_toml(config) if config is not None else {}
    base = from_dict(PRACTICE | renamed(read, str(config)), str(config))
    settings = replace(base, **_plain(flags))
    if not settings.files:
        raise RunError(
            "there is nothing to train on: give files of poses, or the name of a data set "
            f"({', '.join(DATASETS)})."
        )
    return settings
