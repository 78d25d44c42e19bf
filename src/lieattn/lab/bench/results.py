"""What was measured as plain JSON, and as rows of numbers beside those of SDPA."""

from __future__ import annotations

import platform
import re
from dataclasses import asdict, dataclass, replace
from importlib import metadata
from pathlib import Path
from typing import Any

import torch

from ... import __version__
from ...groups import get_group
from . import layer
from .cases import PASSES
from .contestants import REFERENCE, SDPA
from .measuring import OVER_BUDGET, TOO_LARGE, Bench
from .memory import METHOD
from .peers import PEERS, missing


def gather(bench: Bench, complete: bool) -> dict[str, Any]:
    """Everything, with all that is needed to measure it again."""
    asked = bench.asked
    cells = [(cell.case, cell.records()) for cell in bench.cells if cell.records()]
    # Measured by size, shown by group: the sort is stable.
    cells.sort(key=lambda c: (asked.groups.index(c[0].group), asked.widths.index(c[0].width)))
    seen = {record["contestant"] for _, records in cells for record in records}
    return {
        "format": 2,
        "command": asked.command(),
        "complete": complete,
        "settings": asdict(asked),
        "made_with": _versions(),
        "machine": _machine() | {"threads": asked.threads},
        "memory_method": METHOD if bench.memory else None,
        "notes": [*bench.notes, *bench.left_out()],
        "contestants": [
            {"name": c.name, "label": c.label, "what": c.what}
            for c in bench.contestants.values()
            if c.name in seen
        ],
        "layer": {
            **layer.CASE,
            "dim": layer.DIM,
            "chosen": bench.chosen,
            "records": [
                {"group": cell.case.group, "backend": record.pop("contestant"), **record}
                for cell in bench.layers
                for record in cell.records()
            ],
        },
        "cells": [
            {"group": case.group, "width": case.width, "n": case.n, "records": records}
            for case, records in cells
        ],
    }


def _versions() -> dict[str, str]:
    installed = {"lieattn": __version__, "torch": torch.__version__.split("+")[0]}
    installed |= {name: metadata.version(name) for name in PEERS if name not in missing()}
    return installed | {"python": platform.python_version()}


def _machine() -> dict[str, Any]:
    """The processor, not the computer's name."""
    info = Path("/proc/cpuinfo")
    model = re.search(r"model name\s*: (.*)", info.read_text() if info.exists() else "")
    return {
        "processor": model[1] if model else platform.machine(),
        "architecture": platform.machine(),
        "torch_features": torch.backends.cpu.get_cpu_capability(),
        "system": platform.system(),
    }


@dataclass(frozen=True)
class Row:
    """A contestant on one case; numbers by pass, of those that were measured."""

    cell: dict[str, Any]
    name: str
    label: str
    seconds: dict[str, float]
    ratios: dict[str, float]  # to the times of those it took turns with
    memory: dict[str, int]
    missing: dict[str, str]

    @property
    def title(self) -> str:
        return f"{get_group(self.cell['group'])}, head width {self.cell['width']}"

    def own(self, which: str) -> str:
        """SDPA has no poses: its backward pass stands for both."""
        return "backward" if which == "poses" and self.name == SDPA else which

    def too_much(self, which: str) -> str:
        """`too large` or `over budget`, if that is why a pass is missing."""
        word = self.missing.get(which, "").split(":")[0]
        return word if word in (TOO_LARGE, OVER_BUDGET) else ""


def rows(found: dict[str, Any]) -> list[Row]:
    """Contestants of all cases in the order of tables."""
    listed = [(contestant["name"], contestant["label"]) for contestant in found["contestants"]]
    every = (_row(cell, name, SDPA, label) for cell in found["cells"] for name, label in listed)
    return [row for row in every if row.seconds or row.missing]


def layer_rows(found: dict[str, Any]) -> list[Row]:
    """The layer by group, named by the backend it chose; ratios are to itself on the reference."""
    records, chosen = found["layer"]["records"], found["layer"]["chosen"]
    every = []
    for name in (name for name in found["settings"]["groups"] if name in chosen):
        own = [{**x, "contestant": x["backend"]} for x in records if x["group"] == name]
        row = _row({"records": own}, "auto", REFERENCE, str(get_group(name)))
        every.append(replace(row, name=chosen[name]))
    return every


def _row(cell: dict[str, Any], name: str, base: str, label: str) -> Row:
    def by_pass(name: str, key: str) -> dict[str, Any]:
        of = (record for record in cell["records"] if record["contestant"] == name)
        return {record["pass"]: record[key] for record in of if key in record}

    seconds, least = by_pass(name, "minimum"), by_pass(base, "minimum")
    if "backward" in least:
        least.setdefault("poses", least["backward"])  # without poses it is the same pass
    ratios = {which: seconds[which] / least[which] for which in seconds if which in least}
    return Row(
        cell, name, label, seconds, ratios, by_pass(name, "memory"), by_pass(name, "missing")
    )


def passes(found: dict[str, Any]) -> list[str]:
    """Those that were measured."""
    seen = {record["pass"] for cell in found["cells"] for record in cell["records"]}
    return [which for which in PASSES if which in seen]


def ends(found: dict[str, Any]) -> list[str]:
    """The first and the last pass that were measured, or the only one."""
    return list(dict.fromkeys((passes(found)[0], passes(found)[-1])))


def milliseconds(seconds: float | None) -> str:
    """`0.312`, `3.12`, `31.2`, `312`, `3,120`; a dash for nothing."""
    return "-" if seconds is None else short(seconds * 1e3)


def ratio(value: float | None) -> str:
    """`0.73`, `16`, `168`."""
    return "-" if value is None else f"{value:.2f}" if value < 9.995 else f"{value:,.0f}"


def megabytes(size: int | None) -> str:
    return "-" if size is None else short(size / 1e6, digits=2)


def short(value: float, digits: int = 3) -> str:
    """Significant digits without an exponent."""
    if value >= 10 ** (digits - 1):
        return f"{float(f'{value:.{digits}g}'):,.0f}"
    magnitude = int(f"{value:e}".split("e")[1]) if value else 0
    return f"{value:.{min(max(digits - 1 - magnitude, 0), digits)}f}"


def skipped(found: dict[str, Any]) -> list[str]:
    """Why there are dashes: a line for each contestant and reason, with the sizes it held for."""
    places: dict[tuple[str, str], list[dict[str, Any]]] = {}
    for row in rows(found):
        for why in dict.fromkeys(row.missing.values()):
            places.setdefault((row.label, why), []).append(row.cell)
    groups, lines = {cell["group"] for cell in found["cells"]}, []
    for (label, why), cells in places.items():
        sizes = ", ".join(f"{n}" for n in sorted({cell["n"] for cell in cells}))
        names = list(dict.fromkeys(str(get_group(cell["group"])) for cell in cells))
        where = f"{', '.join(names)}, " if len(names) < len(groups) else ""
        lines.append(f"{label}, {where}N {sizes}: {why}.")
    return lines
