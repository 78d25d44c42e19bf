"""Files and folders of commands: locks, atomic writes, and errors that say what to do."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Callable, Iterable, Iterator
from pathlib import Path
from typing import Any

from . import files
from .errors import RunError
from .files import json_bytes

DAMAGED = ".damaged"


@contextlib.contextmanager
def writing(path: Path, option: str = "") -> Iterator[None]:
    """Turn an OSError into a sentence: why a file could not be written, and what to do.

    Args:
        option: the option that names the file, such as "--save"; "" for files in the folder of a
            run, which --out names and where the same command resumes.
    """
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        raise RunError(f"cannot write {path}: {why}. {_remedy(error, option)}") from None


def _remedy(error: OSError, option: str) -> str:
    """What to do where a file could not be written."""
    other = f"name another file with {option}" if option else "choose another folder with --out"
    if error.errno in (errno.ENOSPC, errno.EDQUOT):
        if option:
            return f"Free some space, or {other}."
        return (
            f"Nothing that was there is lost: free some space or {other}, then run the command "
            "again, without --overwrite, to go on."
        )
    if error.errno in (errno.EACCES, errno.EPERM, errno.EROFS):
        return f"Allow writing there, or {other}."
    if error.errno in (errno.EEXIST, errno.ENOTDIR):
        return f"There is a file where a folder is expected: move it, or {other}."
    if error.errno == errno.EISDIR:
        return f"There is a folder where a file is expected: move it, or {other}."
    return f"{other.capitalize()}."


def require_folder(path: Path) -> None:
    """Check that a file can be written into its folder, before the work is done."""
    if not path.absolute().parent.is_dir():
        raise RunError(f"cannot write {path}: there is no folder {path.absolute().parent}.")
    if path.is_dir():
        raise RunError(f"cannot write {path}: it is a folder. Name a file in it.")


def require_other(path: Path, files: Iterable[str | Path]) -> None:
    """Refuse to write over a file that is read."""
    for name in files:
        if path.exists() and Path(name).exists() and path.samefile(name):
            raise RunError(f"{path} is an input and would be lost. Choose another name.")


@contextlib.contextmanager
def exclusive(path: Path, wait_for_it: bool = True) -> Iterator[None]:
    """Hold a lock, which ends with the process at the latest.

    Raises:
        RunError: another process holds it, and `wait_for_it` is False.
    """
    try:
        import fcntl
    except ImportError:  # not a POSIX system: no lock
        yield
        return
    with writing(path):
        file = open(path, "w")  # noqa: SIM115
    with file:
        try:
            fcntl.flock(file, fcntl.LOCK_EX | (0 if wait_for_it else fcntl.LOCK_NB))
        except BlockingIOError:
            raise RunError(
                f"another lieattn is at work in {path.parent}. Wait for it, or choose another "
                "folder with --out."
            ) from None
        yield


def write_bytes(path: Path, content: bytes, keep: Path | None = None, option: str = "") -> None:
    """`files.write_whole`, with the errors of `writing`."""
    with writing(path, option):
        files.write_whole({path: content}, keep)


def write_json(path: Path, value: Any, indent: int | None = 1) -> None:
    """JSON with sorted keys: equal values are equal files. Without indent it is one line."""
    write_bytes(path, json_bytes(value, indent))


def read_json(path: Path) -> Any:
    try:
        return files.read_json(path)
    except (OSError, ValueError) as error:
        raise RunError(
            f"{path} cannot be read ({error}). Choose another folder with --out, or run what it "
            "holds anew with --overwrite."
        ) from None


def read_note(path: Path) -> Any:
    """JSON of a file that may be missing or damaged: then None."""
    try:
        return files.read_json(path)
    except (OSError, ValueError):
        return None


def newest_whole(
    paths: Iterable[Path], read: Callable[[Path], Any], warn: Callable[[str], None]
) -> Any:
    """`read` of the first file that exists and is whole, or None.

    Damaged files, for which `read` raises `files.Damaged`, are renamed, with a warning.
    """
    found = [path for path in paths if path.exists()]
    for path in found:
        try:
            return read(path)
        except files.Damaged as error:
            then = "starting anew" if path is found[-1] else "going on from the one before it"
            warn(f"{path} is damaged ({error}): {then}.")
        with writing(path):
            os.replace(path, path.with_name(path.name + DAMAGED))
    return None
