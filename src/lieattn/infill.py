"""`InfillModel`: hidden poses of an ordered set, found from those that can be seen."""

from __future__ import annotations

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
from .interpolation import bends, global_relation, interpolate, neighbours_in_order
from .model import LieTransformer

PERIODS = (4.0, 16.0, 64.0, 256.0)  # tokens, of the waves that tell tokens where they are
FEATURES = 3 + 2 * len(PERIODS)
LEVELS = (0.5, 0.8, 0.9, 0.95)  # shares of answers that a bound holds for
DOUBTS = 0.1  # weight of their misfit, which changes nothing but doubts
SMALLEST = 1e-3  # of an error over that of interpolation, below which doubts are all the same


@exportable
class InfillOutput(NamedTuple):
    """What is trained: a correction of each hidden token's first guess, and doubts about it."""

    delta: Tensor  # [..., N, dim], from each frame to the answer; 0 for what is known
    poses: Tensor  # [..., N, m, m]: frames exp(delta), and known poses as they were
    frames: Tensor  # [..., N, m, m], what delta corrects: interpolated poses, or where they moved
    doubt: Tensor  # [..., N, K], logarithm of the error of each block, over `model.unit`


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
        config: of the transformer; `features` is set by the model.
        bends: how many poses further away, on each side, a hidden token is told of directly, as
            departures from the line that it starts on (`interpolation.bends`): second differences,
            which smooth motions are found by and attention takes long to learn.

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
        self, group: Group | str, config: LieTransformerConfig | None = None, bends: int = 0
    ) -> None:
        super().__init__()
        group, given = get_group(group), (config or LieTransformerConfig()).to_dict()
        # A checkpoint's config knows them by its features.
        width = max(given["features"], feature_width(group, bends))
        self.bends = (width - FEATURES) // (2 * group.dim)
        config = LieTransformerConfig.from_dict({**given, "features": width})
        self.transformer = self.backbone(group, config)
        self.group, self.config = self.transformer.group, config
        last = self.transformer.correction[-1]
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        blocks = len(self.group.blocks)
        self.doubt = nn.Linear(config.dim, blocks)
        # Typical errors of interpolation, by block and by coordinate: `measure`.
        self.register_buffer("unit", torch.ones(blocks))
        self.register_buffer("step", torch.ones(self.group.dim))
        # Of errors over those expected, by block and level: `calibrate`.
        self.register_buffer("factors", torch.ones(blocks, len(LEVELS)))

    def forward(self, poses: Tensor, hidden: Tensor, mask: Tensor | None = None) -> InfillOutput:
        """Corrections, answers and doubts.

        Args:
            poses: `[..., N, m, m]` in their order; those of hidden tokens may hold anything.
            hidden: `[..., N]`, True where a pose is to be found.
            mask: `[..., N]`, True = a token, hidden or not; False = padding.
        """
        there = torch.ones_like(hidden) if mask is None else mask
        hidden = hidden & there
        visible = there & ~hidden
        guess = interpolate(self.group, poses, visible)
        places = self._features(guess, visible, hidden)
        moving = {"frozen": ~hidden} if self.config.pose_updates else {}
        out = self.transformer(guess, places, mask, **moving)
        with island(poses):
            delta = at_least_float32(out.delta, out.frames) * self.step
            delta = torch.where(hidden[..., None], delta, 0)
            moved = self.group.compose(
                out.frames, self.group.exp(delta, chart=self.group.charts[-1])
            )
        answers = torch.where(hidden[..., None, None], moved.to(poses.dtype), poses)
        # Detached: doubts are read off the states, they do not change the answers.
        return InfillOutput(delta, answers, out.frames, self.doubt(out.hidden.detach()))

    def _features(self, guess: Tensor, visible: Tensor, hidden: Tensor) -> Tensor:
        """What tokens are told, `[..., N, features]`: places, and bends in units of corrections."""
        places = place_features(visible, hidden).to(self.unit.dtype)
        if not self.bends:
            return places
        found = bends(self.group, guess, visible, self.bends).to(self.unit.dtype)
        found = torch.where(hidden[..., None, None], found / self.step, 0)
        # asinh: as they are while small, and nothing is so large that it drowns the rest.
        return torch.cat([places, found.asinh().flatten(-2)], -1)

    @torch.no_grad()
    def fill(
        self, poses: Tensor, hidden: Tensor, mask: Tensor | None = None, *, level: float = 0.9
    ) -> Infill:
        """Hidden poses, and bounds that hold for a share `level` of such answers.

        Args:
            poses, hidden, mask: as of `forward`. Every set needs a visible pose.
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
            out = self(poses, hidden, mask)
        within = self.bounds(out.doubt)[..., LEVELS.index(level)]
        return Infill(out.poses, torch.where(hidden[..., None], within, 0))

    def bounds(self, doubt: Tensor) -> Tensor:
        """Bounds of the errors of blocks, physical, at all levels: `[..., K, len(LEVELS)]`."""
        return (self.unit * doubt.exp())[..., None] * self.factors

    # ---- what is measured on data before and after training ----------------------------------

    @torch.no_grad()
    def measure(self, poses: Tensor, hidden: Tensor, mask: Tensor | None = None) -> None:
        """Take the errors of interpolation on training sets for units of errors and corrections.

        Corrections then start at the size that they need, and losses have no unit.
        """
        there = torch.ones_like(hidden) if mask is None else mask
        guess = interpolate(self.group, poses, there & ~hidden)
        needed, valid = global_relation(self.group, guess, poses)
        chosen = hidden & there & valid
        if not chosen.any():
            return
        squares = self.group.block_sq_norms(self.group.to_physical(needed[chosen]))
        self.unit.copy_(_positive(squares.mean(0).sqrt()))
        sizes = torch.tensor([block.dim for block in self.group.blocks], device=poses.device)
        scaled = needed[chosen] / self._set_scales(poses, hidden, mask)[chosen]
        roots = (self.group.block_sq_norms(scaled).mean(0) / sizes).sqrt()
        self.step.copy_(_positive(roots).repeat_interleave(sizes))

    def _set_scales(self, poses: Tensor, hidden: Tensor, mask: Tensor | None) -> Tensor:
        """What the transformer multiplies delta by, `[..., N, dim]`: what a head of ones gives."""
        last = self.transformer.correction[-1]
        step = self.step.clone()
        last.bias.fill_(1)
        self.step.fill_(1)
        try:
            scales = self(poses, hidden, mask).delta
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
    misfit: Tensor  # of the doubts


def infill_losses(
    model: InfillModel, out: InfillOutput, truth: Tensor, hidden: Tensor
) -> InfillLosses:
    r"""What `infill_loss` is the mean of.

    With e the squared error of the correction over that of interpolation, a mean over blocks, the
    error is $2 (\sqrt{1 + e} - 1)$: e for small ones, and outliers count by their size, not by
    its square. The misfit is between the doubts and the logarithms of the errors of blocks.
    """
    group = model.group
    with island(out.delta):
        truth = torch.where(hidden[..., None, None], truth, out.frames.detach())
        needed, valid = global_relation(group, out.frames, truth)
        squares = group.block_sq_norms(group.to_physical(out.delta - needed)) / model.unit.square()
        error = 2 * ((1 + squares.mean(-1)).sqrt() - 1)
        found = squares.detach().sqrt().clamp(min=SMALLEST).log()
        misfit = smooth_l1_loss(out.doubt, found.to(out.doubt), reduction="none").mean(-1)
        counts = hidden & valid
        return InfillLosses(torch.where(counts, error, 0), torch.where(counts, misfit, 0))


def infill_loss(model: InfillModel, out: InfillOutput, truth: Tensor, hidden: Tensor) -> Tensor:
    """The mean loss of hidden tokens: their errors, and a tenth of the misfit of the doubts.

    Args:
        model: of which `out` is.
        truth: all poses, `[..., N, m, m]`.
        hidden: `[..., N]`, as the model was given.
    """
    losses = infill_losses(model, out, truth, hidden)
    return (losses.error + DOUBTS * losses.misfit).sum() / hidden.sum().clamp(min=1)


def feature_width(group: Group, bends: int) -> int:
    """Features of a token that is told of so many poses on each side."""
    return FEATURES + ((1 + 2 * bends) * group.dim if bends else 0)


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


def _positive(x: Tensor) -> Tensor:
    """Sizes, 1 in the place of 0: nothing to learn there, and nothing to divide by."""
    return torch.where(x > 0, x, 1)
