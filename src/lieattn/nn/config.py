"""Configs: what a model is built from, as plain numbers and names."""

from __future__ import annotations

from dataclasses import MISSING, asdict, dataclass, fields
from typing import Any, Self

from ..groups.base import CHARTS
from ..scores import SCORES
from ..scores.base import PARAMETERISATIONS

OUTPUTS = ("local", "global")


@dataclass(frozen=True)
class Config:
    """Fields that have the types of their defaults, and that JSON can hold."""

    def __post_init__(self) -> None:
        for field in fields(self):
            value, kind = getattr(self, field.name), type(field.default)
            if field.default is MISSING or (field.default is None and value is None):
                continue
            kind = float if field.default is None else kind  # an angle, or None for the group's own
            accepted = (int, float) if kind is float else (kind,)
            if type(value) not in accepted:
                raise TypeError(
                    f"{field.name} must be {kind.__name__}, got {type(value).__name__} {value!r}."
                )

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
                f"config must be a {cls.__name__}, got {type(config).__name__}. {cls._hint(config)}"
            )
        return config or cls()

    @classmethod
    def _hint(cls, config: object) -> str:
        """How to make a config of something else."""
        return f"For a dictionary use {cls.__name__}.from_dict(...)."


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
            attended to. At a half turn the sign of w hangs on rounding, and data that has many
            (grids, bricks, symmetric parts) would lose equivariance there. In the polar chart of
            Aff(n) they are attended to all the same, with coordinates on one side of the cut. 0 is
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
            by it: nothing depends on the unit of translations any more. An untrained model attends
            to 18 of 63 neighbours in every unit; without it, the paper's way, to 3.5, and to 1.00
            where translations are a hundred times larger, so that its scores get no gradient. The
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
    ValueError: dim must be a positive multiple of heads, got dim=30 and heads=4.
    """

    dim: int = 32
    heads: int = 4
    layers: int = 3
    score: str = "norm"
    positive: str = "softplus"
    directed: bool = False
    content: bool = False
    chart: str = "principal"
    chart_margin: float | None = None
    exclude_self: bool = True
    features: int = 0
    pose_updates: bool = False
    detach_rotations: bool = False
    output: str = "local"
    normalise: bool = True
    dropout: float = 0.0
    autocast: bool = False
    prune: float = 0.0

    def __post_init__(self) -> None:
        super().__post_init__()
        if self.heads < 1 or self.dim < 1 or self.dim % self.heads:
            raise ValueError(
                f"dim must be a positive multiple of heads, got dim={self.dim} and "
                f"heads={self.heads}."
            )
        if self.layers < 1:
            raise ValueError(f"layers must be at least 1, got {self.layers}.")
        if self.features < 0:
            raise ValueError(f"features must be a width, 0 for none, got {self.features}.")
        if self.chart_margin is not None and not 0 <= self.chart_margin < 1:
            raise ValueError(f"chart_margin must be in [0, 1) radians, got {self.chart_margin}.")
        if not 0 <= self.dropout < 1:
            raise ValueError(f"dropout must be in [0, 1), got {self.dropout}.")
        if not 0 <= self.prune < 1:
            raise ValueError(f"prune must be in [0, 1), got {self.prune}.")
        if self.detach_rotations and not self.pose_updates:
            raise ValueError("detach_rotations acts between pose updates: set pose_updates=True.")
        known_names = {"score": tuple(SCORES), **_KNOWN}  # SCORES grows with `scores.register`
        for name, known in known_names.items():
            if getattr(self, name) not in known:
                raise ValueError(
                    f"unknown {name} {getattr(self, name)!r}; known are {', '.join(known)}."
                    + (" For one of your own use scores.register." if name == "score" else "")
                )

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
        """That of the transformer, as every config of a model has it."""
        return self


_KNOWN: dict[str, tuple[str, ...]] = {
    "positive": PARAMETERISATIONS,
    "chart": CHARTS,
    "output": OUTPUTS,
}
