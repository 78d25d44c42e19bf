"""Each registered group, groups known by their generators alone, and products."""

import torch

import lieattn
from algebras import GENERIC
from lieattn import SE2, SE3, SO2, SO3, T3, Aff2, Sim2, matrix_group, product

PRODUCTS = (
    product(SE3, SO2),
    product(Aff2, T3, Aff2),
    product(SO3, Sim2),
    product(SE2, matrix_group("Heisenberg", GENERIC["Heisenberg"])),
)

# What shared tests ask of a group, instead of its name.
REGISTERED = lieattn.available_groups()
SIMILAR = [
    g for g in REGISTERED.values() if g.coordinates_of("rotation") and not g.coordinates_of("shear")
]
UP_TO_THE_CUT = [g for g in REGISTERED.values() if g.chart().resolution(torch.float64) == 0]
WITH_PARITY = [g for g in REGISTERED.values() if g.chart(g.charts[-1]).dim > g.dim]

ALL_GROUPS = {
    **lieattn.available_groups(),
    **{name: matrix_group(name, basis) for name, basis in GENERIC.items()},
    **{group.name: group for group in PRODUCTS},
}
