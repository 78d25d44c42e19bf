"""From settings and training windows to preprocessing and model, as `data.describe` advises."""

from __future__ import annotations

from dataclasses import dataclass

from .. import data
from .._core.options import option
from ..data.describe import about, percent
from ..groups import Group
from ..groups.base import CHARTS
from ..models.baselines import BASELINES
from ..models.infill.config import InfillConfig
from ..models.infill.model import InfillModel
from ..nn.config import LieTransformerConfig
from .settings import AUTO, TrainSettings
from .tensors import COMMON, vocabulary

SAMPLE = 128  # windows that are looked at: logarithms of Aff(3) take their time
LARGEST = 1e30  # scale, and its inverse: what is divided by it stays finite


@dataclass(frozen=True)
class Preprocessing:
    """How poses are given to a model: chart, scale, kinds of tokens; and the reasons."""

    chart: str = option(choices=CHARTS)
    scale: float = option(least=1 / LARGEST, most=LARGEST)
    normalise: bool = option()
    kinds: tuple[str, ...] = option()
    reasons: tuple[str, ...] = option()


def choose_preprocessing(settings: TrainSettings, windows: list[data.PoseSet]) -> Preprocessing:
    """Preprocessing as the settings say; what they leave open is chosen for a sample of windows."""
    summary = data.describe(windows[:: -(-len(windows) // SAMPLE)])
    reasons = []
    chart, normalise, scale = settings.chart, settings.normalise, settings.scale
    if chart != AUTO:
        reasons.append(f"chart {chart}, as asked")
    elif summary.off_chart:
        share = percent(summary.off_chart)
        chart, why = "polar", f"{share} of the pairs have no principal logarithm"
        reasons.append(f"chart polar: {why}")
    else:
        chart = "principal"
        reasons.append("chart principal: every pair has a logarithm")
    if isinstance(normalise, bool):
        reasons.append(f"normalise {str(normalise).lower()}, as asked")
    else:
        normalise = bool(summary.distance and summary.spread and summary.spread > 10)
        if normalise and summary.spread:
            fold = about(summary.spread)
            reasons.append(f"normalise: distances differ {fold}-fold between windows")
    if not isinstance(scale, str):
        reasons.append(f"scale {scale:g}, as asked")
    elif not summary.distance:
        scale = 1.0
    elif 1 / 3 <= summary.distance <= 3 and not normalise:
        scale = 1.0
        reasons.append(f"scale 1: distances of pairs are about {about(summary.distance)}")
    else:
        scale = float(f"{summary.distance:.2g}")
        why = "translations are divided by the distance of pairs"
        reasons.append(f"scale {about(scale)}: {why}")
    kinds = vocabulary(windows, settings.kinds)
    if kinds:
        shown = ", ".join(kinds[:3]) + ", ..." * (len(kinds) > 3)
        reasons.append(f"{len(kinds)} kinds of tokens by their names: {shown}")
    elif settings.kinds:
        reasons.append(f"no kinds: no first word of a name is in {COMMON} sets or more")
    return Preprocessing(chart, float(scale), normalise, kinds, tuple(reasons))


def model_config(settings: TrainSettings, preprocessing: Preprocessing) -> LieTransformerConfig:
    """The config of the transformer."""
    lie = settings.model in ("G", "C")
    return LieTransformerConfig(
        dim=settings.dim,
        heads=settings.heads,
        layers=settings.layers,
        score="mlp" if settings.model == "C" else "norm",
        content=lie,  # a score of poses alone does not see the places of tokens
        chart=preprocessing.chart,
        normalise=preprocessing.normalise and lie,
        pose_updates=settings.pose_updates and lie,
        dropout=settings.dropout,
    )


def make_model(
    group: Group, settings: TrainSettings, config: LieTransformerConfig, kinds: int
) -> InfillModel:
    """The model of the settings."""
    baseline = BASELINES.get(settings.model)
    built = baseline.model if baseline else InfillModel
    options = InfillConfig(
        encoder=config,
        second_differences=settings.second_differences,
        features=kinds,
        absolute_frame=settings.absolute_frame and not (baseline and baseline.absolute),
        copies=settings.copies,
        analogies=settings.analogies,
    )
    return built(group, options)
