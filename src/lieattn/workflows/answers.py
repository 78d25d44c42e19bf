"""Filled gaps as text, as JSON, and as files of poses."""

from __future__ import annotations

from math import floor, isfinite, log10
from pathlib import Path
from typing import Any

import torch
from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table
from rich.text import Text
from torch import Tensor

from .. import data
from .._core.errors import RunError
from .._core.folders import writing
from .._core.text import printable
from ..groups import SO3, Block, Group
from ..models.infill.model import LEVELS
from .filling import Filled
from .sources import digest
from .store import Trained

MOST = 40  # lines of a table
ONE_TRAJECTORY = "--save x.tum takes one trajectory of SE(3); .npz takes any sets."


def as_numbers(group: Group, g: Tensor) -> tuple[list[str], Tensor]:
    """Poses as people read them: names of columns, and numbers `[n, columns]`.

    Rotations are angles in degrees, in space times the axis.
    """
    n = group.n
    positions = [*"xyz"[:n]] if group.matrix_size > n else []
    where = g[:, :n, n] if positions else g[:, :0, 0]
    linear = g[:, :n, :n]
    if group.name in ("SO3", "SE3"):
        turn = torch.rad2deg(SO3.to_physical(SO3.log(linear)))
        return [*positions, "rx", "ry", "rz"], torch.cat([where, turn], -1)
    if group.name in ("SO2", "SE2"):
        angle = torch.rad2deg(torch.atan2(linear[:, 1, 0], linear[:, 0, 0]))
        return [*positions, "deg"], torch.cat([where, angle[:, None]], -1)
    names = [f"a{i}{j}" for i in range(1, n + 1) for j in range(1, n + 1)]
    return [*positions, *names], torch.cat([where, linear.flatten(-2)], -1)


def print_filled(trained: Trained, filled: list[Filled], level: float, console: Console) -> None:
    """Every pose that was found, with its bounds, and its error where the truth is known."""
    group = trained.group
    left = MOST
    for x in filled:
        if left <= 0:
            break
        rows = list(range(min(left, int(x.hidden.sum()))))
        left -= len(rows)
        console.print(_table(group, x, rows, console))
    total = sum(int(x.hidden.sum()) for x in filled)
    if total > MOST:
        console.print(f"... and {total - MOST:,} more (--json, --save).", style="dim")
    for text in remarks(trained, filled, level):
        console.print(text, style="dim", highlight=False)


def _table(group: Group, x: Filled, rows: list[int], console: Console) -> Table:
    """The widest table that fits: names, rotations, positions are left out, in this order."""
    columns, _ = as_numbers(group, x.poses[:1])
    most = 3 if group.n == 3 and group.name.startswith(("Aff", "Sim")) else len(columns)
    for named, count in ((True, most), (False, most), (False, min(group.n, most)), (False, 0)):
        table = _make_table(group, x, rows, named, count)
        unlimited = console.options.update(max_width=10_000)
        if console.measure(table, options=unlimited).maximum <= console.width:
            break
    return table


def _make_table(group: Group, x: Filled, rows: list[int], named: bool, count: int) -> Table:
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
    digits = _decimals(group, x, columns)
    for name in columns[:count]:
        table.add_column(name, justify="right", no_wrap=True)
    known = not x.errors.isnan().all()
    for block in group.blocks:
        head = _short(block) + (" (off)" if known else "")
        table.add_column(head, justify="right", no_wrap=True, style="cyan")
    for row in rows:
        cells = [str(places[row])] + ([printable(x.before.names[places[row]], 24)] if named else [])
        own = zip(values[row, :count].tolist(), digits, strict=False)
        cells += [f"{value:.{places}f}" for value, places in own]
        cells += [_bound(x, row, k) for k in range(len(group.blocks))]
        table.add_row(*map(Text, cells))
    return table


def _bound(x: Filled, row: int, k: int) -> str:
    bound, off = x.within[row, k].item(), x.errors[row, k].item()
    text = f"±{bound:.2g}" if isfinite(bound) else "none"
    return f"{text} ({off:.2g})" if off == off else text


def _decimals(group: Group, x: Filled, columns: list[str]) -> list[int]:
    """Of each column, points below each other: what a tenth of the least bound needs."""
    bounded = x.within[x.within.isfinite().all(-1)]
    least = bounded.amin(0).tolist() if len(bounded) else [0.0] * len(group.blocks)
    by_kind: dict[str, float] = {}
    for block, bound in zip(group.blocks, least, strict=True):
        by_kind[block.kind] = min(bound, by_kind.get(block.kind, bound))
    kinds = {**dict.fromkeys("xyz", "translation"), **dict.fromkeys(_TURNS, "rotation")}
    return [decimals(by_kind.get(kinds.get(name, ""), 0.0)) for name in columns]


