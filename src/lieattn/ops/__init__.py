"""The attention operator and its backends."""

from .attention import lie_attention
from .dispatch import BACKENDS
from .reference import attend_relations
from .request import Request

__all__ = ["BACKENDS", "Request", "attend_relations", "lie_attention"]
