"""Windows as one tensor in the unit of a model: kinds of tokens, hidden tokens, batches."""

from __future__ import annotations

import hashlib
from collections import Counter
from collections.abc import Iterator, Sequence
from functools import lru_cache
from typing import NamedTuple

import torch
from torch import Generator, Tensor

from .. import data
from .._core.random import generator
from .settings import TrainSettings

CHUNK = 64  # windows at a time where no gradients are needed
COMMON = 3  # sets that a kind is in, at least
BY_CHANCE = 3  # tokens that may be next to each other if they are hidden one by one
ENOUGH, MOST_DRAWS = 1000, 4  # hidden tokens to measure errors on, and how often they are drawn


class Stack(NamedTuple):
    """Windows padded to one size: poses `[W, N, m, m]` in float32, mask `[W, N]`, features of
    tokens `[W, N, F]` if the model takes any."""

    poses: Tensor
    mask: Tensor
    features: Tensor | None = None

    def rows(self, index: Tensor) -> Stack:
        features = None if self.features is None else self.features[index]
        return Stack(self.poses[index], self.mask[index], features)

    def trimmed(self, hidden: Tensor) -> tuple[Stack, Tensor]:
        """Without the columns that are padding in every window."""
        size = int(self.mask.any(0).nonzero().amax()) + 1
        features = None if self.features is None else self.features[:, :size]
        return Stack(self.poses[:, :size], self.mask[:, :size], features), hidden[:, :size]


Exam = list[tuple[Stack, Tensor]]  # windows, and what is hidden in them


def stack(windows: Sequence[data.PoseSet], scale: float, kinds: Sequence[str] = ()) -> Stack:
    """Windows moved to the origin and divided by a scale in float64, then cast; the features of a
    token are its kind."""
    scaled = [data.rescaled(data.centred(x), 1 / scale) for x in windows]
    batch = data.collate(scaled, torch.float32)
    features = kind_features(windows, kinds) if kinds else None
    return Stack(batch.poses, batch.mask, features)


def unstack(poses: Tensor, windows: Sequence[data.PoseSet], scale: float) -> Tensor:
    """Poses `[W, m, m]`, one of each window, as they were before `stack`."""
    g, where = poses.double(), windows[0].group.position_entries
    means = torch.stack([x.poses[x.mask][:, where].mean(0) for x in windows])
    g[:, where] = g[:, where] * scale + means
    return g


def digest(sets: Sequence[data.PoseSet], settings: TrainSettings) -> str:
    """A checksum of all poses, and of their names if kinds depend on them."""
    found = hashlib.sha256()
    for x in sets:
        found.update(f"{x.group.name} {len(x)} ".encode())
        found.update(x.poses.contiguous().numpy().tobytes())
        found.update(x.mask.contiguous().numpy().tobytes())
        if settings.kinds:
            found.update("\n".join(x.names).encode())
    return found.hexdigest()[:16]


# ---- kinds of tokens ---------------------------------------------------------------------------


def kind_of(name: str) -> str:
    """The first word of a name; "" if it is a number, as time stamps are.

    >>> kind_of("ALA 12"), kind_of("stud.dat"), kind_of("1305031102.1758")
    ('ALA', 'stud.dat', '')
    """
    first = name.split(maxsplit=1)[0] if name.strip() else ""
    try:
        float(first)
    except ValueError:
        return first
    return ""


def vocabulary(sets: Sequence[data.PoseSet], most: int) -> tuple[str, ...]:
    """The kinds that occur in the most sets, up to `most` of them."""
    # Windows of one set count once.
    found = {(x.source, x.whole or x.name, kind_of(name)) for x in sets for name in x.names}
    counts = Counter(kind for *_, kind in found)
    common = [(kind, n) for kind, n in counts.items() if kind and n >= COMMON]
    common.sort(key=lambda item: (-item[1], item[0]))
    return tuple(kind for kind, _ in common[:most])


def kind_features(sets: Sequence[data.PoseSet], kinds: Sequence[str]) -> Tensor:
    """`[S, N, len(kinds)]`: one where a token is of a kind, all zeros for others and padding."""
    size = max(len(x) for x in sets)
    places = {kind: i for i, kind in enumerate(kinds)}
    found = torch.zeros(len(sets), size, len(kinds))
    for row, x in enumerate(sets):
        for i, name in enumerate(x.names):
            place = places.get(kind_of(name))
            if place is not None:
                found[row, i, place] = 1
    return found


# ---- hidden tokens -----------------------------------------------------------------------------


