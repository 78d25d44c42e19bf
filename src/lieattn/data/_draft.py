"""What a reader returns: matrices that should be poses, with names and places."""

from __future__ import annotations

from array import array
from collections.abc import Sequence
from dataclasses import dataclass, field

import torch
from torch import Tensor

from .._core.text import printable
from ..groups import SE2, SE3, Group

ROUNDING = 1e-3  # files have few digits: a smaller distance from the group is taken for rounding
FARTHEST = 1e300  # of a position: differences of larger ones are infinite
AT_ONCE = 1 << 15  # poses that are computed together: few for memory, many for time
Place = tuple[int, int]  # line and column, from 1


@dataclass
class Draft:
    """A set as a reader returns it; `finish` checks it and makes a `PoseSet` of it.

    Attributes:
        group: the group of its poses.
        matrices: `[N, m, m]`, float64; anything where there is a problem. `finish` overwrites them.
        names: one for each pose.
        places: line and column of each pose; empty if the format has no lines.
        name: of the set.
        problems: index of a pose -> why it is invalid; only the first is shown.
        mask: `[N]`, False where the file itself says that there is no pose.
        source: the file that the set is from, if this file was made of others.
        notes: what was corrected, a sentence each.
        y_down: whether y points downwards, as on a screen.
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
    y_down: bool = False

    def __len__(self) -> int:
        return len(self.matrices)

    @staticmethod
    def from_quaternions(
        rows: array[float],
        names: Sequence[str],
        places: Sequence[Place],
        name: str = "",
        scalar: str = "last",
    ) -> Draft:
        """SE(3) poses from rows `x y z` and a quaternion whose scalar part is "first" or "last"."""
        x = table(rows, 7)
        g, norm = x.new_empty(len(x), 4, 4), x.new_empty(len(x))
        for part in (slice(i, i + AT_ONCE) for i in range(0, len(x), AT_ONCE)):
            g[part], norm[part] = _normalised(x[part], scalar)
        draft = Draft(SE3, g, names, places, name)
        note_not_finite(draft.problems, x)
        off = (norm - 1).abs()
        wrong = ((off > 10 * ROUNDING) & x.isfinite().all(-1)).nonzero().flatten().tolist()
        if wrong:
            problem = (
                f"the quaternion has norm {norm[wrong[0]].item():.3g}, expected 1. Normalise it, "
                "or drop the pose if it is none."
            )
            draft.problems |= dict.fromkeys(wrong, problem)
        mended = (off > ROUNDING) & (off <= 10 * ROUNDING)
        if mended.any():
            by = off[mended].max().item()
            draft.notes.append(
                f"{int(mended.sum())} quaternions{of(name)} had norms other than 1, by {by:.1g} "
                "at most, and are normalised."
            )
        return draft

    @staticmethod
    def from_xy_theta(
        rows: array[float], names: Sequence[str], places: Sequence[Place], name: str = ""
    ) -> Draft:
        """SE(2) poses from rows `x y theta`, radians."""
        x = table(rows, 3)
        draft = Draft(SE2, SE2.from_xy_theta(x), names, places, name)
        note_not_finite(draft.problems, x)
        return draft


def _normalised(x: Tensor, scalar: str) -> tuple[Tensor, Tensor]:
    """Poses of rows `[N, 7]`, and the norms of their quaternions."""
    q = x[:, 3:].roll(-1, -1) if scalar == "first" else x[:, 3:]
    # Scaled first: the squares of 1e-200 are zero, and those of 1e200 infinite.
    largest = q.abs().amax(-1, keepdim=True)
    q = q / torch.where(largest > 0, largest, 1)
    norm = q.square().sum(-1, keepdim=True).sqrt() * largest
    safe = torch.where((norm > 0) & q.isfinite().all(-1, keepdim=True), q, q.new_tensor(_UNIT))
    unit = safe / safe.square().sum(-1, keepdim=True).sqrt()
    return SE3.from_quaternion_xyzw(unit, x[:, :3]), norm[:, 0]


_UNIT = (0.0, 0.0, 0.0, 1.0)


NOT_FINITE = "the pose holds NaN or infinity."


def table(numbers: array[float], columns: int) -> Tensor:
    """Numbers as rows `[N, columns]`, float64."""
    x = torch.frombuffer(numbers, dtype=torch.float64) if numbers else torch.zeros(0).double()
    return x.reshape(-1, columns)


def note_not_finite(problems: dict[int, str], rows: Tensor) -> None:
    """Add to the problems those of rows `[N, ...]` that hold NaN or infinity."""
    wrong = ~rows.isfinite().all(-1)
    problems |= dict.fromkeys(wrong.nonzero().flatten().tolist(), NOT_FINITE)


def of(name: str) -> str:
    """The name of a set, for a sentence about its poses."""
    return f" of {printable(name, 60)}" if name else ""


def roll_pitch_yaw(angles: Tensor) -> Tensor:
    """Rotations `Rz(yaw) Ry(pitch) Rx(roll)`, `[..., 3, 3]`, from angles `[..., 3]`."""
    (cr, cp, cy), (sr, sp, sy) = angles.cos().unbind(-1), angles.sin().unbind(-1)
    rows = (
        (cy * cp, cy * sp * sr - sy * cr, cy * sp * cr + sy * sr),
        (sy * cp, sy * sp * sr + cy * cr, sy * sp * cr - cy * sr),
        (-sp, cp * sr, cp * cr),
    )
    return torch.stack([torch.stack(row, -1) for row in rows], -2)
