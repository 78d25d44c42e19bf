"""Libraries that only some formats need."""

from __future__ import annotations

from importlib import import_module
from typing import Any

from .errors import DataError


def needs(module: str, what: str, path: str) -> Any:
    """The module, or a `DataError` that says how to install it."""
    try:
        return import_module(module)
    except ImportError:
        raise DataError(
            path, f"{what} need {module}. Install it with: pip install 'lieattn[data]'"
        ) from None
