"""Which models are trained on which data, how, and where their runs are."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ..._core.errors import RunError
from ..._core.text import unknown
from ...data import DATASETS
from ...groups import get_group
from ...models.baselines import BASELINES
from ...workflows.settings import TrainSettings

# Data sets in the order of the paper's groups. On SO(n) and SE(n) both charts are one.
GROUPS = {DATASETS[name].group.name: name for name in DATASETS}
MODELS = {
    "A": "vector tokens",
    "A with invariants": "vector tokens with the invariant features that G has",
    "IPA": "invariant point attention",
    "C": "learned kernel, in the chart that `lieattn data` advises",
    "G": "algebra-norm score, principal chart",
    "G polar": "algebra-norm score, polar chart",
}
# Tokens of drawings and parts have kinds, and poses repeat. Drawings have an absolute frame.
PARTS = {"kinds": 64, "copies": True}
LAYERS = {**PARTS, "absolute_frame": True}
# Invariant features of all models but A, the paper's. In drawings and parts neighbours in the order
# are uninformative, and repeated steps are informative.
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
    "SO2": Recipe(32, 600, {"G": 42, "C": 142, "A": 30, "A with invariants": 34}),
    "SE2": Recipe(32, 600, {"G": 54, "C": 179, "A": 28, "A with invariants": 31}),
    "SO3": Recipe(32, 600, {"G": 74, "C": 205, "A": 33, "A with invariants": 36}),
    "SE3": Recipe(32, 600, {"G": 84, "C": 203, "A": 36, "A with invariants": 39, "IPA": 90}),
    "Aff2": Recipe(
        16,
        600,
        {"G": 85, "G polar": 90, "C": 110, "A": 50, "A with invariants": 75},
        LAYERS,
        ANALOGIES,
    ),
    "Aff3": Recipe(
        16,
        500,
        {"G": 260, "G polar": 330, "C": 380, "A": 170, "A with invariants": 240},
        PARTS,
        ANALOGIES,
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
        costs = RECIPES[self.group].costs
        return costs.get(self.model, costs["G"])


def models_of(group: str) -> list[str]:
    """Models trained on a group: those of its recipe, then baselines registered since.

    Baselines that do not support the group, or lack what they require, are left out.
    """
    added = [name for name in BASELINES if name not in MODELS]
    return [name for name in (*RECIPES[group].costs, *added) if _available(name, group)]


def _available(model: str, group: str) -> bool:
    baseline = BASELINES.get(model)
    return baseline is None or (baseline.supports(get_group(group)) and baseline.installed)


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
