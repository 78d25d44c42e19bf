"""Answers that copy: the linear part of one visible pose, the position of the same or another."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor, nn

from ...geometry.errors import TINY, relative_errors, softened
from ...groups import Group

TOLERANCE = 0.25  # error over that of interpolation up to which an option is the right one
INERTIA = 2.0  # logit of a corrected guess at the start; those of copies are near zero
ALIKE = 3.0  # logit of a copy of a token with the same features, of norm 1, at the start
LIKELY = 6  # options among which an answer is chosen
WIDTH = 16  # of the queries and keys that point at what is copied


class Pointer(nn.Module):
    """Logits of what an answer is made of: its corrected guess, or a copy of a visible token."""

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
        """`[..., N, parts, 1 + N]`."""
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
    """What answers of hidden tokens `rows` may be made of, `[n, 1 + N + M, m, m]`.

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
    """Of options `[n, O, m, m]`, part by part, those of the least expected error: `[n, P]`.

    The truth is taken for one of the likeliest options, by their votes `[n, P, O]`.
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
    """Of options `[n, O, m, m]` the one that is least far from all, by their shares: `[n]`."""
    first = torch.zeros_like(votes, dtype=torch.bool)
    first[:, 0] = True  # is always considered
    likely = votes.masked_fill(first, torch.inf).topk(min(LIKELY, votes.shape[-1])).indices
    chances = votes.gather(-1, likely)
    few = options.gather(1, likely[..., None, None].expand(*likely.shape, *options.shape[-2:]))
    pairs = (*likely.shape, likely.shape[-1], *options.shape[-2:])
    off = apart(few[:, :, None].expand(pairs), few[:, None].expand(pairs))
    expected = (off * chances.softmax(-1)[:, None]).sum(-1)
    best = expected.masked_fill(chances.isneginf(), torch.inf).argmin(-1)
    return likely.gather(-1, best[:, None])[:, 0]


def assemble(options: Tensor, chosen: Tensor) -> Tensor:
    """Answers `[n, m, m]`, of options `[n, O, m, m]` those that are `chosen [n, P]` for a part."""
    parts = [take_option(options, k) for k in chosen.unbind(-1)]
    return parts[0] if len(parts) == 1 else with_position(*parts)


def take_option(options: Tensor, chosen: Tensor) -> Tensor:
    """`[n, m, m]` of `[n, O, m, m]`."""
    return options[torch.arange(len(options), device=options.device), chosen]


def with_position(linear: Tensor, position: Tensor) -> Tensor:
    """Poses with the linear parts of some and the positions of others."""
    return torch.cat([linear[..., :-1], position[..., -1:]], -1)


def unlikeliness(
    group: Group, unit: Tensor, options: Tensor, votes: Tensor, truth: Tensor
) -> Tensor:
    """How little votes `[n, P, O]` are for options near the truth `[n, m, m]`, in units of errors.

    The negative logarithm of the likelihood of an option drawn by its votes, that is right up to
    errors of the size `TOLERANCE`; of both parts.
    """
    goals = truth[:, None].expand_as(options)
    errors = [linear_errors(group, unit, options, goals)]
    if votes.shape[1] > 1:
        errors.append(position_errors(group, unit, options, goals))
    off = torch.stack(errors, 1).masked_fill(votes.isneginf(), 0)  # padding may be anything
    found = -TOLERANCE * (votes.log_softmax(-1) - off / TOLERANCE).logsumexp(-1)
    return found.sum(1)


def linear_errors(group: Group, unit: Tensor, x: Tensor, truth: Tensor) -> Tensor:
    """Errors of the linear parts of x, a mean over their blocks."""
    if group.matrix_size == group.n:
        return softened(relative_errors(group, unit, x, truth)).mean(-1)
    placed = with_position(x, truth)
    linear = [k for k, block in enumerate(group.blocks) if block.kind != "translation"]
    errors = softened(relative_errors(group, unit, placed, truth))[..., linear]
    return errors.sum(-1) / max(len(linear), 1)  # translations alone have no linear part


def position_errors(group: Group, unit: Tensor, x: Tensor, truth: Tensor) -> Tensor:
    """Errors of the positions of x, as the linear part of the truth has them."""
    apart = group.relative(with_position(truth, x), truth)[..., :-1, -1]
    kinds = [block.kind for block in group.blocks]
    return softened((apart.square().sum(-1) + TINY).sqrt() / unit[kinds.index("translation")])
