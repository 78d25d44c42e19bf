"""Figures of numbers: errors of the models, training curves, learned block weights."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np

from ...groups import Block
from ...workflows import drawing
from ...workflows.drawing import BLOCK_COLOURS, INK, Canvas, colours, panels
from .document import Figure
from .summary import Comparison, Row

PAPER: Any = {"marker": "D", "ls": "", "mfc": "white", "mec": INK, "mew": 1.6, "ms": 9}


def errors(comparison: Comparison) -> Figure:
    """Pose and equivariance error of each model, with the paper's values."""
    caption = (
        f"{comparison.title}, protocol {comparison.protocol}: pose error and equivariance error "
        "(without flips; for A with flips) of each model, log scale. Dots are seeds, bars their "
        "mean, diamonds the paper's values."
    )
    name = f"errors-{comparison.protocol}-{comparison.group}"
    return Figure(name, caption, partial(_draw_errors, comparison))


def _draw_errors(comparison: Comparison) -> Canvas:
    figure, (left, right) = panels(2, 5, 4.2)
    left.set_title("pose error")
    right.set_title("equivariance error")
    for axis in (left, right):
        drawing.log_scale(axis)
        axis.set_xticks(range(len(comparison.rows)), list(comparison.rows))
        axis.set_xlim(-0.6, len(comparison.rows) - 0.4)
        axis.margins(y=0.15)
    for x, row in enumerate(comparison.rows.values()):
        _points(left, x, row, "pose_error")
        _points(right, x, row, row.equivariance_metric)
        if row.printed is not None:
            left.plot([x - 0.4], [row.printed.pose_error], **PAPER)
            right.plot([x - 0.4], [row.printed.equivariance], **PAPER)
    looks: dict[str, Any] = {"seeds": {"marker": "o", "ls": ""}, "mean": {"lw": 4}}
    looks = {label: {"color": INK, "ms": 8, **look} for label, look in looks.items()}
    if any(row.printed for row in comparison.rows.values()):
        looks["paper"] = PAPER
    drawing.legend(figure, looks)
    figure.suptitle(f"{comparison.title}, protocol {comparison.protocol}")
    return figure


def _points(axis: Any, x: int, row: Row, metric: str) -> None:
    values = np.array(row.values("best", metric), dtype=float)
    values = values[np.isfinite(values) & (values > 0)]
    colour = colours([row.model])[row.model]
    if len(values):
        drawing.seeds(axis, x, values, colour)
        text = f"{values.mean():.0e}".replace("e-0", "e-")
        place = {"xytext": (0, 9), "textcoords": "offset points", "ha": "center"}
        axis.annotate(text, (x, values.max()), color=colour, fontsize=13, **place)


def curves(protocol: str, groups: list[Comparison]) -> Figure:
    """Validation pose error by epoch: the median seed, and the range of all."""
    caption = (
        f"Protocol {protocol}: pose error on the validation sets during training, median and "
        "range of the seeds."
    )
    return Figure(f"curves-{protocol}", caption, partial(_draw_curves, groups))


def _draw_curves(groups: list[Comparison]) -> Canvas:
    figure, axes = panels(len(groups), 4.3, 4.0)
    colour = colours(model for comparison in groups for model in comparison.rows)
    for axis, comparison in zip(axes, groups, strict=True):
        for model, row in comparison.rows.items():
            values = np.array([seed["curve"] for seed in row.result["seeds"]], dtype=float)
            epochs = np.arange(1, values.shape[1] + 1)
            axis.fill_between(epochs, values.min(0), values.max(0), color=colour[model], alpha=0.2)
            axis.plot(epochs, np.median(values, 0), color=colour[model], lw=2)
        drawing.log_scale(axis)
        axis.set_title(comparison.title)
        axis.set_xlabel("epoch")
    axes[0].set_ylabel("validation pose error")
    drawing.legend(figure, {model: {"color": x, "lw": 3} for model, x in colour.items()})
    return figure


def weights(protocol: str, groups: list[Comparison]) -> Figure:
    """`lambda / tau` of model G by layer and head, a dot for each seed."""
    caption = (
        f"Protocol {protocol}: learned block weights of model G, heads 1 to 4 of layers 1 to 3, "
        "a dot for each seed; the dotted line is their initial value."
    )
    results = {x.title: x.rows["G"].result for x in groups if "G" in x.rows}
    return Figure(f"weights-{protocol}", caption, partial(_draw_weights, results))


def _draw_weights(results: dict[str, dict[str, Any]]) -> Canvas:
    figure, axes = panels(len(results), 4.6, 4.0)
    for axis, (title, result) in zip(axes, results.items(), strict=True):
        values = np.array([seed["weights"] for seed in result["seeds"]])  # [S, L, H, K]
        layers, heads, blocks = values.shape[1:]
        places = np.add.outer((heads + 1) * np.arange(layers), np.arange(heads))
        for k, name in enumerate(result["blocks"]):
            x = np.broadcast_to(places + 0.16 * (k - (blocks - 1) / 2), values.shape[:3])
            colour = BLOCK_COLOURS[Block(name, 0).kind]
            axis.plot(x.ravel(), values[..., k].ravel(), "o", ms=6, alpha=0.8, color=colour, mew=0)
        axis.set_yscale("log")
        axis.axhline(1, color=INK, ls=":", lw=1)
        axis.set_xticks(places.mean(1), [f"layer {i + 1}" for i in range(layers)], fontsize=13)
        axis.tick_params(axis="x", length=0)
        axis.set_title(title)
    axes[0].set_ylabel("lambda / tau")
    kinds = {Block(name, 0).kind for result in results.values() for name in result["blocks"]}
    dot = {"marker": "o", "ls": "", "ms": 8}
    looks = {kind: {"color": x, **dot} for kind, x in BLOCK_COLOURS.items() if kind in kinds}
    drawing.legend(figure, looks, columns=4)
    return figure
