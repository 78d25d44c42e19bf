"""Scalar functions behind exp and log, exact through their removable singularities.

The only file with cut-offs and polynomial coefficients. Two kinds of function live here:

* polynomials fitted over the *whole* domain of a chart (`tools/fit_series.py` makes them): no
  branch, no transcendental, and a gradient that is a polynomial too;
* entire functions of a squared argument, a Taylor series below a cut-off and the closed form
  above it. Cut-offs sit where the closed form's *derivative* is still good: `sin(x)/x` itself is
  fine down to 1e-300, but its derivative loses eps / x^2.

Both branches of every `where` receive safe inputs: NaN in the branch not taken would otherwise
reach the gradient as 0 * NaN.
"""

from __future__ import annotations

from math import factorial

import torch
from torch import Tensor

# fmt: off
_ACOS_RATIO = {
    torch.float32: (
        2.0, 0.6666666682972414, 0.2666662728595238, 0.11430130698232151, 0.05055499400875512,
        0.024941954740838043, 0.002363774783304997, 0.027688087050184815, -0.036587885043168206,
        0.042158307890767965, -0.024214534820975773, 0.007053703666345379,
    ),
    torch.float64: (
        2.0, 0.6666666666666666, 0.2666666666666659, 0.11428571428585371, 0.05079365078393215,
        0.0230880234467644, 0.01065600254428834, 0.0049729275637208584, 0.002338832320499561,
        0.0011188157786497037, 0.00046624267721065486, 0.0005366262175874291,
        -0.0009070661024667728, 0.0030057070326487767, -0.006702957013835589, 0.01228447553714072,
        -0.01781232128888276, 0.020477646546703563, -0.018382642496806257, 0.01263614261472525,
        -0.00642632234740674, 0.0022840987429903386, -0.0005079191993917021,
        5.364261253505879e-05,
    ),
}
_JACOBIAN_RATIO = {
    torch.float32: (
        0.3333333333333333, 0.2666666654387051, 0.17142892445074942, 0.10157062546325334,
        0.05802616432835154, 0.0290909291550852, 0.033188904421971394, -0.04477878952579737,
        0.12492728302077392, -0.16967886556153192, 0.15748657367781374, -0.0812847996033009,
        0.020023048879241688,
    ),
    torch.float64: (
        0.3333333333333333, 0.26666666666666666, 0.1714285714285647, 0.10158730158847983,
        0.057720057637940865, 0.03196803499862596, 0.01740474889500625, 0.009361609121485018,
        0.004977134199286267, 0.00272637759309192, 0.0008690121971829096, 0.003121634412583049,
        -0.00827888268816823, 0.024994083952624598, -0.05647356263106692, 0.10307470245805593,
        -0.14937877098619307, 0.17142288045674353, -0.15362406226834852, 0.10536515149292008,
        -0.05344623626426446, 0.018932507934819508, -0.00419213844477158, 0.00043984491540231444,
    ),
}
_HALF_COT = {
    torch.float32: (
        1.0, -0.08333333326179478, -0.0013888898148683732, -3.306683242033712e-05,
        -8.282703145080243e-07, -2.027910257183322e-08, -6.509549570149374e-10,
        -7.941755342469257e-16, -1.0279074871767192e-12,
    ),
    torch.float64: (
        1.0, -0.08333333333333333, -0.0013888888888888915, -3.306878306876057e-05,
        -8.267195767958327e-07, -2.0876756852466075e-08, -5.284191588635503e-10,
        -1.3382434933571073e-11, -3.390170283457701e-13, -8.569275729330287e-15,
        -2.2164598847230698e-16, -4.758717169585845e-18, -2.3763314120098427e-19,
        5.5868154677257726e-21, -6.689832637035913e-22, 2.0856054176936863e-23,
        -5.282900238959581e-25,
    ),
}
# (x/2) coth(x/2) in powers of x^2: Bernoulli numbers over factorials.
_HALF_COTH = (
    1.0, 1 / 12, -1 / 720, 1 / 30240, -1 / 1209600, 1 / 47900160, -691 / 1307674368000,
    1 / 74724249600, -3617 / 10670622842880000,
)
# fmt: on

# Terms kept below the cut-off |z| < 1 of the entire functions: 1/(2k+1)! < eps / 100.
_ENTIRE_TERMS = {torch.float32: 7, torch.float64: 11}
# atanh(y)/y in powers of y^2 < _ATANH_CUT: _ATANH_CUT^terms < eps / 100.
_ATANH_CUT = 0.04
_ATANH_TERMS = {torch.float32: 6, torch.float64: 12}


