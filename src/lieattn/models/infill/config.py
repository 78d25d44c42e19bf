"""`InfillConfig`: the options of an `InfillModel`."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, ClassVar, Self

from ..._core.options import option
from ...nn.config import Config, LieTransformerConfig

OPTIONS = {"bends": "second_differences", "framed": "absolute_frame"}  # 0.1 by 0.2


@dataclass(frozen=True)
class InfillConfig(Config):
    """Options of an `InfillModel`, and the config of its transformer.

    Args:
        encoder: of the transformer. Its `features` are set by the model.
        second_differences: number of further poses, on each side, that give second differences as
            features: departures from the line that a missing pose starts on. Smooth motions follow
            from them, and attention takes long to learn them. The nearest poses, as many, are
            features as matrices too.
        features: width of your own features of each token, missing or not, such as its kind.
        absolute_frame: use the linear parts of poses, and positions relative to the mean of the
            visible ones, as features. This suits data whose frame has a meaning, such as the page
            of a drawing. Answers are then not equivariant under rotations.
        copies: an answer may copy its linear part or its position from another token. Where poses
            repeat, as in parts and layers, a copy is exact and a correction is not.
        analogies: an answer may also be `g_j g_k^-1 g_l` of visible tokens, where i is as many
            places from j as l is from k. Steps repeat in rows, grids and symmetric parts. Needs
            `copies`.
    """

    advice: ClassVar[str] = " Use InfillConfig(encoder=LieTransformerConfig(...))."

    encoder: LieTransformerConfig = field(default_factory=LieTransformerConfig)
    second_differences: int = option(0, least=0)
    features: int = option(0, least=0)
    absolute_frame: bool = False
    copies: bool = False
    analogies: bool = False

    def __post_init__(self) -> None:
        LieTransformerConfig.or_default(self.encoder)
        super().__post_init__()
        if self.analogies and not self.copies:
            raise ValueError("analogies compete with copies: set copies=True.")

    @classmethod
    def from_dict(cls, values: dict[str, Any]) -> Self:
        """The inverse of `to_dict`; an unknown field is an error."""
        return super().from_dict(
            {**values, "encoder": LieTransformerConfig.from_dict(values["encoder"])}
        )

    @classmethod
    def from_options(cls, encoder: dict[str, Any], options: dict[str, int]) -> Self:
        """The config of a model of version 0.1, whose flags were stored as 0 and 1."""
        if not isinstance(options, dict):
            raise TypeError(f"options must be an object, got {options!r}.")
        values = {OPTIONS.get(name, name): value for name, value in options.items()}
        for name in ("absolute_frame", "copies", "analogies"):
            if values.get(name) in (0, 1):
                values[name] = bool(values[name])
        return cls.from_dict({"encoder": encoder, **values})
