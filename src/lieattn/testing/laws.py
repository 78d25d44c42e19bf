"""Measured errors of the group laws, and the table of what floating point allows."""

from __future__ import annotations

from dataclasses import dataclass
from functools import partial

import torch
from torch import Generator, Tensor

from ..groups import Group


@dataclass(frozen=True)
class Law:
    """A law of the construction, and the relative error it may show."""

    name: str
    statement: str
    reason: str
    allowed_eps: dict[str, float]  # family of groups -> multiple of machine epsilon

    def allowed(self, group: Group, dtype: torch.dtype) -> float:
        """Largest relative error of this law for a group in a dtype."""
        family = group.name.rstrip("0123456789")
        factor = self.allowed_eps.get(family, self.allowed_eps["other"])
        return float(factor * torch.finfo(dtype).eps)


LAWS = (
    Law(
        "round trip",
        "log(exp(x)) = x",
        "the log divides by the distance to the cut, of which samples keep 0.1 rad clear",
        {"SO": 8, "SE": 8, "Sim": 24, "Aff": 120, "other": 120},
    ),
    Law(
        "invariance",
        "log((a g)^-1 (a h)) = log(g^-1 h)",
        "rounding a g to the dtype moves it by eps |a| |g|, and the inverse multiplies by |g^-1|",
        {"SO": 20, "SE": 30, "Sim": 70, "Aff": 210, "other": 4000},
    ),
    Law(
        "antisymmetry",
        "log(h^-1 g) = -log(g^-1 h)",
        "both sides round the relative pose, each with the condition of its own inverse",
        {"SO": 8, "SE": 20, "Sim": 24, "Aff": 480, "other": 5000},
    ),
    Law(
        "cocycle",
        "g_ij g_jk = g_ik for g_i exp(delta_i)",
        "three products and two inverses",
        {"SO": 25, "SE": 16, "Sim": 12, "Aff": 24, "other": 70},
    ),
)
"""The tolerance table: the worst seen over 100,000 samples a group and dtype, times four."""


def sample_coordinates(
    group: Group, *batch: int, generator: Generator | None = None, dtype: torch.dtype | None = None
) -> Tensor:
    """Coordinates `[*batch, dim]` whose exponential is 0.1 rad inside the principal chart.

    The linear part has a norm below pi - 0.1, hence eigenvalues with imaginary parts below it.
    """
    x = torch.randn(*batch, group.dim, generator=generator, dtype=dtype)
    size = torch.linalg.matrix_norm(group.hat(x), ord=2)
    target = (torch.pi - 0.1) * torch.rand(batch, generator=generator, dtype=dtype)
    return x * (target / size)[..., None]


def axiom_errors(
    group: Group,
    dtype: torch.dtype = torch.float64,
    samples: int = 1000,
    seed: int = 0,
) -> dict[str, float]:
    """Worst relative error of each law of `LAWS` over random samples.

    >>> from lieattn import SE3
    >>> max(axiom_errors(SE3).values()) < 1e-12
    True
    """
    generator = torch.Generator().manual_seed(seed)
    random = partial(group.random, generator=generator, dtype=dtype)
    coordinates = partial(sample_coordinates, group, generator=generator, dtype=dtype)
    x, g, a = coordinates(samples), random(samples), random(samples)
    h = group.compose(g, group.exp(x))
    w = group.log_relative(g, h)
    moved = group.log_relative(group.compose(a, g), group.compose(a, h))
    outputs = group.compose(random(samples, 3), group.exp(coordinates(samples, 3)))
    return {
        "round trip": _worst(group.log(group.exp(x)), x),
        "invariance": _worst(moved, w),
        "antisymmetry": _worst(group.log_relative(h, g), -w),
        "cocycle": _cocycle_error(group, outputs),
    }


def assert_axioms(group: Group, dtype: torch.dtype = torch.float64, samples: int = 1000) -> None:
    """Raise AssertionError with the first law whose error exceeds the table."""
    errors = axiom_errors(group, dtype, samples)
    for law in LAWS:
        allowed = law.allowed(group, dtype)
        if not errors[law.name] <= allowed:
            raise AssertionError(
                f"{group} breaks {law.name}, {law.statement}: error {errors[law.name]:.1e} in "
                f"{dtype}, allowed {allowed:.1e}."
            )


def _cocycle_error(group: Group, g: Tensor) -> float:
    gi, gj, gk = g.unbind(1)
    left = group.compose(group.relative(gi, gj), group.relative(gj, gk))
    right = group.relative(gi, gk)
    scale = torch.linalg.matrix_norm(group.relative(gi, gj)) * torch.linalg.matrix_norm(
        group.relative(gj, gk)
    )
    return (torch.linalg.matrix_norm(left - right) / scale).max().item()


def _worst(value: Tensor, truth: Tensor) -> float:
    """Largest |value - truth| / (1 + |truth|); infinite if anything is NaN."""
    error = (value - truth).norm(dim=-1) / (1 + truth.norm(dim=-1))
    return error.nan_to_num(nan=torch.inf).max().item()
