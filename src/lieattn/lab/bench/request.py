"""What was asked for on the command line, checked."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import torch

from ..._core.errors import RunError
from ..._core.text import unknown
from ...groups import available_groups, get_group
from ...ops import BACKENDS
from .cases import PASSES, Case

GROUPS = ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3")
SIZES, WIDTHS, REPEAT, BUDGET = (512, 2048, 8192), (16, 64), 100, 2.0
LONG_PATIENCE = 20.0  # times that of other sizes
QUICK: dict[str, Any] = {
    "groups": ("SE3",),
    "sizes": (128, 512),
    "widths": (16,),
    "repeat": 5,
    "budget": 0.5,
}
OPTIONS = {
    "groups": "--group",
    "sizes": "--n",
    "widths": "--head-width",
    "long": "--long",
    "heads": "--heads",
    "batch": "--batch",
    "backends": "--backend",
    "repeat": "--repeat",
    "budget": "--budget",
    "patience": "--patience",
    "threads": "--threads",
    "backward": "--backward",
    "memory": "--memory",
    "layer": "--layer",
    "peers": "--peers",
}
UNKNOWN_MEMORY = 4.0  # GB taken for the limit where the system does not say what is free


@dataclass(frozen=True)
class Request:
    """Sizes, contestants and how long to measure."""

    groups: tuple[str, ...] = GROUPS
    sizes: tuple[int, ...] = SIZES
    widths: tuple[int, ...] = WIDTHS
    long: tuple[int, ...] = ()  # sizes of forward passes alone, at the first width, one turn each
    heads: int = 4
    batch: int = 1
    backends: tuple[str, ...] = ()  # none: all that there are
    repeat: int = REPEAT
    budget: float = BUDGET  # seconds of a contestant, a case and a pass
    patience: float = 10.0  # seconds of a call
    limit: float = UNKNOWN_MEMORY  # GB of a call
    threads: int = 1
    backward: bool = True
    memory: bool = True
    layer: bool = True
    peers: bool = True

    def plan(self) -> list[Case]:
        """Cases; small ones come first, tell much soon, and how long the next will take."""
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
        """The command that asks for this; what depends on the machine alone is left to it."""
        words = ["lieattn bench"]
        for name, option in OPTIONS.items():
            value, default = getattr(self, name), getattr(Request(), name)
            if value == default and name != "threads":  # of which torch chooses the default
                continue
            if isinstance(value, bool):  # all of them are on by default
                words.append(f"--no-{name}")
                continue
            values = value if isinstance(value, tuple) else (value,)
            words += [f"{option} {_word(each)}" for each in values]
        return " ".join(words)

    def to_dict(self) -> dict[str, Any]:
        return asdict(self)


def request(
    groups: Sequence[str],
    sizes: Sequence[int],
    widths: Sequence[int],
    backends: Sequence[str],
    long: Sequence[int] = (),
    *,
    quick: bool,
    limit: float | None,
    threads: int | None,
    **numbers: Any,
) -> Request:
    """A request with names and numbers checked; what is None or empty has its default."""
    given: dict[str, Any] = {
        "groups": _groups(groups),
        "sizes": tuple(sorted(set(sizes))),
        "widths": tuple(sorted(set(widths))),
        "long": tuple(sorted(set(long))),
        **numbers,
    }
    defaults = QUICK if quick else {}
    chosen = {**defaults, **{k: v for k, v in given.items() if v is not None and v != ()}}
    asked = Request(
        backends=tuple(dict.fromkeys(_known_backend(name) for name in backends)),
        limit=limit if limit is not None else _half_of_memory(),
        threads=threads if threads is not None else torch.get_num_threads(),
        **chosen,
    )
    _require_positive(asked)
    if twice := set(asked.sizes) & set(asked.long):
        raise RunError(f"a size is for --n or for --long, and {min(twice)} is for both.")
    return asked


def _word(value: Any) -> str:
    return f"{value:g}" if isinstance(value, float) else f"{value}"


def _require_positive(asked: Request) -> None:
    options = {
        "--n": (*asked.sizes, *asked.long),
        "--head-width": asked.widths,
        "--heads": (asked.heads,),
        "--batch": (asked.batch,),
        "--repeat": (asked.repeat,),
        "--threads": (asked.threads,),
    }
    for option, values in options.items():
        if min(values) < 1:
            raise RunError(f"{option} must be at least 1, got {min(values)}.")
    for option, value in (
        ("--budget", asked.budget),
        ("--patience", asked.patience),
        ("--limit", asked.limit),
    ):
        if not value > 0:
            raise RunError(f"{option} must be above 0, got {value:g}.")


def _groups(names: Sequence[str]) -> tuple[str, ...]:
    known = {name.lower(): name for name in available_groups()}
    plain = [name.lower().replace("(", "").replace(")", "") for name in names]
    if "all" in plain:
        return tuple(known.values())
    for name, short in zip(names, plain, strict=True):
        if short not in known:
            raise RunError(unknown("group", name, known.values(), ", and all"))
    return tuple(dict.fromkeys(get_group(known[short]).name for short in plain))


def _known_backend(name: str) -> str:
    if name not in BACKENDS:
        raise RunError(unknown("backend", name, BACKENDS))
    return name


def _half_of_memory() -> float:
    """Half of what is free, in GB."""
    info = Path("/proc/meminfo")
    lines = info.read_text().splitlines() if info.exists() else []
    free = [int(line.split()[1]) for line in lines if line.startswith("MemAvailable")]
    return round(free[0] * 1024 / 2e9, 1) if free else UNKNOWN_MEMORY
