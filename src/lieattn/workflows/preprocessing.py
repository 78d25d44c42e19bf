"""Chart and scale of a run: what `data.describe` advises, unless something else was asked for."""

from __future__ import annotations

from dataclasses import dataclass

from .. import data
from ..data.describe import about, percent
from ..nn.config import LieTransformerConfig
from .kinds import COMMON, vocabulary
from .settings import AUTO, TrainSettings

SAMPLE = 128  # windows that are looked at: logarithms of Aff(3) take their time


@dataclass(frozen=True)
class Preprocessing:
    """How poses are seen by a model, and why; `kinds` are those that tokens are told."""

    chart: str
    scale: float
    normalise: bool
    kinds: tuple[str, ...]
    reasons: tuple[str, ...]


def choose_preprocessing(settings: TrainSettings, windows: list[data.PoseSet]) -> Preprocessing:
    """Chart, scale and normalisation for the training windows, as a sample of them has it."""
    summary = data.describe(windows[:: -(-len(windows) // SAMPLE)])
    chart, why_chart = _chart(settings, summary)
    normalise, why_normalise = _normalise(settings, summary)
    scale, why_scale = _scale(settings, summary, normalise)
    kinds, why_kinds = _kinds(settings, windows)
    reasons = tuple(x for x in (why_chart, why_normalise, why_scale, why_kinds) if x)
    return Preprocessing(chart, scale, normalise, kinds, reasons)


def _chart(settings: TrainSettings, x: data.Summary) -> tuple[str, str]:
    if settings.chart != AUTO:
        return settings.chart, f"chart {settings.chart}, as asked"
    if x.off_chart:
        share = percent(x.off_chart)
        return "polar", f"chart polar: {share} of the pairs have no principal logarithm"
    return "principal", "chart principal: every pair has a logarithm"


def _normalise(settings: TrainSettings, x: data.Summary) -> tuple[bool, str]:
    if isinstance(settings.normalise, bool):
        return settings.normalise, f"normalise {str(settings.normalise).lower()}, as asked"
    if x.distance and x.spread and x.spread > 10:
        fold = about(x.spread)
        return True, f"normalise: distances differ {fold}-fold between windows"
    return False, ""


def _scale(settings: TrainSettings, x: data.Summary, normalise: bool) -> tuple[float, str]:
    if not isinstance(settings.scale, str):
        return float(settings.scale), f"scale {settings.scale:g}, as asked"
    if not x.distance:
        return 1.0, ""
    if 1 / 3 <= x.distance <= 3 and not normalise:
        return 1.0, f"scale 1: distances of pairs are about {about(x.distance)}"
    rounded = float(f"{x.distance:.2g}")
    return rounded, f"scale {about(rounded)}: translations are divided by the distance of pairs"


def _kinds(settings: TrainSettings, windows: list[data.PoseSet]) -> tuple[tuple[str, ...], str]:
    if not settings.kinds:
        return (), ""
    found = vocabulary(windows, settings.kinds)
    if not found:
        return (), f"no kinds: no first word of a name is in {COMMON} sets or more"
    shown = ", ".join(found[:3]) + ", ..." * (len(found) > 3)
    return found, f"{len(found)} kinds of tokens by their names: {shown}"


def model_config(settings: TrainSettings, preprocessing: Preprocessing) -> LieTransformerConfig:
    """What the transformer is built from."""
    lie = settings.model in ("G", "C")
    return LieTransformerConfig(
        dim=settings.dim,
        heads=settings.heads,
        layers=settings.layers,
        score="mlp" if settings.model == "C" else "norm",
        # Tokens know their places; without content a score would not.
        content=lie,
        chart=preprocessing.chart,
        normalise=preprocessing.normalise and lie,
        pose_updates=settings.pose_updates and lie,
        dropout=settings.dropout,
    )
