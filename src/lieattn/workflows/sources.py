"""From files, or the name of a data set, to windows for training, validation and test."""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

from .. import data
from .._core.errors import RunError
from .._core.text import LINE, printable
from ..data.batches import require_one_group
from ..groups import Group
from .inspection.findings import built_in, is_builtin
from .settings import TrainSettings
from .tensors import digest

FEWEST = 3  # poses of a window: two to see, one to hide
PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Parts:
    """Windows of the three parts, and how the poses were split."""

    group: Group
    train: list[data.PoseSet]
    valid: list[data.PoseSet]
    test: list[data.PoseSet]
    how: str
    notes: tuple[str, ...]
    digest: str  # of all poses in order
    learned: tuple[str, ...]  # digests of the sets of the training and validation parts

    @property
    def counts(self) -> str:
        return ", ".join(f"{len(getattr(self, part)):,} {part}" for part in PARTS)


def read_sets(
    files: Sequence[str], format: str = "", group: str = "", bad: str = "gaps"
) -> tuple[list[data.PoseSet], tuple[str, ...]]:
    """All sets of files, and the notes of their readers.

    Raises:
        RunError: a file that cannot be read, or poses of several groups.
    """
    sets: list[data.PoseSet] = []
    notes: list[str] = []
    for name in files:
        if is_builtin(name):
            found = built_in(name, format, group)
            sets += [*found.train, *found.valid, *found.test]
            continue
        try:
            read = data.read(name, format or None, group=group or None, bad=bad)
        except ValueError as error:
            missing = isinstance(error, data.DataError) and not Path(name).exists()
            hint = f" Data sets that come along: {', '.join(data.DATASETS)}." * missing
            raise RunError(f"{error}{hint}") from None
        sets += read.sets
        notes += [printable(f"{name}: {note}", LINE) for note in (*read.notes, *read.gaps)]
    try:
        require_one_group(sets)
    except ValueError as error:
        raise RunError(f"{error} --group takes poses as of another group.") from None
    return sets, tuple(notes)


def parts(settings: TrainSettings) -> Parts:
    """Read, split without leaks, and cut into windows."""
    sets, notes = read_sets(settings.files, settings.format, settings.group, settings.bad)
    split, learned, how = _split(settings, sets)
    notes += overlaps(split)
    step = settings.step_of_windows(sum(len(x) for x in split[0]))
    cut = [
        windows(part, settings.window, step if k == 0 else settings.window)
        for k, part in enumerate(split)
    ]
    for name, part in zip(PARTS, cut, strict=True):
        if not part:
            total = sum(len(x) for x in sets)
            raise RunError(
                f"the {name} part has no window of at least {FEWEST} poses: {total:,} in "
                f"{len(sets)} set{'s' * (len(sets) > 1)} are too few to be split into three parts. "
                "Give more files or a longer trajectory; sets of an .npz are of one file unless "
                "its array `sources` says which is from where."
            )
    train, valid, test = cut
    seen = tuple(digest([x], settings) for x in learned)
    return Parts(sets[0].group, train, valid, test, how, notes, digest(sets, settings), seen)


def windows(sets: Sequence[data.PoseSet], size: int, stride: int) -> list[data.PoseSet]:
    """Windows with enough poses; sets that are shorter than a window are kept."""
    cut = data.windows(sets, size, stride, short="keep")
    return [x for x in cut if int(x.mask.sum()) >= FEWEST]


def overlaps(parts: Sequence[Sequence[data.PoseSet]]) -> tuple[str, ...]:
    """A note for each part that shares poses with the training part.

    Files may be copies of each other, or windows of one trajectory. Three poses in a row are
    compared, unless they are equal: a camera that stands still looks the same in all files.
    """
    train = {row for x in parts[0] for row in _rows_of_three(x)}
    notes = []
    for name, part in zip(PARTS[1:], parts[1:], strict=True):
        rows = [row for x in part for row in _rows_of_three(x)]
        shared = sum(row in train for row in rows)
        if shared > len(rows) / 20:
            notes.append(
                f"{100 * shared / len(rows):.0f}% of the {name} part is in the training part too: "
                "files are copies of each other, or overlap. Errors are larger elsewhere than in "
                "this part. Give every trajectory once, and whole."
            )
    return tuple(notes)


def _rows_of_three(x: data.PoseSet) -> Iterator[bytes]:
    rows = [pose.numpy().tobytes() for pose in x.poses]
    for three in zip(rows, rows[1:], rows[2:], strict=False):
        if len(set(three)) > 1:
            yield b"".join(three)


def _split(
    settings: TrainSettings, sets: list[data.PoseSet]
) -> tuple[tuple[list[data.PoseSet], ...], list[data.PoseSet], str]:
    """Sets of the parts, those of training and validation, and how they were split."""
    if len(settings.files) == 1 and is_builtin(settings.files[0]):
        own = data.dataset(settings.files[0])
        return (own.train, own.valid, own.test), [*own.train, *own.valid], "as the data set is"
    sources = len({os.path.realpath(x.source) for x in sets})  # a file may have several names
    if sources >= 3:
        found = data.split(sets, seed=settings.seed)
        return found, [*found[0], *found[1]], f"by file, {sources} of them"
    cut: tuple[list[data.PoseSet], ...] = ([], [], [])
    gaps = []
    for x in sets:
        gap = settings.gap if settings.gap >= 0 else min(settings.window, len(x) // 20)
        if len(x) < 3 * FEWEST + 2 * gap:
            cut[0].append(x)  # too short to be cut
            continue
        gaps.append(gap)
        for part, piece in zip(cut, data.split_in_order(x, gap=gap), strict=True):
            part.append(piece)
    return cut, sets, f"in order, {max(gaps, default=0)} poses apart"
