"""From files to sets of a size, without leaks between training and test."""

from __future__ import annotations

import os
from collections.abc import Iterable, Sequence
from dataclasses import replace
from itertools import pairwise
from math import isfinite

import torch
from torch import Generator, Tensor

from ..groups import Group
from .sets import PoseSet

SHARES = (0.8, 0.1, 0.1)


def from_tensor(
    group: Group,
    poses: Tensor,
    mask: Tensor | None = None,
    names: Sequence[str] | None = None,
    name: str = "",
    source: str = "",
) -> PoseSet:
    """A set from poses `[N, m, m]` of your own, checked and in float64.

    >>> from lieattn import SE3
    >>> from_tensor(SE3, SE3.identity(4), name="still")
    PoseSet('still': 4 poses of SE(3))
    """
    m = group.matrix_size
    if poses.dim() != 3 or not len(poses) or poses.shape[1:] != (m, m):
        expected = f"[N, {m}, {m}], N at least 1"
        raise ValueError(f"poses of a set of {group} must be {expected}, got {[*poses.shape]}.")
    known = torch.ones(len(poses), dtype=torch.bool) if mask is None else mask
    if known.shape != poses.shape[:1] or known.dtype != torch.bool:
        expected = f"bool [{len(poses)}]"
        raise ValueError(f"mask must be {expected}, got {known.dtype} {[*known.shape]}.")
    labels = tuple(names) if names is not None else tuple(str(i) for i in range(len(poses)))
    if len(labels) != len(poses):
        raise ValueError(f"{len(labels)} names for {len(poses)} poses.")
    poses = torch.where(known[:, None, None], poses, group.identity().to(poses))
    group.check(poses)
    g = poses.double()
    g = torch.where(group.contains(g)[:, None, None], g, group.project(g))  # float32 ones are off
    return PoseSet(group, g, known, labels, name, source)


def windows(
    sets: Iterable[PoseSet], size: int, stride: int | None = None, *, short: str = "drop"
) -> list[PoseSet]:
    """Cut sets into windows of `size` consecutive poses.

    Args:
        sets: trajectories, chains, ...
        size: poses of a window.
        stride: from the start of one to the next; `size` (no overlap) if None. Windows that
            overlap share poses: `split` first, then cut.
        short: "drop" leaves out what is shorter than a window, the rest of a set included;
            "keep" makes a shorter window of it.

    >>> from lieattn import SE2
    >>> walk = from_tensor(SE2, SE2.identity(10), name="walk")
    >>> [x.name for x in windows([walk], 4, 3)]
    ['walk[0:4]', 'walk[3:7]', 'walk[6:10]']
    >>> [len(x) for x in windows([walk], 4, short="keep")]
    [4, 4, 2]
    """
    step = size if stride is None else stride
    if size < 1 or step < 1:
        raise ValueError(f"size and stride are at least 1, got {size} and {step}.")
    if short not in ("drop", "keep"):
        raise ValueError(f"short must be 'drop' or 'keep', got {short!r}.")
    cut = []
    for x in sets:
        covered = 0
        for start in range(0, len(x), step):
            stop = min(start + size, len(x))
            whole = stop - start == size
            # A rest that the window before it holds already is no window of its own.
            if (whole or (short == "keep" and stop > covered)) and x.mask[start:stop].any():
                cut.append(piece(x, start, stop))
                covered = stop
    return cut


def piece(x: PoseSet, start: int, stop: int) -> PoseSet:
    """The poses from `start` to before `stop`, as a set."""
    if (start, stop) == (0, len(x)):
        return x
    return replace(
        x,
        poses=x.poses[start:stop],
        mask=x.mask[start:stop],
        names=x.names[start:stop],
        name=f"{x.name}[{start}:{stop}]",
        whole=x.whole or x.name,
    )


