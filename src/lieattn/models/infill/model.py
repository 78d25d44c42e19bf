"""`InfillModel`: predicts the missing poses of an ordered set from the visible ones."""

from __future__ import annotations

from dataclasses import replace
from math import ceil
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from ..._core.calls import by_name, evaluating
from ..._core.masks import require_any
from ..._core.pytree import exportable
from ..._core.tensors import at_least_float32, island, require_tensors
from ...geometry.interpolation import global_relation, interpolate
from ...geometry.pairs import require_set
from ...groups import Group, get_group
from ...nn.inputs import require_features
from ...nn.pretrained import Pretrained
from ...nn.transformer import Encoded, LieTransformer
from .analogies import Analogies
from .config import InfillConfig
from .features import PLACES, in_frame, place_features, poses_around, width_around
from .pointer import Pointer, assemble, options_of, safest

LEVELS = (0.5, 0.8, 0.9, 0.95)  # shares of answers that a bound holds for


@exportable
class InfillOutput(NamedTuple):
    """What losses need: a correction of each missing pose's first guess, log errors, votes."""

    delta: Tensor  # [..., N, dim], from each frame to the corrected guess; 0 for what is known
    poses: Tensor  # [..., N, m, m]: answers, and known poses as they were
    frames: Tensor  # [..., N, m, m], what delta corrects: interpolated poses, or where they moved
    log_error: Tensor  # [..., N, K], logarithm of the error of each block, over `model.unit`
    moved: Tensor  # [..., N, m, m]: frames exp(delta)
    # [..., N, P, 1 + N + M] with `copies`, else None: logits of `moved`, of copying each token and
    # of each analogy; for the linear part, and for the position if there is one
    votes: Tensor | None
    analogies: Tensor | None  # [..., N, M, m, m] with `analogies`, else None


@exportable
class Infill(NamedTuple):
    """Completed sets, with bounds of the errors."""

    poses: Tensor  # [..., N, m, m]
    within: Tensor  # [..., N, K]: bounds of the error of each block, physical; 0 for known poses


