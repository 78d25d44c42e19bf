"""Tests for your own groups and models, which the library's tests use too.

`axiom_errors(group)` measures the errors of the group laws, and `assert_axioms(group)` fails if
one exceeds what rounding explains. `equivariance_error(fn, group, poses)` measures a model, and
`assert_equivariant(model, group)` fails if it is not equivariant.
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
