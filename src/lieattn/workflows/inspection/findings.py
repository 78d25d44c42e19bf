"""What `lieattn data` found in files: read once, then printed, drawn or written as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ... import data
from ..._core.errors import RunError
from ...data.describe import Pairs, measure
from ...groups import Group

COMES_ALONG = "which comes with the library"


@dataclass(frozen=True)
class Request:
    """What was asked for on the command line."""

    files: list[Path]
    format: str | None = None
    group: str | None = None
    bad: str = "gaps"
    limit: float = 256.0  # MB
    seed: int = 0


@dataclass
class Findings:
    """Files that could be read, those that could not, and a summary of each group."""

    files: list[data.PoseSets] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)
    summaries: dict[str, tuple[data.Summary, Pairs]] = field(default_factory=dict)

    def sets(self, group: Group) -> list[data.PoseSet]:
        """All sets of a group, in the order of the files."""
        return [x for file in self.files if file.group is group for x in file]

    def to_dict(self) -> dict[str, Any]:
        """For --json."""
        files = [
            {
                "path": file.path,
                "format": file.format,
                "why": file.why,
                "group": file.group.name,
                "sets": [{"name": x.name, "poses": int(x.mask.sum())} for x in file],
                "notes": [*file.notes, *file.gaps],
            }
            for file in self.files
        ]
        groups = [
            {**vars(x), "group": x.group.name, "fits": x.fits and x.fits.name, "advice": x.advice()}
            for x, _ in self.summaries.values()
        ]
        return {"files": files, "groups": groups, "errors": self.errors}


def find(asked: Request) -> Findings:
    """Read every file; one that cannot be read does not keep the others from it.

    Raises:
        RunError: an unknown format or group.
    """
    found = Findings()
    for path in asked.files:
        try:
            found.files.append(_read(asked, path))
        except data.DataError as error:
            found.errors.append(str(error))
        except ValueError as error:  # of the options, not of the file
            raise RunError(str(error)) from None
    for group in dict.fromkeys(file.group for file in found.files):
        found.summaries[group.name] = measure(found.sets(group), seed=asked.seed)
    return found


def _read(asked: Request, path: Path) -> data.PoseSets:
    if is_builtin(path):
        own = built_in(str(path), asked.format, asked.group)
        return data.PoseSets((*own.train, *own.valid, *own.test), str(path), "npz", COMES_ALONG)
    limit = int(asked.limit * 1e6)
    return data.read(path, asked.format, group=asked.group, bad=asked.bad, limit=limit)


def is_builtin(name: str | Path) -> bool:
    """Whether a name is that of a built-in data set; a file of that name takes precedence."""
    return str(name) in data.DATASETS and not Path(name).exists()


def built_in(name: str, format: str | None, group: str | None) -> data.Dataset:
    """A built-in data set.

    Raises:
        RunError: options that are for files alone.
    """
    for option, value in (("--format", format), ("--group", group)):
        if value:
            of = data.DATASETS[name].group
            raise RunError(f"{name} comes with the library, poses of {of}; {option} is for files.")
    return data.dataset(name)