class InfillModel(Pretrained, nn.Module):
    r"""Predicts missing poses of an ordered set from the visible ones.

    Every missing token starts at the pose between its neighbours, `interpolate`. A
    `LieTransformer` then attends to all tokens; their places in the order are invariant features.
    The answer is $g_i \exp(\delta_i)$, which is equivariant. Before training delta is zero, so
    the model, without `copies`, is interpolation.

    Args:
        group: the group of the poses.
        config: `InfillConfig`.

    >>> import lieattn as la
    >>> model = InfillModel(la.SE3)
    >>> poses, missing = la.SE3.random(7), torch.arange(7) == 3
    >>> done = model.fill(poses, missing=missing)
    >>> done.poses.shape, torch.equal(done.poses[~missing], poses[~missing]), done.within.shape
    (torch.Size([7, 4, 4]), True, torch.Size([7, 2]))
    """

    backbone: Any = LieTransformer
    config_class = InfillConfig
    may_be_infinite = ("factors",)  # too few validation poses for a bound
    unit: Tensor
    step: Tensor
    factors: Tensor

    @by_name(
        bends="InfillConfig(second_differences=)",
        framed="InfillConfig(absolute_frame=)",
        **{name: f"InfillConfig({name}=)" for name in ("features", "copies", "analogies")},
    )
    def __init__(self, group: Group | str, config: InfillConfig | None = None) -> None:
        super().__init__()
        group, config = get_group(group), InfillConfig.or_default(config)
        width = PLACES + config.features + width_around(group, config.second_differences)
        if config.absolute_frame:
            width += group.n * group.matrix_size
        self.transformer = self.backbone(group, replace(config.encoder, features=width))
        self.group, self.config = group, config
        last = self.transformer.correction[-1]
        nn.init.zeros_(last.weight)
        nn.init.zeros_(last.bias)
        blocks, dim = len(group.blocks), config.encoder.dim
        self.doubt = nn.Linear(dim, blocks)  # `log_error`, by its name in checkpoints
        if config.copies:
            parts = 1 if group.matrix_size == group.n else 2
            self.pointer = Pointer(dim, parts, bool(config.features))
            if config.analogies:
                self.analogy = Analogies(dim, parts)
        # Typical errors of interpolation, by block and by coordinate. `measure` sets them.
        self.register_buffer("unit", torch.ones(blocks))
        self.register_buffer("step", torch.ones(self.group.dim))
        # Factors from predicted errors to bounds, by block and level. `calibrate` sets them.
        self.register_buffer("factors", torch.ones(blocks, len(LEVELS)))

    @classmethod
    def _config_of(cls, stored: dict[str, Any]) -> InfillConfig:
        if "encoder" in stored["config"]:
            return InfillConfig.from_dict(stored["config"])
        return InfillConfig.from_options(stored["config"], stored.get("options", {}))

    @by_name(hidden="missing=")
    def forward(
        self,
        poses: Tensor,
        *,
        missing: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
    ) -> InfillOutput:
        """Corrections, answers and predicted log errors.

        Args:
            poses: `[..., N, m, m]` in their order; missing ones may hold anything.
            missing: `[..., N]`, True where a pose is to be predicted.
            mask: `[..., N]`, True = a token, missing or not; False = padding.
            features: `[..., N, features]` of all tokens, if the config has any.
        """
        require_set(self.group, poses)
        require_tensors(missing=missing, mask=mask, features=features)
        missing, visible, guess, features = self._start(poses, missing, mask, features)
        out = self._encode(guess, missing, visible, mask, features)
        with island(poses):
            delta = at_least_float32(out.delta, out.frames) * self.step
            delta = torch.where(missing[..., None], delta, 0)
            moved = self.group.compose(
                out.frames, self.group.exp(delta, chart=self.group.charts[-1])
            )
        moved = moved.to(poses.dtype)
        answers = torch.where(missing[..., None, None], moved, poses)
        votes = analogies = None
        if self.config.copies:
            rows = missing.nonzero(as_tuple=True)
            votes, analogies = self._votes(out.hidden, guess, visible, features, rows)
            options = options_of(moved, guess, analogies, rows)
            # In training the likeliest option: `safest` takes as long as attention does.
            chosen = votes[rows].argmax(-1)
            if not self.training:
                chosen = safest(self.group, self.unit, options, votes[rows])
            answers = answers.index_put(rows, assemble(options, chosen))
        # Detached: the prediction of errors does not change the answers.
        log_error = self.doubt(out.hidden.detach())
        return InfillOutput(delta, answers, out.frames, log_error, moved, votes, analogies)

    def _start(
        self, poses: Tensor, missing: Tensor, mask: Tensor | None, features: Tensor | None
    ) -> tuple[Tensor, Tensor, Tensor, Tensor | None]:
        """Missing and visible tokens, first guesses, and features without those of padding."""
        there = torch.ones_like(missing) if mask is None else mask
        missing, visible = missing & there, there & ~missing
        if features is not None:  # that of padding may be anything
            features = torch.where(there[..., None], features, 0)
        require_features(features, poses, self.config)
        return missing, visible, interpolate(self.group, poses, visible), features

    def _votes(
        self,
        states: Tensor,
        guess: Tensor,
        visible: Tensor,
        features: Tensor | None,
        rows: tuple[Tensor, ...],
    ) -> tuple[Tensor, Tensor | None]:
        """Logits of the options of missing tokens `rows`, and poses by analogy, if any."""
        votes: Tensor = self.pointer(states, visible, features)
        if not self.config.analogies:
            return votes, None
        with island(guess):
            found, logits = self.analogy(self.group, states, guess, visible, features, rows)
        none = votes.new_full((*votes.shape[:-1], logits.shape[-1]), -torch.inf)
        others = guess.unsqueeze(-3).expand(*guess.shape[:-2], *found.shape[1:])
        votes = torch.cat([votes, none.index_put(rows, logits.to(votes))], -1)
        return votes, others.index_put(rows, found)

    def _encode(
        self,
        guess: Tensor,
        missing: Tensor,
        visible: Tensor,
        mask: Tensor | None,
        features: Tensor | None,
    ) -> Encoded:
        """States and corrections of first guesses, from their invariant features."""
        config, dtype = self.config, self.unit.dtype
        found = [place_features(visible, missing).to(dtype)]
        if features is not None:
            found.append(features.to(dtype))
        if config.absolute_frame:
            found.append(in_frame(self.group, guess, visible).to(dtype))
        if config.second_differences:
            near = poses_around(self.group, guess, visible, config.second_differences, self.step)
            found.append(torch.where(missing[..., None], near.to(dtype), 0))
        options = {"frozen": ~missing} if config.encoder.pose_updates else {}
        encoded: Encoded = self.transformer.encode(
            guess, mask=mask, features=torch.cat(found, -1), **options
        )
        return encoded

    @by_name(hidden="missing=")
    @torch.no_grad()
    def fill(
        self,
        poses: Tensor,
        *,
        missing: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        level: float = 0.9,
    ) -> Infill:
        """Predicts missing poses, with bounds that hold for a share `level` of the answers.

        Args:
            poses, missing, mask, features: as of `forward`. Every set needs a visible pose.
            level: 0.5, 0.8, 0.9 or 0.95.
        Returns:
            `Infill(poses, within)`. A bound is the predicted error times a factor. `calibrate` sets
            the factor so that a share `level` of the errors on its data is within bounds; without
            it the factor is 1. Bounds hold only for data like those of `calibrate`.
        """
        if level not in LEVELS:
            raise ValueError(f"level must be one of {', '.join(map(str, LEVELS))}, got {level}.")
        require_visible(missing, mask)
        with evaluating(self):
            out = self(poses, missing=missing, mask=mask, features=features)
        within = self.bounds(out.log_error)[..., LEVELS.index(level)]
        found = missing if mask is None else missing & mask
        return Infill(out.poses, torch.where(found[..., None], within, 0))

    def bounds(self, log_error: Tensor) -> Tensor:
        """Bounds of the errors of blocks, physical, at all levels: `[..., K, len(LEVELS)]`."""
        return (self.unit * log_error.exp())[..., None] * self.factors

    # ---- buffers that data set, before and after training ------------------------------------

    @by_name(hidden="missing=")
    @torch.no_grad()
    def measure(
        self,
        poses: Tensor,
        *,
        missing: Tensor,
        mask: Tensor | None = None,
        features: Tensor | None = None,
    ) -> None:
        """Set the units of errors and corrections: errors of interpolation on training sets.

        Corrections then start at the right size, and losses have no unit.
        """
        missing, visible, guess, features = self._start(poses, missing, mask, features)
        needed, valid = global_relation(self.group, guess, poses)
        chosen = missing & valid
        if not chosen.any():
            return
        self.unit.copy_(self._sizes(self.group.to_physical(needed[chosen])))
        sizes = torch.tensor([block.dim for block in self.group.blocks], device=poses.device)
        self.step.fill_(1)
        scales = self._encode(guess, missing, visible, mask, features).scales
        scaled = needed if scales is None else needed / scales
        self.step.copy_((self._sizes(scaled[chosen]) / sizes.sqrt()).repeat_interleave(sizes))

    def _sizes(self, x: Tensor) -> Tensor:
        """Mean norms of the blocks of `x [n, dim]`; 1 in the place of 0."""
        found = self.group.block_sq_norms(x).sqrt().mean(0)
        return torch.where(found > 0, found, 1)

    @torch.no_grad()
    def calibrate(self, errors: Tensor, log_error: Tensor, different: int | None = None) -> None:
        """Set the factors of `fill` from validation data: split-conformal prediction.

        Args:
            errors: of answers, by block, in physical coordinates, `[n, K]`.
            log_error: predicted log errors, `[n, K]`.
            different: how many of the n are different poses; some may have been predicted twice.

        A new answer on the same kind of data is within its bound with probability `level` or more.
        With fewer than `level / (1 - level)` poses, 9 for 90%, bounds are infinite.
        """
        ratios = (errors / (self.unit * log_error.exp())).sort(dim=0).values
        count = len(ratios) if different is None else min(different, len(ratios))
        for i, level in enumerate(LEVELS):
            rank = min(ceil((len(ratios) + 1) * level), len(ratios)) - 1
            enough = ceil((count + 1) * level) <= count
            self.factors[:, i] = ratios[rank] if enough else torch.inf


def require_visible(missing: Tensor, mask: Tensor | None) -> None:
    """Refuse sets without a visible pose."""
    visible = ~missing if mask is None else mask & ~missing
    require_any(visible, "has no visible pose, so there is nothing to fill its gaps from.")
