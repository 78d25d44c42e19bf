"""`lieattn data`: read, print, draw, save."""

from __future__ import annotations

import json
from pathlib import Path

from rich.console import Console
from rich.text import Text

from ... import data
from ..._core.errors import RunError
from ..._core.folders import require_folder, require_other, writing
from ..._core.stopping import written
from .findings import Findings, Request, find
from .terminal import print_findings


def run(
    asked: Request,
    console: Console,
    *,
    plot: Path | None = None,
    save: Path | None = None,
    as_json: bool = False,
) -> list[str]:
    """Say what is in the files; what could not be read comes back.

    Raises:
        RunError: something that the user can mend.
    """
    if plot is not None:
        from ..drawing import require_drawable
        from .picture import draw

        require_drawable(plot)
    if save is not None and save.suffix != ".npz":
        raise RunError(f"--save writes .npz, got {save.name!r}.")
    for path in filter(None, (plot, save)):
        require_folder(path)
        require_other(path, asked.files)
    found = find(asked)
    if as_json:
        console.print(Text(json.dumps(found.to_dict(), indent=2)), soft_wrap=True)
    else:
        print_findings(found, console)
    paths = []
    if plot is not None and found.files:
        draw(found, plot)
        paths.append(plot)
    if save is not None and found.files:
        with written(save):
            _save(found, save)
        paths.append(save)
    if not as_json:
        for path in paths:
            console.print(Text(f"\n{path}"), soft_wrap=True)
        console.print()
    return found.errors


def _save(found: Findings, path: Path) -> None:
    groups = list(found.summaries)
    if len(groups) > 1:
        raise RunError(f"--save takes poses of one group, found {', '.join(groups)}.")
    try:
        with writing(path, "--save"):
            data.save(path, [x for file in found.files for x in file])
    except ValueError as error:
        raise RunError(f"cannot write {path}: {error}") from None
