"""Tables of real data: errors of models and rivals, group by group, and what to make of them."""

from __future__ import annotations

from math import inf
from statistics import mean
from typing import Any

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.table import Table as Screen

from ...data import DATASETS
from ...groups import get_group
from ...workflows.display import clock
from ...workflows.errors import heading
from ...workflows.evaluation import RIVALS
from ...workflows.tables import number, spread
from ..report.document import Section, Table
from .affine import affine_sections
from .figures import by_block, overview
from .plan import GROUPS, MODELS
from .results import METHODS, groups_of, means_of, rows_of, verdict
from .text import HOW, why


def build(found: dict[str, Any]) -> Section:
    """The report."""
    groups = groups_of(found)
    glance = Section(
        "At a glance", [glance_table(found), overview(found), _verdicts(found), by_block(found)]
    )
    parts: list[Any] = [_made(found), glance]
    parts += affine_sections(found)
    parts.append(Section("How it was measured", [HOW, _methods(found)]))
    parts += [_of_group(found, group) for group in groups]
    return Section("Real poses: gaps filled", parts)


def _made(found: dict[str, Any]) -> str:
    settings = found["runs"][0]["settings"]
    seeds = len({run["seed"] for run in found["runs"]})
    steps = sorted({run["settings"]["steps"] for run in found["runs"]})
    told = f"{steps[0]:,}" if len(steps) == 1 else f"{steps[0]:,} to {steps[-1]:,}"
    versions = ", ".join(f"{name} {version}" for name, version in found["made_with"].items())
    return (
        f"Poses of real sets are hidden and found again, for each of the paper's groups. "
        f"{seeds} seed{'s' * (seeds > 1)}; {told} steps of {settings['batch']} windows; "
        f"{settings['layers']} layers of width {settings['dim']} and {settings['heads']} heads. "
        f"Made by `{found['command']}` in {clock(found['seconds'])} on {found['jobs']} "
        f"process{'es' * (found['jobs'] > 1)}, with {versions}."
    )


def glance_table(found: dict[str, Any]) -> Table:
    """Errors over those of interpolation, a row a method, the least of a group in bold."""
    groups = groups_of(found)
    data = ["data", *(GROUPS[group] for group in groups)]
    columns = [_glance(found, group, spreads=True) for group in groups]
    rows = [[name, *(column[name] for column in columns)] for name in _methods_of(found)]
    return Table(["error over geodesic", *(str(get_group(g)) for g in groups)], [data, *rows])


def _methods_of(found: dict[str, Any]) -> list[str]:
    """Methods that were run on any group, in the order of the tables."""
    there = {name for group in groups_of(found) for name in rows_of(found, group)}
    return [name for name in METHODS if name in there]


def _glance(found: dict[str, Any], group: str, *, spreads: bool) -> dict[str, str]:
    """Cells of a group by method: means over seeds, with their spread or without."""
    own, means = rows_of(found, group), means_of(found, group)
    cells = {name: "= G" if name == "G polar" else "" for name in METHODS}
    for name, value in means.items():
        text = spread([x.over for x in own[name]]) if spreads else f"{value:.2f}"
        text = "1" if name == "geodesic" else text
        cells[name] = f"**{text}**" if value == min(means.values()) else text
    return cells


def front_note(found: dict[str, Any]) -> str:
    """What the short table means, and where G is not ahead."""
    groups = groups_of(found)
    behind = [str(get_group(g)) for g in groups if not verdict(found, g).ahead]
    told = "on all six groups" if not behind else f"on all groups but {_listed(behind)}"
    better = {
        name: [
            str(get_group(g))
            for g in groups
            if means_of(found, g).get(name, inf) < verdict(found, g).best
        ]
        for name in ("A told", "C", "IPA")
    }
    others = "".join(f" {name} is ahead of it on {_listed(x)}." for name, x in better.items() if x)
    seeds = len({run["seed"] for run in found["runs"]})
    return (
        "Mean error of hidden test poses over that of geodesic interpolation, a mean over blocks, "
        f"± over {seeds} seeds; less is better. G or G polar is ahead of vector tokens (A) and of "
        f"all simple rivals {told}.{others}"
    )


