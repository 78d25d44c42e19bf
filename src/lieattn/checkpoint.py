"""Checkpoints: a folder of `config.json` and `model.safetensors`. Nothing in it is executed."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any, TypeVar

import torch
from safetensors import SafetensorError, safe_open
from safetensors.torch import save_file
from torch import nn

from ._version import __version__
from .config import LieTransformerConfig
from .groups import Group, get_group

FORMAT = 1
LARGEST = 10_000  # value of an option
CONFIG, WEIGHTS = "config.json", "model.safetensors"
Model = TypeVar("Model", bound="Pretrained")


class CheckpointError(ValueError):
    """A checkpoint that is missing, damaged, or of another model, group or version."""


class Pretrained:
    """`save_pretrained` and `from_pretrained` for a module built from a group and a config."""

    group: Group
    config: LieTransformerConfig

    @property
    def options(self) -> dict[str, int]:
        """What else it was built with, by the names of its arguments."""
        return {}

    def save_pretrained(self, path: str | os.PathLike[str]) -> None:
        """Write `config.json` and `model.safetensors` into the folder `path`.

        Both are written beside their place and moved there, so that an interruption leaves what
        was there before or what is new, never half a file.
        """
        assert isinstance(self, nn.Module)
        folder = Path(path)
        folder.mkdir(parents=True, exist_ok=True)
        identity = _identity(type(self).__name__, self.group)
        config = {**identity, "lieattn": __version__, "config": self.config.to_dict()}
        if self.options:
            config["options"] = self.options
        text = json.dumps(config, indent=2) + "\n"
        tensors = {name: x.detach().contiguous() for name, x in self.state_dict().items()}
        part = f".{os.getpid()}.part"
        weights_part, config_part = folder / (WEIGHTS + part), folder / (CONFIG + part)
        try:
            # The weights carry the config too: a pair that was torn apart is noticed.
            save_file(tensors, weights_part, {"config": text})
            config_part.write_text(text, encoding="utf-8")
            os.replace(weights_part, folder / WEIGHTS)
            os.replace(config_part, folder / CONFIG)
        finally:
            weights_part.unlink(missing_ok=True)
            config_part.unlink(missing_ok=True)

    @classmethod
    def from_pretrained(
        cls: type[Model],
        path: str | os.PathLike[str],
        group: Group | str | None = None,
        device: torch.device | str = "cpu",
    ) -> Model:
        """Model of a folder that `save_pretrained` wrote, in eval mode.

        Args:
            path: the folder.
            group: the group of the checkpoint; found by its name unless it is one of your own
                (`matrix_group`). Another group is an error.
            device: where the parameters go.
        Raises:
            CheckpointError: a missing, damaged or foreign checkpoint. No model is half loaded.
        """
        folder = Path(path)
        config = _read_config(folder)
        group = _group_of(folder, config, group)
        _require_identity(folder / CONFIG, config, _identity(cls.__name__, group))
        tensors = _read_weights(folder, config)
        build: Any = cls
        try:
            settings = LieTransformerConfig.from_dict(config["config"])
            _require_size(folder, settings, tensors)
            model = build(group, settings, **_options(config))
        except CheckpointError:
            raise
        except (KeyError, TypeError, ValueError) as error:
            raise CheckpointError(f"{folder / CONFIG} holds no valid config: {error}") from None
        _require_same_shapes(folder, model, tensors)
        model.to(next(iter(tensors.values())).dtype).load_state_dict(tensors)
        return model.to(device).eval()


def _options(config: dict[str, Any]) -> dict[str, int]:
    found = config.get("options", {})
    if not isinstance(found, dict):
        raise ValueError(f"options are {found!r}, expected names and numbers")
    for key, value in found.items():
        if not isinstance(value, int) or not 0 <= value <= LARGEST:
            raise ValueError(f"{key} is {value!r}, expected a number from 0 to {LARGEST}")
    return dict(found)


def _identity(name: str, group: Group) -> dict[str, Any]:
    """What must agree between a checkpoint and the model that reads it."""
    blocks = {block.name: block.dim for block in group.blocks}
    return {"format": FORMAT, "model": name, "group": group.name, "blocks": blocks}


def _read_config(folder: Path) -> dict[str, Any]:
    path = folder / CONFIG
    if not path.is_file():
        raise CheckpointError(
            f"{folder} is not a checkpoint: it has no {CONFIG}. Pass the folder that "
            "save_pretrained wrote."
        )
    try:
        config = json.loads(path.read_text(encoding="utf-8-sig"))
    except (OSError, ValueError, RecursionError) as error:
        raise CheckpointError(f"{path} cannot be read as JSON: {error}") from None
    if not isinstance(config, dict) or "format" not in config:
        raise CheckpointError(f"{path} is not a lieattn config: it has no field 'format'.")
    if type(config["format"]) is not int or config["format"] != FORMAT:
        raise CheckpointError(
            f"{path} is of checkpoint format {config['format']!r}, this lieattn ({__version__}) "
            f"reads format {FORMAT}. Use the version that wrote it: {config.get('lieattn')!r}."
        )
    return config


def _group_of(folder: Path, config: dict[str, Any], group: Group | str | None) -> Group:
    if group is not None:
        return get_group(group)
    try:
        return get_group(str(config.get("group")))
    except ValueError as error:
        raise CheckpointError(
            f"{folder / CONFIG}: {error} For a group of your own pass from_pretrained(path, "
            "group=...)."
        ) from None


def _require_identity(path: Path, found: dict[str, Any], expected: dict[str, Any]) -> None:
    for key, value in expected.items():
        if found.get(key) != value:
            raise CheckpointError(
                f"{path} is a checkpoint of another {key}: it holds {found.get(key)!r}, expected "
                f"{value!r}."
            )


def _read_weights(folder: Path, config: dict[str, Any]) -> dict[str, torch.Tensor]:
    """The tensors of a checkpoint: of one floating dtype, finite, and of the same config."""
    path = folder / WEIGHTS
    if not path.is_file():
        raise CheckpointError(f"{folder} has no {WEIGHTS}: the checkpoint is incomplete.")
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            tensors = {name: file.get_tensor(name) for name in file.keys()}  # noqa: SIM118
        saved = json.loads(metadata.get("config", "null"))
    except (SafetensorError, OSError, ValueError, RecursionError) as error:
        raise CheckpointError(
            f"{path} is damaged or cut short ({error}). Copy it again or use another checkpoint."
        ) from None
    if saved != config:
        raise CheckpointError(
            f"{path} and {folder / CONFIG} are not of the same checkpoint: the first was saved "
            f"with {saved!r}. Take both from one save."
        )
    for name, x in tensors.items():
        if not x.is_floating_point() or x.dtype != next(iter(tensors.values())).dtype:
            raise CheckpointError(f"{path}: {name} is of {x.dtype}, unlike the other tensors.")
        if not x.isfinite().all():
            raise CheckpointError(f"{path}: {name} holds NaN or infinity.")
    return tensors


def _require_size(
    folder: Path, config: LieTransformerConfig, tensors: dict[str, torch.Tensor]
) -> None:
    """Refuse a config that asks for far more than the weights hold, before it is built."""
    held = sum(x.numel() for x in tensors.values())
    asked = config.layers * 8 * config.dim**2 + config.features * config.dim
    if asked > held:
        raise CheckpointError(
            f"{folder / WEIGHTS} does not fit {folder / CONFIG}: it holds {held} numbers, a model "
            f"of dim={config.dim}, layers={config.layers} has more than {asked}."
        )


def _require_same_shapes(folder: Path, model: nn.Module, tensors: dict[str, torch.Tensor]) -> None:
    expected = {name: tuple(x.shape) for name, x in model.state_dict().items()}
    got = {name: tuple(x.shape) for name, x in tensors.items()}
    if got != expected:
        name = sorted(set(got.items()) ^ set(expected.items()))[0][0]
        raise CheckpointError(
            f"{folder / WEIGHTS} does not fit {folder / CONFIG}: {name} is "
            f"{got.get(name, 'absent')}, expected {expected.get(name, 'absent')}."
        )
