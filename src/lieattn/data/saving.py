"""`save`: sets written to a file, in the format that its name ends with."""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from .._core.files import write_whole
from .reading import formats
from .sets import PoseSet


def save(
    path: str | os.PathLike[str], sets: Iterable[PoseSet], *, nanoseconds: bool = False
) -> None:
    """Write sets of one group to a file that `read` reads: `.tum`, `.csv`, else `.npz`.

    An `.npz` keeps every bit, names, masks and sources. A `.tum` (`t x y z qx qy qz qw`) or `.csv`
    (`t,x,y,z,qw,qx,qy,qz`) takes one trajectory of SE(3), whose names are time stamps. The file is
    moved to its place when it is complete.

    Args:
        nanoseconds: whether names are time stamps in nanoseconds; `.tum` has seconds.
    """
    known, ending = formats(), os.fspath(path).lower()
    fitting = (x.write for x in known.values() if x.write and ending.endswith(x.extensions))
    write = next(fitting, known["npz"].write)
    assert write is not None
    write_whole({Path(path): write(list(sets), nanoseconds)}, part=f".{os.getpid()}.part")
