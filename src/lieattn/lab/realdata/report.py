"""Tables and figures of real data: errors of models and rivals, group by group."""

from __future__ import annotations

from functools import partial
from statistics import mean, stdev
from typing import Any

import numpy as np
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Screen

from ...data import DATASETS
from ...groups import get_group
from ..infill.evaluation import RIVALS
from ..infill.tables import number
from ..report.document import Figure, Section, Table
from ..report.style import COLOURS, INK, canvas, style, to_svg
from .plan import GROUPS, MODELS

METHODS = [*RIVALS, *MODELS]
_COLOURS = {
    **COLOURS,
    "G polar": "#56B4E9",
    "IPA": "#CC79A7",
    "nearest": "#b8c0cc",
    "geodesic": "#808890",
}
HOW = (
    "Of every test window 15% of the poses are hidden, in half of them one by one and in half in a "
    "row, and found from the others. Errors are means over hidden poses, mean ± sample deviation "
    "over seeds, which change the parameters at the start, the order of training and what is "
    "hidden. Positions are in the unit of the data, rotations in degrees, scale and shear are "
    "logarithms. **Over geodesic** is the error divided by that of geodesic interpolation on the "
    "same poses, a mean over blocks: below 1 a model has learned something that two neighbours do "
    "not tell. **Mirrored** counts answers of the wrong handedness."
)


def rows_of(found: dict[str, Any], group: str) -> dict[str, list[dict[str, Any]]]:
    """Results of every method on a group, one a seed; rivals are taken once a seed."""
    rows: dict[str, list[dict[str, Any]]] = {}
    for run in found["runs"]:
        if run["group"] != group:
            continue
        table = run["result"]["rows"]
        rows.setdefault(run["model"], []).append({**table[run["settings"]["model"]], "all": table})
        if run["model"] == "G":
            for rival in RIVALS:
                rows.setdefault(rival, []).append({**table[rival], "all": table})
    return {name: rows[name] for name in METHODS if name in rows}


def over_geodesic(row: dict[str, Any]) -> float:
    """Error over that of interpolation, a mean over the blocks in which that errs."""
    ratios = [
        own["mean"] / row["all"]["geodesic"]["blocks"][block]["mean"]
        for block, own in row["blocks"].items()
        if row["all"]["geodesic"]["blocks"][block]["mean"] > 0
    ]
    return mean(ratios) if ratios else 1.0


def spread(values: list[float]) -> str:
    """Mean and sample deviation.

    >>> spread([1.0, 2.0, 3.0]), spread([1.0])
    ('2 ± 1', '1')
    """
    middle = number(mean(values))
    return f"{middle} ± {number(stdev(values))}" if len(values) > 1 else middle


def build(found: dict[str, Any]) -> Section:
    """The report."""
    groups = [g for g in GROUPS if any(run["group"] == g for run in found["runs"])]
    settings = found["runs"][0]["settings"]
    seeds = len({run["seed"] for run in found["runs"]})
    said = (
        f"{seeds} seed{'s' * (seeds > 1)}, {settings['steps']:,} steps of {settings['batch']} "
        f"windows, width {settings['dim']}, {settings['layers']} layers. Models: "
        + "; ".join(f"**{name}**, {text}" for name, text in MODELS.items())
        + ". Rivals: "
        + "; ".join(f"**{name}**, {text}" for name, text in RIVALS.items())
        + "."
    )
    parts: list[Any] = [said, Section("At a glance", [_glance(found, groups), HOW, figure(found)])]
    for group in groups:
        data = DATASETS[GROUPS[group]]
        title = f"{get_group(group)}: {data.title}"
        parts.append(Section(title, [_table(found, group)]))
    return Section("Real poses: gaps filled", parts)


def _glance(found: dict[str, Any], groups: list[str]) -> Table:
    shown = [m for m in METHODS if any(m in rows_of(found, g) for g in groups) and m != "geodesic"]
    rows = []
    for group in groups:
        own = rows_of(found, group)
        cells = [spread([over_geodesic(x) for x in own[m]]) if m in own else "" for m in shown]
        rows.append([str(get_group(group)), GROUPS[group], *cells])
    return Table(["over geodesic", "data", *shown], rows)


def _table(found: dict[str, Any], group: str) -> Table:
    blocks = [block.name for block in get_group(group).blocks]
    units = {"rotation": "rotation, deg"}
    rows = []
    mirrored = group.startswith("Aff")
    for method, own in rows_of(found, group).items():
        cells = [spread([x["blocks"][block]["mean"] for x in own]) for block in blocks]
        cells.append(spread([over_geodesic(x) for x in own]))
        if mirrored:
            cells.append(f"{100 * mean(x['mirrored'] for x in own):.1f}%")
        rows.append([method, *cells])
    head = ["", *(units.get(b, b) for b in blocks), "over geodesic"]
    return Table(head + (["mirrored"] if mirrored else []), rows)


def figure(found: dict[str, Any]) -> Figure:
    """All groups and methods in one picture."""
    caption = (
        "Error of hidden poses over that of geodesic interpolation, test part, log scale. Dots "
        "are seeds, bars their mean; below the line a model is better than interpolation."
    )
    return Figure("realdata", caption, partial(_draw, found))


def _draw(found: dict[str, Any]) -> bytes:
    groups = [g for g in GROUPS if any(run["group"] == g for run in found["runs"])]
    with style():
        picture = canvas(2.6 * len(groups) + 2, 5.2)
        axes = picture.subplots(1, len(groups), sharey=True, squeeze=False)[0]
        for axis, group in zip(axes, groups, strict=True):
            own = {m: x for m, x in rows_of(found, group).items() if m != "geodesic"}
            for x, (method, rows) in enumerate(own.items()):
                values = np.array([over_geodesic(row) for row in rows])
                colour = _COLOURS[method]
                axis.plot([x - 0.3, x + 0.3], [values.mean()] * 2, color=colour, lw=4)
                offsets = np.linspace(-0.12, 0.12, len(values)) if len(values) > 1 else [0.0]
                axis.plot(x + np.array(offsets), values, "o", color=colour, ms=7, mec="white")
            axis.axhline(1, color=INK, lw=1.2)
            axis.set_yscale("log")
            axis.set_title(str(get_group(group)))
            axis.set_xticks(range(len(own)), list(own), rotation=60, ha="right", fontsize=12)
            axis.set_xlim(-0.6, len(own) - 0.4)
            axis.grid(axis="y", which="both", color="#eceef1")
            axis.set_axisbelow(True)
        axes[0].set_ylabel("error over geodesic")
        return to_svg(picture)


def print_tables(found: dict[str, Any], console: Console) -> None:
    """The tables of the report in a terminal."""
    for group in GROUPS:
        if not any(run["group"] == group for run in found["runs"]):
            continue
        cells = _table(found, group)
        title = f"\n{get_group(group)}: {DATASETS[GROUPS[group]].title}"
        screen = Screen(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
        for i, name in enumerate(cells.header):
            screen.add_column(name, justify="right" if i else "left")
        for row in cells.rows:
            screen.add_row(*row)
        console.print(screen)
