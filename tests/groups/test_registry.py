"""A name belongs to one group."""

import pytest
import torch

import lieattn as la
from lieattn.groups import register
from lieattn.groups.registry import _REGISTRY


@pytest.fixture
def mine() -> la.Group:
    return la.matrix_group("Mine", torch.tensor([[[0.0, -1.0], [1.0, 0.0]]]))


@pytest.mark.parametrize("name", ["SE3", "se3", "SE(3)"])
def test_a_group_does_not_replace_another(name: str, mine: la.Group) -> None:
    mine.name = name
    try:
        with pytest.raises(ValueError, match=r"is taken by lieattn\.SE3.*another one, such as"):
            register(mine)
        assert la.get_group(name) is la.SE3
    finally:  # whatever happened, other tests have their groups
        _REGISTRY.pop(name, None)
        _REGISTRY["SE3"] = la.SE3


def test_a_group_may_be_registered_again(mine: la.Group) -> None:
    assert register(la.SE3) is la.SE3
    try:
        assert register(mine) is register(mine) is la.get_group("mine")
    finally:
        del _REGISTRY["Mine"]
