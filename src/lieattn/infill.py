"""`InfillModel`: hidden poses of an ordered set, found from those that can be seen."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn.functional import smooth_l1_loss

from ._modes import evaluating
from ._precision import at_least_float32, island
from ._pytree import exportable
from .checkpoint import Pretrained
from .config import LieTransformerConfig
from .groups import Group, get_group
from .interpolation import (
    around,
    bends,
    global_relation,
    interpolate,
    neighbours_in_order,
    take_several,
)
from .model import LieTransformer

PERIODS = (4.0, 16.0, 64.0, 256.0)  # tokens, of the waves that tell tokens where they are
FEATURES = 3 + 2 * len(PERIODS)
LEVELS = (0.5, 0.8, 0.9, 0.95)  # shares of answers that a bound holds for
DOUBTS = 0.1  # weight of their misfit, which changes nothing but doubts
SMALLEST = 1e-3  # of an error over that of interpolation, below which doubts are all the same
TOLERANCE = 0.25  # error over that of interpolation up to which an option is the right one
INERTIA = 2.0  # logit of a corrected guess at the start; those of copies are near zero
ALIKE = 3.0  # logit of a copy of a token with the same features, of norm 1, at the start
LIKELY = 8  # options among which an answer is chosen
WIDTH = 16  # of the queries and keys that point at what is copied
SOFT = 0.1  # errors over that of interpolation below which a loss is quadratic
TINY = 1e-12  # under roots, for their slope at zero
MIRROR = 1.0  # added to the error of a mirror image


@exportable
class InfillOutput(NamedTuple):
    """What is trained: a correction of each hidden token's first guess, and doubts about it."""

    delta: Tensor  # [..., N, dim], from each frame to the answer; 0 for what is known
    poses: Tensor  # [..., N, m, m]: frames exp(delta), and known poses as they were
    frames: Tensor  # [..., N, m, m], what delta corrects: interpolated poses, or where they moved
    doubt: Tensor  # [..., N, K], logarithm of the error of each block, over `model.unit`
    moved: Tensor  # [..., N, m, m]: frames exp(delta)
    votes: Tensor  # [..., N, P, O], logits: of `moved`, then of a copy of each token, if copies are
    # to be had; of the linear part, and of the position where there is one


@exportable
class Infill(NamedTuple):
    """Sets without gaps, and how far off the answers may be."""

    poses: Tensor  # [..., N, m, m]
    within: Tensor  # [..., N, K]: bounds of the error of each block, physical; 0 for known poses


