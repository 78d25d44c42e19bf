"""Sets of poses, as they come from a file."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import overload

from torch import Tensor

from .._core.text import quoted
from ..groups import Group


@dataclass(frozen=True, eq=False)
class PoseSet:
    """One set of poses: a trajectory, a chain, a drawing, a robot, or a window of one.

    Attributes:
        group: what the poses are elements of.
        poses: `[N, m, m]` in float64.
        mask: `[N]`, True where there is a pose. The others hold the identity.
        names: one a pose: time stamps, residues, links, ...
        name: of the set: the chain, say, or the file.
        source: the file it is from; splits keep what has the same source together.
        whole: of a window, the name of the set that it was cut from.
        y_down: whether y points downwards in the plane of the poses, as on a screen.
    """

    group: Group
    poses: Tensor
    mask: Tensor
    names: tuple[str, ...]
    name: str
    source: str
    whole: str = ""
    y_down: bool = False

    def __len__(self) -> int:
        """N, masked ones included."""
        return self.poses.shape[-3]

    def __repr__(self) -> str:
        missing = len(self) - int(self.mask.sum())
        without = f", {missing} of them masked" if missing else ""
        return f"PoseSet({quoted(self.name, 60)}: {len(self)} poses of {self.group}{without})"


@dataclass(frozen=True, eq=False)
class PoseSets(Sequence[PoseSet]):
    """What `read` gives: the sets of a file, and how it was read.

    Attributes:
        sets: at least one, each with at least one pose.
        path: the file.
        format: the name of the format it was read as.
        why: how that format was chosen.
        notes: what was left out or corrected, a sentence each.
        left_out: names of sets without any pose, all of theirs being masked.
        gaps: rows of NaN, the notation of a pose that is not known: a sentence for each set.
        nanoseconds: whether names are time stamps in nanoseconds.
    """

    sets: tuple[PoseSet, ...]
    path: str
    format: str
    why: str
    notes: tuple[str, ...] = ()
    left_out: tuple[str, ...] = ()
    gaps: tuple[str, ...] = ()
    nanoseconds: bool = False

    @property
    def group(self) -> Group:
        """The group of all of them."""
        return self.sets[0].group

    @overload
    def __getitem__(self, index: int) -> PoseSet: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[PoseSet]: ...

    def __getitem__(self, index: int | slice) -> PoseSet | Sequence[PoseSet]:
        return self.sets[index]

    def __len__(self) -> int:
        return len(self.sets)

    def __iter__(self) -> Iterator[PoseSet]:
        return iter(self.sets)

    def __repr__(self) -> str:
        total = sum(len(x) for x in self.sets)
        count = "1 set" if len(self) == 1 else f"{len(self)} sets"
        return f"PoseSets({self.path!r}, {self.format}: {count}, {total} poses of {self.group})"
