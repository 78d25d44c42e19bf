"""What `lieattn data` found in files: read once, then printed, drawn or written as JSON."""

from __future__ import annotations

from dataclasses import dataclass, field, fields
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
        return {
            "files": [_file(file) for file in self.files],
            "groups": [_summary(summary) for summary, _ in self.summaries.values()],
            "errors": self.errors,
        }


def find(asked: Request) -> Findings:
    """Read every file; one that cannot be read does not keep the others from it.

    Raises:
        RunError: a format or a group that there is not.
    """
    found = Findings()
    for path in asked.files:
        _read(asked, path, found)
    for group in dict.fromkeys(file.group for file in found.files):
        found.summaries[group.name] = measure(found.sets(group), seed=asked.seed)
    return found


def is_builtin(name: str | Path) -> bool:
    """Whether a name is that of a data set that comes along; a file of that name comes first."""
    return str(name) in data.DATASETS and not Path(name).exists()


def built_in(name: str, format: str | None, group: str | None) -> data.Dataset:
    """A data set that comes along, which is what it is.

    Raises:
        RunError: options that are for files.
    """
    for option, value in (("--format", format), ("--group", group)):
        if value:
            of = data.DATASETS[name].group
            raise RunError(f"{name} comes with the library, poses of {of}; {option} is for files.")
    return data.dataset(name)


def _built_in(asked: Request, name: str) -> data.PoseSets:
    own = built_in(name, asked.format, asked.group)
    return data.PoseSets((*own.train, *own.valid, *own.test), name, "npz", COMES_ALONG)


def _read(asked: Request, path: Path, found: Findings) -> None:
    if is_builtin(path):
        found.files.append(_built_in(asked, str(path)))
        return
    limit = int(asked.limit * 1e6)
    try:
        sets = data.read(path, asked.format, group=asked.group, bad=asked.bad, limit=limit)
    except data.DataError as error:
        found.errors.append(str(error))
    except ValueError as error:  # of the options, not of the file
        raise RunError(str(error)) from None
    else:
        found.files.append(sets)


def _file(file: data.PoseSets) -> dict[str, Any]:
    return {
        "path": file.path,
        "format": file.format,
        "why": file.why,
        "group": file.group.name,
        "sets": [{"name": x.name, "poses": int(x.mask.sum())} for x in file],
        "notes": [*file.notes, *file.gaps],
    }


def _summary(summary: data.Summary) -> dict[str, Any]:
    values = {f.name: getattr(summary, f.name) for f in fields(summary)}
    plain = {key: x.name if isinstance(x, Group) else x for key, x in values.items()}
    return {**plain, "advice": summary.advice()}