class InfillModel(Pretrained, nn.Module):
    r"""Predicts hidden poses of an ordered set from the visible ones.

    Every hidden token starts at the pose between its neighbours, `interpolate`, and all tokens
    see each other in a `LieTransformer`, told their places in the order as invariant features.
    The answer is $g_i \exp(\delta_i)$, so it moves with the set; before training delta is zero,
    and the model is interpolation.

    Args:
        group: the group of the poses.
        config: of the transformer; its `features` are set by the model.
        bends: how many poses further away, on each side, a hidden token is told of directly, as
            departures from the line that it starts on (`interpolation.bends`): second differences,
            which smooth motions are found by and attention takes long to learn. It is also told
            how it sees as many, the nearest ones, as matrices.
        features: how many numbers of your own tokens have, hidden ones too: what they are, say.
        framed: whether tokens are told where they are in the frame that poses are given in: the
            page of a drawing, the model that parts belong to. Answers then no longer move with the
            poses alone, since that frame does not.
        copies: whether an answer may have its linear part or its position from another token, to
            which it points: where poses repeat, as those of parts and layers do, a copy is exact
            and no correction is.

    >>> import lieattn as la
    >>> model = InfillModel(la.SE3)
    >>> poses, hidden = la.SE3.random(7), torch.arange(7) == 3
    >>> done = model.fill(poses, hidden)
    >>> done.poses.shape, torch.equal(done.poses[~hidden], poses[~hidden]), done.within.shape
    (torch.Size([7, 4, 4]), True, torch.Size([7, 2]))
    """

    backbone: Any = LieTransformer
    unit: Tensor
    step: Tensor
    factors: Tensor

    def __init__(
        self,
        group: Group | str,
        config: LieTransformerConfig | None = None,
        bends: int = 0,
        features: int = 0,
        framed: bool = False,
        copies: bool = False,
    ) -> None:
        super().__init__()
        group = get_group(group)
        self.bends, self.features = bends, features
        self.framed, self.copies = bool(framed), bool(copies)
        config = replace(
            config or LieTransformerConfig(),
            features=FEATURES
            + features
            + _told(group, bends)
            + self.framed * group.n * group.matrix_size,
        )
        self.transformer = self.backbone(group, config)
        self.group, self.config = self.transformer.group, config
        last = self.transformer.correction[-1]
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        blocks = len(self.group.blocks)
        self.doubt = nn.Linear(config.dim, blocks)
        self.parts = 1 if self.group.matrix_size == self.group.n else 2
        if self.copies:
            self.pointer = Pointer(config.dim, self.parts)
        # Typical errors of interpolation, by block and by coordinate: `measure`.
        self.register_buffer("unit", torch.ones(blocks))
        self.register_buffer("step", torch.ones(self.group.dim))
        # Of errors over those expected, by block and level: `calibrate`.
        self.register_buffer("factors", torch.ones(blocks, len(LEVELS)))

    @property
    def options(self) -> dict[str, int]:
        """Arguments beside group and config, for checkpoints."""
        given = {"bends": self.bends, "features": self.features, "framed": int(self.framed)}
        given["copies"] = int(self.copies)
        return {name: value for name, value in given.items() if value}

    def forward(
        self,
        poses: Tensor,
        hidden: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
    ) -> InfillOutput:
        """Corrections, answers and doubts.

        Args:
            poses: `[..., N, m, m]` in their order; those of hidden tokens may hold anything.
            hidden: `[..., N]`, True where a pose is to be found.
            mask: `[..., N]`, True = a token, hidden or not; False = padding.
            features: `[..., N, features]`, of all tokens, where the model has such.
        """
        there = torch.ones_like(hidden) if mask is None else mask
        hidden = hidden & there
        visible = there & ~hidden
        guess = interpolate(self.group, poses, visible)
        told = self._told(guess, visible, hidden, features)
        moving = {"frozen": ~hidden} if self.config.pose_updates else {}
        out = self.transformer(guess, told, mask, **moving)
        with island(poses):
            delta = at_least_float32(out.delta, out.frames) * self.step
            delta = torch.where(hidden[..., None], delta, 0)
            moved = self.group.compose(
                out.frames, self.group.exp(delta, chart=self.group.charts[-1])
            )
        moved = moved.to(poses.dtype)
        votes = self._votes(out.hidden, visible, features)
        answers = torch.where(hidden[..., None, None], moved, poses)
        if self.copies:
            rows = hidden.nonzero(as_tuple=True)
            options = torch.cat([moved[rows][:, None], guess[rows[:-1]]], 1)
            answers = answers.index_put(rows, self._decide(options, votes[rows]).to(answers))
        # Detached: doubts are read off the states, they do not change the answers.
        doubt = self.doubt(out.hidden.detach())
        return InfillOutput(delta, answers, out.frames, doubt, moved, votes)

    def _votes(self, states: Tensor, visible: Tensor, features: Tensor | None) -> Tensor:
        if self.copies:
            return self.pointer(states, visible, features)
        return states.new_zeros(*visible.shape, self.parts, 1)

    @torch.no_grad()
    def _decide(self, options: Tensor, votes: Tensor) -> Tensor:
        """Of options `[n, O, m, m]`, in both parts, those of the least expected error.

        The truth is taken for one of the likeliest options, by their votes.
        """
        votes = votes.detach()
        linear = _least(options, votes[:, 0], lambda x, y: self._apart(x, y, slice(1, None)))
        if self.parts == 1:
            return linear

        def apart(x: Tensor, y: Tensor) -> Tensor:
            frame = linear[:, None, None].expand_as(x)
            return self._apart(with_position(frame, x), with_position(frame, y), slice(0, 1))

        return with_position(linear, _least(options, votes[:, 1], apart))

    def _apart(self, x: Tensor, y: Tensor, blocks: slice) -> Tensor:
        """Errors of x where y is true; of positions apart from linear parts, or these alone."""
        if self.parts == 1:
            return softened(relative_errors(self, x, y)).mean(-1)
        if blocks.start:
            x = with_position(x, y)
        return softened(relative_errors(self, x, y))[..., blocks].mean(-1)

    def _told(
        self, guess: Tensor, visible: Tensor, hidden: Tensor, features: Tensor | None
    ) -> Tensor:
        """What tokens are told, `[..., N, F]`."""
        told = [place_features(visible, hidden).to(self.unit.dtype)]
        if features is not None or self.features:
            told.append(self._own_features(features, guess).to(self.unit.dtype))
        if self.framed:
            told.append(in_frame(self.group, guess, visible).to(self.unit.dtype))
        if self.bends:
            bent = bends(self.group, guess, visible, self.bends).to(self.unit.dtype) / self.step
            seen = self._views(guess, visible).to(self.unit.dtype)
            # asinh: as they are while small, and nothing is so large that it drowns the rest.
            near = torch.cat([bent.flatten(-2), seen.flatten(-2)], -1).asinh()
            told.append(torch.where(hidden[..., None], near, 0))
        return torch.cat(told, -1)

    def _own_features(self, features: Tensor | None, poses: Tensor) -> Tensor:
        expected = [*poses.shape[:-2], self.features]
        if features is None or list(features.shape) != expected:
            got = "none" if features is None else f"{list(features.shape)}"
            raise ValueError(f"features must have shape {expected}, got {got}.")
        return features

    def _views(self, guess: Tensor, visible: Tensor) -> Tensor:
        """Poses around as they are seen from each guess, `[..., N, 2 bends, entries]`.

        As matrices: unlike logarithms they are continuous where a rotation is half a turn.
        """
        n, near = self.group.n, around(visible, self.bends)
        others = take_several(guess, near.tokens)
        with island(guess):
            seen = self.group.relative(guess[..., None, :, :].expand_as(others), others)
            entries = [(seen[..., :n, :n] - torch.eye(n).to(seen)).flatten(-2)]
            if self.parts > 1:
                entries.append(seen[..., :n, n] / self.step[: self.group.blocks[0].dim])
        return torch.where(near.there[..., None], torch.cat(entries, -1), 0)

    @torch.no_grad()
    def fill(
        self,
        poses: Tensor,
        hidden: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        *,
        level: float = 0.9,
    ) -> Infill:
        """Hidden poses, and bounds that hold for a share `level` of such answers.

        Args:
            poses, hidden, mask, features: as of `forward`. Every set needs a visible pose.
            level: 0.5, 0.8, 0.9 or 0.95.
        Returns:
            `Infill(poses, within)`. A bound is what the model expects, times the factor below
            which the share `level` of the errors was on the data that `calibrate` saw; without
            that it is what the model expects. It holds for data like those, no others.
        """
        if level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(map(str, LEVELS))}, got {level}.")
        require_visible(hidden, mask)
        with evaluating(self):
            out = self(poses, hidden, mask, features)
        within = self.bounds(out.doubt)[..., LEVELS.index(level)]
        return Infill(out.poses, torch.where(hidden[..., None], within, 0))

    def bounds(self, doubt: Tensor) -> Tensor:
        """Bounds of the errors of blocks, physical, at all levels: `[..., K, len(LEVELS)]`."""
        return (self.unit * doubt.exp())[..., None] * self.factors

    # ---- what is measured on data before and after training ----------------------------------

    @torch.no_grad()
    def measure(
        self,
        poses: Tensor,
        hidden: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
    ) -> None:
        """Take the errors of interpolation on training sets for units of errors and corrections.

        Corrections then start at the size that they need, and losses have no unit.
        """
        there = torch.ones_like(hidden) if mask is None else mask
        guess = interpolate(self.group, poses, there & ~hidden)
        needed, valid = global_relation(self.group, guess, poses)
        chosen = hidden & there & valid
        if not chosen.any():
            return
        self.unit.copy_(self._sizes(self.group.to_physical(needed[chosen])))
        sizes = torch.tensor([block.dim for block in self.group.blocks], device=poses.device)
        scaled = needed[chosen] / self._set_scales(poses, hidden, mask, features)[chosen]
        self.step.copy_((self._sizes(scaled) / sizes.sqrt()).repeat_interleave(sizes))

    def _sizes(self, x: Tensor) -> Tensor:
        """Mean norms of the blocks of `x [n, dim]`; 1 for 0, where nothing is to be learned."""
        found = self.group.block_sq_norms(x).sqrt().mean(0)
        return torch.where(found > 0, found, 1)

    def _set_scales(
        self, poses: Tensor, hidden: Tensor, mask: Tensor | None, features: Tensor | None
    ) -> Tensor:
        """What the transformer multiplies delta by, `[..., N, dim]`: what a head of ones gives."""
        last = self.transformer.correction[-1]
        step = self.step.clone()
        last.bias.fill_(1)
        self.step.fill_(1)
        try:
            scales = self(poses, hidden, mask, features).delta
        finally:
            last.bias.zero_()
            self.step.copy_(step)
        return scales

    @torch.no_grad()
    def calibrate(self, errors: Tensor, doubt: Tensor) -> None:
        """Find the factors of `fill` on validation data: split-conformal prediction.

        Args:
            errors: of answers, by block, in physical coordinates, `[n, K]`.
            doubt: the model's, `[n, K]`.

        A new answer of the same kind of data is within its bound with probability `level` or more.
        """
        ratios = (errors / (self.unit * doubt.exp())).sort(dim=0).values
        for i, level in enumerate(LEVELS):
            rank = min(ceil((len(ratios) + 1) * level), len(ratios)) - 1
            self.factors[:, i] = ratios[rank]