def horner(coefficients: tuple[float, ...], z: Tensor) -> Tensor:
    """Polynomial with the given coefficients, constant first."""
    value = torch.full_like(z, coefficients[-1])
    for c in reversed(coefficients[:-1]):
        value = value * z + c
    return value


def acos_ratio(c: Tensor) -> Tensor:
    """2 acos(c) / sqrt(1 - c^2) for c in [0, 1]: angle over |vector part| of a unit quaternion."""
    return horner(_ACOS_RATIO[c.dtype], 1 - c)


def jacobian_ratio(c: Tensor) -> Tensor:
    """(1 - c f/2) / (1 - c^2), f = acos_ratio(c): second-order coefficient of V^-1 on SE(3)."""
    return horner(_JACOBIAN_RATIO[c.dtype], 1 - c)


def half_cot(z: Tensor) -> Tensor:
    """h cot(h), h = sqrt(z)/2, for a squared angle z in [0, pi^2]."""
    return horner(_HALF_COT[z.dtype], z)


def half_coth_coefficients() -> tuple[float, ...]:
    """Coefficients of (x/2) coth(x/2) in powers of x^2; |x| <= 1/2 gives full float64."""
    return _HALF_COTH


def exp_pair(m: Tensor, q: Tensor) -> tuple[Tensor, Tensor]:
    """(e^m cosh(sqrt q), e^m sinh(sqrt q)/sqrt q) for q of either sign.

    These are the coefficients of I and N in exp(m I + N) when N^2 = q I. For q < 0 they are
    e^m cos and e^m sin(s)/s.
    """
    terms = _ENTIRE_TERMS[q.dtype]
    small = q.abs() < 1
    near = torch.where(small, q, 0)
    growth = m.exp()
    cosh_near = growth * horner(tuple(1 / factorial(2 * k) for k in range(terms)), near)
    sinhc_near = growth * horner(tuple(1 / factorial(2 * k + 1) for k in range(terms)), near)
    real = q >= 1
    s_real = torch.where(real, q, 1).sqrt()
    # e^m cosh(s) as two exponentials: cosh alone overflows where the product does not.
    up, down = (m + s_real).exp(), (m - s_real).exp()
    s_imag = torch.where(q <= -1, -q, 1).sqrt()
    cosh_far = torch.where(real, (up + down) / 2, growth * s_imag.cos())
    sinhc_far = torch.where(real, (up - down) / (2 * s_real), growth * s_imag.sin() / s_imag)
    return torch.where(small, cosh_near, cosh_far), torch.where(small, sinhc_near, sinhc_far)


def rotation_coefficients(z: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """sin(x)/x, (1 - cos x)/x^2, (x - sin x)/x^3 as functions of z = x^2 >= 0."""
    terms = range(_ENTIRE_TERMS[z.dtype])
    small = z < 1
    near = torch.where(small, z, 0)
    far = torch.where(small, 1, z)
    x = far.sqrt()
    a = torch.where(small, _alternating(terms, 1, near), x.sin() / x)
    # 1 - cos x = 2 sin^2(x/2): no cancellation.
    b = torch.where(small, _alternating(terms, 2, near), 2 * (x / 2).sin().square() / far)
    c = torch.where(small, _alternating(terms, 3, near), (x - x.sin()) / (far * x))
    return a, b, c


def _alternating(terms: range, offset: int, z: Tensor) -> Tensor:
    return horner(tuple((-1) ** k / factorial(2 * k + offset) for k in terms), z)


def log_coefficient(m: Tensor, q: Tensor, det: Tensor) -> Tensor:
    """f with log(m I + N) = log(det)/2 I + f N, where N^2 = q I and det = m^2 - q > 0.

    atanh(s/m)/s around q = 0, asinh(s/sqrt det)/s for q > 0 and atan2(s, m)/s for q < 0,
    s = sqrt|q|. One formula would do on paper; each of the three keeps its last bit only where
    it is used. Domain: the principal chart (q < 0, or m > 0 and det > 0).
    """
    small = (q.abs() < _ATANH_CUT * m.square()) & (m > 0)
    m_safe = torch.where(small, m, 1)
    y = torch.where(small, q, 0) / m_safe.square()
    near = horner(tuple(1 / (2 * k + 1) for k in range(_ATANH_TERMS[q.dtype])), y) / m_safe
    real = (q > 0) & ~small
    s_real = torch.where(real, q, 1).sqrt()
    root_det = torch.where(real, det, 1).sqrt()
    s_imag = torch.where((q < 0) & ~small, -q, 1).sqrt()
    far = torch.where(real, (s_real / root_det).asinh() / s_real, torch.atan2(s_imag, m) / s_imag)
    return torch.where(small, near, far)
