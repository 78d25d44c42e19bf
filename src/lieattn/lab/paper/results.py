"""The result of a configuration as plain JSON: all that tables, figures and reports are made of."""

from __future__ import annotations

from math import isfinite
from typing import Any

import torch
from torch import Tensor

from ... import __version__
from ..._core.random import generator
from ...groups import get_group
from ...models.completion import CompletionModel
from ...scores import NormScore
from .metrics import evaluate
from .sequences import SequenceSet
from .storage import nested
from .training import Trainer, data

ITERATES = ("best", "last")
EXAMPLES = 2
DIGITS = 4  # significant, of what is drawn and not compared
FIELDS = {
    "settings",
    "blocks",
    "parameters",
    "protocol",
    "made_with",
    "rejected_steps",
    "seeds",
    "examples",
}


def result_of(trainer: Trainer) -> dict[str, Any]:
    """Metrics of every seed and iterate, curves, learned weights, and examples to be drawn."""
    settings = trainer.settings
    sizes = {name: p.numel() for name, p in settings.build().named_parameters()}
    tests = [data(settings, seed, "test") for seed in settings.seeds]
    return {
        "settings": settings.to_dict(),
        "blocks": [block.name for block in get_group(settings.group).blocks],
        "parameters": {
            "total": sum(sizes.values()),
            "score": sum(size for name, size in sizes.items() if ".score." in name),
        },
        "protocol": trainer.protocol.numbers(),
        "made_with": made_with(),
        "rejected_steps": trainer.rejected + sum(sets.rejected for sets in tests),
        "seeds": [_seed_result(trainer, i, sets) for i, sets in enumerate(tests)],
        "examples": _examples(trainer.model(0, "best"), tests[0], trainer.protocol.flanks),
    }


def gather(results: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """Results by name."""
    return {"format": 1, "configurations": {name: results[name] for name in sorted(results)}}


def made_with() -> dict[str, str]:
    """Versions on which the last bits of a result may depend."""
    return {"lieattn": __version__, "torch": torch.__version__.split("+")[0]}


def _seed_result(trainer: Trainer, i: int, sets: SequenceSet) -> dict[str, Any]:
    state, seed, flanks = trainer.state, trainer.settings.seeds[i], trainer.protocol.flanks
    models = {iterate: trainer.model(i, iterate) for iterate in ITERATES}
    return {
        "seed": seed,
        "best_epoch": state.best_epoch[i],
        **{
            iterate: evaluate(model, sets, generator("transforms", seed), flanks)
            for iterate, model in models.items()
        },
        "curve": [_rounded(line["validation_pose_error"]) for line in state.history[i]],
        "weights": _learned_weights(models["best"]),
    }


def _learned_weights(model: CompletionModel) -> list[list[list[float]]] | None:
    """`lambda / tau` by layer, head and block; None for models without."""
    layers = model.transformer.layers
    scores = [x.attention.score for x in layers if hasattr(x, "attention")]
    if not scores or not all(isinstance(score, NormScore) for score in scores):
        return None
    return [_as_list(score.weights) for score in scores]


@torch.no_grad()
def _examples(model: CompletionModel, sets: SequenceSet, flanks: str) -> list[dict[str, Any]]:
    """The first sequences of a test set in their order, with answer, truth and attention."""
    examples = []
    for i in range(min(EXAMPLES, len(sets.poses))):
        order = sets.positions[i].argsort()
        poses = sets.poses[i][order]
        examples.append(
            {
                "positions": sets.positions[i][order].tolist(),
                "poses": _as_list(poses),
                "missing": _as_list(sets.missing[i]),
                "predicted": _as_list(model.complete(poses, flanks=flanks).pose),
                "attention": _as_list(attention_maps(model, poses)),
            }
        )
    return examples


def attention_maps(model: CompletionModel, poses: Tensor) -> Tensor:
    """Attention of every layer and head, `[L, H, N, N]`, of a set `[N, m, m]`."""
    maps: list[Tensor] = []

    def of_vectors(layer: Any, inputs: Any, output: Tensor) -> None:
        heads = output.unflatten(-1, (3, model.config.heads, -1))
        q, k, _ = heads.movedim(-3, 0).transpose(-3, -2)
        maps.append((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1))

    def of_poses(score: Any, inputs: Any, logits: Tensor) -> None:
        alone = torch.eye(logits.shape[-1], dtype=torch.bool)
        maps.append(logits.masked_fill(alone, -torch.inf).softmax(-1))

    handles = [
        layer.qkv.register_forward_hook(of_vectors)
        if hasattr(layer, "qkv")
        else layer.attention.score.register_forward_hook(of_poses)
        for layer in model.transformer.layers
    ]
    try:
        model(poses)
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack(maps)


def _as_list(x: Tensor) -> Any:
    return nested(_rounded, x.tolist())


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
