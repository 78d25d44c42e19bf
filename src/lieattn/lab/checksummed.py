"""Tensors and JSON in one safetensors file, with a checksum over both. Nothing is executed."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from safetensors import SafetensorError, safe_open
from safetensors.torch import save
from torch import Tensor


class Damaged(ValueError):
    """A file that is not whole: the message says what is wrong with it."""


def pack(tensors: dict[str, Tensor], rest: dict[str, Any]) -> bytes:
    """The contents of a file."""
    text = json.dumps(rest)
    # One entry: safetensors writes several in any order, and equal contents are to be equal bytes.
    return save(tensors, {"state": f"{_digest(tensors, text)}\n{text}"})


def unpack(path: Path) -> tuple[dict[str, Tensor], dict[str, Any]]:
    """What `pack` was given.

    Raises:
        Damaged: the file is cut short, changed, or of another kind.
    """
    try:
        with safe_open(path, framework="pt") as file:
            metadata = file.metadata() or {}
            # Copies: what is read must not change, or end, with the file.
            tensors = {name: file.get_tensor(name).clone() for name in file.keys()}  # noqa: SIM118
        checksum, _, text = metadata.get("state", "").partition("\n")
        if checksum != _digest(tensors, text):
            raise Damaged("its checksum does not match")
        rest = json.loads(text)
    except (SafetensorError, OSError, ValueError, KeyError, TypeError) as error:
        raise Damaged(str(error)) from None
    if not isinstance(rest, dict):
        raise Damaged("it holds no state")
    return tensors, rest


def _digest(tensors: dict[str, Tensor], text: str) -> str:
    digest = hashlib.sha256(text.encode())
    for name in sorted(tensors):
        digest.update(tensors[name].contiguous().numpy().tobytes())
    return digest.hexdigest()
