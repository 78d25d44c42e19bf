"""Filled gaps as tables and as JSON."""

from __future__ import annotations

from math import floor, isfinite, log10
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from .._core.text import printable
from ..groups import SO3, Group
from ..models.infill.model import LEVELS
from .filling import Filled
from .store import Trained
from .tensors import digest

MOST = 40  # lines of a table


def as_numbers(group: Group, g: Tensor) -> tuple[list[tuple[str, str]], Tensor]:
    """Poses for people: names and kinds of columns, and numbers `[n, columns]`.

    Rotations are angles in degrees, in space times the axis.
    """
    n = group.n
    columns = [(name, "translation") for name in "xyz"[:n]] if group.matrix_size > n else []
    where, linear = g[:, :n, n] if columns else g[:, :0, 0], g[:, :n, :n]
    if group.name in ("SO3", "SE3"):
        columns += [(name, "rotation") for name in ("rx", "ry", "rz")]
        numbers = torch.rad2deg(SO3.to_physical(SO3.log(linear)))
    elif group.name in ("SO2", "SE2"):
        columns.append(("deg", "rotation"))
        numbers = torch.rad2deg(torch.atan2(linear[:, 1, 0], linear[:, 0, 0]))[:, None]
    else:
        columns += [(f"a{i}{j}", "") for i in range(1, n + 1) for j in range(1, n + 1)]
        numbers = linear.flatten(-2)
    return columns, torch.cat([where, numbers], -1)


def print_filled(trained: Trained, filled: list[Filled], level: float, console: Console) -> None:
    """The poses that were missing, with bounds, and errors where the truth is known."""
    left = MOST
    for x in filled:
        count = min(left, int(x.hidden.sum()))
        if count:
            console.print(_table(trained.group, x, count, console))
        left -= count
    total = sum(int(x.hidden.sum()) for x in filled)
    if total > MOST:
        console.print(f"... and {total - MOST:,} more (--json, --save).", style="dim")
    for text in remarks(trained, filled, level):
        console.print(text, style="dim", highlight=False)


def _table(group: Group, x: Filled, count: int, console: Console) -> Table:
    """The widest table that fits: names, then rotations, then positions are left out."""
    columns, _ = as_numbers(group, x.poses[:1])
    most = 3 if group.n == 3 and group.name.startswith(("Aff", "Sim")) else len(columns)
    unlimited = console.options.update(max_width=10_000)
    for named, width in ((True, most), (False, most), (False, min(group.n, most)), (False, 0)):
        table = _make_table(group, x, count, named, width)
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
    return table