def hide_some(mask: Tensor, share: float, gaps: str, generator: Generator) -> Tensor:
    """Tokens to hide in sets `mask [B, N]`: about `share` of each, and at least one.

    Args:
        gaps: "tokens", "runs", "mixed" (one of both at random for each set), or "any": mixed with
            runs of up to half of the set, short and long ones equally often.

    >>> mask = torch.ones(1, 10, dtype=torch.bool)
    >>> hide_some(mask, 0.3, "runs", Generator().manual_seed(0)).int()
    tensor([[0, 0, 0, 0, 0, 0, 1, 1, 1, 0]], dtype=torch.int32)
    """
    # All are drawn for every kind of gaps, so that the random numbers do not shift.
    one_by_one = data.hide(mask, share, generator=generator)[1]
    in_a_row = _run(mask, one_by_one.sum(-1), generator)
    coin = torch.rand(mask.shape[0], generator=generator) < 0.5
    if gaps == "tokens":
        return one_by_one
    if gaps == "runs":
        return in_a_row
    if gaps == "any":
        in_a_row = _run(mask, _lengths(mask, generator), generator)
    return torch.where(coin[:, None], one_by_one, in_a_row)


def longest_hidden(settings: TrainSettings, size: int) -> int:
    """The longest run of hidden poses in sets of a size.

    >>> longest_hidden(TrainSettings(hide=0.15, gaps="mixed"), 32)
    5
    >>> longest_hidden(TrainSettings(gaps="any"), 32)
    16
    """
    if settings.gaps == "any":
        return max(size // 2, 1)
    count = max(round(size * settings.hide), 1)
    return min(count, BY_CHANCE) if settings.gaps == "tokens" else count


def _lengths(mask: Tensor, generator: Generator) -> Tensor:
    """Numbers from 1 to half of the tokens, `[B]`; their logarithms are uniform."""
    most = (mask.sum(-1) // 2).double()
    draw = torch.rand(mask.shape[0], generator=generator, dtype=torch.float64)
    return (most + 1).pow(draw).floor().minimum(most).long()


def _run(mask: Tensor, count: Tensor, generator: Generator) -> Tensor:
    """A run of `count [B]` tokens at a random place."""
    there = mask.sum(-1)
    draw = torch.rand(mask.shape[0], generator=generator, dtype=torch.float64)
    start = (draw * (there - count + 1)).long()
    rank = mask.cumsum(-1) - 1
    return mask & (rank >= start[:, None]) & (rank < (start + count)[:, None])


# ---- batches -----------------------------------------------------------------------------------


def pieces(exam: Exam) -> Iterator[tuple[Stack, Tensor]]:
    """An exam, `CHUNK` windows at a time and without columns of padding."""
    for windows, hidden in exam:
        for rows in torch.arange(len(hidden)).split(CHUNK):
            yield windows.rows(rows).trimmed(hidden[rows])


class Stream:
    """Batches: every window once an epoch, in an order that depends on seed and epoch.

    A batch depends on its step alone, so nothing has to be stored to resume.
    """

    def __init__(self, windows: Stack, size: int, share: float, gaps: str, seed: int) -> None:
        self.windows, self.size, self.share, self.gaps = windows, size, share, gaps
        self.seed = seed
        self._order = lru_cache(maxsize=2)(self._draw_order)

    def _draw_order(self, epoch: int) -> Tensor:
        count = len(self.windows.mask)
        return torch.randperm(count, generator=generator("order", self.seed, epoch))

    def indices(self, step: int) -> Tensor:
        """The windows of a batch, `[size]`."""
        count = len(self.windows.mask)
        places = range(step * self.size, (step + 1) * self.size)
        return torch.stack([self._order(place // count)[place % count] for place in places])

    def batch(self, step: int) -> tuple[Stack, Tensor]:
        """Windows and the tokens to hide, `[size, N]`."""
        rows = self.windows.rows(self.indices(step))
        own = generator("hide", self.seed, step)
        return rows, hide_some(rows.mask, self.share, self.gaps, own)


def examination(windows: Stack, share: float, gaps: str, seed: int, part: str) -> Exam:
    """Hidden tokens for validation and test, the same every time.

    They are drawn several times if the windows are few.
    """
    drawn: Exam = []
    while len(drawn) < MOST_DRAWS and sum(int(x.sum()) for _, x in drawn) < ENOUGH:
        own = generator(part, seed, len(drawn))
        drawn.append((windows, hide_some(windows.mask, share, gaps, own)))
    return drawn