class InfillLosses(NamedTuple):
    """Of every token, `[..., N]`, zero where nothing was hidden."""

    error: Tensor  # of the answer
    risk: Tensor  # expected error of an answer that is drawn from the votes
    misfit: Tensor  # of the doubts


def infill_losses(
    model: InfillModel, out: InfillOutput, truth: Tensor, hidden: Tensor
) -> InfillLosses:
    """What `infill_loss` is the mean of.

    Errors are those of the tables: norms of the blocks of `log(answer^-1 truth)` over those of
    interpolation, a mean over blocks; below `SOFT` they are quadratic. The misfit is between the
    doubts and the logarithms of the errors of blocks.
    """
    rows = hidden.nonzero(as_tuple=True)
    with island(truth):
        goal, votes = truth[rows], out.votes[rows]
        options = out.moved[rows][:, None]
        if votes.shape[-1] > 1:
            options = torch.cat([options, truth[rows[:-1]]], 1)
        risk = _risk(model, options, votes, goal)
        with torch.no_grad():
            off = relative_errors(model, out.poses[rows], goal)
            found = off.clamp(min=SMALLEST).log()
        misfit = smooth_l1_loss(out.doubt[rows], found.to(out.doubt), reduction="none").mean(-1)
    nothing = risk.new_zeros(hidden.shape)
    return InfillLosses(
        *(nothing.index_put(rows, x.to(risk)) for x in (softened(off).mean(-1), risk, misfit))
    )


