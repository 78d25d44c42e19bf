"""The attention operator and its backends."""

from .attention import lie_attention, run_request
from .dispatch import BACKENDS
from .reference import attend_relations, content_logits
from .request import Request
from .tiled import sums_by_rows

__all__ = [
    "BACKENDS",
    "Request",
    "attend_relations",
    "content_logits",
    "lie_attention",
    "run_request",
    "sums_by_rows",
]
