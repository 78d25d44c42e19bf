"""Answers that copy the linear part of a visible pose, and the position of the same or another."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...geometry.errors import TINY, relative_errors, softened
from ...groups import Group

TOLERANCE = 0.25  # relative error up to which an option counts as right
INERTIA = 2.0  # initial logit of the corrected guess; those of copies are near zero
ALIKE = 3.0  # initial logit of a copy of a token with the same features, of norm 1
LIKELY = 6  # options among which an answer is chosen
WIDTH = 16  # of queries and keys


class Pointer(nn.Module):
    """Logits of the options of an answer: the corrected guess, or a copy of a visible token."""

    def __init__(self, dim: int, parts: int, features: bool) -> None:
        super().__init__()
        self.parts = parts
        self.query, self.key = (nn.Linear(dim, parts * WIDTH) for _ in range(2))
        self.own = nn.Linear(dim, parts)
        nn.init.zeros_(self.query.weight)
        nn.init.zeros_(self.own.weight)
        nn.init.constant_(self.own.bias, INERTIA)
        self.near = nn.Parameter(torch.ones(parts))
        if features:
            self.alike = nn.Parameter(torch.full((parts,), ALIKE))

    def forward(self, states: Tensor, visible: Tensor, features: Tensor | None) -> Tensor:
        """Logits `[..., N, parts, 1 + N]`; the corrected guess is first."""
        query, key = (
            f(states).unflatten(-1, (self.parts, WIDTH)).transpose(-3, -2)
            for f in (self.query, self.key)
        )
        index = torch.arange(visible.shape[-1], device=visible.device)
        steps = (index[:, None] - index).abs().clamp(min=1).to(query).log()
        copies = query @ key.mT / WIDTH**0.5 - self.near[:, None, None] * steps
        if features is not None:
            alike = (features @ features.mT).to(copies)
            copies = copies + self.alike[:, None, None] * alike[..., None, :, :]
        copies = copies.masked_fill(~visible[..., None, None, :], -torch.inf)
        return torch.cat([self.own(states)[..., None], copies.transpose(-3, -2)], -1)


def options_of(
    moved: Tensor, known: Tensor, analogies: Tensor | None, rows: tuple[Tensor, ...]
) -> Tensor:
    """The options of missing tokens `rows`, `[n, 1 + N + M, m, m]`.

    Args:
        moved: corrected guesses, `[..., N, m, m]`: the first option of each.
        known: poses, `[..., N, m, m]`: the next.
        analogies: `[..., N, M, m, m]`: the others, if there are any.
    """
    sets = known[rows[:-1]].expand(len(rows[-1]), *known.shape[-3:])
    others = [] if analogies is None else [analogies[rows]]
    return torch.cat([moved[rows][:, None], sets, *others], 1)


@torch.no_grad()
def safest(group: Group, unit: Tensor, options: Tensor, votes: Tensor) -> Tensor:
    """The option of least expected error for each part, `[n, P]`, of options `[n, O, m, m]`.

    The expectation is over the likeliest options, by their votes `[n, P, O]`.
    """
    first = _least(options, votes[:, 0], lambda x, y: linear_errors(group, unit, x, y))
    if votes.shape[1] == 1:
        return first[:, None]
    linear = take_option(options, first)

    def apart(x: Tensor, y: Tensor) -> Tensor:
        frame = linear[:, None, None].expand_as(x)
        return position_errors(group, unit, x, with_position(frame, y))

    return torch.stack([first, _least(options, votes[:, 1], apart)], -1)


def _least(options: Tensor, votes: Tensor, apart: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """The option with the least mean distance, by `apart`, to the others, `[n]`."""
    first = torch.zeros_like(votes, dtype=torch.bool)
    first[:, 0] = True  # the corrected guess is always considered
    likely = votes.masked_fill(first, torch.inf).topk(min(LIKELY, votes.shape[-1])).indices
    chances = votes.gather(-1, likely)
    few = options.gather(1, likely[..., None, None].expand(*likely.shape, *options.shape[-2:]))
    pairs = (*likely.shape, likely.shape[-1], *options.shape[-2:])
    off = apart(few[:, :, None].expand(pairs), few[:, None].expand(pairs))
    expected = (off * chances.softmax(-1)[:, None]).sum(-1)
    best = expected.masked_fill(chances.isneginf(), torch.inf).argmin(-1)
    return likely.gather(-1, best[:, None])[:, 0]


def assemble(options: Tensor, chosen: Tensor) -> Tensor:
    """Answers `[n, m, m]` from the options `chosen [n, P]` for each part."""
    parts = [take_option(options, k) for k in chosen.unbind(-1)]
    return parts[0] if len(parts) == 1 else with_position(*parts)


def take_option(options: Tensor, chosen: Tensor) -> Tensor:
    """The options `chosen [n]`, `[n, m, m]` of `[n, O, m, m]`."""
    return options[torch.arange(len(options), device=options.device), chosen]


def with_position(linear: Tensor, position: Tensor) -> Tensor:
    """Poses with the linear parts of some and the positions of others."""
    return torch.cat([linear[..., :-1], position[..., -1:]], -1)


def unlikeliness(
    group: Group, unit: Tensor, options: Tensor, votes: Tensor, truth: Tensor
) -> Tensor:
    """Loss of votes `[n, P, O]`: small if options near the truth `[n, m, m]` have the votes.

    It is the negative log likelihood of drawing an option that is right up to errors of the size
    `TOLERANCE`, in units of errors, summed over parts.
    """
    goals = truth[:, None].expand_as(options)
    errors = [linear_errors(group, unit, options, goals)]
    if votes.shape[1] > 1:
        errors.append(position_errors(group, unit, options, goals))
    off = torch.stack(errors, 1).masked_fill(votes.isneginf(), 0)  # padding may be anything
    found = -TOLERANCE * (votes.log_softmax(-1) - off / TOLERANCE).logsumexp(-1)
    return found.sum(1)


def linear_errors(group: Group, unit: Tensor, x: Tensor, truth: Tensor) -> Tensor:
    """Errors of the linear parts of x, averaged over their blocks."""
    if group.matrix_size == group.n:
        return softened(relative_errors(group, unit, x, truth)).mean(-1)
    placed = with_position(x, truth)
    linear = [k for k, block in enumerate(group.blocks) if block.kind != "translation"]
    errors = softened(relative_errors(group, unit, placed, truth))[..., linear]
    return errors.sum(-1) / max(len(linear), 1)  # translations alone have no linear part


def position_errors(group: Group, unit: Tensor, x: Tensor, truth: Tensor) -> Tensor:
    """Errors of the positions of x, in the frame of the truth's linear part."""
    apart = group.relative(with_position(truth, x), truth)[..., :-1, -1]
    kinds = [block.kind for block in group.blocks]
    return softened((apart.square().sum(-1) + TINY).sqrt() / unit[kinds.index("translation")])
