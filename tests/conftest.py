"""Groups and dtypes that every shared test runs over; a registered group joins by itself."""

import pytest
import torch

import lieattn
from every_group import ALL_GROUPS
from lieattn import Group
from native_cases import LIBRARIES, needs_kernel, use

torch.set_num_threads(1)  # two workers share two cores


@pytest.fixture(params=list(lieattn.available_groups()))
def group(request: pytest.FixtureRequest) -> Group:
    """Each registered group."""
    return lieattn.get_group(request.param)


@pytest.fixture(params=list(ALL_GROUPS))
def any_group(request: pytest.FixtureRequest) -> Group:
    """Each registered group, and the groups known by their generators alone."""
    return ALL_GROUPS[request.param]


@pytest.fixture(params=[torch.float32, torch.float64], ids=["float32", "float64"])
def dtype(request: pytest.FixtureRequest) -> torch.dtype:
    return request.param


@pytest.fixture
def generator() -> torch.Generator:
    return torch.Generator().manual_seed(20260214)


@pytest.fixture
def seeded() -> None:
    """The same random numbers in every run."""
    torch.manual_seed(0)


@pytest.fixture(params=list(LIBRARIES) or [pytest.param("none", marks=needs_kernel)])
def build(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> str:
    """Each build of the native kernel in its turn."""
    use(monkeypatch, LIBRARIES[request.param])
    return request.param
