"""Proof tools, for your own groups and models as for the library's.

`axiom_errors(group)` tells how exact a group is and `assert_axioms(group)` fails where it is less
exact than floating point allows. `equivariance_error(fn, group, poses)` measures a model and
`assert_equivariant(model, group)` fails where it is not equivariant.
"""

from .equivariance import (
    FLOOR,
    allowed_error,
    assert_equivariant,
    assert_invariant,
    equivariance_error,
    invariance_error,
)
from .laws import LAWS, Law, assert_axioms, axiom_errors, sample_coordinates

__all__ = [
    "FLOOR",
    "LAWS",
    "Law",
    "allowed_error",
    "assert_axioms",
    "assert_equivariant",
    "assert_invariant",
    "axiom_errors",
    "equivariance_error",
    "invariance_error",
    "sample_coordinates",
]
