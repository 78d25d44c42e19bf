"""Scores: functions of the invariant of a pair that give its logit. One file each.

>>> import lieattn as la
>>> la.scores.SCORES["norm"].__name__
'NormScore'
"""

from .._core.text import unknown
from ..groups import Group
from .base import BlockNorm as BlockNorm
from .base import Score as Score
from .base import WeightedNorm as WeightedNorm
from .base import weighted_norm_logits as weighted_norm_logits
from .diagonal import DiagonalScore as DiagonalScore
from .directed import DirectedScore as DirectedScore
from .full import FullScore as FullScore
from .isotropic import IsotropicScore as IsotropicScore
from .mlp import MLPScore as MLPScore
from .norm import NormScore as NormScore

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


def require_known(name: str) -> None:
    """Refuse a name that no score has."""
    if name not in SCORES:
        raise ValueError(
            f"{unknown('score', name, SCORES)} For one of your own use scores.register(name, cls)."
        )


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
    require_known(name)
    score = SCORES[name](group, heads, chart, positive)
    return DirectedScore(score) if directed else score
