"""`Baseline`: a neural rival that fills gaps without Lie-algebra attention."""

from __future__ import annotations

from dataclasses import dataclass
from importlib.util import find_spec

from ...groups import Group
from ..infill.model import InfillModel


@dataclass(frozen=True)
class Baseline:
    """A model to compare with: `lieattn train --model NAME`.

    Attributes:
        name: for `--model`, in upper case and without blanks.
        title: what it is, in a phrase.
        model: the class; built with the same arguments as `InfillModel`.
        groups: names of the groups that it supports; None for all.
        requires: the distribution that it needs, if any.
        absolute: whether it sees absolute poses, so that it needs no absolute-frame features.
    """

    name: str
    title: str
    model: type[InfillModel]
    groups: tuple[str, ...] | None = None
    requires: str = ""
    absolute: bool = False

    def supports(self, group: Group) -> bool:
        """Whether it is a model of poses of this group."""
        return self.groups is None or group.name in self.groups

    @property
    def installed(self) -> bool:
        """Whether what it requires is installed."""
        return not self.requires or find_spec(self.requires.replace("-", "_")) is not None
