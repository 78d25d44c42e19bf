"""Files of the package that a call enters, the second time: what a reader follows from end to end.

`python tools/walks.py` prints three walks: a TUM file to its filled gaps, `lie_attention` on a CPU
to its kernel, and `complete` of a `CompletionModel`.
"""

from __future__ import annotations

import io
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

import torch
from rich.console import Console
from typer.testing import CliRunner

import lieattn as la
from lieattn.cli.app import app
from lieattn.workflows.predict import PredictRequest, predict

HOME = Path(la.__file__).parent
SMALL = {"steps": 2, "every": 1, "window": 8, "batch": 4, "dim": 8, "heads": 2, "layers": 1}


def entered(call: Callable[[], object]) -> list[str]:
    """Files of `src/lieattn` in which a function ran, in the order in which they were entered."""
    found: dict[str, None] = {}

    def look(frame: object, event: str, _: object) -> None:
        if event == "call":
            found[frame.f_code.co_filename] = None  # type: ignore[attr-defined]

    call()
    sys.setprofile(look)
    try:
        call()
    finally:
        sys.setprofile(None)
    return [str(Path(x).relative_to(HOME)) for x in found if x.startswith(f"{HOME}/")]


def prediction(folder: Path) -> Callable[[], object]:
    """A TUM file with gaps, to the answers of a small model that was trained on such files."""
    angles = torch.arange(200) / 10
    zero = torch.zeros_like(angles)
    half = angles / 2
    columns = (angles.cos(), angles.sin(), angles / 5, zero, zero, half.sin(), half.cos())
    rows = torch.stack((torch.arange(200.0), *columns), dim=1).tolist()
    lines = [" ".join(f"{x:.6f}" for x in row) for row in rows]
    whole, gaps = folder / "whole.tum", folder / "gaps.tum"
    whole.write_text("\n".join(lines) + "\n", encoding="utf-8")
    for i in (20, 21, 22):
        lines[i] = " ".join([lines[i].split()[0], *["nan"] * 7])
    gaps.write_text("\n".join(lines[:60]) + "\n", encoding="utf-8")
    out = folder / "model"
    options = [f"--{name}={value}" for name, value in SMALL.items()]
    done = CliRunner().invoke(app, ["train", str(whole), "--out", str(out), *options])
    if done.exit_code:
        raise RuntimeError(f"no model to predict with: {done.output}")
    request = PredictRequest(out, [str(gaps)])
    return lambda: predict(request, Console(file=io.StringIO()))


def attention() -> Callable[[], object]:
    """`lie_attention` without derivatives, in float32."""
    poses = la.SE3.random(2, 64)
    values, weights = torch.randn(2, 4, 64, 16), torch.rand(4, 2)
    return lambda: la.lie_attention(la.SE3, poses, poses, values, weights)


def completion() -> Callable[[], object]:
    """The missing pose of a set."""
    model, poses = la.CompletionModel(la.SE3), la.SE3.random(2, 16)
    return lambda: model.complete(poses)


def main() -> None:
    with tempfile.TemporaryDirectory() as folder:
        walks = {
            "TUM file to answer": prediction(Path(folder)),
            "lie_attention to the kernel": attention(),
            "complete": completion(),
        }
        for name, call in walks.items():
            with torch.no_grad():
                files = entered(call)
            print(f"{name}: {len(files)} files\n  " + "\n  ".join(files))


if __name__ == "__main__":
    main()
