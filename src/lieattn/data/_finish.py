"""From drafts to sets of poses that are in their group."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate, pairwise

import torch
from torch import Tensor

from .._core.text import printable, quoted
from ..groups import Group
from ._draft import AT_ONCE, FARTHEST, NOT_FINITE, ROUNDING, Draft, of
from ._source import Source
from .errors import DataError
from .sets import PoseSet

# States of a pose: in the group; missing, as the file says; refused by its reader; NaN or infinity;
# too large; outside the group.
_GOOD, _MISSING, _REFUSED, _GAP, _FAR, _OUTSIDE = range(6)
_TOO_FAR = f"the pose holds a number beyond {FARTHEST:g}, expected one that can be subtracted."
_MASK = "bad='mask' (--bad mask) keeps the places of such poses and reads the others."
_MOST_NOTES = 1000


def finish(
    drafts: Sequence[Draft], source: Source, bad: str, notes: list[str], gaps: list[str]
) -> list[PoseSet | None]:
    """Check every pose; raise on the first invalid one, or mask it as `bad` asks, see `read`.

    `notes` and `gaps` get sentences about what was masked. A set without any pose is None, with a
    note. Sets are checked together: one by one, 100,000 of them take more than a minute.
    """
    review = _Review(source, bad, notes, gaps)
    finished = [x for batch in _batches(drafts) for x in review.sets(batch)]
    if review.uncounted:
        notes.append(f"there are notes about {review.uncounted:,} sets more.")
    return finished


def _batches(drafts: Sequence[Draft]) -> Iterator[list[Draft]]:
    """Drafts of one group, with about `AT_ONCE` poses."""
    batch, size = list[Draft](), 0
    for draft in drafts:
        if batch and (draft.group is not batch[0].group or size + len(draft) > AT_ONCE):
            yield batch
            batch, size = [], 0
        batch.append(draft)
        size += len(draft)
    if batch:
        yield batch


def _checked(drafts: list[Draft]) -> tuple[Tensor, Tensor, Tensor]:
    """Poses of several drafts, one after the other, `[N, m, m]`, and two `[N]` about them.

    These are the state of each pose, and by how much it was projected onto its group, -1 where it
    was not. Poses that are not finite are identities.
    """
    whole = [x.matrices for x in drafts]
    g = torch.cat(whole) if len(whole) > 1 else whole[0].contiguous()
    state, change = torch.zeros(len(g), dtype=torch.int8), -torch.ones(len(g))
    start = 0
    for draft in drafts:
        own = state[start : start + len(draft)]
        if draft.problems:
            told = [_GAP if x == NOT_FINITE else _REFUSED for x in draft.problems.values()]
            own[list(draft.problems)] = torch.tensor(told, dtype=state.dtype)
        if draft.mask is not None:
            own[~draft.mask] = _MISSING
        start += len(draft)
    for first in range(0, len(g), AT_ONCE):  # so many at a time that memory stays small
        part = slice(first, first + AT_ONCE)
        _check(drafts[0].group, g[part], state[part], change[part])
    return g, state, change


def _check(group: Group, g: Tensor, state: Tensor, change: Tensor) -> None:
    """Look at the poses that are still good; fill in, in place, what is found."""
    finite, far = g.isfinite().flatten(1).all(-1), (g.abs() > FARTHEST).flatten(1).any(-1)
    state[(state == _GOOD) & ~finite] = _GAP
    state[(state == _GOOD) & far] = _FAR
    g[state != _GOOD] = group.identity(dtype=g.dtype)
    outside = (~group.contains(g)).nonzero().flatten()
    if not len(outside):
        return
    # Project those that miss the group by no more than printing does.
    old, near = g[outside], group.project(g[outside])
    size = old[:, : group.n, : group.n].abs().amax((-2, -1))  # similarities are of any size
    off = (near - old).abs().amax((-2, -1)) / torch.where(size > 0, size, 1)
    rounded = (off <= ROUNDING) & group.contains(near)
    state[outside[~rounded]] = _OUTSIDE
    g[outside[rounded]] = near[rounded]
    change[outside[rounded]] = off[rounded].to(change)


class _Review:
    """Makes sets of drafts; the first notes about them are kept, the others counted."""

    def __init__(self, source: Source, bad: str, notes: list[str], gaps: list[str]) -> None:
        self.source, self.bad, self.notes, self.gaps = source, bad, notes, gaps
        self.uncounted = 0

    def sets(self, drafts: list[Draft]) -> list[PoseSet | None]:
        """A set for each draft, None where it has no pose."""
        g, state, change = _checked(drafts)
        good, invalid = state == _GOOD, state > _MISSING
        refused = {"error": invalid, "gaps": invalid & (state != _GAP), "mask": invalid & ~invalid}
        ends = list(accumulate((len(x) for x in drafts), initial=0))
        parts = [slice(*pair) for pair in pairwise(ends)]
        counts = [_totals(x, ends) for x in (refused[self.bad], invalid, change >= 0, good)]
        for draft, part, wrong, masked, rounded, there in zip(drafts, parts, *counts, strict=True):
            if wrong:
                raise self._error(draft, g[part], state[part], refused[self.bad][part], _MASK)
            if masked or rounded or draft.notes or not there:
                self._note(draft, g[part], state[part], change[part])
        g[~good] = drafts[0].group.identity(dtype=g.dtype)
        return [
            self._set(draft, g[part], good[part], len(drafts) > 1) if there else None
            for draft, part, there in zip(drafts, parts, counts[-1], strict=True)
        ]

    def _set(self, draft: Draft, g: Tensor, good: Tensor, shared: bool) -> PoseSet:
        g, good = (g.clone(), good.clone()) if shared else (g, good)
        origin = draft.source or self.source.path
        names = tuple(draft.names)
        return PoseSet(draft.group, g, good, names, draft.name, origin, y_down=draft.y_down)

    def _note(self, draft: Draft, g: Tensor, state: Tensor, change: Tensor) -> None:
        if len(self.notes) + len(self.gaps) >= _MOST_NOTES:
            self.uncounted += 1
            return
        name = of(draft.name)
        self.notes += draft.notes
        if count := int((change >= 0).sum()):
            self.notes.append(
                f"{count} poses{name} were off {draft.group} by rounding, "
                f"{change.max().item():.1g} at most, and are projected onto it."
            )
        # Gaps, of NaN, and others, that may be mistakes.
        others = (state > _MISSING) & (state != _GAP)
        for texts, what, which in (
            (self.notes, "are masked, being no poses", others),
            (self.gaps, "are masked", state == _GAP),
        ):
            if count := int(which.sum()):
                first = self._error(draft, g, state, which)
                texts.append(f"{count} of {len(state)} poses{name} {what}; the first: {first}")
        if not (state == _GOOD).any():
            text = f"set {quoted(draft.name)} is left out: all of its poses are masked."
            self.notes.append(text)

    def _error(
        self, draft: Draft, g: Tensor, state: Tensor, which: Tensor, mend: str = ""
    ) -> DataError:
        """What is wrong with the first of the draft's poses that are marked."""
        index = int(which.nonzero()[0])
        kind = int(state[index])
        problem = draft.problems.get(index, NOT_FINITE)
        if kind == _FAR:
            problem = _TOO_FAR
        elif kind == _OUTSIDE:
            problem = _why_outside(draft.group, g[index])
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
