"""Matrix Lie groups: what a token is.

>>> import lieattn
>>> lieattn.available_groups()["SE3"].dim
6
"""

from ._blocks import Block as Block
from ._logm import logm as logm
from .aff2 import Aff2 as Aff2
from .aff3 import Aff3 as Aff3
from .base import Group as Group
from .generic import matrix_group as matrix_group
from .products import product as product
from .registry import available_groups as available_groups
from .registry import get_group as get_group
from .registry import register as register
from .se2 import SE2 as SE2
from .se3 import SE3 as SE3
from .sim2 import Sim2 as Sim2
from .sim3 import Sim3 as Sim3
from .so2 import SO2 as SO2
from .so3 import SO3 as SO3
from .translations import T2 as T2
from .translations import T3 as T3

for _group in (SO2, SE2, SO3, SE3, Aff2, Aff3, Sim2, Sim3, T2, T3):
    register(_group)
