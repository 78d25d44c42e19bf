"""Masks and biases of pairs mean one thing, or are refused; the same in operator and layer."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lieattn as la

N, D = 5, 8
Attend = Callable[..., Tensor]


def operator(batch: tuple[int, ...], heads: int) -> Attend:
    poses, values = la.SE2.random(*batch, N), torch.randn(*batch, heads, N, 3)
    weights = torch.ones(heads, 2)
    return lambda **pairs: la.lie_attention(la.SE2, poses, poses, values, weights, **pairs)[0]


def layer(batch: tuple[int, ...], heads: int) -> Attend:
    attention, h = la.LieAttention(la.SE2, 6 * heads, heads), torch.randn(*batch, N, 6 * heads)
    poses = la.SE2.random(*batch, N)
    return lambda **pairs: attention(h, poses, **pairs)


def model(batch: tuple[int, ...], heads: int) -> Attend:
    net = la.LieTransformer(la.SE2, la.LieTransformerConfig(dim=6 * heads, heads=heads, layers=1))
    poses = la.SE2.random(*batch, N)
    return lambda **pairs: net(poses, **pairs).hidden


ATTEND = {"operator": operator, "layer": layer, "model": model}


@pytest.mark.parametrize("kind", ATTEND)
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)], ids=str)
def test_a_bias_has_two_dimensions_or_all(kind: str, batch: tuple[int, ...]) -> None:
    heads = 2
    attend = ATTEND[kind](batch, heads)
    whole = torch.randn(*batch, heads, N, N)
    ones = (1,) * len(batch)
    for bias in (
        whole,
        whole[(0,) * len(batch)][0],
        whole.mean(-1, keepdim=True) + whole.mean(-2, keepdim=True)[..., :1, :],
        torch.randn(*ones, heads, 1, N),
        torch.randn(*batch, 1, N, N),
        torch.randn(1, N),
    ):
        expected = attend(bias=bias.expand(whole.shape))
        torch.testing.assert_close(attend(bias=bias), expected)
    for dims in set(range(len(batch) + 5)) - {2, len(batch) + 3}:
        with pytest.raises(ValueError, match=r"bias must (be \[Nq, Nk\], or \[|have the batch)"):
            attend(bias=torch.zeros((*(1,) * 9, *batch, N, N)[9 + len(batch) + 2 - dims :]))


@pytest.mark.parametrize("kind", ATTEND)
def test_three_dimensions_of_a_bias_are_sets_or_heads(kind: str) -> None:
    """With as many sets as heads either reading fits, and one is wrong without a word."""
    attend, bias = ATTEND[kind]((3,), 3), torch.randn(3, N, N)
    with pytest.raises(ValueError, match=r"one bias a set.*unsqueeze\(-3\).*a head.*bias\[None\]"):
        attend(bias=bias)
    assert not torch.allclose(attend(bias=bias.unsqueeze(-3)), attend(bias=bias[None]))


def test_a_mask_that_could_be_of_sets_or_of_heads_is_refused() -> None:
    attend, mask = operator((3,), 3), torch.rand(3, N, N) < 0.5
    with pytest.raises(ValueError, match=r"sets or of heads.*unsqueeze\(-3\).*mask\[None\]"):
        attend(mask=mask)
    attend(mask=mask.unsqueeze(-3)), attend(mask=mask[None])
    with pytest.raises(ValueError, match="sets or of heads"):
        operator((3, 3), 3)(mask=torch.rand(3, 3, N, N) < 0.5)


def test_masks_of_heads_broadcast_where_they_mean_nothing_else() -> None:
    attend, mask = operator((2,), 3), torch.rand(3, N, N) < 0.5
    assert torch.equal(attend(mask=mask), attend(mask=mask[None]))
    assert torch.equal(attend(mask=mask[:1]), attend(mask=mask[0]))
    alone = operator((), 3)
    assert torch.equal(alone(mask=mask), alone(mask=mask.clone()))
