"""`lieattn verify`: the paper's table of instantiations, computed, and its laws, measured."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._core.stopping import unwinding
from ..groups import Block, Group, available_groups, matrix_group, theory
from ..testing import LAWS, axiom_errors
from ..workflows.display import table

_DTYPES = (torch.float32, torch.float64)

_KINDS = {"trans": "translation", "rot": "rotation", "scale": "scale", "shear": "shear"}

# Properties of the algebra of every group, which hold up to `_ROUNDING` in float64.
PROPERTIES = {
    "closure": "brackets of generators are in the algebra",
    "Jacobi": "[x, [y, z]] + [y, [z, x]] + [z, [x, y]] = 0",
    "orthonormal": "tr(B_i^T B_j) is 1 for i = j, else 0",
    "invariance": "the orthogonal action maps every block to itself",
    "irreducible": "invariant quadratic forms on a block, other than its norm",
}
_ROUNDING = 1e-9

# Section 3.6 of the paper: dimension, sizes of the blocks, Ad-invariant metric or not.
PAPER = {
    "SO2": (1, (1,), True),
    "SE2": (3, (2, 1), False),
    "SO3": (3, (3,), True),
    "SE3": (6, (3, 3), False),
    "Aff2": (6, (2, 1, 1, 2), False),
    "Aff3": (12, (3, 3, 1, 5), False),
}


@dataclass(frozen=True)
class Instantiation:
    """What follows from the generators of a group; nothing is read from the group's file."""

    group: Group
    blocks: tuple[Block, ...]
    forms: int  # dimension of the space of Ad-invariant symmetric bilinear forms
    metric: theory.InvariantMetric
    errors: dict[str, float]  # of `PROPERTIES`

    @property
    def dim(self) -> int:
        return sum(block.dim for block in self.blocks)

    @property
    def agrees(self) -> bool:
        """Same as the group's own blocks and, for the six groups of the paper, as its table."""
        sizes = tuple(block.dim for block in self.blocks)
        claim = PAPER.get(self.group.name, (self.dim, sizes, self.metric.exists))
        return self.blocks == self.group.blocks and claim == (self.dim, sizes, self.metric.exists)


@dataclass(frozen=True)
class Measurement:
    """Worst error of each law for a group in a dtype, and the allowed error."""

    group: Group
    dtype: torch.dtype
    errors: dict[str, float]
    allowed: dict[str, float]


def instantiation(group: Group) -> Instantiation:
    """Compute the row of the paper's table for a group from its generators alone."""
    basis = group.basis(dtype=torch.float64)
    return Instantiation(
        group=group,
        blocks=matrix_group(str(group), basis).blocks,
        forms=len(theory.invariant_forms(basis)),
        metric=theory.invariant_metric(basis),
        errors=property_errors(group),
    )


def property_errors(group: Group) -> dict[str, float]:
    """Errors of the algebra of a group in each of `PROPERTIES`, with the group's own blocks.

    For reducible blocks it is the number of additional invariant forms.
    """
    basis = group.basis(dtype=torch.float64)
    flat = basis.flatten(1)
    products = torch.einsum("iab,jbc->ijac", basis, basis)
    brackets = (products - products.transpose(0, 1)).flatten(2)
    c = brackets @ flat.mT
    nested = torch.einsum("jkl,ilm->ijkm", c, c)
    cyclic = nested + nested.permute(2, 0, 1, 3) + nested.permute(1, 2, 0, 3)
    actions = theory.orthogonal_action(basis)
    sizes = [block.dim for block in group.blocks]
    apart = torch.block_diag(*(torch.ones(size, size) for size in sizes)) == 0
    own = (rows.split(sizes, dim=2)[k] for k, rows in enumerate(actions.split(sizes, dim=1)))
    left_over = [len(theory.commutant(block)) - 1 for block in own]
    errors = (
        (brackets - c @ flat).abs().max(),
        cyclic.abs().max(),
        (flat @ flat.mT - torch.eye(group.dim)).abs().max(),
        (actions * apart).abs().max(),
        max(left_over),
    )
    return dict(zip(PROPERTIES, map(float, errors), strict=True))


