"""The principal logarithm of any small matrix, against mpmath and beside scipy."""

import warnings

import mpmath
import pytest
import scipy.linalg
import torch
from torch import Tensor

from lieattn import logm


def truth(a: Tensor) -> Tensor:
    """Through the eigenvalues at 60 digits: mpmath.logm is not principal next to the cut."""
    with mpmath.workdps(60):
        values, vectors = mpmath.eig(mpmath.matrix(a.tolist()))
        log = mpmath.diag([mpmath.log(v) for v in values])
        X = vectors * log * mpmath.inverse(vectors)
    return torch.tensor([[float(mpmath.re(v)) for v in row] for row in X.tolist()]).double()


def near_cut(n: int, distance: float, seed: int) -> Tensor:
    """A matrix with a pair of eigenvalues at angle pi - distance, in a random basis."""
    generator = torch.Generator().manual_seed(seed)
    X = torch.diag(torch.randn(n, generator=generator, dtype=torch.float64))
    X[0, 0] = X[1, 1]
    X[1, 0], X[0, 1] = torch.pi - distance, distance - torch.pi
    V = torch.randn(n, n, generator=generator, dtype=torch.float64)
    V = V + 2 * torch.eye(n)
    return V @ torch.from_numpy(scipy.linalg.expm(X.numpy())) @ torch.linalg.inv(V)


@pytest.mark.parametrize("n", [1, 2, 3, 4, 5, 6])
def test_as_exact_as_scipy_where_scipy_is_exact(n: int) -> None:
    generator = torch.Generator().manual_seed(n)
    for _ in range(10):
        X = torch.randn(n, n, generator=generator, dtype=torch.float64)
        a = torch.from_numpy(scipy.linalg.expm(1.5 / n * X.numpy()))
        exact = truth(a)
        ours = (logm(a) - exact).norm()
        theirs = (torch.from_numpy(scipy.linalg.logm(a.numpy())).real - exact).norm()
        assert ours <= 4 * theirs + 1e-14 * (1 + exact.norm())


@pytest.mark.parametrize("distance", [1e-1, 1e-3, 1e-5])
@pytest.mark.parametrize("n", [2, 3, 4, 5])
def test_next_to_the_cut_too(n: int, distance: float) -> None:
    for seed in range(5):
        a = near_cut(n, distance, seed)
        exact = truth(a)
        ours = (logm(a) - exact).norm()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # scipy says that it may be inaccurate here
            theirs = (torch.from_numpy(scipy.linalg.logm(a.numpy()).real) - exact).norm()
        assert ours <= 20 * theirs + 1e-13 * (1 + exact.norm())


@pytest.mark.parametrize("i", range(3))
@pytest.mark.parametrize("j", range(3))
@pytest.mark.parametrize("size", [1e-9, 1.0, -7.0, 1e3])
def test_elementary_shears_and_scalings(i: int, j: int, size: float) -> None:
    E = torch.zeros(3, 3, dtype=torch.float64)
    E[i, j] = size
    if i == j:
        a = torch.eye(3, dtype=torch.float64) + E.abs()
        expected = torch.diag((a.diagonal() - 1).log1p())
        torch.testing.assert_close(logm(a), expected, rtol=1e-14, atol=0)
    else:
        torch.testing.assert_close(logm(torch.eye(3) + E), E, rtol=1e-14, atol=0)


@pytest.mark.parametrize("n", [1, 2, 3, 4])
def test_what_has_no_logarithm_is_nan(n: int) -> None:
    eye = torch.eye(n, dtype=torch.float64)
    mirrored, singular, broken = eye.clone(), eye.clone(), eye.clone()
    mirrored[0, 0], singular[0, 0], broken[0, 0] = -1, 0, torch.nan
    stack = torch.stack((mirrored, singular, broken, eye))
    result = logm(stack)
    assert result[:3].isnan().all()
    assert (result[3] == 0).all()


def test_singular_matrices_of_rank_one_and_two_are_nan() -> None:
    generator = torch.Generator().manual_seed(0)
    u, v = torch.randn(2, 500, 3, 2, generator=generator, dtype=torch.float64)
    assert logm(u @ v.mT).isnan().all()
    assert logm(u[..., :1] @ v[..., :1].mT).isnan().all()


def test_gradient_of_four_by_four() -> None:
    a = near_cut(4, 0.5, 0).requires_grad_()
    torch.autograd.gradcheck(logm, a, atol=1e-5, rtol=1e-4)
    torch.autograd.gradgradcheck(logm, a, fast_mode=True, atol=1e-4, rtol=1e-3)


def test_bad_input_is_explained() -> None:
    with pytest.raises(ValueError, match=r"square matrices .* got \[2, 3\]"):
        logm(torch.zeros(2, 3))
    with pytest.raises(ValueError, match="float32 or float64"):
        logm(torch.eye(2, dtype=torch.float16))
