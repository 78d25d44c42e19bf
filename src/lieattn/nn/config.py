"""Configs: the options of models, as plain numbers and names."""

from __future__ import annotations

from dataclasses import asdict, dataclass, fields
from typing import Any, ClassVar, Self

from .. import scores
from .._core.options import option, require
from ..groups.base import CHARTS
from ..scores.base import PARAMETERISATIONS


@dataclass(frozen=True)
class Config:
    """Options whose types and bounds are checked, and that JSON can hold."""

    advice: ClassVar[str] = ""  # more on how to make one, in the error for something else

    def __post_init__(self) -> None:
        require(type(self), vars(self))

    def to_dict(self) -> dict[str, Any]:
        """The fields as a dictionary that JSON can hold."""
        return asdict(self)

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; an unknown field is an error."""
        known = [field.name for field in fields(cls)]
        unknown = sorted(set(values) - set(known))
        if unknown:
            raise ValueError(
                f"unknown fields {', '.join(unknown)}; a {cls.__name__} has {', '.join(known)}."
            )
        return cls(**values)

    @classmethod
    def or_default(cls, config: Self | None) -> Self:
        """The config, or the default one where it is None."""
        if config is not None and not isinstance(config, cls):
            raise TypeError(
                f"config must be a {cls.__name__}, got {type(config).__name__}. For a dictionary "
                f"use {cls.__name__}.from_dict(...).{cls.advice}"
            )
        return config or cls()


@dataclass(frozen=True)
class LieTransformerConfig(Config):
    """Shape and options of a `LieTransformer`; `paper()` has those of the paper.

    Args:
        dim: width d of the hidden state, a multiple of `heads`.
        heads: attention heads H.
        layers: number of layers L.
        score: a name in `lieattn.scores.SCORES`; "mlp" is the paper's model C.
        positive: "softplus" (the paper's) or "log", how lambda and tau are kept positive.
        directed: add a term linear in w to the score.
        content: add a product of queries and keys of the hidden states to the score.
        chart: "principal" (the paper's) or "polar", which has no pairs off chart on Aff(n).
        chart_margin: pairs closer to the cut of the chart than this angle, in radians, are not
            attended to. At a half turn the sign of w depends on rounding, and data with many half
            turns (grids, bricks, symmetric parts) would lose equivariance. In the polar chart of
            Aff(n) such pairs are attended to, with coordinates on one side of the cut. 0 is
            the paper's; None is `group.chart_margin(chart)`: 0.05 in the principal chart of Aff(n),
            else 0.01.
        exclude_self: no token attends to itself.
        features: width of the invariant features of each token; 0 for bare tokens.
        pose_updates: move the poses after every layer but the last, and recompute w.
        detach_rotations: with `pose_updates`, let no gradient through the linear part of the
            moved poses (through all of it where there is no translation).
        output: "local", `g exp(delta)`; or "global", `exp` in the polar chart, which reaches every
            element of the identity component of Aff(n). The same for SO(n), SE(n) and Sim(n).
        normalise: divide each block of w by its root mean square over the set, and multiply delta
            by it, so that nothing depends on the unit of translations. An untrained model attends
            to 18 of 63 neighbours in every unit; without it, the paper's way, to 3.5, and to 1.00
            where translations are a hundred times larger, so that its scores get no gradient: use
            it, or divide translations by their typical distance. It is off by default because the
            CPU kernel does not support it: at 512 tokens a model takes 30 times as long. The
            scales depend on all pairs of a set that attend: a causal model needs False.
        dropout: share of the residual updates dropped in training.
        autocast: let the linear layers follow `torch.autocast`. By default all of the model stays
            in the dtype of its parameters: hidden states are invariants, and rounding them to
            bfloat16 turns float32 noise into steps of 4e-3, so that a squared equivariance error
            of 1e-13 becomes 1e-7. Geometry and scores stay in float32 either way.
        prune: share of a token's weights that layers may leave out on sets too large to keep their
            relations, see `lie_attention`; 0 for nothing.

    >>> LieTransformerConfig(dim=30)
    Traceback (most recent call last):
        ...
    ValueError: dim must be a multiple of heads, got dim=30 and heads=4.
    """

    dim: int = option(32, least=1)
    heads: int = option(4, least=1)
    layers: int = option(3, least=1)
    score: str = "norm"
    positive: str = option("softplus", choices=PARAMETERISATIONS)
    directed: bool = False
    content: bool = False
    chart: str = option("principal", choices=CHARTS)
    chart_margin: float | None = option(None, least=0, most=1, ends="[)")
    exclude_self: bool = True
    features: int = option(0, least=0)
    pose_updates: bool = False
    detach_rotations: bool = False
    output: str = option("local", choices=("local", "global"))
    normalise: bool = False
    dropout: float = option(0.0, least=0, most=1, ends="[)")
    autocast: bool = False
    prune: float = option(0.0, least=0, most=1, ends="[)")

    def __post_init__(self) -> None:
        super().__post_init__()
        scores.require_known(self.score)
        if self.dim % self.heads:
            raise ValueError(
                f"dim must be a multiple of heads, got dim={self.dim} and heads={self.heads}."
            )
        if self.detach_rotations and not self.pose_updates:
            raise ValueError("detach_rotations acts between pose updates: set pose_updates=True.")

    @classmethod
    def paper(cls, **changes: Any) -> Self:
        """The paper's model, or one that differs from it in some fields.

        >>> LieTransformerConfig.paper(score="mlp").normalise
        False
        """
        return cls(**{"normalise": False, **changes})

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; a field that an earlier version did not store is the paper's.

        >>> LieTransformerConfig.from_dict({"dim": 16}) == LieTransformerConfig.paper(dim=16)
        True
        """
        return super().from_dict({**cls.paper().to_dict(), **values})

    @property
    def encoder(self) -> LieTransformerConfig:
        """The config of the transformer; other configs of models have this field."""
        return self
