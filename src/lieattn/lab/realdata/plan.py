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


# Time of a step over that of G, about, for the progress bar.
COSTS = {"A": 0.5, "A with invariants": 0.6, "C": 2.5, "G polar": 1.2}


@dataclass(frozen=True)
class Recipe:
    """How all models of a group are trained, chosen by validation losses of one seed.

    Attributes:
        cost: milliseconds of a step of G on one core, about.
        window: poses of a set.
        steps: batches.
        features: settings of all models.
        invariants: settings of all models but A.
    """

    cost: float
    window: int = 32
    steps: int = 600
    features: dict[str, Any] = field(default_factory=dict)
    invariants: dict[str, Any] = field(default_factory=lambda: AROUND)


RECIPES = {
    "SO2": Recipe(42),
    "SE2": Recipe(54),
    "SO3": Recipe(74),
    "SE3": Recipe(84),
    "Aff2": Recipe(85, window=16, features=LAYERS, invariants=ANALOGIES),
    "Aff3": Recipe(260, window=16, steps=500, features=PARTS, invariants=ANALOGIES),
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
        return RECIPES[self.group].cost * COSTS.get(self.model, 1.0)


def published_models(group: str) -> list[str]:
    """The models of `MODELS` for a group: both charts on Aff(n), baselines where they fit."""
    return [name for name in MODELS if _supports(name, group)]


def models_of(group: str) -> list[str]:
    """Models trained on a group: the published ones, and baselines registered since.

    A baseline that lacks what it requires is left out.
    """
    missing = {name for name, baseline in BASELINES.items() if not baseline.installed}
    added = [name for name in BASELINES if name not in MODELS and _supports(name, group)]
    return [name for name in (*published_models(group), *added) if name not in missing]


def _supports(model: str, group: str) -> bool:
    if model == "G polar":
        return group.startswith("Aff")
    return model not in BASELINES or BASELINES[model].supports(get_group(group))


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
                    **recipe.features,
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
