"""Answers by analogy: the step between two visible tokens, repeated from a third."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor, nn

from ...groups import Group

REACH = 8  # most places from a missing token to the one that its step starts from
WIDE, MOST = 128, 32  # analogies of a token that are computed, and that get votes
SAME = 1e-3  # absolute and relative difference up to which entries of poses are equal
# Initial weights: of tokens alike at both ends of a step, alike at its end, of short steps and of
# examples near by (`_marks`); and the penalty of a pose that the set already has.
START, AGAIN = (2.0, 0.5, 1.0, 0.3), -4.0


class Steps(NamedTuple):
    """Steps from token j to the missing token i that equal those from k to l, `[n, T]` each."""

    j: Tensor
    k: Tensor
    l: Tensor
    there: Tensor  # [n, T], whether j, k and l are visible

    def take(self, index: Tensor) -> Steps:
        return Steps(*(x.gather(1, index) for x in self))


class Analogies(nn.Module):
    """Poses `g_j g_k^-1 g_l` for missing tokens i, where l is as many places from k as i from j.

    Steps repeat in rows, grids and symmetric parts. The answers are equivariant.
    """

    def __init__(self, dim: int, parts: int) -> None:
        super().__init__()
        self.trust = nn.Linear(dim, parts)
        nn.init.zeros_(self.trust.weight)
        nn.init.zeros_(self.trust.bias)
        self.weights = nn.Parameter(torch.tensor(START).repeat(parts, 1))
        self.again = nn.Parameter(torch.full((parts, 1), AGAIN))

    def forward(
        self,
        group: Group,
        states: Tensor,
        known: Tensor,
        visible: Tensor,
        features: Tensor | None,
        rows: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor]:
        """Poses `[n, M, m, m]` of missing tokens `rows`, and logits `[n, P, M]`, -inf for none.

        Args:
            states: `[..., N, d]`.
            known: visible poses, and first guesses of missing ones, `[..., N, m, m]`.
            visible: `[..., N]`.
            features: `[..., N, F]`. Tokens with the same features, of norm 1, are alike; without
                features all tokens are.
        """
        sets, token = rows[:-1], rows[-1]
        seen, poses = visible[sets], known[sets].detach()
        seen, poses = seen.expand(len(token), -1), poses.expand(len(token), *poses.shape[-3:])
        alike = torch.ones(*seen.shape, seen.shape[-1]).to(states)
        if features is not None:
            alike = (features @ features.mT)[sets].expand_as(alike).to(states)
        steps = steps_to(token, seen)
        logits = self.weights @ _marks(token, steps, alike).mT + self.trust(states[rows])[..., None]
        logits = logits.masked_fill(~steps.there[:, None], -torch.inf)
        likely, logits = _likeliest(logits, WIDE)
        steps = steps.take(likely)
        # Compared in the frames of first guesses, so that equality is invariant.
        n = torch.arange(len(token), device=token.device)[:, None]
        first = poses[n, token[:, None]]
        local = group.relative(first.expand_as(poses), poses)
        found = local[n, steps.j] @ (group.inverse(poses)[n, steps.k] @ poses[n, steps.l])
        found = torch.where(
            steps.there[..., None, None], found, torch.eye(found.shape[-1]).to(found)
        )
        twins = seen & (alike[n[:, 0], token] > 0.5)
        again = (same(found[:, :, None], local[:, None]) & twins[:, None]).any(-1)
        logits = logits + self.again * again[:, None].to(logits)
        likely, logits = _likeliest(logits, MOST)
        found = found[n, likely]
        return first @ found, pooled(found, logits)


def steps_to(token: Tensor, seen: Tensor) -> Steps:
    """All steps to missing tokens `[n]` of sets in which tokens `seen [n, N]` are visible.

    >>> seen = torch.tensor([[True, True, False, True]])
    >>> steps = steps_to(torch.tensor([2]), seen)
    >>> [(int(j), int(k), int(l)) for j, k, l, there in zip(*(x[0] for x in steps)) if there]
    [(1, 0, 1), (0, 1, 3), (3, 1, 0)]
    """
    size = seen.shape[-1]
    lengths = torch.arange(1, min(REACH, size - 1) + 1, device=token.device)
    d = torch.cat([lengths, -lengths])[:, None]
    k = torch.arange(size, device=token.device)
    j, l = token[:, None, None] - d, k + d
    shape = (len(token), len(d), size)
    j, k, l = (x.expand(shape).flatten(1) for x in (j, k, l))
    there = (j >= 0) & (j < size) & (l >= 0) & (l < size) & (k != j)
    j, l = j.clamp(0, size - 1), l.clamp(0, size - 1)
    there = there & seen.gather(1, j) & seen.gather(1, k) & seen.gather(1, l)
    return Steps(j, k, l, there)


def _marks(token: Tensor, steps: Steps, alike: Tensor) -> Tensor:
    """Features that analogies are weighted by, `[n, T, 4]`."""
    n = torch.arange(len(token), device=token.device)[:, None]
    end = alike[n, token[:, None], steps.l]
    both = end * alike[n, steps.j, steps.k]
    ways = [(x - steps.j).abs().clamp(min=1).to(alike).log() for x in (token[:, None], steps.k)]
    return torch.stack([both, end, -ways[0], -ways[1]], -1)


def _likeliest(logits: Tensor, most: int) -> tuple[Tensor, Tensor]:
    """Indices and logits of the likeliest options, by logits `[n, P, T]` averaged over parts."""
    index = logits.mean(1).topk(min(most, logits.shape[-1])).indices
    return index, logits.gather(-1, index[:, None].expand(-1, logits.shape[1], -1))


def same(a: Tensor, b: Tensor) -> Tensor:
    """Whether matrices are equal up to rounding."""
    return torch.isclose(a, b, rtol=SAME, atol=SAME).all(-1).all(-1)


def pooled(poses: Tensor, logits: Tensor) -> Tensor:
    """Logits `[n, P, M]` of poses `[n, M, m, m]`, where the first of equal poses gets the sum."""
    twins = same(poses[:, :, None], poses[:, None])
    index = torch.arange(twins.shape[-1], device=twins.device)
    first = twins.int().argmax(-1) == index
    none = logits.isneginf()
    finite = logits.masked_fill(none, torch.finfo(logits.dtype).min)  # finite, or gradients are NaN
    found = finite[:, :, None].masked_fill(~twins[:, None], -torch.inf).logsumexp(-1)
    return found.masked_fill(none | ~first[:, None], -torch.inf)
