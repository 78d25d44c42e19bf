"""Gauss-Legendre quadrature: the diagonal Pade approximants of the logarithm in disguise."""

from __future__ import annotations

import math

import torch


def gauss_legendre(count: int) -> tuple[tuple[float, float], ...]:
    """Nodes and weights on [0, 1], by Newton's method on the Legendre polynomial."""
    rule = []
    for i in range(count):
        x = math.cos(math.pi * (i + 0.75) / (count + 0.5))
        for _ in range(50):
            p0, p1 = 1.0, x
            for k in range(2, count + 1):
                p0, p1 = p1, ((2 * k - 1) * x * p1 - (k - 1) * p0) / k
            slope = count * (x * p1 - p0) / (x * x - 1)
            x -= p1 / slope
        rule.append(((1 + x) / 2, 1 / ((1 - x * x) * slope * slope)))
    return tuple(rule)


# Square roots before the quadrature, and its nodes: log to full precision for |log A| up to 23.
ROOTS = {torch.float32: 5, torch.float64: 6}
RULE = {torch.float32: gauss_legendre(4), torch.float64: gauss_legendre(7)}
