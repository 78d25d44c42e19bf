"""`lieattn verify`: the paper's table of instantiations and its laws, computed and measured."""

from __future__ import annotations

import time
from dataclasses import dataclass

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text

from .._core.stopping import unwinding
from ..groups import Block, Group, available_groups, matrix_group, theory
from ..testing import LAWS, axiom_errors

_DTYPES = (torch.float32, torch.float64)

_KINDS = {"trans": "translation", "rot": "rotation", "scale": "scale", "shear": "shear"}

# What holds for the algebra of every group, and how far it may be off in float64.
PROPERTIES = {
    "closure": "brackets of generators are in the algebra",
    "Jacobi": "[x, [y, z]] + [y, [z, x]] + [z, [x, y]] = 0",
    "orthonormal": "tr(B_i^T B_j) is 1 for i = j, else 0",
    "invariance": "the orthogonal action maps every block to itself",
    "irreducible": "quadratic forms on a block that the action leaves alone, but for its norm",
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
    """What the generators of a group say about it; nothing is taken from the group's file."""

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
    """Worst error of each law for a group in a dtype, beside what the table allows."""

    group: Group
    dtype: torch.dtype
    errors: dict[str, float]
    allowed: dict[str, float]

    def holds(self, law: str) -> bool:
        return self.errors[law] <= self.allowed[law]


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
    """By how much the algebra of a group misses each of `PROPERTIES`, with the group's own blocks.

    What makes a block reducible is counted: forms that are left over.
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
    failures += [
        f"{row.group}: {name} is off by {error:.1e}, allowed {_ROUNDING:.1e}"
        for row in rows
        for name, error in row.errors.items()
        if not error <= _ROUNDING
    ]
    failures += [
        f"{m.group} {_short(m.dtype)}: {law.name} errs by {m.errors[law.name]:.1e}, "
        f"allowed {m.allowed[law.name]:.1e}"
        for m in measurements
        for law in LAWS
        if not m.holds(law.name)
    ]
    for failure in failures:
        console.print(Text(f"FAILED  {failure}", style="bold red"))
    seconds = time.perf_counter() - start
    count = len(rows) * (1 + len(PROPERTIES)) + len(measurements) * len(LAWS)
    verdict = f"{count - len(failures)} of {count} checks hold"
    style = "bold red" if failures else "bold green"
    console.print(Text.assemble((verdict, style), f" ({seconds:.1f} s)"))
    return not failures


def _instantiation_table(rows: list[Instantiation]) -> Table:
    table = Table(
        title="Instantiations, computed from the generators",
        box=SIMPLE_HEAD,
        pad_edge=False,
        caption="trans to shear: sizes of the blocks. K: block weights a head.\n"
        "forms: dimension of the space of Ad-invariant symmetric bilinear forms.\n"
        "metric: is one of them positive definite?",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("group")
    table.add_column("dim", justify="right")
    for name in _KINDS:
        table.add_column(name, justify="right")
    table.add_column("K", justify="right")
    table.add_column("forms", justify="right")
    table.add_column("metric")
    table.add_column("paper")
    for row in rows:
        blocks = [
            " + ".join(str(block.dim) for block in row.blocks if block.kind == kind)
            for kind in _KINDS.values()
        ]
        claim = "—" if row.group.name not in PAPER else "agrees" if row.agrees else "DIFFERS"
        metric = f"{'yes' if row.metric.exists else 'no'}, {row.metric.reason}"
        style = None if row.agrees else "red"
        cells = (str(row.group), str(row.dim), *blocks, str(len(row.blocks)), str(row.forms))
        table.add_row(*cells, metric, claim, style=style)
    return table


def _property_table(rows: list[Instantiation]) -> Table:
    statements = "\n".join(f"{name}: {text}" for name, text in PROPERTIES.items())
    table = Table(
        title="Algebras, worst errors in float64",
        box=SIMPLE_HEAD,
        pad_edge=False,
        caption=Text(f"{statements}\nRed: more than {_ROUNDING:.0e}."),
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("group")
    for name in PROPERTIES:
        table.add_column(name, justify="right")
    for row in rows:
        cells = [
            Text(f"{error:.1e}" if error else "0", style="" if error <= _ROUNDING else "bold red")
            for error in row.errors.values()
        ]
        table.add_row(str(row.group), *cells)
    return table


def _law_table(measurements: list[Measurement], samples: int) -> Table:
    statements = "\n".join(f"{law.name}: {law.statement}" for law in LAWS)
    table = Table(
        title="Laws, worst relative error",
        box=SIMPLE_HEAD,
        pad_edge=False,
        caption=f"{statements}\n{samples:,} samples a row; red: more than rounding explains.",
        title_justify="left",
        caption_justify="left",
    )
    table.add_column("group")
    table.add_column("dtype")
    for law in LAWS:
        table.add_column(law.name, justify="right")
    for i, m in enumerate(measurements):
        cells = [
            Text(f"{m.errors[law.name]:.1e}", style="" if m.holds(law.name) else "bold red")
            for law in LAWS
        ]
        last = i % len(_DTYPES) == len(_DTYPES) - 1
        name = "" if last else str(m.group)
        table.add_row(name, _short(m.dtype), *cells, end_section=last)
    return table


def _short(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")
