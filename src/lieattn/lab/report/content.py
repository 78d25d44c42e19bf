"""What a report says: the tables of Section 5 with ours beside them, figures, times."""

from __future__ import annotations

from typing import Any

from ...groups import get_group
from ..paper.protocols import MODELS, PROTOCOLS
from ..paper.sequences import LENGTH
from . import charts, pictures
from .document import Section, Table
from .summary import Comparison, Number, comparisons, times

HOW_TO_READ = (
    "**Pose error** is `|log(ĝ⁻¹ g*)|²` in physical coordinates, mean ± sample deviation over "
    "seeds, of the iterate with the least pose error on the validation set; the last iterate "
    "stands beside it, because a constant learning rate leaves it where the noise put it. "
    "**Flanking** is the share of sets whose likeliest token is beside the gap. **Equivariance** "
    "is `|log((a ĝ)⁻¹ ĝ(a S))|²` over ten random `a` a set; `a S` is rounded to float32 once. "
    "Relative poses are taken in float64, as models do with poses in float64, and the network is "
    "float32; learned weights of 100 multiply rounding, so the error of float32 throughout stands "
    "beside it. The two flanks are trained to tie, so rounding may flip the arg max when a set "
    "moves, and the answer then jumps by about the pose error: flips are counted, and the mean is "
    "given with and without them. **Off chart** counts answers, and answers of moved sets, without "
    "a logarithm: those enter by their squared Frobenius distance."
)
COMPARABLE = (
    "The paper does not say how long its steps are. Ours have translations N(0, I/4), so errors "
    "on groups with translations compare with the paper's in kind only; ratios of models "
    "compare as they are."
)


def build(found: dict[str, Any], timing: list[dict[str, Any]]) -> Section:
    """The whole report."""
    by_protocol = comparisons(found)
    parts: list[Any] = [
        f"A constant-step sequence of {LENGTH} poses, one interior pose removed, the other "
        f"{LENGTH - 1} shuffled: find the missing one. Models: "
        + "; ".join(f"**{name}**, {what}" for name, what in MODELS.items())
        + ". L = 3 layers, H = 4 heads, d = 32.",
        _made_with(found),
        Section("At a glance", [_glance(by_protocol), HOW_TO_READ, COMPARABLE]),
    ]
    parts += [_protocol(name, groups) for name, groups in by_protocol.items()]
    if timing:
        parts.append(Section("How long it took", [_times(timing)]))
    return Section("Sequence completion", parts)


def _made_with(found: dict[str, Any]) -> str:
    sizes = {
        f"{len(s['seeds'])} seeds, {s['epochs']} epochs of {s['train']:,} sequences, "
        f"{s['validation']:,} for validation, {s['test']:,} for test"
        for result in found["configurations"].values()
        for s in [result["settings"]]
    }
    versions = {
        f"{name} {version}"
        for result in found["configurations"].values()
        for name, version in result["made_with"].items()
    }
    rejected = sum(result["rejected_steps"] for result in found["configurations"].values())
    return (
        f"Made by `lieattn reproduce`, {', '.join(sorted(versions))}, CPU. "
        f"Runs: {'; '.join(sorted(sizes))}. Steps that would have left the chart, and were drawn "
        f"again: {rejected}."
    )


def _glance(by_protocol: dict[str, list[Comparison]]) -> Table:
    header = ["", "protocol", "G", "paper's G", "C/G", "paper", "A/G", "paper"]
    rows = []
    for protocol, groups in by_protocol.items():
        for comparison in groups:
            G = comparison.rows.get("G")
            printed = G.printed if G else None
            rows.append(
                [
                    comparison.title,
                    protocol,
                    str(G.number("best", "pose_error")) if G else "",
                    f"{printed.pose_error:.1e}" if printed else "",
                    times(comparison.ratio("C")),
                    times(comparison.printed_ratio("C")),
                    times(comparison.ratio("A")),
                    times(comparison.printed_ratio("A")),
                    _orders(comparison),
                ]
            )
    return Table([*header, "orders of equivariance, A over G (paper)"], rows)