def _risk(model: InfillModel, options: Tensor, votes: Tensor, goal: Tensor) -> Tensor:
    """Errors `[n]` of corrected guesses, and how unlikely the best of options `[n, O, m, m]` are.

    Options are drawn by their votes `[n, P, O]`, and are right up to errors of size `TOLERANCE`.
    """
    risk = softened(relative_errors(model, options[:, 0], goal)).mean(-1)
    if options.shape[1] == 1:
        return risk
    goals = goal[:, None].expand_as(options)
    shares = votes.log_softmax(-1)
    errors = [model._apart(options, goals, slice(1, None))]
    if model.parts > 1:
        placed = with_position(goals, options)
        errors.append(model._apart(placed, goals, slice(0, 1)))
    for k, error in enumerate(errors):
        risk = risk - TOLERANCE * (shares[:, k] - error / TOLERANCE).logsumexp(-1)
    return risk


def relative_errors(model: InfillModel, answers: Tensor, truth: Tensor) -> Tensor:
    """Errors of blocks over those of interpolation, `[..., K]`; mirror images count as worse."""
    group = model.group
    w, valid = group.relation(answers, truth.expand_as(answers), group.charts[-1])
    norms = (group.block_sq_norms(group.to_physical(w[..., : group.dim])) + TINY).sqrt()
    errors = torch.where(valid[..., None], norms / model.unit, 1)
    if w.shape[-1] > group.dim:
        errors = errors + MIRROR * (w[..., group.dim :] > 0.5)
    return errors


def softened(errors: Tensor) -> Tensor:
    """Errors, of which those below `SOFT` are made quadratic."""
    return (errors.square() + SOFT**2).sqrt() - SOFT