def _listed(names: list[str]) -> str:
    """Names in a sentence.

    >>> _listed(["a", "b", "c"])
    'a, b and c'
    """
    return " and ".join([", ".join(names[:-1]), names[-1]] if names[1:] else names)


def _verdicts(found: dict[str, Any]) -> str:
    """A line a group: whether G is ahead of vector tokens and simple rivals, and if not, why."""
    lines = []
    for group in groups_of(found):
        x = verdict(found, group)
        seeds = f"with {x.seeds} of {x.of} seeds" if x.of > 1 else "with one seed"
        told = f"**{get_group(group)}**: {x.ours} {number(x.best)}, {x.rival} {number(x.least)}"
        means = means_of(found, group)
        others = [
            f"{name} {number(means[name])}" for name in ("A told", "C", "IPA") if name in means
        ]
        beside = f" Beside it: {', '.join(others)}." if others else ""
        if x.ahead:
            lines.append(f"- {told}: ahead of A and of all simple rivals, {seeds}.{beside}")
        else:
            reason = why(found, group)
            lines.append(f"- {told}: **not ahead**; {seeds} it is.{beside} {reason}".rstrip())
    return "\n".join(lines)


def _methods(found: dict[str, Any]) -> str:
    trained = {run["model"] for run in found["runs"]}
    tables = [run["result"]["rows"] for run in found["runs"]]
    lines = [
        f"- **{name}**: {text}." for name, text in RIVALS.items() if any(name in x for x in tables)
    ]
    for name, text in MODELS.items():
        if name in trained:
            sizes = sorted({r["parameters"] for r in found["runs"] if r["model"] == name})
            count = f"{sizes[0]:,}" if len(sizes) == 1 else f"{sizes[0]:,} to {sizes[-1]:,}"
            lines.append(f"- **{name}**: {text}; {count} parameters.")
    if "SE3" in groups_of(found) and "IPA" not in trained:
        lines.append("- IPA is left out: `pip install 'lieattn[bench]'` brings it.")
    return "\n".join(lines)


def _of_group(found: dict[str, Any], group: str) -> Section:
    runs = [run for run in found["runs"] if run["group"] == group]
    settings, result = runs[0]["settings"], runs[0]["result"]
    tokens = result["rows"]["geodesic"]["tokens"]
    said = (
        f"Windows of {settings['window']}; with each seed {tokens:,} hidden poses of "
        f"{result['windows']:,} test windows. {settings['steps']:,} steps. Mean over hidden poses, "
        "± over seeds, and the median in brackets."
    )
    title = f"{get_group(group)}: {DATASETS[GROUPS[group]].title}"
    return Section(title, [said, group_table(found, group)])


def group_table(found: dict[str, Any], group: str) -> Table:
    """Errors of all methods, block by block."""
    blocks = get_group(group).blocks
    affine = group.startswith("Aff")
    rows = []
    for method, own in rows_of(found, group).items():
        cells = [
            f"{spread([x.means[b.name] for x in own])} "
            f"({number(mean(x.medians[b.name] for x in own))})"
            for b in blocks
        ]
        cells.append(spread([x.over for x in own]))
        cells.append(spread([x.over_median for x in own]))
        if affine:
            cells.append(f"{100 * mean(x.mirrored for x in own):.1f}%")
        rows.append([method, *cells])
    head = ["", *map(heading, blocks), "over geodesic", "of medians"]
    return Table(head + (["mirrored"] if affine else []), rows)


def print_tables(found: dict[str, Any], console: Console) -> None:
    """The means of the report's first table, narrow enough for a terminal."""
    groups = groups_of(found)
    seeds = len({run["seed"] for run in found["runs"]})
    means = f", means of {seeds} seeds" if seeds > 1 else ""
    title = f"\nError of hidden poses over that of geodesic interpolation{means}"
    screen = Screen(title=title, title_justify="left", title_style="bold", box=SIMPLE_HEAD)
    screen.add_column("")
    for group in groups:
        screen.add_column(str(get_group(group)), justify="right")
    columns = [_glance(found, group, spreads=False) for group in groups]
    for name in _methods_of(found):
        cells = [column[name] for column in columns]
        screen.add_row(
            name, *(f"[bold]{x.strip('*')}[/bold]" if x.startswith("**") else x for x in cells)
        )
    console.print(screen)