def measure(group: Group, dtype: torch.dtype, samples: int, seed: int) -> Measurement:
    """Measure the laws of the construction on random elements."""
    allowed = {law.name: law.allowed(group, dtype) for law in LAWS}
    return Measurement(group, dtype, axiom_errors(group, dtype, samples, seed), allowed)


def run(console: Console, samples: int = 2000, seed: int = 0) -> bool:
    """Print both tables; True if everything agrees and every law holds."""
    start = time.perf_counter()
    rows = [instantiation(group) for group in available_groups().values()]
    console.print(_instantiation_table(rows))
    console.print(_property_table(rows))
    console.print()
    measurements = []
    with unwinding(), console.status("measuring"):
        for group in available_groups().values():
            measurements += [measure(group, dtype, samples, seed) for dtype in _DTYPES]
    console.print(_law_table(measurements, samples))
    failures = [f"{row.group}: not the paper's row" for row in rows if not row.agrees]
    checks = [
        (f"{row.group}: {name}", error, _ROUNDING)
        for row in rows
        for name, error in row.errors.items()
    ]
    checks += [
        (f"{m.group} {_short(m.dtype)}: {law.name}", m.errors[law.name], m.allowed[law.name])
        for m in measurements
        for law in LAWS
    ]
    failures += [
        f"{name} is off by {error:.1e}, allowed {allowed:.1e}"
        for name, error, allowed in checks
        if not error <= allowed
    ]
    for failure in failures:
        console.print(Text(f"FAILED  {failure}", style="bold red"))
    seconds = time.perf_counter() - start
    count = len(rows) + len(checks)
    verdict = f"{count - len(failures)} of {count} checks hold"
    style = "bold red" if failures else "bold green"
    console.print(Text.assemble((verdict, style), f" ({seconds:.1f} s)"))
    return not failures


def _instantiation_table(rows: list[Instantiation]) -> Table:
    made = table(
        "Instantiations, computed from the generators",
        "group",
        *("dim", *_KINDS, "K", "forms"),
        caption="trans to shear: sizes of the blocks. K: block weights a head.\n"
        "forms: dimension of the space of Ad-invariant symmetric bilinear forms.\n"
        "metric: is one of them positive definite?",
    )
    made.add_column("metric")
    made.add_column("paper")
    for row in rows:
        blocks = [
            " + ".join(str(block.dim) for block in row.blocks if block.kind == kind)
            for kind in _KINDS.values()
        ]
        claim = "—" if row.group.name not in PAPER else "agrees" if row.agrees else "DIFFERS"
        metric = f"{'yes' if row.metric.exists else 'no'}, {row.metric.reason}"
        cells = (str(row.group), str(row.dim), *blocks, str(len(row.blocks)), str(row.forms))
        made.add_row(*cells, metric, claim, style=None if row.agrees else "red")
    return made


def _property_table(rows: list[Instantiation]) -> Table:
    statements = "\n".join(f"{name}: {text}" for name, text in PROPERTIES.items())
    caption = Text(f"{statements}\nRed: more than {_ROUNDING:.0e}.")
    made = table("Algebras, worst errors in float64", "group", *PROPERTIES, caption=caption)
    for row in rows:
        cells = [_cell(error, _ROUNDING) for error in row.errors.values()]
        made.add_row(str(row.group), *cells)
    return made


def _law_table(measurements: list[Measurement], samples: int) -> Table:
    statements = "\n".join(f"{law.name}: {law.statement}" for law in LAWS)
    caption = f"{statements}\n{samples:,} samples a row; red: more than rounding explains."
    names = ("dtype", *(law.name for law in LAWS))
    made = table("Laws, worst relative error", "group", *names, caption=caption)
    for i, m in enumerate(measurements):
        cells = [_cell(m.errors[law.name], m.allowed[law.name]) for law in LAWS]
        last = i % len(_DTYPES) == len(_DTYPES) - 1
        made.add_row("" if last else str(m.group), _short(m.dtype), *cells, end_section=last)
    return made


def _cell(error: float, allowed: float) -> Text:
    return Text(f"{error:.1e}" if error else "0", style="" if error <= allowed else "bold red")


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
