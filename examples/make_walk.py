"""A walk with a camera in hand, for trying `lieattn train`: `walk.tum`, and `broken.tum` with gaps.

    python examples/make_walk.py [FOLDER]

The walker speeds up, slows down and turns at random, sways with every step, and poses are measured
with an error of 2 mm and 0.1 degrees. `broken.tum` is another walk, of which `truth.tum` is whole.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import torch
from torch import Tensor

import lieattn as la

RATE = 10.0  # poses a second
NOISE = (0.002, 0.1 * torch.pi / 180)  # metres, radians
GAPS = ((60, 61), (150, 156), (230, 233), (340, 352))  # rows without a pose, first and last + 1


def drift(n: int, seconds: float, generator: torch.Generator) -> Tensor:
    """Smooth random numbers `[n]` of size 1 that change in about so many seconds."""
    keep = 1 - 1 / (seconds * RATE)
    x = torch.randn(n + 1000, generator=generator, dtype=torch.float64)
    for _ in range(3):  # a filter three times over: people do not jerk
        for i in range(1, len(x)):
            x[i] = keep * x[i - 1] + (1 - keep) * x[i]
    x = x[1000:]
    return (x - x.mean()) / x.std()


def turn(*angles: Tensor) -> Tensor:
    """Rotations `[n, 3, 3]` of rotation vectors, given by their three numbers."""
    return la.SO3.exp(la.SO3.from_physical(torch.stack(angles, -1)))


def walk(n: int, seed: int) -> Tensor:
    """Poses of the camera, `[n, 4, 4]`."""
    generator = torch.Generator().manual_seed(seed)
    t = torch.arange(n, dtype=torch.float64) / RATE
    speed = 1.2 + 0.4 * drift(n, 2, generator)
    heading = (0.5 * drift(n, 1.5, generator)).cumsum(0) / RATE
    phase = 2 * torch.pi * (1.4 + 0.1 * drift(n, 3, generator)).cumsum(0) / (2 * RATE)
    sway, bob = 0.05 * phase.sin(), 0.03 * (2 * phase).cos()
    forward = torch.stack([heading.cos(), heading.sin(), 0 * t], -1)
    left = torch.stack([-heading.sin(), heading.cos(), 0 * t], -1)
    where = (speed[:, None] * forward).cumsum(0) / RATE + sway[:, None] * left
    where[:, 2] += 1.5 + bob
    roll, pitch = 0.05 * phase.sin(), 0.04 * (2 * phase).sin() + 0.1 * drift(n, 1, generator)
    yaw = heading + 0.2 * drift(n, 0.7, generator)  # where the camera looks
    g = la.SE3.identity(n, dtype=torch.float64)
    g[:, :3, :3] = turn(0 * yaw, 0 * yaw, yaw) @ turn(roll, pitch, 0 * yaw)
    g[:, :3, 3] = where
    noise = torch.randn(n, 6, generator=generator, dtype=torch.float64)
    noise *= torch.tensor([NOISE[0]] * 3 + [NOISE[1]] * 3, dtype=torch.float64)
    return la.SE3.compose(g, la.SE3.exp(la.SE3.from_physical(noise)))


def write(path: Path, g: Tensor, gaps: tuple[tuple[int, int], ...] = ()) -> None:
    """A TUM trajectory: time, position, quaternion; rows of nan where the pose is missing."""
    q, t = la.SE3.to_quaternion_xyzw(g)
    lines = []
    for i, row in enumerate(torch.cat([t, q], -1).tolist()):
        missing = any(start <= i < stop for start, stop in gaps)
        values = ["nan"] * 7 if missing else [f"{x:.6f}" for x in row]
        lines.append(f"{i / RATE:.1f} {' '.join(values)}\n")
    path.write_text("".join(lines))
    print(f"{path}: {len(g)} poses, {sum(stop - start for start, stop in gaps)} missing")


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("folder", nargs="?", type=Path, default=Path("."))
    folder = arguments.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    write(folder / "walk.tum", walk(2000, seed=1))
    other = walk(400, seed=2)
    write(folder / "broken.tum", other, GAPS)
    write(folder / "truth.tum", other)


if __name__ == "__main__":
    main()