def _orders(comparison: Comparison) -> str:
    if comparison.orders is None:
        return ""
    printed = comparison.printed_orders
    return f"{comparison.orders:.1f}" + (f" ({printed:.1f})" if printed is not None else "")


def _protocol(name: str, groups: list[Comparison]) -> Section:
    parts: list[Any] = [PROTOCOLS[name].summary[:1].upper() + PROTOCOLS[name].summary[1:] + "."]
    parts += [_group(comparison) for comparison in groups]
    parts.append(Section(f"Training, {name}", [charts.curves(name, groups)]))
    if any("G" in comparison.rows for comparison in groups):
        text = (
            "What the score depends on, learned: `lambda / tau` of model G for every layer, head "
            "and block, all seeds. They start at 1. On constant-step data the invariants of a set "
            "are collinear, so blocks are not identified one by one."
        )
        parts.append(Section(f"Block weights, {name}", [text, charts.weights(name, groups)]))
    return Section(f"Protocol {name}", parts)


def _group(comparison: Comparison) -> Section:
    parts: list[Any] = [_accuracy(comparison), _equivariance(comparison)]
    parts.append(charts.errors(comparison))
    if all(row.result["examples"] for row in comparison.rows.values()):
        parts.append(pictures.sequences(comparison))
        parts.append(pictures.attention(comparison))
    return Section(f"{comparison.title}, {comparison.protocol}", parts)


def _accuracy(comparison: Comparison) -> Table:
    header = "|pose error|best epochs|last iterate|paper|flanking|paper|parameters|of the score"
    rows = []
    for row in comparison.rows.values():
        printed = row.printed
        rows.append(
            [
                row.model,
                str(row.number("best", "pose_error")),
                ", ".join(str(seed["best_epoch"]) for seed in row.result["seeds"]),
                str(row.number("last", "pose_error")),
                str(Number(printed.pose_error, printed.pose_spread)) if printed else "",
                str(row.number("best", "flanking")),
                f"{printed.flanking:.3f}" if printed else "",
                f"{row.parameters['total']:,}",
                f"{row.parameters['score']:,}" if row.parameters["score"] else "",
            ]
        )
    return Table(header.split("|"), rows)


def _equivariance(comparison: Comparison) -> Table:
    header = "|equivariance error|float32 throughout|with flips|paper|flips|off chart"
    rows = [
        [
            row.model,
            row.number("best", "equivariance_without_flips").short(),
            row.equivariance_float32.short(),
            row.number("best", "equivariance").short(),
            f"{row.printed.equivariance:.1e}" if row.printed else "",
            f"{row.total('best', 'flips'):,} of {row.total('best', 'transforms'):,}",
            f"{row.total('best', 'fallbacks')}, {row.total('best', 'equivariance_fallbacks')}",
        ]
        for row in comparison.rows.values()
    ]
    return Table(header.split("|"), rows)


def _times(timing: list[dict[str, Any]]) -> Table:
    """By what was asked for: an interrupted command and those that went on from it are one row."""
    rows: dict[tuple[str, int], list[float]] = {}
    for session in timing:
        groups = ", ".join(_names(session["groups"]))
        what = f"{', '.join(session['protocols'])}: {groups}; {', '.join(session['models'])}"
        row = rows.setdefault((what, session["processes"]), [0, 0, 0])
        row[0] += session["runs"]
        row[1] += session["seconds"]
        row[2] += 1
    return Table(
        ["asked for", "processes", "runs", "wall clock", "sittings"],
        [
            [what, str(processes), f"{runs:.0f}", f"{seconds / 60:.1f} min", f"{sittings:.0f}"]
            for (what, processes), (runs, seconds, sittings) in rows.items()
        ],
    )


def _names(groups: list[str]) -> list[str]:
    return [str(get_group(group)) for group in groups]
