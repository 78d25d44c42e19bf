"""The distance to the cut, by two ways, against the eigenvalues."""

import pytest
import torch

from lieattn.groups import _gl3


@pytest.mark.parametrize("margin", [_gl3.margin, _gl3.quick_margin])
def test_margin_of_3x3_matrices_is_that_of_their_eigenvalues(
    margin: object, dtype: torch.dtype, generator: torch.Generator
) -> None:
    a = torch.randn(20_000, 3, 3, generator=generator, dtype=dtype)
    expected = (torch.pi - torch.linalg.eigvals(a.double()).angle().abs()).amin(-1).clamp(min=0)
    # Where two real eigenvalues have just met on the negative axis, the angle is a square root.
    clear = (expected > 1e-2) | (expected == 0)
    torch.testing.assert_close(
        margin(a)[clear].clamp(min=0).double(), expected[clear], rtol=0, atol=1e-4
    )
