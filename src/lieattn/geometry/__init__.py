"""What two tokens are to each other: pairwise logarithms, interpolation, errors."""

from .interpolation import interpolate
from .pairs import Relations, neighbour_relations, relations

__all__ = ["Relations", "interpolate", "neighbour_relations", "relations"]
