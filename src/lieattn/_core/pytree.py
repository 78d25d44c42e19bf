"""Named tuples that an exported program can be saved with."""

from __future__ import annotations

from typing import TypeVar

import torch.utils._pytree as pytree

Tuple = TypeVar("Tuple", bound=type)


def exportable(cls: Tuple) -> Tuple:
    """Give a named tuple the name that `torch.export.save` writes it under."""
    # Private, and absent before torch 2.7; without it programs export and run, but do not save.
    register = getattr(pytree, "_register_namedtuple", None)
    if register is not None:
        register(cls, serialized_type_name=f"lieattn.{cls.__name__}")
    return cls
