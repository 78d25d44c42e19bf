"""Fit the polynomials of `lieattn.groups.series` and of the kernel's headers in native/.

    python tools/fit_series.py

Prints the monomial coefficients of each (constant first) and the worst error of Horner's rule in
their dtype over the whole interval, over the largest value there. Chebyshev interpolation at 60
digits; tests/test_series.py holds both the package and the headers to what comes out here.
"""

import re
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

import mpmath as mp
import numpy as np

mp.mp.dps = 60
ROOT = Path(__file__).parents[1]
Function = Callable[[mp.mpf], mp.mpf]


def acos_ratio(y: mp.mpf) -> mp.mpf:
    """2 acos(c) / sqrt(1 - c^2) at c = 1 - y: rotation angle over |vector part|."""
    return mp.mpf(2) if y == 0 else 2 * mp.acos(1 - y) / mp.sqrt(y * (2 - y))


def coordinate_ratio(y: mp.mpf) -> mp.mpf:
    """The same for coordinates, which are sqrt(2) times the angle."""
    return mp.sqrt(2) * acos_ratio(y)


def jacobian_ratio(y: mp.mpf) -> mp.mpf:
    """(1 - c f / 2) / (1 - c^2) at c = 1 - y, f = acos_ratio: second-order term of V^-1."""
    if y < mp.mpf(10) ** -25:
        return mp.mpf(1) / 3
    return (1 - (1 - y) * acos_ratio(y) / 2) / (y * (2 - y))


def coordinate_jacobian_ratio(y: mp.mpf) -> mp.mpf:
    """The same where it is multiplied by coordinates, not by the vector part."""
    return jacobian_ratio(y) / coordinate_ratio(y) ** 2


def half_cot(z: mp.mpf) -> mp.mpf:
    """h cot h at h = sqrt(z) / 2, z the squared angle: the diagonal of the planar V^-1."""
    if z == 0:
        return mp.mpf(1)
    h = mp.sqrt(z) / 2
    return h * mp.cot(h)


def power_of_two(x: mp.mpf) -> mp.mpf:
    """2^x: what is left of an exponential when its exponent is taken out."""
    return mp.mpf(2) ** x


@dataclass(frozen=True)
class Series:
    """A polynomial of the package, for one dtype. Its constant is f(0), met exactly."""

    function: Function
    end: mp.mpf  # of an interval that begins at 0
    degree: int
    dtype: type
    error: float  # that it does not exceed

    def fit(self) -> list[float]:
        nodes = _nodes(mp.mpf(0), self.end, self.degree)
        start = self.function(mp.mpf(0))
        rest = _interpolate(nodes, [(self.function(node) - start) / node for node in nodes])
        return [float(start), *map(float, rest)]

    def worst_error(self, coefficients: list[float]) -> float:
        return worst_error(self.function, mp.mpf(0), self.end, coefficients, self.dtype)


@dataclass(frozen=True)
class Native:
    """A polynomial of the kernel, in float32, where digits are spread evenly."""

    file: str
    array: str
    function: Function
    low: mp.mpf
    high: mp.mpf
    degree: int
    error: float

    def fit(self) -> list[float]:
        nodes = _nodes(self.low, self.high, self.degree + 1)
        found = _interpolate(nodes, [self.function(node) for node in nodes])
        return [float(np.float32(float(c))) for c in found]

    def read(self) -> list[float]:
        """As they stand in the header."""
        text = (ROOT / "native" / self.file).read_text(encoding="utf-8")
        pattern = rf"const(?:expr)? float {self.array}\[\] = {{(.*?)}};"
        [found] = re.findall(pattern, text, re.DOTALL)
        return [float(np.float32(float(c.strip().removesuffix("f")))) for c in found.split(",")]

    def worst_error(self, coefficients: list[float]) -> float:
        return worst_error(self.function, self.low, self.high, coefficients, np.float32)


PI2 = mp.pi**2
PACKAGE = {
    "_ACOS_RATIO": (
        Series(acos_ratio, mp.mpf(1), 11, np.float32, 1e-7),
        Series(acos_ratio, mp.mpf(1), 23, np.float64, 2e-16),
    ),
    "_JACOBIAN_RATIO": (
        Series(jacobian_ratio, mp.mpf(1), 12, np.float32, 1e-7),
        Series(jacobian_ratio, mp.mpf(1), 23, np.float64, 2e-16),
    ),
    "_HALF_COT": (
        Series(half_cot, PI2, 8, np.float32, 1e-7),
        Series(half_cot, PI2, 16, np.float64, 2e-16),
    ),
}
NATIVE = (
    Native("simd.h", "c", power_of_two, -mp.mpf(1) / 2, mp.mpf(1) / 2, 6, 7e-8),
    # A little beyond pi^2, where a rounded angle may be.
    Native("rigid2.h", "c", half_cot, mp.mpf(0), mp.mpf("9.8697"), 7, 9e-8),
    Native("rigid3.h", "RATIO", coordinate_ratio, mp.mpf(0), mp.mpf(1), 9, 1.1e-7),
    Native("rigid3.h", "SECOND", coordinate_jacobian_ratio, mp.mpf(0), mp.mpf(1), 8, 9e-8),
)


def _nodes(low: mp.mpf, high: mp.mpf, count: int) -> list[mp.mpf]:
    """Roots of Chebyshev's polynomial, moved to an interval."""
    roots = [mp.cos((2 * i + 1) * mp.pi / (2 * count)) for i in range(count)]
    return [low + (high - low) * (1 + x) / 2 for x in roots]


def _interpolate(nodes: list[mp.mpf], values: list[mp.mpf]) -> list[mp.mpf]:
    matrix = mp.matrix([[node**j for j in range(len(nodes))] for node in nodes])
    return list(mp.lu_solve(matrix, mp.matrix(values)))


def worst_error(
    f: Function, low: mp.mpf, high: mp.mpf, coefficients: list[float], dtype: type
) -> float:
    """Of Horner's rule without fused operations, over the largest value of f."""
    grid = [low + (high - low) * (mp.mpf(i) / 997) ** 2 for i in range(998)]
    z = np.array([float(g) for g in grid], dtype=dtype)
    value = np.zeros_like(z)
    for c in reversed(coefficients):
        value = value * z + dtype(c)
    truth = [f(mp.mpf(float(x))) for x in z]
    scale = max(abs(t) for t in truth)
    return max(float(abs(mp.mpf(float(v)) - t) / scale) for v, t in zip(value, truth, strict=True))


def main() -> None:
    for name, pair in PACKAGE.items():
        for series in pair:
            found = series.fit()
            kind = f"{series.dtype.__name__}, degree {series.degree}"
            print(f"# {name}, {kind}, error {series.worst_error(found):.1e}")
            print("    " + "\n    ".join(f"{c!r}," for c in found))
    for each in NATIVE:
        found = each.fit()
        place = f"{each.array} of native/{each.file}, degree {each.degree}"
        print(f"// {place}, error {each.worst_error(found):.1e}")
        print("    " + "\n    ".join(f"{c:.9g}f," for c in found))


if __name__ == "__main__":
    main()
