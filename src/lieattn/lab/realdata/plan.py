"""Which models are trained on which data, how, and where their runs are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from ..._core.errors import RunError
from ..._core.text import unknown
from ...data import DATASETS
from ...workflows.settings import TrainSettings

# Data sets in the order of the paper's groups. On SO(n) and SE(n) both charts are one.
GROUPS = {DATASETS[name].group.name: name for name in DATASETS}
MODELS = {
    "A": "vector tokens",
    "A told": "vector tokens with the invariants that G has",
    "IPA": "invariant point attention",
    "C": "learned kernel, in the chart that `lieattn data` advises",
    "G": "algebra-norm score, principal chart",
    "G polar": "algebra-norm score, polar chart",
}
# Drawings and parts: layers that are something, and repeat; drawings stand on a page.
PARTS = {"kinds": 64, "copies": True}
LAYERS = {**PARTS, "absolute_frame": True}
# Invariants that all models have but A, the paper's. What is next in a drawing or a part tells
# little, steps that repeat tell much.
AROUND, ANALOGIES = {"second_differences": 2}, {"analogies": True}
IPA_DIM = 56  # with 64 it would have a quarter more parameters than the others


@dataclass(frozen=True)
class Recipe:
    """How all models of a group are trained, chosen by validation losses of one seed.

    Attributes:
        window: poses of a set.
        steps: batches.
        costs: milliseconds of a step of each model on one core, to foretell how long it takes.
        told: what else models have.
        invariants: what all but A have.
    """

    window: int
    steps: int
    costs: dict[str, float]
    told: dict[str, Any] = field(default_factory=dict)
    invariants: dict[str, Any] = field(default_factory=lambda: AROUND)


RECIPES = {
    "SO2": Recipe(32, 600, {"G": 42, "C": 142, "A": 30, "A told": 34}),
    "SE2": Recipe(32, 600, {"G": 54, "C": 179, "A": 28, "A told": 31}),
    "SO3": Recipe(32, 600, {"G": 74, "C": 205, "A": 33, "A told": 36}),
    "SE3": Recipe(32, 600, {"G": 84, "C": 203, "A": 36, "A told": 39, "IPA": 90}),
    "Aff2": Recipe(
        16, 600, {"G": 85, "G polar": 90, "C": 110, "A": 50, "A told": 75}, LAYERS, ANALOGIES
    ),
    "Aff3": Recipe(
        16, 500, {"G": 260, "G polar": 330, "C": 380, "A": 170, "A told": 240}, PARTS, ANALOGIES
    ),
}
VALIDATIONS = 10


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

    @property
    def cost(self) -> float:
        """Milliseconds of a step, about."""
        return RECIPES[self.group].costs[self.model]


def models_of(group: str) -> list[str]:
    """What is trained on a group: IPA on SE(3), if it is installed."""
    there = find_spec("invariant_point_attention") is not None
    return [model for model in RECIPES[group].costs if model != "IPA" or there]


def plan(groups: Sequence[str], seeds: int, steps: int | None, out: Path) -> list[Run]:
    """All runs, the longest first, so that no core is left with one at the end.

    Args:
        steps: of every run; None for those of the recipes.
    """
    runs = []
    for group in groups:
        recipe = RECIPES[group]
        for model in models_of(group):
            for seed in range(seeds):
                count = recipe.steps if steps is None else steps
                settings = TrainSettings(
                    files=(GROUPS[group],),
                    model=model.split()[0],
                    chart={"G": "principal", "G polar": "polar"}.get(model, "auto"),
                    window=recipe.window,
                    dim=IPA_DIM if model == "IPA" else TrainSettings.dim,
                    normalise=False,
                    steps=count,
                    every=max(count // VALIDATIONS, 1),
                    seed=seed,
                    **recipe.told,
                    **({} if model == "A" else recipe.invariants),
                )
                name = f"{group}/{model.replace(' ', '-')}/seed-{seed}"
                runs.append(Run(group, model, settings, out / name))
    return sorted(runs, key=lambda run: -run.cost * run.settings.steps)


def chosen(groups: Sequence[str]) -> list[str]:
    """Names of groups, checked; all by default."""
    if not groups or "all" in (name.lower() for name in groups):
        return list(GROUPS)
    by_lower = {name.lower(): name for name in GROUPS}
    plain = [name.replace("(", "").replace(")", "").lower() for name in groups]
    for name, given in zip(plain, groups, strict=True):
        if name not in by_lower:
            raise RunError(unknown("group", given, GROUPS, ", and all"))
    return list(dict.fromkeys(by_lower[name] for name in plain))
