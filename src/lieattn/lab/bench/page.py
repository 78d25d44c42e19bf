"""`bench.md`: the tables, the figures, and what one needs to know of both."""

from __future__ import annotations

from itertools import groupby
from typing import Any

from ...groups import get_group
from ...ops import BACKENDS
from ..report.document import Section, Table
from .cases import PASSES
from .charts import figures
from .results import Row, ends, layer_rows, megabytes, milliseconds, passes, ratio, rows, skipped

FRONT = ("native", "tiled")  # before all others


def document(found: dict[str, Any]) -> Section:
    """The page of a run."""
    parts: list[Any] = [_how_to_read(found), _made_by(found), *figures(found)]
    for title, group in groupby(rows(found), lambda row: row.title):
        lines = [((f"{row.cell['n']}", row.label), row) for row in group]
        memory = ends(found) if found["memory_method"] else []
        parts.append(Section(title, [_table(found, ("N", ""), "over SDPA", lines, memory)]))
    if (of := found["layer"])["records"]:
        sizes = f"{of['batch']} sets of {of['n']}, d = {of['dim']}, H = {of['heads']}"
        text = (
            f"LieAttention, {sizes}: the layer with the backend that `auto` takes, in turns with "
            "itself on the reference."
        )
        lines = [((row.label, row.name), row) for row in layer_rows(found)]
        table = _table(found, ("", "backend"), "over the reference", lines, [])
        parts.append(Section("A layer at the paper's size", [text, table]))
    who = [f"- **{c['label']}**: {c['what']}." for c in found["contestants"]]
    if found["memory_method"]:
        who.append(f"- **MB**: {found['memory_method']}.")
    parts.append(Section("Who takes part", ["\n".join(who)]))
    if left_out := [f"- {line}" for line in [*found["notes"], *skipped(found)]]:
        parts.append(Section("What was left out", ["\n".join(left_out)]))
    return Section("Attention: time and memory", parts)


def _how_to_read(found: dict[str, Any]) -> str:
    settings = found["settings"]
    return (
        f"Times are the least of a call, each contestant in turns with SDPA: {settings['repeat']}, "
        f"or fewer of calls that use up {settings['budget']:g} s. They stand beside SDPA's least "
        "time. *Over budget* and *too large*: a call would take more seconds or more memory than "
        "allowed, see the end. Backward passes include their forward pass; gradients "
        "are of all inputs but poses, or of poses too, and either is compared with SDPA's only "
        f"backward pass. {settings['heads']} heads, batch {settings['batch']}, float32."
    )


def front_note(found: dict[str, Any]) -> str:
    """What the numbers of the short table are."""
    which = " / ".join(PASSES[name] for name in ends(found))
    text = (
        f"Time over SDPA's, backend `{_foremost(found)}`, {which}; {found['settings']['heads']} "
        f"heads, float32, {found['machine']['processor']}, threads: {found['machine']['threads']}."
    )
    return f"{text}{_largest(found)}"


def _largest(found: dict[str, Any]) -> str:
    """Memory of the longest sets."""
    n, backend = max(found["settings"]["long"], default=0), _foremost(found)
    every = [row.memory for row in rows(found) if (row.cell["n"], row.name) == (n, backend)]
    sizes = sorted(memory["forward"] for memory in every if "forward" in memory)
    if not sizes:
        return ""
    span = dict.fromkeys(megabytes(size) for size in (sizes[0], sizes[-1]))
    return f" With N = {n:,} a forward pass takes {' to '.join(span)} MB."


def _made_by(found: dict[str, Any]) -> str:
    versions = ", ".join(f"{name} {version}" for name, version in found["made_with"].items())
    machine = found["machine"]
    text = (
        f"Made by `{found['command']}` with {versions} on {machine['processor']} "
        f"({machine['architecture']}, {machine['torch_features']}), threads: {machine['threads']}."
    )
    return text if found["complete"] else f"{text} **It was stopped before its end.**"


def _table(
    found: dict[str, Any],
    start: tuple[str, str],
    over: str,
    lines: list[tuple[tuple[str, str], Row]],
    memory: list[str],
) -> Table:
    """A time and a ratio for each pass, then memory."""
    which = passes(found)
    times = [text for name in which for text in (f"{PASSES[name]}, ms", over)]
    header = [*start, *times, *(f"{PASSES[name]}, MB" for name in memory)]
    body = []
    for first, row in lines:
        line = [*first]
        for name in which:
            time = row.too_much(name) or milliseconds(row.seconds.get(name))
            line += [time, ratio(row.ratios.get(name))]
        body.append(line + [megabytes(row.memory.get(row.own(name))) for name in memory])
    return Table(header, body)


def front_table(found: dict[str, Any]) -> Table:
    """Time of one backend over SDPA's, a row a size and a column a group."""
    groups = list(dict.fromkeys(cell["group"] for cell in found["cells"]))
    lines: dict[tuple[int, int], dict[str, str]] = {}
    for row in rows(found):
        if row.name == _foremost(found):
            numbers = " / ".join(ratio(row.ratios[w]) for w in ends(found) if w in row.ratios)
            size = (row.cell["width"], row.cell["n"])
            lines.setdefault(size, {})[row.cell["group"]] = numbers or "-"
    body = [
        [f"{width}, {n}", *(line.get(group, "-") for group in groups)]
        for (width, n), line in sorted(lines.items())
    ]
    return Table(["head width, N", *(str(get_group(g)) for g in groups)], body)


def _foremost(found: dict[str, Any]) -> str:
    """The backend of the short table: one for all sizes, the fastest kind that took part."""
    present = {contestant["name"] for contestant in found["contestants"]}
    return next(name for name in (*FRONT, *BACKENDS) if name in present)
