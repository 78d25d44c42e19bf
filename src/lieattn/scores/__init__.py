"""Scores: what attention makes of the invariant of a pair. One file each.

>>> import lieattn as la
>>> list(la.scores.SCORES)
['norm', 'isotropic', 'diagonal', 'full', 'mlp']
"""

from .._core.text import unknown
from ..groups import Group
from .base import BlockNorm, Score, WeightedNorm, weighted_norm_logits
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


def register(name: str, score: type[Score]) -> type[Score]:
    """Make a score known by name to layers, configs and checkpoints.

    Raises ValueError if another score has the name.

    >>> import lieattn as la
    >>> class Manhattan(la.scores.Score):
    ...     def forward(self, coords):
    ...         return -coords.abs().sum(-1).unsqueeze(-3)
    >>> _ = la.scores.register("manhattan", Manhattan)
    >>> model = la.LieTransformer(la.SE2, la.LieTransformerConfig(score="manhattan"))
    >>> model(la.SE2.random(5)).delta.shape
    torch.Size([5, 3])
    >>> del la.scores.SCORES["manhattan"]
    """
    if not (isinstance(score, type) and issubclass(score, Score)):
        raise TypeError(f"score must be a subclass of Score, got {score!r}.")
    if SCORES.get(name, score) is not score:
        raise ValueError(
            f"the score {name!r} is taken by {SCORES[name].__qualname__}. Choose another name; to "
            f"replace a score of your own, del lieattn.scores.SCORES[{name!r}] first."
        )
    SCORES[name] = score
    return score


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
        raise ValueError(
            f"{unknown('score', name, SCORES)} For one of your own use scores.register(name, cls)."
        )
    score = SCORES[name](group, heads, chart, positive)
    return DirectedScore(score) if directed else score


__all__ = [
    "SCORES",
    "BlockNorm",
    "DiagonalScore",
    "DirectedScore",
    "FullScore",
    "IsotropicScore",
    "MLPScore",
    "NormScore",
    "Score",
    "WeightedNorm",
    "make",
    "register",
    "weighted_norm_logits",
]