def _make_table(group: Group, x: Filled, count: int, named: bool, width: int) -> Table:
    found = int(x.hidden.sum())
    poses = f"{found:,} pose{'s' * (found != 1)}"
    title = Text(f"\n{printable(x.before.name or x.before.source)}: {poses} found")
    table = Table(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    table.padding, table.pad_edge, table.show_edge = (0, 1, 0, 0), False, False
    places = x.hidden.nonzero()[:, 0].tolist()
    named = named and any(x.before.names[i] != str(i) for i in places)
    table.add_column("", justify="right", no_wrap=True)
    if named:
        table.add_column("name", overflow="ellipsis", max_width=12, no_wrap=True)
    columns, values = as_numbers(group, x.poses[x.hidden])
    for name, _ in columns[:width]:
        table.add_column(name, justify="right", no_wrap=True)
    known = not x.errors.isnan().all()
    for block in group.blocks:
        short = {"translation": "pos", "rotation": "deg"}.get(block.kind, block.kind)
        heading = f"±{block.name.replace(block.kind, short)}{' (off)' if known else ''}"
        table.add_column(heading, justify="right", no_wrap=True, style="cyan")
    digits = [_decimals(group, x, kind) for _, kind in columns[:width]]
    for row, place in enumerate(places[:count]):
        cells = [str(place)] + [printable(x.before.names[place], 24)] * named
        own = zip(values[row].tolist(), digits, strict=False)
        cells += [f"{value:.{decimal}f}" for value, decimal in own]
        bounds = zip(x.within[row].tolist(), x.errors[row].tolist(), strict=True)
        cells += [_bound(*both) for both in bounds]
        table.add_row(*map(Text, cells))
    return table


def _bound(bound: float, off: float) -> str:
    text = f"±{bound:.2g}" if isfinite(bound) else "none"
    return f"{text} ({off:.2g})" if off == off else text


def _decimals(group: Group, x: Filled, kind: str) -> int:
    """Decimals that show a tenth of the least bound of blocks of a kind."""
    own = torch.tensor([block.kind == kind for block in group.blocks])
    bounds = x.within[x.within.isfinite().all(-1)][:, own]
    return decimals(bounds.min().item() if bounds.numel() else 0.0)


def decimals(bound: float) -> int:
    """How many decimals show a tenth of a bound; 4 without a bound.

    >>> decimals(3.2), decimals(0.32), decimals(45.0), decimals(0.0)
    (1, 2, 0, 4)
    """
    return min(max(1 - floor(log10(bound)), 0), 6) if bound > 0 else 4


def remarks(trained: Trained, filled: list[Filled], level: float) -> list[str]:
    """What the numbers mean: units, level of the bounds, how many hold, gaps that are too long."""
    if not filled:
        return []
    kinds = {block.kind for block in trained.group.blocks}
    units = [f"positions in {unit_of_positions(trained.group)}"] * ("translation" in kinds)
    units += ["rotations in degrees"] * ("rotation" in kinds)
    percent = f"{100 * level:.0f}% of answers"
    bounded = trained.model.factors[:, LEVELS.index(level)].isfinite().all()
    parts = [
        f"bounds that hold for {percent} on data like those of validation, each block by itself"
        if bounded
        else f"no bounds for {percent}: validation had too few poses",
        *([", ".join(units)] if units else []),
    ]
    text = [f"±: {'; '.join(parts)}.", *_about_errors(filled)]
    longest = max(x.longest for x in filled)
    if longest > trained.longest:
        text.append(
            f"The longest gap is of {longest:,} poses, and training hid up to {trained.longest} in "
            "a row: longer gaps are interpolated, and there is no bound. Train with a larger "
            "--window, or on longer trajectories, for them."
        )
    if any(digest([x.before], trained.settings) in trained.learned for x in filled):
        text.append("Poses of these files were trained on: errors elsewhere are larger.")
    return text


def _about_errors(filled: list[Filled]) -> list[str]:
    """How many of the known errors are within their bounds."""
    errors, within = (
        torch.cat(x) for x in zip(*((x.errors, x.within) for x in filled), strict=True)
    )
    known = ~errors.isnan().any(-1)
    total = int(known.sum())
    if not total:
        return []
    bounded = known & within.isfinite().all(-1)
    free = total - int(bounded.sum())
    held = (errors[bounded] <= within[bounded]).double().mean(0).tolist()
    shares = ", ".join(f"{100 * share:.0f}%" for share in held)
    verdict = f"{shares} are within their bounds" if bounded.any() else "there are no bounds"
    without = f" ({free:,} have none)" if free and bounded.any() else ""
    count = f"{total:,} pose{'s' * (total > 1)}"
    return [f"(off): errors of {count} that were there; {verdict}{without}."]


def unit_of_positions(group: Group) -> str:
    """The unit of errors of positions: a frame with a scale is a unit of its own."""
    scaled = any(block.kind not in ("translation", "rotation") for block in group.blocks)
    return "units of each answer's own frame" if scaled else "the file's unit"


def to_dict(trained: Trained, filled: list[Filled], level: float) -> dict[str, Any]:
    """For --json."""
    group = trained.group
    units = {"translation": unit_of_positions(group), "rotation": "degrees"}
    by_block = {block.name: units[block.kind] for block in group.blocks if block.kind in units}
    return {
        "checkpoint": str(trained.path),
        "group": group.name,
        "level": level,
        "units": {**units, **by_block},
        "remarks": remarks(trained, filled, level),
        "sets": [
            {"name": x.before.name, "source": x.before.source, "found": _found(group, x)}
            for x in filled
        ],
    }


def _found(group: Group, x: Filled) -> list[dict[str, Any]]:
    def by_block(values: Tensor) -> dict[str, float | None]:
        finite = (value if isfinite(value) else None for value in values.tolist())
        return dict(zip((block.name for block in group.blocks), finite, strict=True))

    found = []
    for row, i in enumerate(x.hidden.nonzero()[:, 0].tolist()):
        pose = {"index": i, "name": x.before.names[i], "pose": x.poses[i].tolist()}
        own = {**pose, "within": by_block(x.within[row])}
        known = not x.errors[row].isnan().any()
        found.append({**own, "error": by_block(x.errors[row])} if known else own)
    return found