def split(
    sets: Iterable[PoseSet], shares: Sequence[float] = SHARES, *, seed: int = 0
) -> tuple[list[PoseSet], ...]:
    """Split by file: all sets of one source go to one part, so that nothing leaks.

    Which file goes where depends on the names of the files and the seed alone, not on the order
    in which they were read. Shares are of poses, met as well as whole files allow.

    >>> from lieattn import SE2
    >>> sets = [from_tensor(SE2, SE2.identity(9), source=f"{i}.g2o") for i in range(10)]
    >>> train, valid, test = split(sets)
    >>> len(train), len(valid), len(test)
    (8, 1, 1)
    """
    wanted = _require_shares(shares)
    by_source: dict[str, list[PoseSet]] = {}
    names: dict[str, str] = {}  # a file may have been read by several
    for x in sets:
        name = names.setdefault(os.path.realpath(x.source), x.source)
        by_source.setdefault(name, []).append(x)
    if len(by_source) < len(wanted):
        count = "1 file" if len(by_source) == 1 else f"{len(by_source)} files"
        raise ValueError(
            f"{count} cannot be split into {len(wanted)} parts without a leak. Read more files, "
            "cut a trajectory with split_in_order, or say which sets go together: by `source` of a "
            "set, by the array `sources` of an .npz."
        )
    sources = sorted(by_source)
    order = torch.randperm(len(sources), generator=Generator().manual_seed(seed)).tolist()
    sizes = {name: sum(len(x) for x in by_source[name]) for name in sources}
    missing = [share * sum(sizes.values()) for share in wanted]
    parts: list[list[str]] = [[] for _ in wanted]
    for i in order:
        empty = [k for k, part in enumerate(parts) if not part]
        k = max(empty or range(len(parts)), key=missing.__getitem__)
        parts[k].append(sources[i])
        missing[k] -= sizes[sources[i]]
    return tuple([x for name in sorted(part) for x in by_source[name]] for part in parts)


def split_in_order(
    x: PoseSet, shares: Sequence[float] = SHARES, *, gap: int = 0
) -> tuple[PoseSet, ...]:
    """Split one trajectory into stretches, one after the other, `gap` poses left out between them.

    Neighbours in time resemble each other: leave a gap, and cut windows afterwards.

    >>> from lieattn import SE2
    >>> [len(part) for part in split_in_order(from_tensor(SE2, SE2.identity(100)), gap=5)]
    [72, 9, 9]
    """
    wanted = _require_shares(shares)
    if gap < 0:
        raise ValueError(f"gap is a number of poses, at least 0, got {gap}.")
    usable = len(x) - gap * (len(wanted) - 1)
    if usable < len(wanted):
        raise ValueError(f"{len(x)} poses are too few for {len(wanted)} parts, gap {gap}.")
    cuts = [round(usable * sum(wanted[:k])) for k in range(len(wanted) + 1)]
    for k in range(1, len(wanted)):  # no part is empty
        cuts[k] = min(max(cuts[k], cuts[k - 1] + 1), usable - (len(wanted) - k))
    return tuple(piece(x, a + k * gap, b + k * gap) for k, (a, b) in enumerate(pairwise(cuts)))


def _require_shares(shares: Sequence[float]) -> list[float]:
    if len(shares) < 2 or not all(share > 0 and isfinite(share) for share in shares):
        raise ValueError(f"shares are two or more positive numbers, got {list(shares)}.")
    return [share / sum(shares) for share in shares]


def shuffle(sets: Iterable[PoseSet], seed: int = 0) -> list[PoseSet]:
    """The sets in a random order, the same for the same seed."""
    items = list(sets)
    order = torch.randperm(len(items), generator=Generator().manual_seed(seed))
    return [items[i] for i in order.tolist()]


def shuffle_tokens(x: PoseSet, seed: int = 0) -> PoseSet:
    """The same set with its poses in a random order, names and mask along."""
    order = torch.randperm(len(x), generator=Generator().manual_seed(seed))
    names = tuple(x.names[i] for i in order.tolist())
    return replace(x, poses=x.poses[order], mask=x.mask[order], names=names)


def has_translations(group: Group) -> bool:
    """Whether poses of the group have positions, whose unit may be changed."""
    return bool(group.position_entries.any())


def has_position_column(group: Group) -> bool:
    """Whether the last column of poses is their position, as pictures need it."""
    return group.matrix_size == group.n + 1


def rescaled(x: PoseSet, factor: float) -> PoseSet:
    """The same set in another unit of length: translations times `factor`.

    >>> from lieattn import SE2
    >>> metres = from_tensor(SE2, SE2.from_xy_theta(torch.tensor([[3.0, 4.0, 0.5]])))
    >>> SE2.translation(rescaled(metres, 100.0).poses)
    tensor([[300., 400.]], dtype=torch.float64)
    """
    if not (factor > 0 and isfinite(factor)):
        raise ValueError(f"factor must be a finite number above 0, got {factor}.")
    poses = x.poses.clone()
    poses[:, x.group.position_entries] *= factor
    return replace(x, poses=poses)


def centred(x: PoseSet) -> PoseSet:
    """The same set moved so that the mean of its positions is the origin.

    Relative poses stay as they are. In float32 positions far from the origin lose their digits:
    do this before casting.
    """
    poses, where = x.poses.clone(), x.group.position_entries
    mean = poses[x.mask][:, where].mean(0)
    poses[:, where] = torch.where(x.mask[:, None], poses[:, where] - mean, 0)
    return replace(x, poses=poses)