_TURNS = ("rx", "ry", "rz", "deg")


def decimals(bound: float) -> int:
    """How many decimals tell a tenth of a bound; 4 where there is none.

    >>> decimals(3.2), decimals(0.32), decimals(45.0), decimals(0.0)
    (1, 2, 0, 4)
    """
    return min(max(1 - floor(log10(bound)), 0), 6) if bound > 0 else 4


def _short(block: Block) -> str:
    short = {"translation": "pos", "rotation": "deg"}.get(block.kind, block.kind)
    return f"±{block.name.replace(block.kind, short)}"


def remarks(trained: Trained, filled: list[Filled], level: float) -> list[str]:
    """What to know about the numbers."""
    if not filled:
        return []
    kinds = {block.kind for block in trained.group.blocks}
    units = [f"positions in {unit_of_positions(trained.group)}"] * ("translation" in kinds)
    units += ["rotations in degrees"] * ("rotation" in kinds)
    factors = trained.model.factors[:, LEVELS.index(level)]
    told = (
        f"bounds that hold for {100 * level:.0f}% of answers on data like those of validation, "
        "each block by itself"
        if factors.isfinite().all()
        else f"no bounds for {100 * level:.0f}% of answers: validation had too few poses"
    )
    text = [f"±: {'; '.join([told, ', '.join(units)] if units else [told])}."]
    text += _about_errors(filled)
    text += _about_gaps(trained, max(x.longest for x in filled))
    if any(digest([x.before], trained.settings) in trained.learned for x in filled):
        text.append("Poses of these files were trained on: errors elsewhere are larger.")
    return text


def _about_errors(filled: list[Filled]) -> list[str]:
    """How many of the errors that are known are within their bounds, where there are bounds."""
    errors, within = (
        torch.cat(x) for x in zip(*((x.errors, x.within) for x in filled), strict=True)
    )
    known = ~errors.isnan().any(-1)
    if not known.any():
        return []
    count = f"{int(known.sum()):,} pose{'s' * (int(known.sum()) > 1)}"
    bounded = known & within.isfinite().all(-1)
    held = (errors[bounded] <= within[bounded]).double().mean(0).tolist()
    shares = ", ".join(f"{100 * share:.0f}%" for share in held)
    told = f"{shares} are within their bounds" if bounded.any() else "there are no bounds"
    free = int((known & ~bounded).sum())
    without = f" ({free:,} have none)" if free and bounded.any() else ""
    return [f"(off): errors of {count} that were there; {told}{without}."]


def unit_of_positions(group: Group) -> str:
    """What errors of positions are measured in: frames with a scale are units of their own."""
    scaled = any(block.kind not in ("translation", "rotation") for block in group.blocks)
    return "units of each answer's own frame" if scaled else "the file's unit"


def _about_gaps(trained: Trained, longest: int) -> list[str]:
    """What to know where gaps are longer than those of training."""
    known = trained.longest
    if longest <= known:
        return []
    return [
        f"The longest gap is of {longest:,} poses, and training hid up to {known} in a row: longer "
        "gaps are interpolated, and there is no bound. Train with a larger --window, or on longer "
        "trajectories, for them."
    ]


def to_dict(trained: Trained, filled: list[Filled], level: float) -> dict[str, Any]:
    """For --json."""
    blocks = [block.name for block in trained.group.blocks]
    units = {"translation": unit_of_positions(trained.group), "rotation": "degrees"}

    def by_block(x: Tensor) -> dict[str, float | None]:
        values = [value if isfinite(value) else None for value in x.tolist()]
        return dict(zip(blocks, values, strict=True))

    sets = []
    for x in filled:
        poses = []
        for row, i in enumerate(x.hidden.nonzero()[:, 0].tolist()):
            own: dict[str, Any] = {
                "index": i,
                "name": x.before.names[i],
                "pose": x.poses[i].tolist(),
                "within": by_block(x.within[row]),
            }
            if not x.errors[row].isnan().any():
                own["error"] = by_block(x.errors[row])
            poses.append(own)
        sets.append({"name": x.before.name, "source": x.before.source, "found": poses})
    return {
        "checkpoint": str(trained.path),
        "group": trained.group.name,
        "level": level,
        "units": {
            **units,
            **{b.name: units[b.kind] for b in trained.group.blocks if b.kind in units},
        },
        "remarks": remarks(trained, filled, level),
        "sets": sets,
    }


def write_poses(path: Path, sets: list[data.PoseSet], *, nanoseconds: bool = False) -> None:
    """All poses, known and found, as .npz or as a TUM trajectory, see `data.save`."""
    try:
        with writing(path, "--save"):
            data.save(path, sets, nanoseconds=nanoseconds)
    except ValueError as error:
        raise RunError(f"cannot write {path}: {error}") from None