class Pointer(nn.Module):
    """Logits of what an answer is made of: its corrected guess, or a copy of a visible token."""

    def __init__(self, dim: int, parts: int) -> None:
        super().__init__()
        self.parts = parts
        self.query, self.key = (nn.Linear(dim, parts * WIDTH) for _ in range(2))
        self.own = nn.Linear(dim, parts)
        nn.init.zeros_(self.query.weight)
        nn.init.zeros_(self.own.weight)
        nn.init.constant_(self.own.bias, INERTIA)
        self.near = nn.Parameter(torch.ones(parts))
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


def _least(options: Tensor, votes: Tensor, apart: Callable[[Tensor, Tensor], Tensor]) -> Tensor:
    """Of options `[n, O, m, m]` the one that is least far from all, by their shares `[n, O]`."""
    first = torch.zeros_like(votes, dtype=torch.bool)
    first[:, 0] = True  # is always considered
    likely = votes.masked_fill(first, torch.inf).topk(min(LIKELY, votes.shape[-1])).indices
    shares = votes.gather(-1, likely).softmax(-1)
    few = options.gather(1, likely[..., None, None].expand(*likely.shape, *options.shape[-2:]))
    pairs = (*likely.shape, likely.shape[-1], *options.shape[-2:])
    off = apart(few[:, :, None].expand(pairs), few[:, None].expand(pairs))
    best = (off * shares[:, None]).sum(-1).argmin(-1)
    return few[torch.arange(len(few), device=few.device), best]


def with_position(linear: Tensor, position: Tensor) -> Tensor:
    """Poses with the linear parts of some and the positions of others."""
    return torch.cat([linear[..., :-1], position[..., -1:]], -1)


def infill_loss(model: InfillModel, out: InfillOutput, truth: Tensor, hidden: Tensor) -> Tensor:
    """The mean loss of hidden tokens: their risk, and a tenth of the misfit of the doubts.

    Args:
        model: of which `out` is.
        truth: all poses, `[..., N, m, m]`.
        hidden: `[..., N]`, as the model was given.
    """
    losses = infill_losses(model, out, truth, hidden)
    return (losses.risk + DOUBTS * losses.misfit).sum() / hidden.sum().clamp(min=1)


def _told(group: Group, bends: int) -> int:
    """Numbers that tell of poses around: a step, bends, and the matrices that they are seen as."""
    return group.dim + 2 * bends * (group.dim + group.n * group.matrix_size) if bends else 0


def in_frame(group: Group, poses: Tensor, visible: Tensor) -> Tensor:
    """Where tokens are in the frame of the poses, from the mean of visible ones: `[..., N, F]`."""
    if group.matrix_size == group.n:
        return poses.flatten(-2)
    seen = visible[..., None]
    where = torch.where(seen, poses[..., :-1, -1], 0)
    mean = where.sum(-2, keepdim=True) / seen.sum(-2, keepdim=True).clamp(min=1)
    return torch.cat([poses[..., :-1, :-1].flatten(-2), poses[..., :-1, -1] - mean], -1)


def place_features(visible: Tensor, hidden: Tensor) -> Tensor:
    """What tokens are told about their places, `[..., N, FEATURES]`: invariants.

    Whether it is hidden, one over the steps to the visible tokens on both sides, 0 where there is
    none, and waves of the place in the order.
    """
    near = neighbours_in_order(visible)
    index = torch.arange(visible.shape[-1], device=visible.device).expand(visible.shape)
    since, until = index - near.before, near.after - index
    marks = [hidden.float()]
    marks += [
        torch.where(hidden & (steps > 0), 1 / steps.clamp(min=1), 0.0) for steps in (since, until)
    ]
    for period in PERIODS:
        angle = index * (2 * torch.pi / period)
        marks += [angle.sin(), angle.cos()]
    return torch.stack(marks, dim=-1)


def require_visible(hidden: Tensor, mask: Tensor | None) -> None:
    """Every set has a pose to start from."""
    visible = ~hidden if mask is None else mask & ~hidden
    empty = ~visible.any(-1)
    if empty.any():
        number = int(empty.reshape(-1).nonzero()[0])
        raise ValueError(
            f"set {number} has no visible pose, so there is nothing to fill its gaps from."
        )
