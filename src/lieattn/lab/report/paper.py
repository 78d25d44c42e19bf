"""What the paper printed, Tables of Section 5, to stand beside what was measured."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Printed:
    """One row of the paper's tables; spreads are over three seeds."""

    pose_error: float
    pose_spread: float
    flanking: float
    equivariance: float


PAPER: dict[tuple[str, str], Printed] = {
    ("SE2", "G"): Printed(0.003, 0.001, 1.000, 4.0e-10),
    ("SE2", "C"): Printed(0.005, 0.001, 1.000, 1.3e-12),
    ("SE2", "A"): Printed(0.069, 0.002, 0.999, 1.3e-1),
    ("SO3", "G"): Printed(1.8e-4, 0.1e-4, 0.998, 1.6e-14),
    ("SO3", "C"): Printed(1.3e-4, 0.5e-4, 0.998, 2.7e-14),
    ("SO3", "A"): Printed(0.067, 0.002, 0.965, 7.4e-2),
    ("Aff2", "G"): Printed(0.007, 0.002, 1.000, 2.3e-5),
    ("Aff2", "C"): Printed(0.007, 0.001, 1.000, 1.4e-9),
    ("Aff2", "A"): Printed(0.79, 0.10, 0.953, 1.29),
}
