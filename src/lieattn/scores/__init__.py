"""Scores: what attention makes of the invariant of a pair. One file each.

>>> import lieattn as la
>>> list(la.scores.SCORES)
['norm', 'isotropic', 'diagonal', 'full', 'mlp']
"""

from ..groups import Group
from .base import Score, WeightedNorm, weighted_norm_logits
from .diagonal import DiagonalScore
from .directed import DirectedScore
from .full import FullScore
from .isotropic import IsotropicScore
from .mlp import MLPScore
from .norm import NormScore

SCORES: dict[str, type[Score]] = {
    "norm": NormScore,
    "isotropic": IsotropicScore,
    "diagonal": DiagonalScore,
    "full": FullScore,
    "mlp": MLPScore,
}


def make(
    name: str,
    group: Group,
    heads: int,
    *,
    chart: str = "principal",
    positive: str = "softplus",
    directed: bool = False,
) -> Score:
    """Score of the given name, with the directed term added if asked."""
    if name not in SCORES:
        raise ValueError(f"unknown score {name!r}; known are {', '.join(SCORES)}.")
    score = SCORES[name](group, heads, chart, positive)
    return DirectedScore(score) if directed else score


__all__ = [
    "SCORES",
    "DiagonalScore",
    "DirectedScore",
    "FullScore",
    "IsotropicScore",
    "MLPScore",
    "NormScore",
    "Score",
    "WeightedNorm",
    "make",
    "weighted_norm_logits",
]
