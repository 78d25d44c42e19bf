"""Figures of things: sequences of frames with the missing one, and attention maps."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from matplotlib.patches import Polygon

from ...groups import get_group
from ...workflows.style import COLOURS, INK, PALE, TRUTH, canvas, style, to_svg
from .document import Figure
from .summary import Comparison

CAMERA = np.array([[0.86, -0.5, 0.0], [0.28, 0.48, 0.83]])  # from space to paper, seen from above
AXES = "xyz"


def sequences(comparison: Comparison) -> Figure:
    """What each model saw of a test sequence, what it answered, and the truth."""
    how = "as frames, x axis longer" if get_group(comparison.group).n == 2 else "as axes"
    apart = "" if _has_positions(comparison.group) else ", set out in two rows"
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: test sequences, poses drawn {how}"
        f"{apart}, seen from the missing one. Thick yellow: the pose that was taken out. Colour: "
        "the model's answer."
    )
    name = f"sequences-{comparison.protocol}-{comparison.group}"
    return Figure(name, caption, partial(_draw_sequences, comparison))


def _draw_sequences(comparison: Comparison) -> bytes:
    examples = min(len(row.result["examples"]) for row in comparison.rows.values())
    shown = min(examples, 2)
    height = 4.1 if _has_positions(comparison.group) else 2.5
    with style():
        figure = canvas(4.3 * len(comparison.rows), height * shown + 0.8)
        axes = figure.subplots(shown, len(comparison.rows), squeeze=False)
        for column, (model, row) in enumerate(comparison.rows.items()):
            for i in range(shown):
                axis = axes[i, column]
                _draw_example(axis, comparison.group, row.result["examples"][i], COLOURS[model])
                if i == 0:
                    axis.set_title(f"model {model}", color=COLOURS[model])
        handles = [
            Line2D([], [], color=INK, lw=2, label="given"),
            Line2D([], [], color=TRUTH, lw=7, label="truth"),
            Line2D([], [], color="#808890", lw=2.2, label="answer, in the model's colour"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return to_svg(figure)


def _has_positions(group: str) -> bool:
    return get_group(group).matrix_size > get_group(group).n


def _draw_example(axis: Any, group: str, example: dict[str, Any], colour: str) -> None:
    n = get_group(group).n
    # Seen from the missing frame: a model that is equivariant would answer the same there.
    seen = np.linalg.inv(np.array(example["missing"]))
    poses = seen @ np.array(example["poses"])
    truth, answer = np.eye(len(seen)), seen @ np.array(example["predicted"])
    positions = np.array(example["positions"])
    gap = next(k for k in range(1, positions.max()) if k not in positions)
    if _has_positions(group):
        path = np.insert(poses[:, :n, n], gap, truth[:n, n], axis=0)
        size = 0.11 * float(np.ptp(path, axis=0).max())
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
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: attention on the first test "
        "sequence by layer and head. Rows of a map are queries, in the order of the sequence; the "
        "lines mark the gap. Dark is much."
    )
    name = f"attention-{comparison.protocol}-{comparison.group}"
    return Figure(name, caption, partial(_draw_attention, comparison))


def _draw_attention(comparison: Comparison) -> bytes:
    with style():
        models = list(comparison.rows)
        figure = canvas(4.8 * len(models), 4.3)
        axes = figure.subplots(1, len(models), squeeze=False)[0]
        for axis, model in zip(axes, models, strict=True):
            example = comparison.rows[model].result["examples"][0]
            _maps(axis, np.array(example["attention"]), example["positions"])
            axis.set_title(f"model {model}", color=COLOURS[model])
        return to_svg(figure)


def _maps(axis: Any, maps: np.ndarray, positions: list[int]) -> None:
    """All maps of a model as one picture, a cell between neighbours left empty."""
    layers, heads, size = maps.shape[:3]
    pitch = size + 1
    mosaic = np.full((layers * pitch - 1, heads * pitch - 1), np.nan)
    gap = next(i for i, k in enumerate(positions) if i != k) - 0.5
    for layer in range(layers):
        for head in range(heads):
            top, left = layer * pitch, head * pitch
            mosaic[top : top + size, left : left + size] = maps[layer, head]
            line = {"color": "#D55E00", "lw": 1}
            axis.plot([left - 0.5, left + size - 0.5], [top + gap] * 2, **line)
            axis.plot([left + gap] * 2, [top - 0.5, top + size - 0.5], **line)
    axis.imshow(mosaic, cmap="Blues", vmin=0, vmax=max(maps.max(), 1e-9), interpolation="nearest")
    middle = (size - 1) / 2
    axis.set_xticks([h * pitch + middle for h in range(heads)], range(1, heads + 1))
    axis.set_yticks([k * pitch + middle for k in range(layers)], range(1, layers + 1))
    axis.set_xlabel("head")
    axis.set_ylabel("layer")
    axis.tick_params(length=0)
    for spine in axis.spines.values():
        spine.set_visible(False)
