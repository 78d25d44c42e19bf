"""Which models are trained on which data, and where their runs are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from ...data import DATASETS
from ..infill.settings import TrainSettings
from ..storage import RunError

# Data sets in the order of the paper's groups. On SO(n) and SE(n) both charts are one.
GROUPS = {DATASETS[name].group.name: name for name in DATASETS}
MODELS = {
    "G": "algebra-norm score, principal chart",
    "G polar": "algebra-norm score, polar chart",
    "C": "learned kernel, the chart that the data advise",
    "A": "vector tokens",
    "IPA": "invariant point attention",
}
WINDOWS = {"SO2": 32, "SE2": 32, "SO3": 32, "SE3": 32, "Aff2": 16, "Aff3": 16}


@dataclass(frozen=True)
class Run:
    """One model on one data set with one seed."""

    group: str
    model: str
    settings: TrainSettings
    folder: Path

    @property
    def seed(self) -> int:
        return self.settings.seed


def models_of(group: str) -> list[str]:
    """What is trained on a group."""
    known = ["G", "C", "A"]
    if group.startswith("Aff"):
        known.insert(1, "G polar")
    if group == "SE3" and find_spec("invariant_point_attention") is not None:
        known.append("IPA")
    return known


def plan(groups: Sequence[str], seeds: int, steps: int, out: Path) -> list[Run]:
    """All runs, the slowest groups first, so that no core is left with one at the end."""
    runs = []
    for group in sorted(groups, key=lambda name: -list(GROUPS).index(name)):
        for model in models_of(group):
            for seed in range(seeds):
                settings = TrainSettings(
                    files=(GROUPS[group],),
                    model=model.split()[0],
                    chart={"G": "principal", "G polar": "polar"}.get(model, "auto"),
                    window=WINDOWS[group],
                    steps=steps,
                    every=max(steps // 10, 1),
                    seed=seed,
                )
                name = f"{group}/{model.replace(' ', '-')}/seed-{seed}"
                runs.append(Run(group, model, settings, out / name))
    return runs


def chosen(groups: Sequence[str]) -> list[str]:
    """Names of groups, checked; all by default."""
    if not groups or "all" in (name.lower() for name in groups):
        return list(GROUPS)
    by_lower = {name.lower(): name for name in GROUPS}
    plain = [name.replace("(", "").replace(")", "").lower() for name in groups]
    for name, given in zip(plain, groups, strict=True):
        if name not in by_lower:
            raise RunError(f"unknown group {given!r}; known are {', '.join(GROUPS)}, and all.")
    return list(dict.fromkeys(by_lower[name] for name in plain))
