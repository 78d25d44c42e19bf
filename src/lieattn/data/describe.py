"""What is in sets of poses, measured on pairs: what to know before a model is trained on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from math import sqrt
from sys import float_info

import torch
from torch import Generator, Tensor

from ..groups import SE2, SE3, Aff2, Aff3, Group, Sim2, Sim3
from .batches import require_one_group
from .sets import PoseSet
from .windows import has_translations

NEAR = 0.1  # radians: so close to the cut, a small change may turn the sign of coordinates
SAMPLE = 200_000  # pairs that are looked at, about
_SMALLER: dict[Group, tuple[Group, ...]] = {
    Aff2: (SE2, Sim2),
    Aff3: (SE3, Sim3),
    Sim2: (SE2,),
    Sim3: (SE3,),
}


@dataclass(frozen=True)
class Summary:
    """Numbers about sets of poses of one group. Shares are between 0 and 1.

    Attributes:
        group: of all sets.
        sets, poses, masked: how many; `poses` counts those that are there.
        smallest, median, largest: poses of a set.
        pairs: pairs of different poses of a set that were looked at, a random sample.
        off_chart: share of them without a principal logarithm.
        near_cut: share within `NEAR` radians of the cut, on the chart.
        left_out: share that layers do not attend to with the principal chart: off it, or within
            the group's `chart_margin` of its cut.
        mirrored: share of poses with a negative determinant.
        distance: root mean square distance of a pair; None for rotations.
        spread: how many times larger the typical distance is in the widest set than in the
            narrowest; None where there is nothing to compare.
        offset: the farthest mean position of a set, in units of `distance`.
        fits: a smaller group that holds all poses, if there is one.
    """

    group: Group
    sets: int
    poses: int
    masked: int
    smallest: int
    median: int
    largest: int
    pairs: int
    off_chart: float
    near_cut: float
    left_out: float
    mirrored: float
    distance: float | None
    spread: float | None
    offset: float | None
    fits: Group | None

    def advice(self) -> list[str]:
        """What to do before training, a sentence each."""
        return [x for x in (_chart(self), _scale(self), _centre(self), *_sizes(self)) if x]


@dataclass(frozen=True)
class Pairs:
    """Pairs that were looked at, for pictures: `[P]` each.

    Attributes:
        angle: pi minus the angle by which a pair stays clear of the cut, in radians: the angle of
            its rotation, and in Aff(n) the largest argument of an eigenvalue.
        distance: between the two positions; empty for rotations.
    """

    angle: Tensor
    distance: Tensor


def describe(sets: Sequence[PoseSet], *, seed: int = 0) -> Summary:
    """Summary of sets of one group; pairs are sampled with the seed.

    >>> from lieattn import SE2, data
    >>> poses = SE2.from_xy_theta(torch.tensor([[0.0, 0.0, 0.0], [30.0, 40.0, 1.0]]))
    >>> summary = describe([data.from_tensor(SE2, poses)])
    >>> summary.distance, summary.pairs
    (50.0, 2)
    >>> print(summary.advice()[1])
    distances of pairs are about 50: divide translations by 50 (data.rescaled), or ...
    """
    return measure(sets, seed=seed)[0]


def measure(sets: Sequence[PoseSet], *, seed: int = 0) -> tuple[Summary, Pairs]:
    """`describe`, and the pairs that it looked at."""
    if not sets:
        raise ValueError("there are no sets to describe.")
    group = require_one_group(sets)
    found = _Found(group)
    generator = Generator().manual_seed(seed)
    for poses in _samples(sets, generator):
        found.look(poses)
    counts = sorted(int(x.mask.sum()) for x in sets)
    total = sum(counts)
    everything = torch.cat([x.poses[x.mask] for x in sets])
    pairs = found.pairs()
    rms = found.distance()
    summary = Summary(
        group=group,
        sets=len(sets),
        poses=total,
        masked=sum(len(x) for x in sets) - total,
        smallest=counts[0],
        median=counts[len(counts) // 2],
        largest=counts[-1],
        pairs=len(pairs.angle),
        off_chart=found.share("off"),
        near_cut=found.share("near"),
        left_out=found.share("left"),
        mirrored=_mirrored(group, everything),
        distance=rms,
        spread=found.spread(),
        offset=_offset(sets, rms),
        fits=next((x for x in _SMALLER.get(group, ()) if x.contains(everything).all()), None),
    )
    return summary, pairs


class _Found:
    """Counts over the pairs of sets."""

    def __init__(self, group: Group) -> None:
        self.group = group
        self.counts = {"off": 0, "near": 0, "left": 0}
        self.angles: list[Tensor] = []
        self.distances: list[Tensor] = []

    def look(self, g: Tensor) -> None:
        """All pairs of different poses of `g [N, m, m]`."""
        group, n = self.group, len(g)
        others = ~torch.eye(n, dtype=torch.bool)
        q, k = g[:, None].expand(n, n, -1, -1)[others], g[None].expand(n, n, -1, -1)[others]
        valid = group.relation(q, k)[1]
        angle = torch.pi - group.chart().clearance(group.relative(q, k))
        self.angles.append(angle)
        self.counts["off"] += int((~valid).sum())
        self.counts["near"] += int((valid & (angle >= torch.pi - NEAR)).sum())
        self.counts["left"] += int((~valid | (angle >= torch.pi - group.chart_margin())).sum())
        if has_translations(group):
            self.distances.append(_length((k - q)[:, group.position_entries]))

    def share(self, what: str) -> float:
        return self.counts[what] / max(1, sum(len(x) for x in self.angles))

    def pairs(self) -> Pairs:
        nothing = torch.zeros(0, dtype=torch.float64)
        return Pairs(torch.cat([nothing, *self.angles]), torch.cat([nothing, *self.distances]))

    def distance(self) -> float | None:
        if not has_translations(self.group):
            return None
        return _rms(self.pairs().distance)

    def spread(self) -> float | None:
        typical = [_rms(x) for x in self.distances]
        there = [x for x in typical if x is not None and x > 0]
        # Of sizes as far apart as numbers can be: finite, for JSON.
        return min(max(there) / min(there), float_info.max) if len(there) > 1 else None


def _length(x: Tensor) -> Tensor:
    largest = x.abs().amax(-1)  # first: the squares of 1e200 are infinite
    return largest * (x / torch.where(largest > 0, largest, 1)[:, None]).norm(dim=-1)


def _rms(x: Tensor) -> float | None:
    if not len(x):
        return None
    largest = x.max().item()
    return largest * (x / largest).square().mean().sqrt().item() if largest > 0 else 0.0


def _samples(sets: Sequence[PoseSet], generator: Generator) -> list[Tensor]:
    """Some poses of some sets, whole sets where that is not too much."""
    most = SAMPLE // 16**2
    order = torch.randperm(len(sets), generator=generator)[:most].tolist()
    size = max(16, int(sqrt(SAMPLE / len(order))))
    samples = []
    for i in order:
        g = sets[i].poses[sets[i].mask]
        samples.append(g[torch.randperm(len(g), generator=generator)[:size]])
    return samples


def _mirrored(group: Group, g: Tensor) -> float:
    linear = g[:, : group.n, : group.n]
    return (torch.linalg.slogdet(linear)[0] < 0).double().mean().item()


def _offset(sets: Sequence[PoseSet], distance: float | None) -> float | None:
    if not distance or not has_translations(sets[0].group):
        return None
    where = sets[0].group.position_entries
    means = [(x.poses[x.mask][:, where] / distance).mean(0).norm().item() for x in sets]
    return max(means)


# ---- advice ----------------------------------------------------------------------------------


def _chart(x: Summary) -> str:
    if not x.pairs:
        return ""
    if x.off_chart:
        return (
            f"use chart='polar': {percent(x.off_chart)} of the pairs have no principal logarithm "
            "and could not attend to each other."
        )
    if x.left_out:
        return (
            f"chart='principal' will do; the {percent(x.left_out)} of pairs within "
            f"{x.group.chart_margin():g} rad of the cut do not attend to each other"
            + (" (chart_margin=0 lets them)." if x.left_out > 0.05 else ".")
        )
    return (
        "chart='principal' will do: every pair has a logarithm, and none is within "
        f"{x.group.chart_margin():g} rad of the cut."
    )


def _scale(x: Summary) -> str:
    if not x.distance:
        return ""
    if x.spread and x.spread > 10:
        return (
            f"distances differ {about(x.spread)}-fold between sets: use normalise=True, which "
            "scales each set by itself."
        )
    if not 1 / 3 <= x.distance <= 3:
        return (
            f"distances of pairs are about {about(x.distance)}: divide translations by "
            f"{about(x.distance)} (data.rescaled), or use normalise=True."
        )
    return f"distances of pairs are about {about(x.distance)}: no rescaling is needed."


def _centre(x: Summary) -> str:
    if x.offset is None or x.offset < 1000:
        return ""
    return (
        f"positions are {about(x.offset)} times farther from the origin than from each other: "
        "data.centred before casting to float32, or digits are lost."
    )


def _sizes(x: Summary) -> list[str]:
    advice = []
    if x.smallest < 2:
        advice.append("some sets hold a single pose, which has nothing to attend to: drop them.")
    if x.largest > 4096:
        advice.append(f"a set of {x.largest:,} poses is long: cut it with data.windows.")
    if x.fits is not None:
        advice.append(f"all poses are in {x.fits}: group={x.fits.name!r} needs fewer weights.")
    return advice


def about(x: float) -> str:
    """A number to two digits, as people write it.

    >>> about(237.4), about(55012.0), about(0.0321), about(1.2e9)
    ('240', '55,000', '0.032', '1.2e+09')
    """
    rounded = float(f"{x:.2g}")
    return f"{rounded:,.0f}" if 10 <= rounded < 1e6 else f"{rounded:g}"


def percent(share: float) -> str:
    """A share as people write it, never 0% for something.

    >>> percent(0.1234), percent(0.00002), percent(0.0), percent(1.0)
    ('12%', '<0.1%', '0%', '100%')
    """
    if 0 < share < 0.001:
        return "<0.1%"
    if 0.999 < share < 1:
        return ">99.9%"
    return f"{100 * share:.2g}%" if share < 0.995 else f"{100 * share:.3g}%"
