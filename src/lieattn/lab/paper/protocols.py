"""How models are trained and evaluated: the paper's protocol, and a separate, improved one."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from math import cos, pi
from typing import Any

from ...groups import Group, get_group
from ...models.baselines.vector import VectorCompletionModel
from ...models.completion import CompletionModel
from ...nn.config import LieTransformerConfig

MODELS = {
    "G": "algebra-norm score",
    "C": "learned kernel on the same invariant",
    "A": "vector tokens",
}


@dataclass(frozen=True)
class Protocol:
    """Everything that two protocols may do differently."""

    name: str
    summary: str
    rate: float  # learning rate of Adam; the peak, where there is a schedule
    schedule: str  # "constant" or "cosine"
    normalise: bool  # divide w by its root mean square over the set
    flanks: str  # which tokens give the answer, see `CompletionModel.complete`
    epochs: int = 200
    batch: int = 64
    clip: float = 2.0

    def numbers(self) -> dict[str, Any]:
        """All that results depend on, as JSON holds it."""
        numbers = asdict(self)
        del numbers["summary"]
        return numbers

    def rate_at(self, step: int, steps: int) -> float:
        """Learning rate of a step: constant, or a warm-up over 5% and half a cosine."""
        if self.schedule == "constant":
            return self.rate
        warm = max(steps // 20, 1)
        if step < warm:
            return self.rate * (step + 1) / warm
        return self.rate * (1 + cos(pi * (step - warm) / max(steps - warm, 1))) / 2


PROTOCOLS = {
    "paper": Protocol(
        name="paper",
        summary="exactly as specified: Adam at a constant 1e-3, the likeliest token answers",
        rate=1e-3,
        schedule="constant",
        normalise=False,
        flanks="one",
    ),
    "improved": Protocol(
        name="improved",
        summary="w divided by its RMS over the set (G and C), a cosine schedule that warms up for "
        "5% and peaks at 2e-3, both flanks answer",
        rate=2e-3,
        schedule="cosine",
        normalise=True,
        flanks="both",
    ),
}


@dataclass(frozen=True)
class Settings:
    """One configuration: a group, a model and a protocol, for some seeds trained together."""

    group: str
    model: str
    protocol: str
    seeds: tuple[int, ...] = (0, 1, 2)
    epochs: int = 200
    train: int = 5000
    validation: int = 500
    test: int = 500
    compiled: bool = True

    @property
    def name(self) -> str:
        return f"{self.protocol}/{self.group}/{self.model}"

    @property
    def cost(self) -> float:
        """About how long an epoch takes, in epochs of model G on a plane."""
        factor = {"G": 1.0, "C": 1.8, "A": 0.9}[self.model]
        return factor * (0.85 + 0.05 * get_group(self.group).dim)

    def to_dict(self) -> dict[str, Any]:
        """As JSON holds it."""
        return {**asdict(self), "seeds": list(self.seeds)}

    def build(self) -> CompletionModel:
        """A model of the architecture, initialised from torch's global generator."""
        return build_model(get_group(self.group), self.model, PROTOCOLS[self.protocol])


def build_model(group: Group, model: str, protocol: Protocol) -> CompletionModel:
    """Model G, C or A of a protocol: L = 3, H = 4, d = 32.

    >>> import lieattn as la
    >>> sum(p.numel() for p in build_model(la.SE2, "C", PROTOCOLS["paper"]).parameters())
    35280
    """
    if model == "A":
        return VectorCompletionModel(group, LieTransformerConfig.paper())
    score = {"G": "norm", "C": "mlp"}[model]
    return CompletionModel(
        group, LieTransformerConfig.paper(score=score, normalise=protocol.normalise)
    )
