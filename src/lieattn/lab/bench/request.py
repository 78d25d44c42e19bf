"""What to measure. `lieattn bench` has an option for every field of `Request`."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass, field, fields
from pathlib import Path
from typing import Any

import torch

from ..._core.errors import RunError
from ..._core.text import unknown
from ...groups import available_groups, get_group
from ...ops import BACKENDS
from .cases import PASSES, Case

LONG_PATIENCE = 20.0  # times that of other sizes
UNKNOWN_MEMORY = 4.0  # GB: the limit where the system does not say how much memory is free
QUICK: dict[str, Any] = {
    "groups": ("SE3",),
    "sizes": (128, 512),
    "widths": (16,),
    "repeat": 5,
    "budget": 0.5,
}


def half_of_memory() -> float:
    """Half of the free memory, in GB."""
    info = Path("/proc/meminfo")
    lines = info.read_text().splitlines() if info.exists() else []
    free = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable")]
    return round(free[0] * 1024 / 2e9, 1) if free else UNKNOWN_MEMORY


def _option(default: Any, text: str, name: str = "") -> Any:
    """A field with the help text of its option, and its name where it is not that of the field.

    A function as the default depends on the machine.
    """
    said = {"help": text, "name": name}
    if callable(default):
        return field(default_factory=default, metadata=said)
    return field(default=default, metadata=said)


@dataclass(frozen=True)
class Request:
    """Sizes, contestants and how long to measure."""

    groups: tuple[str, ...] = _option(
        ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3"), "Groups, or all. Repeatable.", "group"
    )
    sizes: tuple[int, ...] = _option((512, 2048, 8192), "Poses in a set. Repeatable.", "n")
    widths: tuple[int, ...] = _option((16, 64), "Width of a head. Repeatable.", "head-width")
    long: tuple[int, ...] = _option(
        (), "Poses in sets of which only a forward pass is measured, once. Repeatable."
    )
    heads: int = _option(4, "Heads.")
    batch: int = _option(1, "Sets in a batch.")
    backends: tuple[str, ...] = _option(
        (), "Backends of lie_attention; the default is all. Repeatable.", "backend"
    )
    repeat: int = _option(100, "Turns of each contestant; 5 with --quick.")
    budget: float = _option(2.0, "Seconds a contestant, case and pass; 0.5 with --quick.")
    patience: float = _option(10.0, "Skip calls expected to take more seconds.")
    limit: float = _option(
        half_of_memory, "Skip calls expected to take more GB; the default is half of free memory."
    )
    threads: int = _option(torch.get_num_threads, "Threads; the default is torch's.")
    backward: bool = _option(True, "Skip backward passes.")
    memory: bool = _option(True, "Skip peak memory.")
    layer: bool = _option(True, "Skip the layer at the paper's size.")
    peers: bool = _option(True, "Skip the layers of IPA and EGNN.")

    def plan(self) -> list[Case]:
        """Cases, small ones first: they finish soon and predict the time of larger ones."""
        sizes = [(n, self.widths) for n in self.sizes] + [(n, self.widths[:1]) for n in self.long]
        return [
            Case(group, width, n, self.heads, self.batch)
            for n, widths in sizes
            for group in self.groups
            for width in widths
        ]

    def passes(self, case: Case) -> tuple[str, ...]:
        return tuple(PASSES) if self.backward and case.n not in self.long else ("forward",)

    def repeat_of(self, case: Case) -> int:
        """Turns of a contestant."""
        return 1 if case.n in self.long else self.repeat

    def patience_of(self, case: Case) -> float:
        """Seconds that a call may take."""
        return self.patience * (LONG_PATIENCE if case.n in self.long else 1)

    def command(self) -> str:
        """The command that measures this, except the limit: it depends on the machine alone."""
        words, default = ["lieattn bench"], Request()
        for name, option in OPTIONS.items():
            value = getattr(self, name)
            if name == "limit" or (value == getattr(default, name) and name != "threads"):
                continue
            if isinstance(value, bool):  # all are on by default
                words.append(f"--no-{name}")
            else:
                words += [f"{option} {each}" for each in _each(value)]
        return " ".join(words)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


OPTIONS = {each.name: f"--{each.metadata['name'] or each.name}" for each in fields(Request)}


def request(quick: bool = False, **given: Any) -> Request:
    """A request with its values checked. Values that are not given have their defaults.

    Raises:
        RunError: an unknown name, a number that is too small, a size that is given twice.
    """
    if "groups" in given:
        given["groups"] = _groups(given["groups"])
    for name in ("sizes", "widths", "long"):
        if name in given:
            given[name] = tuple(sorted(set(given[name])))
    for backend in given.get("backends", ()):
        if backend not in BACKENDS:
            raise RunError(unknown("backend", backend, BACKENDS))
    asked = Request(**{**(QUICK if quick else {}), **given})
    for name, option in OPTIONS.items():
        for value in _each(getattr(asked, name)):
            if type(value) is int and value < 1:
                raise RunError(f"{option} must be at least 1, got {value}.")
            if isinstance(value, float) and not value > 0:
                raise RunError(f"{option} must be above 0, got {value:g}.")
    if twice := set(asked.sizes) & set(asked.long):
        raise RunError(f"a size is for --n or for --long, and {min(twice)} is for both.")
    return asked


def _each(value: Any) -> Iterable[Any]:
    return value if isinstance(value, tuple) else (value,)


def _groups(names: Iterable[str]) -> tuple[str, ...]:
    known, found = available_groups(), []
    for name in names:
        if name.lower() == "all":
            return tuple(known)
        try:
            found.append(get_group(name).name)
        except ValueError:
            raise RunError(unknown("group", name, known, ", and all")) from None
    return tuple(dict.fromkeys(found))
