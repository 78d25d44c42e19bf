"""Fit the polynomials of `lieattn.groups._series` (Chebyshev interpolation at 60 digits).

    python tools/fit_series.py

Prints, for each function and dtype, the monomial coefficients (constant first) and the worst
relative error of Horner's rule in that dtype over the whole interval.
"""

from collections.abc import Callable

import mpmath as mp
import numpy as np

mp.mp.dps = 60


def acos_ratio(y: mp.mpf) -> mp.mpf:
    """2 acos(c) / sqrt(1 - c^2) at c = 1 - y: rotation angle over |vector part|."""
    return mp.mpf(2) if y == 0 else 2 * mp.acos(1 - y) / mp.sqrt(y * (2 - y))


def jacobian_ratio(y: mp.mpf) -> mp.mpf:
    """(1 - c f / 2) / (1 - c^2) at c = 1 - y, f = acos_ratio: second-order term of V^-1."""
    if y < mp.mpf(10) ** -25:
        return mp.mpf(1) / 3
    return (1 - (1 - y) * acos_ratio(y) / 2) / (y * (2 - y))


def half_cot(z: mp.mpf) -> mp.mpf:
    """h cot h at h = sqrt(z) / 2, z the squared angle: the diagonal of the planar V^-1."""
    if z == 0:
        return mp.mpf(1)
    h = mp.sqrt(z) / 2
    return h * mp.cot(h)


def fit(f: Callable[[mp.mpf], mp.mpf], end: mp.mpf, degree: int) -> list[float]:
    """Coefficients of f on [0, end]; the constant term is f(0), met exactly."""
    tail = [mp.cos((2 * i + 1) * mp.pi / (2 * degree)) for i in range(degree)]
    nodes = [end * (1 + x) / 2 for x in tail]
    matrix = mp.matrix([[node**j for j in range(degree)] for node in nodes])
    rest = mp.lu_solve(matrix, mp.matrix([(f(node) - f(mp.mpf(0))) / node for node in nodes]))
    return [float(f(mp.mpf(0)))] + [float(c) for c in rest]


def worst_error(f: Callable, end: mp.mpf, coefficients: list[float], dtype: type) -> float:
    grid = [end * (mp.mpf(i) / 997) ** 2 for i in range(998)]
    z = np.array([float(g) for g in grid], dtype=dtype)
    value = np.zeros_like(z)
    for c in reversed(coefficients):
        value = value * z + dtype(c)
    truth = [f(mp.mpf(float(x))) for x in z]
    scale = max(abs(t) for t in truth)
    return max(float(abs(mp.mpf(float(v)) - t) / scale) for v, t in zip(value, truth, strict=True))


def main() -> None:
    functions = [
        (acos_ratio, mp.mpf(1), (11, 23)),
        (jacobian_ratio, mp.mpf(1), (12, 23)),
        (half_cot, mp.pi**2, (8, 16)),
    ]
    for f, end, degrees in functions:
        for dtype, degree in zip((np.float32, np.float64), degrees, strict=True):
            coefficients = fit(f, end, degree)
            error = worst_error(f, end, coefficients, dtype)
            print(f"# {f.__name__}, {dtype.__name__}: degree {degree}, error {error:.1e}")
            print("    " + "\n    ".join(f"{c!r}," for c in coefficients))


if __name__ == "__main__":
    main()
