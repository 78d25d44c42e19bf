"""Figures of things: sequences of frames with the missing one, and attention maps."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon

from ...groups import get_group
from .document import Figure
from .style import COLOURS, INK, PALE, TRUTH, canvas, style, to_svg
from .summary import Comparison

CAMERA = np.array([[0.86, -0.5, 0.0], [0.28, 0.48, 0.83]])  # from space to paper, seen from above
AXES = "xyz"


def sequences(comparison: Comparison) -> Figure:
    """What each model saw of a test sequence, what it answered, and the truth."""
    examples = min(len(row.result["examples"]) for row in comparison.rows.values())
    shown = min(examples, 2)
    with style():
        figure = canvas(4.3 * len(comparison.rows), 4.1 * shown + 0.6)
        axes = figure.subplots(shown, len(comparison.rows), squeeze=False)
        for column, (model, row) in enumerate(comparison.rows.items()):
            for i in range(shown):
                axis = axes[i, column]
                _draw(axis, comparison.group, row.result["examples"][i], COLOURS[model])
                if i == 0:
                    axis.set_title(f"model {model}", color=COLOURS[model])
        handles = [
            Line2D([], [], color=INK, lw=2, label="given"),
            Line2D([], [], color=TRUTH, lw=7, label="truth"),
            Line2D([], [], color="#808890", lw=2.2, label="answer, in the model's colour"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        svg = to_svg(figure)
    how = "as frames, x axis longer" if get_group(comparison.group).n == 2 else "as axes"
    apart = "" if _has_positions(comparison.group) else ", set out in two rows"
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: test sequences, poses drawn {how}"
        f"{apart}. Thick yellow: the pose that was taken out. Colour: the model's answer."
    )
    return Figure(f"sequences-{comparison.protocol}-{comparison.group}", caption, svg)


def _has_positions(group: str) -> bool:
    return get_group(group).matrix_size > get_group(group).n


def _draw(axis: Any, group: str, example: dict[str, Any], colour: str) -> None:
    n = get_group(group).n
    poses = np.array(example["poses"])
    truth, answer = np.array(example["missing"]), np.array(example["predicted"])
    positions = np.array(example["positions"])
    gap = next(k for k in range(1, positions.max()) if k not in positions)
    if _has_positions(group):
        path = np.insert(poses[:, :n, n], gap, truth[:n, n], axis=0)
        size = 0.45 * float(np.median(np.linalg.norm(np.diff(path, axis=0), axis=1)))
        size = max(size, 0.12 * float(np.ptp(path, axis=0).max()))
        axis.plot(*_flat(path).T, color=PALE, lw=1, zorder=0)
        places = _flat(path)
        there = _flat(answer[:n, n])
    else:
        size = 1.0
        places = np.array([[2.5 * (k % 4), -2.5 * (k // 4)] for k in range(len(poses) + 1)])
        there = places[gap]
    for pose, k in zip(poses, positions, strict=True):
        _frame(axis, places[k], pose[:n, :n] * size, INK, 1.8, 2)
    _frame(axis, places[gap], truth[:n, :n] * size, TRUTH, 7, 1)
    _frame(axis, there, answer[:n, :n] * size, colour, 2.4, 3)
    axis.set_aspect("equal", adjustable="datalim")
    axis.set_xticks([])
    axis.set_yticks([])
    for spine in axis.spines.values():
        spine.set_visible(True)
        spine.set_color("#dde1e7")


def _frame(
    axis: Any, place: np.ndarray, linear: np.ndarray, colour: str, width: float, order: int
) -> None:
    """A frame in the plane with its cell shaded and a longer x axis, or axes in space."""
    arms = _flat(linear.T)  # one row an axis
    if len(arms) == 2:
        corners = place + np.array([0 * arms[0], arms[0], arms[0] + arms[1], arms[1]])
        axis.add_patch(Polygon(corners, fc=colour, ec="none", alpha=0.13, zorder=order))
        arms = arms * np.array([[1.35], [1.0]])
    for name, arm in zip(AXES, arms, strict=False):
        ends = np.array([place, place + arm]).T
        axis.plot(*ends, color=colour, lw=width, solid_capstyle="round", zorder=order)
        if len(arms) == 3 and colour != TRUTH:
            x, y = place + 1.18 * arm
            axis.text(x, y, name, color=colour, fontsize=9, ha="center", va="center")


def _flat(points: np.ndarray) -> np.ndarray:
    return points if points.shape[-1] == 2 else points @ CAMERA.T


def attention(comparison: Comparison) -> Figure:
    """Attention of every layer and head on the first test sequence, tokens in their order."""
    with style():
        models = list(comparison.rows)
        figure = canvas(4.6 * len(models), 4.5)
        parts = figure.subfigures(1, len(models), squeeze=False, wspace=0.04)[0]
        for part, model in zip(parts, models, strict=True):
            example = comparison.rows[model].result["examples"][0]
            _maps(part, np.array(example["attention"]), example["positions"])
            part.suptitle(f"model {model}", color=COLOURS[model])
        svg = to_svg(figure)
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: attention on the first test "
        "sequence, heads from left to right, layers from top to bottom; rows of a map are "
        "queries, in the order of the sequence, and the lines mark the gap. Dark is much."
    )
    return Figure(f"attention-{comparison.protocol}-{comparison.group}", caption, svg)


def _maps(part: Any, maps: np.ndarray, positions: list[int]) -> None:
    layers, heads = maps.shape[:2]
    axes = part.subplots(layers, heads, squeeze=False)
    gap = next(i for i, k in enumerate(positions) if i != k)
    for layer in range(layers):
        for head in range(heads):
            axis = axes[layer, head]
            axis.imshow(maps[layer, head], cmap="Blues", vmin=0, vmax=max(maps.max(), 1e-9))
            axis.axhline(gap - 0.5, color="#D55E00", lw=1)
            axis.axvline(gap - 0.5, color="#D55E00", lw=1)
            axis.set_xticks([])
            axis.set_yticks([])
            for spine in axis.spines.values():
                spine.set_visible(True)
                spine.set_color(PALE)
        axes[layer, 0].set_ylabel(f"layer {layer + 1}", fontsize=13)
