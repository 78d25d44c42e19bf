"""Fitted polynomials and resolvents: what the tools make is what package and kernel hold."""

import runpy
from pathlib import Path

import numpy as np
import pytest
import torch

from lieattn.groups import series as _series

TOOLS = Path(__file__).parents[1] / "tools"
TOOL = runpy.run_path(str(TOOLS / "fit_series.py"))
RESOLVENTS = runpy.run_path(str(TOOLS / "fit_resolvents.py"))
PACKAGE = [(name, i) for name in TOOL["PACKAGE"] for i in range(2)]


@pytest.mark.parametrize(("name", "which"), PACKAGE)
def test_the_packages_coefficients_are_those_that_the_tool_fits(name: str, which: int) -> None:
    series = TOOL["PACKAGE"][name][which]
    dtype = {np.float32: torch.float32, np.float64: torch.float64}[series.dtype]
    held = getattr(_series, name)[dtype]
    np.testing.assert_allclose(held, series.fit(), rtol=1e-15)
    assert series.worst_error(list(held)) <= series.error


@pytest.mark.parametrize("native", TOOL["NATIVE"], ids=lambda x: f"{x.file}-{x.array}")
def test_the_kernels_coefficients_are_those_that_the_tool_fits(native: object) -> None:
    held = native.read()  # type: ignore[attr-defined]
    assert held == native.fit()  # type: ignore[attr-defined]
    assert native.worst_error(held) <= native.error  # type: ignore[attr-defined]


def test_the_resolvents_of_the_kernel_err_as_little_as_is_said() -> None:
    poles, factors = RESOLVENTS["held"]()
    assert len(poles) == 5
    assert len(factors) == 6
    assert np.abs(RESOLVENTS["errors"](poles, factors)).max() <= 2e-8
