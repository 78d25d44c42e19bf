"""Checkpoints: a folder of `config.json` and `model.safetensors`. Nothing in it is executed."""

from __future__ import annotations

import json
import os
import warnings
from collections.abc import Callable, Mapping
from math import prod
from pathlib import Path
from typing import Any, TypeVar

import torch
from torch import Tensor, nn

from .._core import files
from .._core.files import EARLIER, FORMAT
from .._core.text import printable
from .._version import __version__
from ..groups import Group, get_group
from .config import Config, LieTransformerConfig

DEEPEST = 1_000  # most layers of a model that is read; each takes time to build
LONGEST = 2**20  # bytes of a config
CONFIG, WEIGHTS = "config.json", "model.safetensors"
Model = TypeVar("Model", bound="Pretrained")


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, or of another model, group or version."""


class Pretrained:
    """`save_pretrained` and `from_pretrained` for a module built from a group and a config."""

    group: Group
    config: Any  # of the class `config_class`
    config_class: type[Config] = LieTransformerConfig
    may_be_infinite: tuple[str, ...] = ()  # tensors

    @classmethod
    def _config_of(cls, stored: dict[str, Any]) -> Any:
        """The config in a `config.json`."""
        return cls.config_class.from_dict(stored["config"])

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Write `config.json` and `model.safetensors` into the folder `path`.

        Both are written to temporary files and moved into place, so that an interruption never
        leaves half a file. Checksums detect damage.
        """
        assert isinstance(self, nn.Module)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        identity = {"format": FORMAT, **_identity(type(self).__name__, self.group)}
        config = {**identity, "lieattn": __version__, "config": self.config.to_dict()}
        tensors = {name: x.detach().contiguous() for name, x in self.state_dict().items()}
        # The weights contain the config too, to detect files of different checkpoints.
        contents = {
            folder / WEIGHTS: files.pack(tensors, config),
            folder / CONFIG: (json.dumps(config, indent=2) + "\n").encode(),
        }
        files.write_whole(contents, part=f".{os.getpid()}.part")

    @classmethod
    def from_pretrained(
        cls: type[Model],
        path: str | os.PathLike[str],
        group: Group | str | None = None,
        device: torch.device | str = "cpu",
    ) -> Model:
        """Load a model that `save_pretrained` wrote, in eval mode.

        Names and shapes are compared with the config before anything is allocated. A checkpoint of
        format 1, which has no checksum, is read with a `UserWarning`.

        Args:
            path: the folder.
            group: the group of the checkpoint; found by its name unless it is one of your own
                (`matrix_group`). Another group is an error.
            device: where the parameters go.
        Raises:
            CheckpointError: the checkpoint is missing, damaged, or of another model or group.
        """
        folder = Path(path)
        config = _read_config(folder)
        group = _group_of(folder, config, group)
        _require_identity(folder / CONFIG, config, _identity(cls.__name__, group))
        held = _header(folder, config)
        make: Any = cls
        try:
            settings = cls._config_of(config)
            require_plausible(settings.encoder, held.kinds)
            model = skeleton(group, lambda: make(group, settings))
        except (KeyError, TypeError, ValueError, RuntimeError, OverflowError) as error:
            raise CheckpointError(
                f"{folder / CONFIG} holds no valid config: {printable(str(error), 300)}"
            ) from None
        try:
            dtype = _dtype(held.kinds)
            state = model.state_dict().items()
            tensors = held.tensors({name: files.Kind(dtype, tuple(x.shape)) for name, x in state})
            require_finite(tensors, cls.may_be_infinite)
        except files.Damaged as error:
            raise _damaged(folder / WEIGHTS, error) from None
        if config["format"] == EARLIER:
            warnings.warn(
                f"{folder} is a checkpoint of format {EARLIER}, which has no checksum: damage to "
                "its numbers would not be noticed. Save the model again with save_pretrained.",
                UserWarning,
                stacklevel=2,
            )
        model = make(group, settings)
        model.to(dtype).load_state_dict(tensors)
        return model.to(device).eval()


