"""Lie-Algebra Attention: an attention token is an element of a matrix Lie group."""

from typing import TYPE_CHECKING

from ._version import __version__
from .groups import (
    SE2,
    SE3,
    SO2,
    SO3,
    Aff2,
    Aff3,
    Block,
    Group,
    Sim2,
    Sim3,
    get_group,
    logm,
    matrix_group,
)
from .relations import Relations, relations

if TYPE_CHECKING:
    from .groups.base import groups
else:
    from . import groups  # the package itself, which answers a call with the registry

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "Aff2",
    "Aff3",
    "Block",
    "Group",
    "Relations",
    "Sim2",
    "Sim3",
    "__version__",
    "get_group",
    "groups",
    "logm",
    "matrix_group",
    "relations",
]
