"""Heads: pooled read-outs see real tokens only; gap logits keep padding out."""

import pytest
import torch

from lieattn import GapHead, InvariantReadout


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_pooling_ignores_padding_and_order(pooling: str) -> None:
    torch.manual_seed(0)
    head, h = InvariantReadout(8, 3, pooling), torch.randn(2, 5, 8)
    mask = torch.arange(5).expand(2, -1) < torch.tensor([[5], [2]])
    out = head(h, mask=mask)
    torch.testing.assert_close(out[0], head(h[0]))
    torch.testing.assert_close(out[1], head(h[1, :2]))
    torch.testing.assert_close(head(h.flip(1), mask=mask.flip(1)), out)


@pytest.mark.parametrize("pooling", ["mean", "sum", "max"])
def test_a_set_without_tokens_pools_to_zeros(pooling: str) -> None:
    head = InvariantReadout(8, 3, pooling)
    h = torch.randn(1, 5, 8, requires_grad=True)
    out = head(h, mask=torch.zeros(1, 5, dtype=torch.bool))
    torch.testing.assert_close(out[0], head.mlp(torch.zeros(8)))
    out.sum().backward()
    assert not h.grad.any()


def test_unknown_pooling_is_answered_with_the_known_ones() -> None:
    with pytest.raises(ValueError, match="unknown pooling 'median'; known are mean, sum, max"):
        InvariantReadout(8, 3, "median")


def test_gap_logits_of_padding_have_no_probability() -> None:
    mask = torch.tensor([[True] * 5, [True] + [False] * 4])
    logits = GapHead(8)(torch.randn(2, 5, 8), mask=mask)
    assert logits.isfinite().all()
    assert logits[1].softmax(-1).tolist() == [1, 0, 0, 0, 0]


@pytest.mark.parametrize("head", [GapHead(64), InvariantReadout(64, 10)])
def test_states_of_another_width_are_refused(head: GapHead | InvariantReadout) -> None:
    with pytest.raises(ValueError, match=r"\[..., N, 64\], got \[2, 7, 32\]. The first argument"):
        head(torch.zeros(2, 7, 32))
