"""Matrix Lie groups: what a token is.

>>> import lieattn
>>> lieattn.available_groups()["SE3"].dim
6
"""

import sys
from types import ModuleType

from ._logm import logm
from .aff2 import Aff2
from .aff3 import Aff3
from .base import Block, Group, available_groups, get_group, register
from .generic import matrix_group
from .products import product
from .se2 import SE2
from .se3 import SE3
from .sim2 import Sim2
from .sim3 import Sim3
from .so2 import SO2
from .so3 import SO3
from .translations import T2, T3

for _group in (SO2, SE2, SO3, SE3, Aff2, Aff3, Sim2, Sim3, T2, T3):
    register(_group)


class _Groups(ModuleType):
    """Calling the package, as versions before 0.2 did, gives what `available_groups` gives."""

    def __call__(self) -> dict[str, Group]:
        return available_groups()


sys.modules[__name__].__class__ = _Groups

__all__ = [
    "SE2",
    "SE3",
    "SO2",
    "SO3",
    "T2",
    "T3",
    "Aff2",
    "Aff3",
    "Block",
    "Group",
    "Sim2",
    "Sim3",
    "available_groups",
    "get_group",
    "logm",
    "matrix_group",
    "product",
]