def _identity(name: str, group: Group) -> dict[str, Any]:
    """What must agree between a checkpoint and the model that reads it."""
    blocks = {block.name: block.dim for block in group.blocks}
    return {"model": name, "group": group.name, "blocks": blocks}


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint: it has no {CONFIG}. Pass the folder that "
            "save_pretrained wrote."
        )
    try:
        config = files.read_json(path, LONGEST)
    except (OSError, ValueError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(config, dict) or "format" not in config:
        raise CheckpointError(f"{path} is not a lieattn config: it has no field 'format'.")
    if type(config["format"]) is not int or config["format"] not in (FORMAT, EARLIER):
        raise CheckpointError(
            f"{path} is of checkpoint format {_shown(config['format'])}, this lieattn "
            f"({__version__}) reads formats {EARLIER} and {FORMAT}. Use the version that wrote it: "
            f"{_shown(config.get('lieattn'))}."
        )
    return config


def _shown(held: Any) -> str:
    """A value of a file."""
    return printable(repr(held), 80)


def _group_of(folder: Path, config: dict[str, Any], group: Group | str | None) -> Group:
    if group is not None:
        return get_group(group)
    try:
        return get_group(str(config.get("group")))
    except ValueError as error:
        raise CheckpointError(
            f"{folder / CONFIG}: {printable(str(error), 200)} For a group of your own pass "
            "from_pretrained(path, group=...)."
        ) from None


def _require_identity(path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    for key, value in expected.items():
        if found.get(key) != value:
            raise CheckpointError(
                f"{path} is a checkpoint of another {key}: it holds {_shown(found.get(key))}, "
                f"expected {value!r}."
            )


def _header(folder: Path, config: dict[str, Any]) -> files.Checked:
    """The header of the weights, which must agree with the config."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {WEIGHTS}: the checkpoint is incomplete.")
    try:
        held = files.read_header(path)
    except files.Damaged as error:
        raise _damaged(path, error) from None
    if held.about != config:
        raise CheckpointError(
            f"{path} and {folder / CONFIG} are not of the same checkpoint: the first was saved "
            f"with {printable(repr(held.about), 600)}. Take both from one save."
        )
    if held.format != config["format"]:
        raise _damaged(path, files.Damaged(f"it is not laid out as format {config['format']} is"))
    return held


def _damaged(path: Path, error: files.Damaged) -> CheckpointError:
    return CheckpointError(
        f"{path} is damaged, cut short, or does not fit its config ({error}). Copy it again or use "
        "another checkpoint."
    )


def _dtype(kinds: Mapping[str, files.Kind]) -> torch.dtype:
    """The one floating type of all tensors."""
    first = next(iter(kinds.values())).dtype if kinds else torch.float32
    for name, kind in kinds.items():
        if not kind.dtype.is_floating_point or kind.dtype != first:
            raise files.Damaged(f"{printable(name)} is of {kind.dtype}, unlike the other tensors")
    return first


# ---- checks for every reader of a model ----------------------------------------------------------


def require_plausible(config: LieTransformerConfig, kinds: Mapping[str, files.Kind]) -> None:
    """Refuse a config that asks for far more than a file holds, before anything is built.

    Raises:
        ValueError: more layers than tensors, more numbers than there are, or too many layers.
    """
    held = sum(prod(kind.shape) for kind in kinds.values())
    asked = config.layers * 8 * config.dim**2 + config.features * config.dim
    if config.layers > min(DEEPEST, len(kinds)) or asked > held:
        raise ValueError(
            f"the weights are {len(kinds):,} tensors that hold {held} numbers; a model of "
            f"dim={config.dim}, layers={config.layers} has more than {asked}, and at most "
            f"{DEEPEST:,} layers are read."
        )


def skeleton(group: Group, make: Callable[[], Any]) -> Any:
    """The model that `make` builds, on the meta device: names and shapes without memory."""
    group.basis()  # cached on first use, so it must not be made on the meta device
    with torch.device("meta"):
        return make()


def require_finite(tensors: Mapping[str, Tensor], may_be_infinite: tuple[str, ...] = ()) -> None:
    """Refuse weights that are NaN or infinite.

    Raises:
        files.Damaged: with the name of the first tensor.
    """
    for name, x in tensors.items():
        bad = x.isnan() if name in may_be_infinite else ~x.isfinite()
        if bad.any():
            raise files.Damaged(f"{printable(name)} holds NaN or infinity")
