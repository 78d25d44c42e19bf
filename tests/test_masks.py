"""Masks and biases: every shape has one meaning, in the operator, in layers and in models."""

import torch
from torch import Tensor

import lieattn as la
from lieattn.geometry.pairs import DeferredRelations

B, N, H = 2, 5, 4


def layer() -> la.LieAttention:
    torch.manual_seed(0)
    return la.LieAttention(la.SE3, 8, H)


def inputs() -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(0)
    return torch.randn(B, N, 8, generator=draw), la.SE3.random(B, N, generator=draw)


def masks(*shape: int) -> tuple[Tensor, Tensor]:
    draw = torch.Generator().manual_seed(1)
    a, b = (torch.rand(*shape, generator=draw) < 0.7 for _ in range(2))
    return a, b


# ---- masks that come with the relations --------------------------------------------------------


def test_the_mask_of_deferred_relations_and_another_both_hold() -> None:
    h, g = inputs()
    theirs, own = masks(B, N, N)
    rel = DeferredRelations(g, g, True, la.SE3.chart_margin(), theirs[:, None])
    expected = layer()(h, g, mask=theirs & own)
    torch.testing.assert_close(layer()(h, rel, mask=own), expected)
    torch.testing.assert_close(layer()(h, rel), layer()(h, g, mask=theirs))


def test_the_pairs_of_relations_and_a_mask_both_hold() -> None:
    h, g = inputs()
    theirs, own = masks(B, N, N)
    rel = la.relations(la.SE3, g, g, margin=la.SE3.chart_margin())
    rel = la.Relations(rel.coords, rel.valid & theirs & ~torch.eye(N, dtype=torch.bool))
    torch.testing.assert_close(layer()(h, rel, mask=own), layer()(h, g, mask=theirs & own))
