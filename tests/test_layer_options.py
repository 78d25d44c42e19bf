"""Options of layers are obeyed or refused, also where another way to the result would be open."""

import pytest
import torch
from torch import Tensor, nn

import lieattn as la
from lieattn import distributed, scores

N = 6
POSES = la.SE3.random(2, N)
H = torch.randn(2, N, 8)


def layer(**options: object) -> la.LieAttention:
    torch.manual_seed(0)
    return la.LieAttention(la.SE3, 8, 2, **options)


@pytest.mark.parametrize("backend", ["tiled", "native"])
def test_a_backend_that_is_named_does_not_take_relations(backend: str) -> None:
    rel = la.relations(la.SE3, POSES, POSES)
    with pytest.raises(ValueError, match=f"{backend!r} computes relations itself: pass poses"):
        layer(backend=backend)(H, rel)
    assert torch.equal(layer(backend="reference")(H, rel), layer()(H, rel))


def test_relations_are_those_of_the_keys_already() -> None:
    rel = la.relations(la.SE3, POSES, POSES)
    with pytest.raises(ValueError, match="leave out context_poses"):
        layer()(H, rel, context=H, context_poses=la.SE3.random(2, N))


def test_exclude_self_holds_for_relations_that_are_given() -> None:
    rel = la.relations(la.SE3, POSES, POSES)
    expected = layer()(H, POSES)
    torch.testing.assert_close(layer(exclude_self=True)(H, rel), expected)
    assert not torch.allclose(layer()(H, rel), expected, atol=1e-3)  # it tells the pairs itself
    lists = torch.arange(N).expand(2, N, N)
    listed = la.neighbour_relations(la.SE3, POSES, POSES, lists)
    found = layer(exclude_self=True)(H, listed, neighbours=lists)
    torch.testing.assert_close(found, expected)


@pytest.mark.parametrize("way", ["hook", "pre-hook", "forward"])
def test_what_watches_a_score_is_asked(way: str) -> None:
    attention = layer()
    own = attention.score.forward

    def doubled(module: nn.Module, coords: tuple[Tensor], logits: Tensor) -> Tensor:
        return 2 * logits

    if way == "hook":
        attention.score.register_forward_hook(doubled)
    elif way == "pre-hook":
        attention.score.register_forward_pre_hook(lambda module, given: (2**0.5 * given[0],))
    else:
        attention.score.forward = lambda coords: 2 * own(coords)
    weights = scores.NormScore(la.SE3, 2).weights.detach()
    values = torch.randn(2, 2, N, 3)
    found = la.lie_attention(la.SE3, POSES, POSES, values, attention.score)
    expected = la.lie_attention(la.SE3, POSES, POSES, values, 2 * weights)
    for x, y in zip(found, expected, strict=True):
        torch.testing.assert_close(x, y)


def test_a_score_of_your_own_keeps_its_parameterisation() -> None:
    score = scores.NormScore(la.SE3, 2)
    with pytest.raises(ValueError, match="positive softplus, the layer log"):
        layer(score=score, positive="log")
    assert layer(score=scores.NormScore(la.SE3, 2, positive="log")).score.positive == "log"


def test_other_keys_have_no_self_to_exclude() -> None:
    values, weights = torch.randn(2, 2, N, 3), torch.ones(2, 2)
    with pytest.raises(ValueError, match="exclude_self is for a set with itself"):
        distributed.sharded_attention(
            la.SE3, POSES, values, weights, exclude_self=True, key_poses=la.SE3.random(2, N)
        )
