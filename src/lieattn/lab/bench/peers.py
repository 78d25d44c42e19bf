"""Published layers for poses in space. They are whole layers, projections and all."""

from __future__ import annotations

import warnings
from functools import partial
from importlib import import_module
from importlib.util import find_spec

import torch
from torch import Tensor, nn

from .cases import Case, Contestant, Problem


def _layer(module: str, name: str, **options: object) -> nn.Module:
    torch.manual_seed(0)
    return getattr(import_module(module), name)(**options)


def _features(case: Case) -> Tensor:
    return case.random(case.batch, case.n, case.heads * case.width)


def _ipa(case: Case) -> Problem:
    layer = _layer(
        "invariant_point_attention",
        "InvariantPointAttention",
        dim=case.heads * case.width,
        heads=case.heads,
        scalar_key_dim=case.width,
        scalar_value_dim=case.width,
        require_pairwise_repr=False,
    )

    def function(inputs: list[Tensor], poses: list[Tensor]) -> tuple[Tensor]:
        frames = {"rotations": poses[0][..., :3, :3], "translations": poses[0][..., :3, 3]}
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # of an autocast that it spells the old way
            return (layer(*inputs, **frames),)

    h = _features(case)
    return Problem(function, [h], [case.poses()], [tuple(h.shape)], list(layer.parameters()))


def _egnn(case: Case) -> Problem:
    layer = _layer("egnn_pytorch", "EGNN", dim=case.heads * case.width)
    h, points = _features(case), case.poses()[..., :3, 3].contiguous()

    def function(inputs: list[Tensor], poses: list[Tensor]) -> tuple[Tensor, Tensor]:
        return layer(*inputs, *poses)

    shapes = [tuple(h.shape), tuple(points.shape)]
    return Problem(function, [h], [points], shapes, list(layer.parameters()))


# Both know poses, or points, in space: they stand beside SE(3).
_peer = partial(Contestant, pairs=True, groups=("SE3",))
PEERS = {
    "invariant-point-attention": _peer(
        "invariant-point-attention",
        "IPA layer",
        "invariant-point-attention, a whole layer of width heads x head width, no pair features",
        _ipa,
    ),
    "egnn-pytorch": _peer(
        "egnn-pytorch",
        "EGNN layer",
        "egnn-pytorch, a whole layer of width heads x head width on points without rotations",
        _egnn,
    ),
}


def missing() -> list[str]:
    """Peers that are not installed, by the names that pip knows."""
    return [name for name in PEERS if find_spec(name.replace("-", "_")) is None]
