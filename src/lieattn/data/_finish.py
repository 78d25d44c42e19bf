"""From drafts to sets of poses that are in their group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from .._core.text import printable, quoted
from ..groups import Group
from ._draft import AT_ONCE, FARTHEST, GAPS, NO_POSES, NOT_FINITE, ROUNDING, Draft, of
from ._source import Source
from .errors import DataError
from .sets import PoseSet

_TOO_FAR = f"the pose holds a number beyond {FARTHEST:g}, expected one that can be subtracted."
_MASK = "bad='mask' (--bad mask) keeps the places of such poses and reads the others."
_MOST_NOTES = 1000


def finish(
    drafts: Sequence[Draft], source: Source, bad: str, notes: list[str], gaps: list[str]
) -> list[PoseSet | None]:
    """Check every pose; raise on the first invalid one, or mask it as `bad` asks, see `read`.

    `notes` and `gaps` get sentences about what was masked. None, and a note, for a set that has no
    pose then. Sets are checked together: one by one, 100,000 of them take more than a minute.
    """
    review = _Review(source, bad, notes, gaps)
    finished = [x for batch in _batches(drafts) for x in review.sets(batch)]
    if review.unsaid:
        notes.append(f"there are notes about {review.unsaid:,} sets more.")
    return finished


def _batches(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    """Drafts of one group, with about `AT_ONCE` poses."""
    batch, size = list[Draft](), 0
    for draft in drafts:
        count = len(draft)
        if batch and (draft.group is not batch[0].group or size + count > AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(draft)
        size += count
    if batch:
        yield batch


@dataclass
class _Poses:
    """The poses of several drafts, one after the other, and what is wrong with them.

    Attributes:
        g: `[N, m, m]`, identities where there is no pose; what is off its group stays as it is.
        known: `[N]`, False where the file itself says that there is no pose.
        told, gap, far, outside: `[N]`, True where a reader found a problem, where there is NaN or
            infinity, a number too large, a matrix that is not in the group.
        change: `[N]`, by how much rounding was taken off; -1 where there was none.
    """

    g: Tensor
    known: Tensor
    told: Tensor
    gap: Tensor
    far: Tensor
    outside: Tensor
    change: Tensor

    @property
    def none(self) -> Tensor:
        """Where there should be a pose and is none."""
        return self.told | self.gap | self.far | self.outside


def _checked(drafts: list[Draft]) -> _Poses:
    """Every pose compared with its group, so many at a time that memory stays small."""
    group = drafts[0].group
    whole = [x.matrices for x in drafts]
    g = torch.cat(whole) if len(whole) > 1 else whole[0].contiguous()
    nowhere = torch.zeros(len(g), dtype=torch.bool)
    masks = [torch.ones(len(x), dtype=torch.bool) if x.mask is None else x.mask for x in drafts]
    told, gap, far, outside = (nowhere.clone() for _ in range(4))
    poses = _Poses(g, torch.cat(masks), told, gap, far, outside, change=-torch.ones(len(g)))
    start = 0
    for draft in drafts:
        if draft.problems:
            poses.told[[start + i for i in draft.problems]] = True
            poses.gap[[start + i for i in _gaps(draft)]] = True
        start += len(draft)
    poses.told &= poses.known
    poses.gap &= poses.known
    for first in range(0, len(g), AT_ONCE):
        _check(group, poses, slice(first, first + AT_ONCE))
    return poses


def _gaps(draft: Draft) -> list[int]:
    return [i for i, text in draft.problems.items() if text == NOT_FINITE]


def _check(group: Group, poses: _Poses, part: slice) -> None:
    """Fill in what is found about some of the poses."""
    look = poses.known[part] & ~poses.told[part]
    g = poses.g[part]
    finite = g.isfinite().flatten(1).all(-1)
    far = (g.abs() > FARTHEST).flatten(1).any(-1) & finite
    usable = look & finite & ~far
    g = torch.where(usable[:, None, None], g, group.identity(dtype=g.dtype))
    outside = ~group.contains(g)
    if outside.any():
        poses.change[part] = _without_rounding(group, g, outside)
    poses.gap[part] |= look & ~finite
    poses.far[part] = look & far
    poses.outside[part] = outside
    poses.g[part] = g


def _without_rounding(group: Group, g: Tensor, outside: Tensor) -> Tensor:
    """Project, in place, those that miss the group by no more than printing does.

    They are no longer outside. By how much they changed, `[N]`; -1 where they did not.
    """
    change = -torch.ones(len(g))
    at = outside.nonzero().flatten()
    old, near = g[at], group.project(g[at])
    size = old[:, : group.n, : group.n].abs().amax((-2, -1))  # similarities are of any size
    off = (near - old).abs().amax((-2, -1)) / torch.where(size > 0, size, 1)
    rounded = (off <= ROUNDING) & group.contains(near)
    g[at[rounded]] = near[rounded]
    outside[at[rounded]] = False
    change[at[rounded]] = off[rounded].to(change)
    return change


class _Review:
    """Makes sets of drafts; the first notes about them are kept, the others counted."""

    def __init__(self, source: Source, bad: str, notes: list[str], gaps: list[str]) -> None:
        self.source, self.bad, self.notes, self.gaps = source, bad, notes, gaps
        self.unsaid = 0

    def sets(self, drafts: list[Draft]) -> list[PoseSet | None]:
        """A set a draft, None where it has no pose."""
        poses = _checked(drafts)
        ends = list(accumulate((len(x) for x in drafts), initial=0))
        good = poses.known & ~poses.none
        refused = {"error": poses.none, "gaps": poses.none & ~poses.gap}.get(self.bad)
        if refused is None:
            refused = torch.zeros_like(good)
        counts = [_totals(x, ends) for x in (refused, poses.none, poses.change >= 0, good)]
        parts = [slice(*pair) for pair in pairwise(ends)]
        for draft, part, wrong, none, rounded, there in zip(drafts, parts, *counts, strict=True):
            if wrong:
                raise self._error(draft, poses, part, refused, _MASK)
            if none or rounded or draft.notes or not there:
                self._note(draft, poses, part)
        poses.g[~good] = drafts[0].group.identity(dtype=poses.g.dtype)
        return [
            self._set(draft, poses.g[part], good[part], len(drafts) > 1) if there else None
            for draft, part, there in zip(drafts, parts, counts[-1], strict=True)
        ]

    def _set(self, draft: Draft, g: Tensor, good: Tensor, shared: bool) -> PoseSet:
        g, good = (g.clone(), good.clone()) if shared else (g, good)
        origin = draft.source or self.source.path
        names = tuple(draft.names)
        return PoseSet(draft.group, g, good, names, draft.name, origin, y_down=draft.y_down)

    def _note(self, draft: Draft, poses: _Poses, part: slice) -> None:
        if len(self.notes) + len(self.gaps) >= _MOST_NOTES:
            self.unsaid += 1
            return
        notes, name = self.notes, of(draft.name)
        notes += draft.notes
        change = poses.change[part]
        if (change >= 0).any():
            notes.append(
                f"{int((change >= 0).sum())} poses{name} were off {draft.group} by rounding, "
                f"{change.max().item():.1g} at most, and are projected onto it."
            )
        # Gaps, of NaN, and others, that may be mistakes.
        kinds = ((notes, NO_POSES, poses.none & ~poses.gap), (self.gaps, GAPS, poses.gap))
        for texts, what, which in kinds:
            if count := int(which[part].sum()):
                first = self._error(draft, poses, part, which)
                texts.append(f"{count} of {len(change)} poses{name} {what}; the first: {first}")
        if not (poses.known & ~poses.none)[part].any():
            notes.append(f"set {quoted(draft.name)} is left out: all of its poses are masked.")

    def _error(
        self, draft: Draft, poses: _Poses, part: slice, which: Tensor, mend: str = ""
    ) -> DataError:
        """What is wrong with the first of the draft's poses that are marked."""
        index = int(which[part].nonzero()[0])
        at = part.start + index
        if poses.told[at]:
            problem = draft.problems[index]
        elif poses.gap[at]:
            problem = NOT_FINITE
        elif poses.far[at]:
            problem = _TOO_FAR
        else:
            problem = _why_outside(draft.group, poses.g[at])
        problem = f"{problem} {mend}".strip()
        if draft.places:
            return self.source.error(problem, *draft.places[index])
        where = f"{printable(draft.name, 60)}, " if draft.name else ""
        return self.source.error(f"{where}pose {index}: {problem}")


def _totals(marked: Tensor, ends: list[int]) -> list[int]:
    """How many are marked between each end and the next."""
    sums = torch.cat((torch.zeros(1, dtype=torch.long), marked.cumsum(0)))
    return sums[ends].diff().tolist()


def _why_outside(group: Group, g: Tensor) -> str:
    try:
        group.check(g, name="the pose")
    except ValueError as error:
        return str(error)
    return f"the pose is not in {group}."  # contains and check agree; never silently
