"""Real poses that come with the library: one data set for each of the paper's groups.

Made by tools/make_datasets.py; `about` of each tells where its poses are from and under which
licence.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from pathlib import Path

from .._core.text import unknown
from ..groups import SE2, SE3, SO2, SO3, Aff2, Aff3, Group
from ._source import load
from .formats.npz import arrays
from .reading import read_source
from .sets import PoseSet

PARTS = ("train", "valid", "test")


@dataclass(frozen=True)
class Entry:
    """One line of the registry: the file `builtin/{file}.npz`, read as poses of the group."""

    file: str
    group: Group
    title: str
    y_down: bool = False


# One line a data set.
DATASETS = {
    "headings": Entry("victoria_park", SO2, "headings of a car that drives through a park"),
    "victoria_park": Entry("victoria_park", SE2, "a car that drives through a park, metres"),
    "orientations": Entry("backbones", SO3, "orientations of residues of proteins"),
    "backbones": Entry("backbones", SE3, "residues of proteins: frames of N, CA, C, angstroms"),
    "emoji": Entry("emoji", Aff2, "layers and gradients of drawings", y_down=True),
    "bricks": Entry("bricks", Aff3, "sub-parts of toy bricks, mirror images included"),
}


@dataclass(frozen=True, eq=False)
class Dataset:
    """Sets of poses, split by the file that they are from.

    Attributes:
        name, title: what it is.
        group: of the poses.
        train, valid, test: its sets.
        about: where the poses are from, whose they are, and their licence.
    """

    name: str
    title: str
    group: Group
    train: list[PoseSet]
    valid: list[PoseSet]
    test: list[PoseSet]
    about: str


def dataset(name: str) -> Dataset:
    """A data set that comes with the library; `DATASETS` lists them.

    >>> emoji = dataset("emoji")
    >>> emoji.group, len(emoji.train), len(emoji.test)
    (lieattn.Aff2, 561, 68)
    >>> emoji.train[0]
    PoseSet('...': ... poses of Aff(2))
    """
    if name not in DATASETS:
        raise ValueError(unknown("data set", name, DATASETS))
    entry = DATASETS[name]
    source = load(Path(__file__).parent / "builtin" / f"{entry.file}.npz")
    found = read_source(source, "npz", group=entry.group)
    sets = [replace(x, y_down=entry.y_down) for x in found]
    texts = arrays(source, ("splits", "about"))
    splits = texts["splits"].tolist()
    parts = {
        part: [x for x, split in zip(sets, splits, strict=True) if split == part] for part in PARTS
    }
    return Dataset(name, entry.title, entry.group, **parts, about=str(texts["about"]))
