"""Poses from files, and sets of them for training.

Each format is one file of this package, known by one line in `reading.py`.
"""

from ._draft import Draft
from .batches import Batch, collate, hide
from .datasets import DATASETS, Dataset, dataset
from .describe import Summary, describe
from .errors import DataError
from .formats.format import Format
from .reading import formats, read, register
from .saving import save
from .sets import PoseSet, PoseSets
from .windows import (
    centred,
    from_tensor,
    rescaled,
    shuffle,
    shuffle_tokens,
    split,
    split_in_order,
    windows,
)

__all__ = [
    "DATASETS",
    "Batch",
    "DataError",
    "Dataset",
    "Draft",
    "Format",
    "PoseSet",
    "PoseSets",
    "Summary",
    "centred",
    "collate",
    "dataset",
    "describe",
    "formats",
    "from_tensor",
    "hide",
    "read",
    "register",
    "rescaled",
    "save",
    "shuffle",
    "shuffle_tokens",
    "split",
    "split_in_order",
    "windows",
]
