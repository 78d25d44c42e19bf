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
    looked = [_look(group, g) for g in _samples(sets, Generator().manual_seed(seed))]
    valid, angle, distances = map(torch.cat, zip(*looked, strict=True))
    counts = sorted(int(x.mask.sum()) for x in sets)
    everything = torch.cat([x.poses[x.mask] for x in sets])
    far = has_translations(group)
    rms = _rms(distances) if far else None
    cut = torch.pi - group.chart_margin()
    summary = Summary(
        group=group,
        sets=len(sets),
        poses=sum(counts),
        masked=sum(len(x) for x in sets) - sum(counts),
        smallest=counts[0],
        median=counts[len(counts) // 2],
        largest=counts[-1],
        pairs=len(angle),
        off_chart=_share(~valid),
        near_cut=_share(valid & (angle >= torch.pi - NEAR)),
        left_out=_share(~valid | (angle >= cut)),
        mirrored=_mirrored(group, everything),
        distance=rms,
        spread=_spread([x for *_, x in looked]) if far else None,
        offset=_offset(sets, rms) if far and rms else None,
        fits=next((x for x in _SMALLER.get(group, ()) if x.contains(everything).all()), None),
    )
    return summary, Pairs(angle, distances)


def _look(group: Group, g: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """Validity, angle and distance, `[P]`, of all pairs of different poses of `g [N, m, m]`.

    Rotations have no distances: the last one is empty.
    """
    others = ~torch.eye(len(g), dtype=torch.bool)
    q, k = (x.expand(len(g), *g.shape)[others] for x in (g[:, None], g[None]))
    angle = torch.pi - group.chart().clearance(group.relative(q, k))
    apart = (k - q)[:, group.position_entries]
    return group.relation(q, k)[1], angle, _length(apart) if apart.shape[1] else angle[:0]


def _share(which: Tensor) -> float:
    return int(which.sum()) / max(1, len(which))


def _spread(distances: list[Tensor]) -> float | None:
    """The typical distance of the widest set over that of the narrowest."""
    there = [x for x in map(_rms, distances) if x]
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


def _offset(sets: Sequence[PoseSet], distance: float) -> float:
    where = sets[0].group.position_entries
    return max((x.poses[x.mask][:, where] / distance).mean(0).norm().item() for x in sets)


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
