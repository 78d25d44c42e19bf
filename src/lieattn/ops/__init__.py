"""The attention operator and its backends."""

from .dispatch import BACKENDS, attend_relations, lie_attention

__all__ = ["BACKENDS", "attend_relations", "lie_attention"]
