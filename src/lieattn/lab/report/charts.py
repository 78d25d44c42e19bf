"""Figures of numbers: errors of the models, training curves, learned block weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from ...groups import Block
from ...workflows.style import BLOCK_COLOURS, COLOURS, INK, canvas, style, to_svg
from .document import Figure
from .summary import Comparison, Row


def errors(comparison: Comparison) -> Figure:
    """Pose and equivariance error of each model on a log scale, the paper's beside them."""
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: pose error and equivariance error "
        "(without flips; A with) per model, log scale. Dots are seeds, bars their mean, diamonds "
        "the paper's figures."
    )
    name = f"errors-{comparison.protocol}-{comparison.group}"
    return Figure(name, caption, partial(_draw_errors, comparison))


def _draw_errors(comparison: Comparison) -> bytes:
    with style():
        figure = canvas(10, 4.2)
        left, right = figure.subplots(1, 2)
        for axis, title in ((left, "pose error"), (right, "equivariance error")):
            axis.set_yscale("log")
            axis.set_title(title)
            axis.set_xticks(range(len(comparison.rows)), list(comparison.rows))
            axis.set_xlim(-0.6, len(comparison.rows) - 0.4)
            axis.grid(axis="y", color="#e5e8ec")
            axis.set_axisbelow(True)
            axis.margins(y=0.15)
        for x, row in enumerate(comparison.rows.values()):
            printed = row.printed
            _points(left, x, row, "pose_error", printed.pose_error if printed else None)
            _points(
                right, x, row, row.equivariance_metric, printed.equivariance if printed else None
            )
        figure.legend(handles=_legend(comparison), loc="outside lower center", ncols=3)
        figure.suptitle(f"{comparison.title}, protocol {comparison.protocol}")
        return to_svg(figure)


def _points(axis: Any, x: int, row: Row, metric: str, printed: float | None) -> None:
    values = np.array(row.values("best", metric), dtype=float)
    colour = COLOURS[row.model]
    values = values[np.isfinite(values) & (values > 0)]
    if len(values):
        mean = values.mean()
        axis.plot([x - 0.22, x + 0.22], [mean, mean], color=colour, lw=4, solid_capstyle="round")
        offsets = np.linspace(-0.1, 0.1, len(values)) if len(values) > 1 else np.zeros(1)
        axis.plot(x + offsets, values, "o", color=colour, ms=8, mec="white", mew=1)
        axis.annotate(
            f"{mean:.0e}".replace("e-0", "e-"),
            (x, values.max()),
            xytext=(0, 9),
            textcoords="offset points",
            ha="center",
            va="bottom",
            color=colour,
            fontsize=13,
        )
    if printed is not None:
        axis.plot([x - 0.36], [printed], "D", mfc="white", mec=INK, mew=1.6, ms=9)


def _legend(comparison: Comparison) -> list[Line2D]:
    handles = [
        Line2D([], [], color=INK, marker="o", ls="", ms=8, label="seeds"),
        Line2D([], [], color=INK, lw=4, label="mean"),
    ]
    if any(row.printed for row in comparison.rows.values()):
        handles.append(
            Line2D([], [], marker="D", ls="", mfc="white", mec=INK, mew=1.6, ms=9, label="paper")
        )
    return handles


def curves(protocol: str, groups: list[Comparison]) -> Figure:
    """Validation pose error by epoch: the median seed, and the range of all."""
    caption = (
        f"Protocol {protocol}: pose error on the validation sets while training, median seed and "
        "range of the seeds."
    )
    return Figure(f"curves-{protocol}", caption, partial(_draw_curves, groups))


def _draw_curves(groups: list[Comparison]) -> bytes:
    with style():
        figure = canvas(*_grid_size(len(groups), 4.3, 4.0))
        axes = _panels(figure, len(groups))
        for axis, comparison in zip(axes, groups, strict=True):
            for model, row in comparison.rows.items():
                seeds = [seed["curve"] for seed in row.result["seeds"]]
                values = np.array(seeds, dtype=float)
                epochs = np.arange(1, values.shape[1] + 1)
                colour = COLOURS[model]
                axis.fill_between(epochs, values.min(0), values.max(0), color=colour, alpha=0.2)
                axis.plot(epochs, np.median(values, 0), color=colour, lw=2, label=model)
            axis.set_yscale("log")
            axis.set_title(comparison.title)
            axis.set_xlabel("epoch")
            axis.grid(axis="y", color="#e5e8ec")
        axes[0].set_ylabel("validation pose error")
        handles = [Line2D([], [], color=COLOURS[m], lw=3, label=m) for m in _models(groups)]
        figure.legend(handles=handles, loc="outside lower center", ncols=3)
        return to_svg(figure)


def _models(groups: list[Comparison]) -> list[str]:
    return [m for m in COLOURS if any(m in comparison.rows for comparison in groups)]


def weights(protocol: str, groups: list[Comparison]) -> Figure:
    """`lambda / tau` of model G by layer and head, one dot a seed."""
    groups = [comparison for comparison in groups if "G" in comparison.rows]
    caption = (
        f"Protocol {protocol}: learned block weights of model G, heads 1 to 4 of layers 1 to 3, "
        "one dot a seed; the dotted line is where they start."
    )
    return Figure(f"weights-{protocol}", caption, partial(_draw_weights, groups))


def _draw_weights(groups: list[Comparison]) -> bytes:
    with style():
        figure = canvas(*_grid_size(len(groups), 4.6, 4.0))
        axes = _panels(figure, len(groups))
        for axis, comparison in zip(axes, groups, strict=True):
            _weights_of(axis, comparison)
        axes[0].set_ylabel("lambda / tau")
        kinds = {
            Block(name, 0).kind
            for comparison in groups
            for name in comparison.rows["G"].result["blocks"]
        }
        handles = [
            Line2D([], [], color=colour, marker="o", ls="", ms=8, label=kind)
            for kind, colour in BLOCK_COLOURS.items()
            if kind in kinds
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=4)
        return to_svg(figure)


def _weights_of(axis: Any, comparison: Comparison) -> None:
    result = comparison.rows["G"].result
    values = np.array([seed["weights"] for seed in result["seeds"]])  # [S, L, H, K]
    layers, heads, blocks = values.shape[1:]
    for k, name in enumerate(result["blocks"]):
        shift = 0.16 * (k - (blocks - 1) / 2)
        x = np.add.outer((heads + 1) * np.arange(layers), np.arange(heads)) + shift
        every = np.broadcast_to(x, values.shape[:3])
        colour = BLOCK_COLOURS[Block(name, 0).kind]
        axis.plot(every.ravel(), values[..., k].ravel(), "o", ms=6, alpha=0.8, color=colour, mew=0)
    axis.set_yscale("log")
    axis.axhline(1, color=INK, ls=":", lw=1)
    middle = [layer * (heads + 1) + (heads - 1) / 2 for layer in range(layers)]
    axis.set_xticks(middle, [f"layer {layer + 1}" for layer in range(layers)], fontsize=13)
    axis.tick_params(axis="x", length=0)
    axis.set_title(comparison.title)


COLUMNS = 3


def _grid_size(panels: int, width: float, height: float) -> tuple[float, float]:
    columns = min(panels, COLUMNS)
    return width * columns, height * -(-panels // COLUMNS)


def _panels(figure: Any, count: int) -> list[Any]:
    """So many axes, three a row."""
    columns = min(count, COLUMNS)
    axes = figure.subplots(-(-count // COLUMNS), columns, squeeze=False).flatten()
    for axis in axes[count:]:
        axis.set_visible(False)
    return list(axes[:count])
