"""From what a reader finds to poses that are in their group."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from ..groups import SE2, SE3, Group
from ._source import Source
from .errors import DataError, quoted
from .sets import PoseSet

ROUNDING = 1e-3  # files are written with few digits: so far from the group is taken for rounding
FARTHEST = 1e300  # of a position: differences of larger ones are infinite
Place = tuple[int, int]  # line and column, from 1


@dataclass
class Draft:
    """A set as a reader finds it; `finish` makes a `PoseSet` of it.

    Attributes:
        group: what its poses should be in.
        matrices: `[N, m, m]`, float64; anything where there is a problem.
        names: N of them.
        places: N of them, or none where a format has no lines.
        name: of the set.
        problems: number of a pose -> why it is none.
        mask: `[N]`, False where the file itself says that there is no pose.
        source: the file that the set is from, where this one was made of others.
        notes: what was mended, a sentence each.
    """

    group: Group
    matrices: Tensor
    names: Sequence[str]
    places: Sequence[Place] = ()
    name: str = ""
    problems: dict[int, str] = field(default_factory=dict)
    mask: Tensor | None = None
    source: str = ""
    notes: list[str] = field(default_factory=list)

    @staticmethod
    def from_quaternions(
        rows: list[list[float]],
        names: Sequence[str],
        places: Sequence[Place],
        name: str = "",
        scalar: str = "last",
    ) -> Draft:
        """SE(3) poses from rows `x y z` and a quaternion whose scalar part is "first" or "last"."""
        x = torch.tensor(rows, dtype=torch.float64).reshape(-1, 7)
        t, q = x[:, :3], x[:, 3:]
        if scalar == "first":
            q = q.roll(-1, -1)
        # Scaled first: the squares of 1e-200 are zero, and those of 1e200 infinite.
        largest = q.abs().amax(-1, keepdim=True)
        q = q / torch.where(largest > 0, largest, 1)
        norm = q.square().sum(-1, keepdim=True).sqrt() * largest
        problems = {
            i: f"the quaternion has norm {norm[i].item():.3g}, expected 1. "
            "Normalise it, or drop the pose if it is none."
            for i in ((norm - 1).abs() > 10 * ROUNDING).any(-1).nonzero().flatten().tolist()
        }
        off = (norm - 1).abs()[:, 0]
        mended = (off > ROUNDING) & (off <= 10 * ROUNDING)
        safe = torch.where((norm > 0) & q.isfinite().all(-1, keepdim=True), q, q.new_tensor(_UNIT))
        g = SE3.from_quaternion_xyzw(safe / safe.square().sum(-1, keepdim=True).sqrt(), t)
        note_not_finite(problems, x)
        draft = Draft(SE3, g, names, places, name, problems)
        if mended.any():
            by = off[mended].max().item()
            draft.notes.append(
                f"{int(mended.sum())} quaternions{_of(name)} had norms other than 1, by {by:.1g} "
                "at most, and are normalised."
            )
        return draft

    @staticmethod
    def from_xy_theta(
        rows: list[list[float]], names: Sequence[str], places: Sequence[Place], name: str = ""
    ) -> Draft:
        """SE(2) poses from rows `x y theta`, radians."""
        x = torch.tensor(rows, dtype=torch.float64).reshape(-1, 3)
        draft = Draft(SE2, SE2.from_xy_theta(x), names, places, name)
        note_not_finite(draft.problems, x)
        return draft


_UNIT = (0.0, 0.0, 0.0, 1.0)


def note_not_finite(problems: dict[int, str], rows: Tensor) -> None:
    """Add to the problems those of rows `[N, ...]` that hold NaN or infinity."""
    for i in (~rows.isfinite().all(-1)).nonzero().flatten().tolist():
        problems[i] = _NOT_FINITE


_NOT_FINITE = "the pose holds NaN or infinity. Drop it."
_MASK = "bad='mask' (--bad mask) keeps the places of such poses and reads the others."


def _of(name: str) -> str:
    return f" of {name}" if name else ""


def roll_pitch_yaw(angles: Tensor) -> Tensor:
    """Rotations `Rz(yaw) Ry(pitch) Rx(roll)`, `[..., 3, 3]`, from angles `[..., 3]`."""
    (cr, cp, cy), (sr, sp, sy) = angles.cos().unbind(-1), angles.sin().unbind(-1)
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)


def finish(draft: Draft, source: Source, bad: str, notes: list[str]) -> PoseSet | None:
    """Check every pose; raise on the first that is none, or mask it if `bad` is "mask".

    None, and a note, for a set that has no pose then.
    """
    group, g, name = draft.group, draft.matrices, draft.name
    notes += draft.notes
    known = torch.ones(len(g), dtype=torch.bool) if draft.mask is None else draft.mask.clone()
    problems = {i: problem for i, problem in draft.problems.items() if known[i]}
    if problems and bad == "error":
        raise _refused(draft, source, problems)
    known[list(problems)] = False
    g = torch.where(known[:, None, None], g, group.identity(dtype=g.dtype))
    wrong = ~g.isfinite().all(-1).all(-1)
    problems |= dict.fromkeys(wrong.nonzero().flatten().tolist(), _NOT_FINITE)
    far = (g.abs() > FARTHEST).any(-1).any(-1) & ~wrong
    text = f"the pose holds a number beyond {FARTHEST:g}, expected one that can be subtracted."
    problems |= dict.fromkeys(far.nonzero().flatten().tolist(), text)
    g = torch.where((wrong | far)[:, None, None], group.identity(dtype=g.dtype), g)
    outside = ~group.contains(g)
    if outside.any():
        g = _without_rounding(group, g, outside, name, notes)
        outside = ~group.contains(g)
    for i in outside.nonzero().flatten().tolist():
        problems[i] = _why_outside(group, g[i])
        if bad == "error":
            break
    if problems and bad == "error":
        raise _refused(draft, source, problems)
    if problems:
        known[list(problems)] = False
        g = torch.where(known[:, None, None], g, group.identity(dtype=g.dtype))
        notes += _masked(draft, source, problems)
    if not known.any():
        notes.append(f"set {quoted(name)} is left out: all of its poses are masked.")
        return None
    origin = draft.source or source.path
    return PoseSet(group, g.contiguous(), known, tuple(draft.names), name, origin)


def _masked(draft: Draft, source: Source, problems: dict[int, str]) -> list[str]:
    """Notes about poses that are masked: gaps, of NaN, and others, that may be mistakes."""
    notes = []
    for gap in (False, True):
        own = {i: text for i, text in problems.items() if (text == _NOT_FINITE) is gap}
        if own:
            what = GAPS if gap else NO_POSES
            first = _error(draft, source, *min(own.items()))
            count = f"{len(own)} of {len(draft.matrices)} poses{_of(draft.name)}"
            notes.append(f"{count} {what}; the first: {first}")
    return notes


GAPS, NO_POSES = "are masked", "are masked, being no poses"


def _without_rounding(
    group: Group, g: Tensor, outside: Tensor, name: str, notes: list[str]
) -> Tensor:
    """Project those that miss the group by no more than printing does."""
    near = g.clone()
    near[outside] = group.project(g[outside])
    change = (near - g).abs().amax((-2, -1))
    size = g[:, : group.n, : group.n].abs().amax((-2, -1))  # similarities are of any size
    change = change / torch.where(size > 0, size, 1)
    rounded = outside & (change <= ROUNDING) & group.contains(near)
    if rounded.any():
        by = change[rounded].max().item()
        notes.append(
            f"{int(rounded.sum())} poses{_of(name)} were off {group} by rounding, {by:.1g} at "
            "most, and are projected onto it."
        )
    return torch.where(rounded[:, None, None], near, g)


def _why_outside(group: Group, g: Tensor) -> str:
    try:
        group.check(g, name="the pose")
    except ValueError as error:
        return str(error)
    return f"the pose is not in {group}."  # contains and check agree; never silently


def _refused(draft: Draft, source: Source, problems: dict[int, str]) -> DataError:
    index, problem = min(problems.items())
    return _error(draft, source, index, f"{problem} {_MASK}")


def _error(draft: Draft, source: Source, index: int, problem: str) -> DataError:
    if draft.places:
        return source.error(problem, *draft.places[index])
    where = f"{draft.name}, " if draft.name else ""
    return source.error(f"{where}pose {index}: {problem}")
