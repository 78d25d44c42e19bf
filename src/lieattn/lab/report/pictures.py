"""Pictures of examples: sequences of frames with the missing one, and attention maps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import torch

from ...groups import get_group
from ...workflows.drawing import (
    INK,
    PALE,
    TRUTH,
    Canvas,
    axis_length,
    canvas,
    colours,
    finish,
    frames,
    legend,
    sketch,
)
from .document import Figure
from .summary import Comparison, has_positions

SHOWN = 2  # test sequences of each model


def sequences(comparison: Comparison) -> Figure:
    """Test sequences: what was given, the answer of each model, and the truth."""
    apart = "" if has_positions(comparison.group) else ", set out in rows"
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: test sequences, poses drawn as axes, "
        f"x the longest{apart}, in the frame of the missing pose. Thick yellow: the missing pose. "
        "Colour: the model's answer."
    )
    name = f"sequences-{comparison.protocol}-{comparison.group}"
    return Figure(name, caption, partial(_draw_sequences, comparison))


def _draw_sequences(comparison: Comparison) -> Canvas:
    examples = {model: row.result["examples"] for model, row in comparison.rows.items()}
    shown = min(SHOWN, *map(len, examples.values()))
    colour = colours(examples)
    height = 4.1 if has_positions(comparison.group) else 2.5
    figure = canvas(4.5 * len(examples), height * shown + 0.8)
    axes = figure.subplots(shown, len(examples), squeeze=False)
    for column, model in enumerate(examples):
        for axis, example in zip(axes[:, column], examples[model], strict=False):
            _draw_example(axis, comparison.group, example, colour[model])
        axes[0, column].set_title(f"model {model}", color=colour[model])
    for axis in axes[:-1].flat:
        axis.set_xlabel("")  # the lowest row names the projection
    looks = {
        "given": {"color": INK, "lw": 2},
        "truth": {"color": TRUTH, "lw": 7},
        "answer, in the model's colour": {"color": "#808890", "lw": 2.2},
    }
    legend(figure, looks)
    return figure


def _draw_example(axis: Any, name: str, example: dict[str, Any], colour: str) -> None:
    """One sequence in the frame of the missing pose: there equivariant models answer the same."""
    group = get_group(name)
    missing, given, answer = (
        torch.tensor(example[key], dtype=torch.float64) for key in ("missing", "poses", "predicted")
    )
    order = torch.tensor(example["positions"])
    gap = next(k for k in range(int(order.max())) if k not in order)
    # Given poses, the truth, and the answer, which stands in the place of the truth.
    poses = missing.inverse() @ torch.cat([given, missing[None], answer[None]])
    all_poses = sketch(group, poses, torch.cat([order, torch.tensor([gap, gap])]))
    path = all_poses.rows(torch.cat([order, torch.tensor([gap])]).argsort().numpy())
    length = 2 * axis_length(path)
    if has_positions(name):
        axis.plot(*path.where.T, color=PALE, lw=1, zorder=0)
    frames(axis, all_poses.rows(slice(-2)), INK, length, 1.8, 2)
    frames(axis, all_poses.rows(slice(-2, -1)), TRUTH, length, 7, 1)
    frames(axis, all_poses.rows(slice(-1, None)), colour, length, 2.4, 3)
    finish(axis, all_poses, group)
    axis.set(xticks=[], yticks=[], xlabel=all_poses.label, frame_on=False)


def attention(comparison: Comparison) -> Figure:
    """Attention of every layer and head on the first test sequence, tokens in their order."""
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: attention on the first test "
        "sequence by layer and head. Rows of a map are queries, in the order of the sequence; the "
        "lines mark the gap. Dark means high attention."
    )
    name = f"attention-{comparison.protocol}-{comparison.group}"
    return Figure(name, caption, partial(_draw_attention, comparison))


def _draw_attention(comparison: Comparison) -> Canvas:
    figure = canvas(4.8 * len(comparison.rows), 4.3)
    axes = figure.subplots(1, len(comparison.rows), squeeze=False)[0]
    for axis, (model, row) in zip(axes, comparison.rows.items(), strict=True):
        example = row.result["examples"][0]
        _maps(axis, np.array(example["attention"]), example["positions"])
        axis.set_title(f"model {model}", color=colours([model])[model])
    return figure


def _maps(axis: Any, maps: np.ndarray, positions: list[int]) -> None:
    """All maps of a model as one picture, with a blank cell between neighbours."""
    layers, heads, size = maps.shape[:3]
    pitch = size + 1
    padded = np.pad(maps, ((0, 0), (0, 0), (0, 1), (0, 1)), constant_values=np.nan)
    mosaic = padded.transpose(0, 2, 1, 3).reshape(layers * pitch, heads * pitch)[:-1, :-1]
    gap = next(i for i, k in enumerate(positions) if i != k) - 0.5
    tops, lefts = pitch * np.arange(layers), pitch * np.arange(heads)
    for top in tops:
        for left in lefts:
            axis.plot([left - 0.5, left + size - 0.5], [top + gap] * 2, color="#D55E00", lw=1)
            axis.plot([left + gap] * 2, [top - 0.5, top + size - 0.5], color="#D55E00", lw=1)
    axis.imshow(mosaic, cmap="Blues", vmin=0, vmax=max(maps.max(), 1e-9), interpolation="nearest")
    middle = (size - 1) / 2
    axis.set_xticks(lefts + middle, range(1, heads + 1))
    axis.set_yticks(tops + middle, range(1, layers + 1))
    axis.set(xlabel="head", ylabel="layer", frame_on=False)
    axis.tick_params(length=0)
