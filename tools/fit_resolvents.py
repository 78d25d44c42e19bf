"""Fit the resolvents of native/aff3.h: artanh(z) / z as a constant and poles in y = z^2.

    python tools/fit_resolvents.py

z = tanh(x / 4) for an eigenvalue e^x of a pair's matrix, so y is off the real axis; the boundary of
the region holds the largest error of what is analytic within. Prints the numbers, and the largest
relative error once they are rounded to float32. tests/test_series.py measures those of the header.
"""

import re
from pathlib import Path

import numpy as np
from scipy.optimize import least_squares

HEADER = Path(__file__).parents[1] / "native" / "aff3.h"
START = (1.06, 1.3, 2.0, 4.0, 14.0)  # poles, all beyond y = 1 where artanh has its own
ROUNDS = 120  # of weighing by the errors, towards equal ones


def boundary(real: float = 2.5, count: int = 300) -> tuple[np.ndarray, np.ndarray]:
    """y and artanh(z) / z around 0 <= Re x <= real, 0 <= Im x <= pi; the rest is symmetric."""
    t = np.linspace(0, 1, count)
    x = np.concatenate([real * t + 1j * np.pi, real + 1j * np.pi * t, real * t[1:]])
    z = np.tanh(x / 4)
    return z * z, x / 4 / z


def columns(poles: np.ndarray, y: np.ndarray) -> np.ndarray:
    """What is multiplied by the constant and the residues."""
    return np.concatenate([np.ones((len(y), 1)), 1 / (poles - y[:, None])], axis=1)


def errors(poles: np.ndarray, factors: np.ndarray) -> np.ndarray:
    """Relative ones, along the boundary."""
    y, truth = boundary()
    return columns(poles, y) @ factors / truth - 1


def best_factors(poles: np.ndarray, weights: np.ndarray) -> np.ndarray:
    """The constant and the residues of least squares for given poles."""
    y, truth = boundary()
    matrix = columns(poles, y) / truth[:, None] * weights[:, None]
    both = np.concatenate([matrix.real, matrix.imag])
    target = np.concatenate([weights, np.zeros_like(weights)])
    return np.linalg.lstsq(both, target, rcond=None)[0]


def fit() -> tuple[np.ndarray, np.ndarray]:
    """Poles, then the constant and the residues for poles as float32 has them."""
    weights = np.ones(len(boundary()[0]))
    at = np.log(np.array(START) - 1)
    found = np.inf, np.array(START)
    for _ in range(ROUNDS):

        def misses(at: np.ndarray, weights: np.ndarray = weights) -> np.ndarray:
            poles = 1 + np.exp(at)
            e = errors(poles, best_factors(poles, weights)) * weights
            return 1e8 * np.concatenate([e.real, e.imag])

        at = least_squares(misses, at, method="lm", max_nfev=60).x
        poles = 1 + np.exp(at)
        size = np.abs(errors(poles, best_factors(poles, weights)))
        found = min(found, (size.max(), poles), key=lambda pair: pair[0])
        weights = weights * np.sqrt(size / size.mean())
        weights /= weights.mean()
    poles = found[1].astype(np.float32).astype(float)
    return poles, best_factors(poles, np.ones_like(weights)).astype(np.float32)


def held() -> tuple[np.ndarray, np.ndarray]:
    """The numbers of the header, as `fit` gives them."""
    text = HEADER.read_text(encoding="utf-8")

    def read(name: str) -> list[float]:
        [numbers] = re.findall(rf"constexpr float {name}(?:\[POLES\])? = {{?(.*?)}}?;", text)
        return [float(np.float32(x.strip().removesuffix("f"))) for x in numbers.split(",")]

    return np.array(read("POLE")), np.array(read("AT_INFINITY") + read("RESIDUE"))


def main() -> None:
    for name, (poles, factors) in (("fitted", fit()), ("native/aff3.h", held())):
        print(f"{name}, largest error {np.abs(errors(poles, factors)).max():.1e}")
        print("  poles       ", ", ".join(f"{x:.9g}" for x in poles))
        print("  at infinity ", f"{factors[0]:.9g}")
        print("  residues    ", ", ".join(f"{x:.9g}" for x in factors[1:]))


if __name__ == "__main__":
    main()
