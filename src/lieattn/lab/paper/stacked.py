"""Several completion models of one architecture trained as one: a fast path for small sets.

The models, one per seed, have the same shapes and nothing else in common. Parameters have a leading
dimension S, and every product is batched. Tokens come last, `[S, d, N, B]`, so that everything but
the products is elementwise over the batch and vectorises; a set of seven is too small for anything
else. Outputs are those of `CompletionModel` to within rounding, which the tests check.

`torch.func.stack_module_state` and `vmap` over `CompletionModel` take 1.2 to 2.2 times as long,
because each step computes the logarithms of all pairs again.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import torch
from torch import Tensor
from torch.nn.functional import gelu, pad

from ...models.baselines.vector import VectorCompletionModel
from ...models.completion import CompletionModel
from ...scores import MLPScore, NormScore
from .sequences import LENGTH

ALIGNMENT = 16  # floats: rows and parameters start on cache lines, whatever the number of seeds
EPSILON = 1e-5  # of nn.LayerNorm
TOKENS = LENGTH - 1

Parameters = dict[str, Tensor]


class ParameterStack:
    """Parameters of S models as one matrix `[S, P]`, and as tensors `[S, *shape]` by name."""

    def __init__(self, template: CompletionModel) -> None:
        self.shapes = {name: tuple(x.shape) for name, x in template.named_parameters()}
        sizes = [prod(shape) for shape in self.shapes.values()]
        self.sizes = [-(-size // ALIGNMENT) * ALIGNMENT for size in sizes]
        self.gaps = [padded - size for padded, size in zip(self.sizes, sizes, strict=True)]

    def stack(self, models: Sequence[CompletionModel]) -> Tensor:
        """`[S, P]`, padded with zeros, which have no gradient and stay what they are."""
        rows = [self.join([x.detach()[None] for x in m.parameters()]) for m in models]
        return torch.cat(rows)

    def split(self, flat: Tensor) -> Parameters:
        """Views `[S, *shape]` by name."""
        parts = flat.split(self.sizes, dim=1)
        return {
            name: part[:, : prod(shape)].unflatten(1, shape)
            for (name, shape), part in zip(self.shapes.items(), parts, strict=True)
        }

    def join(self, parts: Sequence[Tensor]) -> Tensor:
        """The inverse of `split`, for tensors in the order of the parameters."""
        rows = [part.flatten(1) for part in parts]
        padded = [pad(x, (0, gap)) if gap else x for x, gap in zip(rows, self.gaps, strict=True)]
        return torch.cat(padded, dim=1)

    def unstack(self, flat: Tensor, seed: int) -> Parameters:
        """State of one model, for `load_state_dict`."""
        return {name: x[seed].clone() for name, x in self.split(flat).items()}


class StackedNetwork:
    """Gap logits `[S, N, B]`, corrections `[S, dim, N, B]` and losses `[S, B]` of S models.

    Args:
        template: a model of the architecture; its parameters are not used.
        compiled: compile layers and heads. Layers of one shape share a kernel, so that three of
            them cost one compilation, and so does model A on all groups.
    """

    def __init__(self, template: CompletionModel, compiled: bool) -> None:
        self.heads, self.layers = template.config.heads, len(template.transformer.layers)
        self.absolute = isinstance(template, VectorCompletionModel)
        self.score = None if self.absolute else template.transformer.layers[0].attention.score
        if type(self.score) not in LAYERS:
            raise TypeError(f"scores norm and mlp can be stacked, got {self.score}.")
        functions: list[Any] = [LAYERS[type(self.score)], read_out]
        if compiled:
            functions = [torch.compile(f, dynamic=False, fullgraph=True) for f in functions]
        self._layer, self._read = functions

    def __call__(self, p: Parameters, batch: dict[str, Tensor]) -> tuple[Tensor, Tensor, Tensor]:
        """Args: p as of `ParameterStack.split`; batch as of `Batches.take`."""
        x = batch["x"]
        h = self._embed(p, x)
        for i in range(self.layers):
            own = _below(p, f"transformer.layers.{i}.")
            if self.absolute:
                h = self._layer(h, own, self.heads)
            elif isinstance(self.score, NormScore):
                h = self._layer(h, x, _weights(self.score, own), own, self.heads)
            else:
                h = self._layer(h, x, own, self.heads)
        own = {name: x for name, x in p.items() if not name.startswith("transformer.layers.")}
        return self._read(h, own, batch["scale"], batch["needed"], batch["beside"])

    def _embed(self, p: Parameters, x: Tensor) -> Tensor:
        if self.absolute:
            return linear(p, "transformer.embed", x.flatten(-2))
        count = x.shape[-1] * x.shape[-2]
        return p["transformer.h0"].unsqueeze(-1).expand(-1, -1, count).contiguous()


def _weights(score: NormScore, own: Parameters) -> Tensor:
    """`-lambda / tau` of every coordinate, `[S, H, C]`."""
    tau = score.keep_positive(own["attention.score.raw_tau"])
    weights = score.keep_positive(own["attention.score.raw_lambda"]) / -tau.unsqueeze(-1)
    sizes = torch.tensor(score.parts)
    return weights.repeat_interleave(sizes, -1, output_size=score.coordinates)


def norm_layer(h: Tensor, w: Tensor, weights: Tensor, p: Parameters, heads: int) -> Tensor:
    """A layer of model G; weights `[S, H, C]`."""
    logits = weights @ w.square().flatten(2)
    return lie_layer(h, logits.unflatten(2, w.shape[2:]), w, p, heads)


def mlp_layer(h: Tensor, w: Tensor, p: Parameters, heads: int) -> Tensor:
    """A layer of model C."""
    return lie_layer(h, mlp_logits(w, _below(p, "attention.score.")), w, p, heads)


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
    """`VectorLayer`: h `[S, d, N B]`."""
    seeds, dim, count = h.shape
    normed = layer_norm(h, p["attention_norm.weight"], p["attention_norm.bias"])
    qkv = linear(p, "qkv", normed).view(seeds, 3, heads, dim // heads, TOKENS, count // TOKENS)
    q, k, v = qkv.unbind(1)
    logits = (q[:, :, :, :, None] * k[:, :, :, None]).sum(2) * (dim // heads) ** -0.5
    mixed = _mix(logits.softmax(3), v)
    return _feed_forward(h + linear(p, "out", mixed.view(seeds, dim, count)), p)


def read_out(
    h: Tensor, p: Parameters, scale: Tensor, needed: Tensor, beside: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """Gap logits `[S, N, B]`, corrections in physical coordinates `[S, dim, N, B]`, and losses.

    The losses `[S, B]` are `losses.completion_loss` of each set.
    """
    h = layer_norm(h, p["transformer.norm.weight"], p["transformer.norm.bias"])
    hidden = gelu(linear(p, "transformer.correction.0", h))
    gap = linear(p, "gap.linear", h).view(beside.shape)
    delta = scale * linear(p, "transformer.correction.2", hidden).view(needed.shape)
    entropy = -(gap.log_softmax(1) * beside).sum(1)
    error = ((delta - needed).square().sum(1) * beside).sum(1)
    return gap, delta, entropy + error


def mlp_logits(w: Tensor, p: Parameters) -> Tensor:
    """`MLPScore`: logits `[S, H, N, N, B]` of w `[S, C, N, N, B]`."""
    second = p["second"]  # [S, H, 32]
    hidden = p["first.weight"] @ w.flatten(2) + p["first.bias"].unsqueeze(-1)
    hidden = hidden.relu().view(*second.shape, *w.shape[2:])
    logits = (hidden * second[..., None, None, None]).sum(2)
    return logits + p["second_bias"][..., None, None, None]


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


# By the class of the score; model A has none.
LAYERS = {NormScore: norm_layer, MLPScore: mlp_layer, type(None): vector_layer}
