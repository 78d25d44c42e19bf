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
from .training import Trainer, data

ITERATES = ("best", "last")
EXAMPLES = 2
DIGITS = 4  # significant, of what is drawn and not compared


def result_of(trainer: Trainer) -> dict[str, Any]:
    """Metrics of every seed and iterate, curves, learned weights, and examples to be drawn."""
    settings = trainer.settings
    template = settings.build()
    tests = [data(settings, seed, "test") for seed in settings.seeds]
    return {
        "settings": settings.to_dict(),
        "blocks": [block.name for block in get_group(settings.group).blocks],
        "parameters": count_parameters(template),
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


def count_parameters(model: CompletionModel) -> dict[str, int]:
    """Of the whole model, and of its scores alone."""
    named = dict(model.named_parameters())
    return {
        "total": sum(p.numel() for p in named.values()),
        "score": sum(p.numel() for name, p in named.items() if ".score." in name),
    }


def _seed_result(trainer: Trainer, i: int, sets: SequenceSet) -> dict[str, Any]:
    settings, state = trainer.settings, trainer.state
    seed, history = settings.seeds[i], state.history[i]
    measured = {
        iterate: evaluate(
            trainer.model(i, iterate),
            sets,
            generator("transforms", seed),
            trainer.protocol.flanks,
        )
        for iterate in ITERATES
    }
    return {
        "seed": seed,
        "best_epoch": state.best_epoch[i],
        **measured,
        "curve": [_rounded(line["validation_pose_error"]) for line in history],
        "weights": learned_weights(trainer.model(i, "best")),
    }


def learned_weights(model: CompletionModel) -> list[list[list[float]]] | None:
    """`lambda / tau` by layer, head and block; None for models without."""
    layers = [getattr(layer, "attention", None) for layer in model.transformer.layers]
    if not all(layer is not None and isinstance(layer.score, NormScore) for layer in layers):
        return None
    return [_as_list(layer.score.weights) for layer in layers if layer is not None]


@torch.no_grad()
def _examples(model: CompletionModel, sets: SequenceSet, flanks: str) -> list[dict[str, Any]]:
    """The first sequences of a test set in their order, with answer, truth and attention."""
    examples = []
    for i in range(min(EXAMPLES, len(sets.poses))):
        order = sets.positions[i].argsort()
        poses = sets.poses[i][order]
        done = model.complete(poses, flanks=flanks)
        examples.append(
            {
                "positions": sets.positions[i][order].tolist(),
                "poses": _as_list(poses),
                "missing": _as_list(sets.missing[i]),
                "predicted": _as_list(done.pose),
                "attention": _as_list(attention_maps(model, poses)),
            }
        )
    return examples


def attention_maps(model: CompletionModel, poses: Tensor) -> Tensor:
    """Attention of every layer and head, `[L, H, N, N]`, of a set `[N, m, m]`."""
    maps: list[Tensor] = []
    handles = []
    for layer in model.transformer.layers:
        if hasattr(layer, "qkv"):
            handles.append(layer.qkv.register_forward_hook(_vector_hook(maps, layer.heads)))
        else:
            handles.append(layer.attention.score.register_forward_hook(_lie_hook(maps)))
    try:
        model(poses)
    finally:
        for handle in handles:
            handle.remove()
    return torch.stack(maps)


def _lie_hook(maps: list[Tensor]) -> Any:
    def hook(module: Any, inputs: Any, logits: Tensor) -> None:
        alone = torch.eye(logits.shape[-1], dtype=torch.bool)
        maps.append(logits.masked_fill(alone, -torch.inf).softmax(-1))

    return hook


def _vector_hook(maps: list[Tensor], heads: int) -> Any:
    def hook(module: Any, inputs: Any, output: Tensor) -> None:
        q, k, _ = output.unflatten(-1, (3, heads, -1)).movedim(-3, 0).transpose(-3, -2)
        maps.append((q @ k.mT * q.shape[-1] ** -0.5).softmax(-1))

    return hook


def _as_list(x: Tensor) -> Any:
    return _round_all(x.tolist())


def _round_all(values: Any) -> Any:
    if isinstance(values, list):
        return [_round_all(value) for value in values]
    return _rounded(values)


def _rounded(value: float) -> float | None:
    return float(f"{value:.{DIGITS}g}") if isfinite(value) else None
