"""Several completion models of one architecture trained as one: a fast path for small sets.

The models, one a seed, share nothing but their shape: parameters have a leading dimension S, and
every product is a batched one. Tokens come last, `[S, d, N, B]`, so that all but the products is
elementwise over the batch and vectorises; a set of seven is far too small for anything else. The
result is that of `CompletionModel`, to rounding, and the tests hold it to that.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu

from ..baselines import VectorCompletionModel
from ..completion import CompletionModel
from ..scores import MLPScore, NormScore

ALIGNMENT = 16  # floats: rows and parameters start on cache lines, whatever the number of seeds
EPSILON = 1e-5  # of nn.LayerNorm

Parameters = dict[str, Tensor]


class ParameterStack:
    """Parameters of S models as one matrix `[S, P]`, a single leaf for the optimiser."""

    def __init__(self, template: CompletionModel) -> None:
        self.shapes = {name: tuple(x.shape) for name, x in template.named_parameters()}
        sizes = (prod(shape) for shape in self.shapes.values())
        self.sizes = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]

    def stack(self, models: Sequence[CompletionModel]) -> Tensor:
        """`[S, P]`, padded with zeros, which have no gradient and stay what they are."""
        flat = torch.zeros(len(models), sum(self.sizes))
        for row, model in zip(flat, models, strict=True):
            parts = row.split(self.sizes)
            for part, x in zip(parts, model.parameters(), strict=True):
                part[: x.numel()] = x.detach().reshape(-1)
        return flat

    def split(self, flat: Tensor) -> Parameters:
        """Views `[S, *shape]` by name."""
        parts = flat.split(self.sizes, dim=1)
        return {
            name: part[:, : prod(shape)].unflatten(1, shape) if shape else part[:, 0]
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def unstack(self, flat: Tensor, seed: int) -> Parameters:
        """State of one model, for `load_state_dict`."""
        return {name: x[seed].clone() for name, x in self.split(flat).items()}


class StackedNetwork:
    """Gap logits `[S, N, B]` and corrections `[S, dim, N, B]` of S models.

    Args:
        template: a model of the architecture; its parameters are not used.
        compiled: compile what is worth it. Layers of one shape share a kernel, so that three
            layers cost one compilation and so does model A on all groups.
    """

    def __init__(self, template: CompletionModel, compiled: bool) -> None:
        config = template.config
        self.heads, self.width = config.heads, config.dim // config.heads
        self.layers = len(template.transformer.layers)
        self.absolute = isinstance(template, VectorCompletionModel)
        self.scores = []
        if not self.absolute:
            self.scores = [layer.attention.score for layer in template.transformer.layers]
            for score in self.scores:
                if not isinstance(score, NormScore | MLPScore):
                    raise TypeError(f"scores norm and mlp can be stacked, got {score}.")
        self._lie_layer = _maybe_compiled(lie_layer, compiled)
        self._vector_layer = _maybe_compiled(vector_layer, compiled)
        self._heads = _maybe_compiled(heads, compiled)
        self._mlp_logits = _maybe_compiled(mlp_logits, compiled)

    def __call__(self, p: Parameters, x: Tensor) -> tuple[Tensor, Tensor]:
        """Args: p as of `ParameterStack.split`; x the invariants `[S, C, N, N, B]`, or the
        absolute features `[S, F, N, B]` of model A."""
        tokens = x.shape[-2:]
        h = self._embed(p, x)
        squares = None if self.absolute or isinstance(self.scores[0], MLPScore) else x.square()
        for i in range(self.layers):
            own = _below(p, f"transformer.layers.{i}.")
            if self.absolute:
                h = self._vector_layer(h, own, self.heads)
            else:
                h = self._lie_layer(h, self._logits(i, own, x, squares), x, own, self.heads)
        own = {name: x for name, x in p.items() if not name.startswith("transformer.layers.")}
        gap, delta = self._heads(h, own)
        return gap.unflatten(-1, tokens), delta.unflatten(-1, tokens)

    def _embed(self, p: Parameters, x: Tensor) -> Tensor:
        if self.absolute:
            return linear(p, "transformer.embed", x.flatten(-2))
        count = x.shape[-1] * x.shape[-2]
        return p["transformer.h0"].unsqueeze(-1).expand(-1, -1, count).contiguous()

    def _logits(self, i: int, own: Parameters, x: Tensor, squares: Tensor | None) -> Tensor:
        score = self.scores[i]
        if isinstance(score, MLPScore) or squares is None:
            return self._mlp_logits(x, _below(own, "attention.score."))
        tau = score.keep_positive(own["attention.score.raw_tau"]).unsqueeze(-1)
        weights = score.keep_positive(own["attention.score.raw_lambda"]) / tau
        sizes = torch.tensor(score.parts)
        each = weights.neg().repeat_interleave(sizes, -1, output_size=x.shape[1])  # [S, H, C]
        return (each @ squares.flatten(2)).unflatten(-1, x.shape[2:])


def lie_layer(h: Tensor, logits: Tensor, w: Tensor, p: Parameters, heads: int) -> Tensor:
    """`LieTransformerLayer`: h `[S, d, N B]`, logits `[S, H, N, N, B]`, w `[S, C, N, N, B]`."""
    seeds, dim = h.shape[:2]
    tokens = logits.shape[3:]
    normed = layer_norm(h, p["attention_norm.weight"], p["attention_norm.bias"])
    weight, bias = p["attention.value.weight"], p["attention.value.bias"]
    values = weight[..., :dim] @ normed + bias.unsqueeze(-1)
    alone = torch.eye(tokens[0], dtype=torch.bool, device=h.device)[..., None]
    a = logits.masked_fill(alone, -torch.inf).softmax(3)
    mixed = _mix(a, values.view(seeds, heads, -1, *tokens))
    pooled = (a[:, :, None] * w[:, None]).sum(4)  # [S, H, C, N, B]
    pose_weight = weight[..., dim:].reshape(seeds * heads, dim // heads, -1)
    mixed = mixed.view(seeds, dim, -1) + (pose_weight @ pooled.flatten(0, 1).flatten(-2)).view(
        seeds, dim, -1
    )
    return _feed_forward(h + linear(p, "attention.out", mixed), p)


def vector_layer(h: Tensor, p: Parameters, heads: int) -> Tensor:
    """`VectorLayer`: h `[S, d, N B]` with N = 7."""
    seeds, dim, count = h.shape
    normed = layer_norm(h, p["attention_norm.weight"], p["attention_norm.bias"])
    qkv = linear(p, "qkv", normed).view(seeds, 3, heads, dim // heads, TOKENS, count // TOKENS)
    q, k, v = qkv.unbind(1)
    logits = (q[:, :, :, :, None] * k[:, :, :, None]).sum(2) * (dim // heads) ** -0.5
    mixed = _mix(logits.softmax(3), v)
    return _feed_forward(h + linear(p, "out", mixed.view(seeds, dim, count)), p)


def heads(h: Tensor, p: Parameters) -> tuple[Tensor, Tensor]:
    """Gap logits `[S, N B]` and corrections `[S, dim, N B]`."""
    h = layer_norm(h, p["transformer.norm.weight"], p["transformer.norm.bias"])
    hidden = gelu(linear(p, "transformer.correction.0", h))
    return linear(p, "gap.linear", h).squeeze(1), linear(p, "transformer.correction.2", hidden)


def mlp_logits(w: Tensor, p: Parameters) -> Tensor:
    """`MLPScore`: logits `[S, H, N, N, B]` of w `[S, C, N, N, B]`."""
    second = p["second"]  # [S, H, 32]
    hidden = p["first.weight"] @ w.flatten(2) + p["first.bias"].unsqueeze(-1)
    hidden = hidden.relu().view(*second.shape, *w.shape[2:])
    logits = (hidden * second[..., None, None, None]).sum(2)
    return logits + p["second_bias"][..., None, None, None]


TOKENS = 7


def _mix(a: Tensor, values: Tensor) -> Tensor:
    """`sum_j a_ij v_j`: a `[S, H, Nq, Nk, B]`, values `[S, H, c, Nk, B]`."""
    return (a[:, :, None] * values[:, :, :, None]).sum(4)


def _feed_forward(h: Tensor, p: Parameters) -> Tensor:
    normed = layer_norm(h, p["feed_forward_norm.weight"], p["feed_forward_norm.bias"])
    return h + linear(p, "feed_forward.2", gelu(linear(p, "feed_forward.0", normed)))


def layer_norm(h: Tensor, weight: Tensor, bias: Tensor) -> Tensor:
    """`nn.LayerNorm` over the features of `[S, d, N B]`."""
    centred = h - h.mean(1, keepdim=True)
    variance = centred.square().mean(1, keepdim=True)
    normed = centred * torch.rsqrt(variance + EPSILON)
    return normed * weight.unsqueeze(-1) + bias.unsqueeze(-1)


def linear(p: Parameters, name: str, x: Tensor) -> Tensor:
    """`nn.Linear` on `[S, in, N B]`."""
    return p[f"{name}.weight"] @ x + p[f"{name}.bias"].unsqueeze(-1)


def _below(p: Parameters, prefix: str) -> Parameters:
    return {name[len(prefix) :]: x for name, x in p.items() if name.startswith(prefix)}


def _maybe_compiled(function: Callable[..., Any], compiled: bool) -> Any:
    return torch.compile(function, dynamic=False, fullgraph=True) if compiled else function
