"""`CompletionModel`: which pose is missing from a set, and where the gap is."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import torch
from torch import Tensor, nn

from .._core.calls import by_name, evaluating
from .._core.masks import require_any, split_mask
from .._core.pytree import exportable
from .._core.tensors import island, readable
from .._core.text import unknown
from ..groups import Group
from ..nn.config import LieTransformerConfig
from ..nn.heads import GapHead
from ..nn.pretrained import Pretrained
from ..nn.transformer import LieTransformer


@exportable
class CompletionOutput(NamedTuple):
    """What losses need: a gap logit and a correction for every token."""

    gap: Tensor  # [..., N], logits of being next to the gap; padding has the least number
    delta: Tensor  # [..., N, dim], correction from each frame to the missing pose
    poses: Tensor  # [..., N, m, m], the missing pose as each token predicts it
    hidden: Tensor  # [..., N, d]
    frames: Tensor  # [..., N, m, m], what delta corrects: the input, or where updates moved it


@exportable
class Completion(NamedTuple):
    """A missing pose, and the model's confidence in the place of the gap."""

    pose: Tensor  # [..., m, m]
    base: Tensor  # [...], index of the likeliest token, from which it was predicted
    confidence: Tensor  # [...], in [0, 1]: the probability of the two likeliest tokens together
    probabilities: Tensor  # [..., N]


class CompletionModel(Pretrained, nn.Module):
    """A transformer with a gap head: finds the missing pose of a set, Section 5 of the paper.

    With `score="norm"` it is the paper's model G, with `score="mlp"` model C.

    >>> import lieattn as la
    >>> model = CompletionModel(la.SE2, la.LieTransformerConfig.paper())
    >>> model.complete(la.SE2.random(7)).pose.shape
    torch.Size([3, 3])
    >>> sum(p.numel() for p in model.parameters())
    33384
    """

    backbone: Any = LieTransformer

    def __init__(self, group: Group | str, config: LieTransformerConfig | None = None) -> None:
        super().__init__()
        self.transformer = self.backbone(group, config)
        self.group, self.config = self.transformer.group, self.transformer.config
        self.gap = GapHead(self.config.dim)

    @by_name()
    def forward(
        self,
        poses: Tensor,
        *,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        **options: Tensor | None,
    ) -> CompletionOutput:
        """Gap logits and corrections. Arguments as of `LieTransformer.forward`."""
        out = self.transformer(poses, mask=mask, features=features, **options)
        tokens, _ = split_mask(mask, poses, options.get("neighbours"))
        with island(poses, self.config.autocast):
            gap = self.gap(out.hidden, mask=tokens)
        return CompletionOutput(gap, out.delta, out.poses, out.hidden, out.frames)

    @by_name()
    @torch.no_grad()
    def complete(
        self,
        poses: Tensor,
        *,
        mask: Tensor | None = None,
        features: Tensor | None = None,
        flanks: str = "one",
        **options: Tensor | None,
    ) -> Completion:
        """The pose that is missing from a set.

        Args:
            poses: `[..., N, m, m]`.
            mask: `[..., N]`, True = real token; every set needs one.
            features: `[..., N, config.features]`, if the model has any.
            flanks: "one" takes the answer of the likeliest token, as the paper does; "both"
                interpolates between the answers of the two likeliest by their probabilities, which
                is continuous where the two tie.
            options: `bias` and `neighbours`, as of `LieTransformer.forward`.
        Returns:
            `Completion(pose, base, confidence, probabilities)`. Dropout is off.
        """
        if flanks not in FLANKS:
            raise ValueError(unknown("flanks", flanks, FLANKS))
        with evaluating(self):
            out = self(poses, mask=mask, features=features, **options)
        tokens, _ = split_mask(mask, poses, options.get("neighbours"))
        _require_tokens(poses, tokens)
        probabilities = out.gap.float().softmax(-1)
        pose = FLANKS[flanks](self.group, out.poses, probabilities)
        confidence = probabilities.topk(min(2, probabilities.shape[-1]), dim=-1).values.sum(-1)
        return Completion(pose, probabilities.argmax(-1), confidence, probabilities)


def from_likeliest(group: Group, poses: Tensor, probabilities: Tensor) -> Tensor:
    """The answer of the likeliest token, `[..., m, m]`, of answers `[..., N, m, m]`."""
    return _answer(poses, probabilities.argmax(-1))


def between_flanks(group: Group, poses: Tensor, probabilities: Tensor) -> Tensor:
    """`g_1 exp(q log(g_1^-1 g_2))`, q = p_2 / (p_1 + p_2), of the answers of the two likeliest.

    If the two have no relative logarithm, or there is only one token, it is the first's answer.
    """
    if probabilities.shape[-1] < 2:
        return from_likeliest(group, poses, probabilities)
    top = probabilities.topk(2, dim=-1)
    first, second = (_answer(poses, top.indices[..., i]) for i in (0, 1))
    share = top.values[..., 1:] / top.values.sum(-1, keepdim=True)
    step, _ = group.relation(first, second)  # zero where there is none
    step = torch.where(share > 0, share.to(step.dtype) * step, 0)  # padding may hold NaN
    return group.compose(first, group.exp(step))


FLANKS: dict[str, Callable[[Group, Tensor, Tensor], Tensor]] = {
    "one": from_likeliest,
    "both": between_flanks,
}


def _answer(poses: Tensor, index: Tensor) -> Tensor:
    """The poses of the tokens `index [...]`, `[..., m, m]` of `[..., N, m, m]`."""
    index = index[..., None, None, None].expand(*index.shape, 1, *poses.shape[-2:])
    return poses.gather(-3, index).squeeze(-3)


def _require_tokens(poses: Tensor, tokens: Tensor | None) -> None:
    """Refuse sets without a real token."""
    if poses.shape[-3] == 0:
        raise ValueError("there is nothing to complete in a set of no poses.")
    if tokens is not None and readable(tokens):
        require_any(
            tokens,
            "has no real token, so there is nothing to complete: the mask is False throughout, and "
            "True marks a real token.",
        )
