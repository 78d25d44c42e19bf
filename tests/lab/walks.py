"""Trajectories for tests of training: a curve that turns and climbs, as files of TUM."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor
from typer.testing import CliRunner

import lieattn as la
from lieattn.cli.app import app
from lieattn.workflows.settings import RENAMED

TINY = ["--steps", "12", "--every", "4", "--dim", "16", "--layers", "1", "--batch", "8"]


def command(*arguments: Any) -> tuple[int, str, str]:
    """Exit code, output and errors of `lieattn`."""
    done = CliRunner().invoke(app, [str(x) for x in arguments], env={"COLUMNS": "80"})
    return done.exit_code, done.stdout, done.stderr


def curve(n: int, phase: float = 0.0) -> Tensor:
    """`[n, 4, 4]`: a curve with its frame, every step a little longer than the last."""
    t = torch.linspace(0, n / 25, n, dtype=torch.float64) + phase
    rotation = torch.stack([0 * t, 0.3 * t.sin(), t], -1)
    where = torch.stack([5 * t.cos(), 4 * (1.3 * t).sin(), 0.5 * t], -1)
    g = la.SE3.identity(n, dtype=torch.float64)
    g[:, :3, :3] = la.SO3.exp(la.SO3.from_physical(rotation.fmod(3)))
    g[:, :3, 3] = where
    return g


def write_tum(path: Path, n: int = 400, phase: float = 0.0, missing: tuple[int, ...] = ()) -> Path:
    lines = []
    q, where = la.SE3.to_quaternion_xyzw(curve(n, phase))
    for i, row in enumerate(torch.cat((where, q), -1).tolist()):
        values = ["nan"] * 7 if i in missing else [f"{x:.9f}" for x in row]
        lines.append(f"{i / 10:.1f} " + " ".join(values) + "\n")
    path.write_text("".join(lines))
    return path


def of_format(format: int, about: dict[str, Any]) -> dict[str, Any]:
    """What a checkpoint of an earlier format, up to 4, says of itself: fields had other names."""
    earlier = {new: old for old, new in RENAMED.items()}
    settings = {earlier.get(name, name): x for name, x in about["settings"].items()}
    own = {"choice" if name == "preprocessing" else name: x for name, x in about.items()}
    return {**own, "format": format, "settings": settings}
