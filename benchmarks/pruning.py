"""What pruning saves: `lie_attention` with and without `prune`, in one table.

    python benchmarks/pruning.py [--repeats 5] [--write]

Poses of SE(3) lie in a cube, in random order, with random rotations. The process is pinned to one
core; calls take turns, so that a slow spell of the machine hits all alike, and the least counts.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
from dataclasses import dataclass, field
from pathlib import Path

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})

import torch
from torch import Tensor

from lieattn import SE3, lie_attention
from lieattn.ops.native.call import Call
from lieattn.ops.request import Operands

OUTPUT = Path(__file__).parents[1] / "docs" / "benchmarks" / "pruning.md"
HEADS, WIDTH, WEIGHTS = 4, 16, (10.0, 1.0)  # lambda / tau of translations and rotations
HEADER = """\
| poses | side of the cube | prune | left out | forward, ms | forward + backward, ms \
| times as fast | largest error |
|---:|---:|---:|---:|---:|---:|---:|---:|"""
LEGEND = f"""\
SE(3), {HEADS} heads, normally distributed values of width {WIDTH}, float32, lambda / tau of
{WEIGHTS[0]:g} for translations and {WEIGHTS[1]:g} for rotations. CPU time on one core, the least of
{{repeats}} rounds in which all lines take turns. Left out: of the pairs, over all heads. Times as
fast as without pruning: forward / forward and backward with gradients of all inputs. Error: of an
entry of the first result, against the call without pruning."""


@dataclass
class Line:
    """One call, and the least times it took."""

    poses: Tensor
    values: Tensor
    side: float
    prune: float
    times: list[float] = field(default_factory=lambda: [math.inf, math.inf])
    out: Tensor = field(default_factory=lambda: torch.empty(0))

    def measure(self) -> None:
        leaves = [self.poses, self.values, torch.tensor(WEIGHTS).repeat(HEADS, 1)]
        poses, values, weights = (x.clone().requires_grad_() for x in leaves)
        start = time.process_time()
        sums = lie_attention(SE3, poses, poses, values, weights, backend="native", prune=self.prune)
        middle = time.process_time()
        torch.autograd.grad(sums, (poses, values, weights), [torch.ones_like(x) for x in sums])
        spent = middle - start, time.process_time() - start
        self.times = [min(pair) for pair in zip(self.times, spent, strict=True)]
        self.out = sums[0].detach()

    def left_out(self) -> float:
        weights, N = torch.tensor(WEIGHTS).repeat(HEADS, 1), self.poses.shape[1]
        tensors = self.poses, self.poses, self.values, weights
        call = Call(Operands("SE3", *tensors, None, None, True, 0.0, self.prune))
        results = [torch.empty(1, HEADS, N, width) for width in (WIDTH, SE3.dim, 3)]
        call.run(call.library.forward, *(x.data_ptr() for x in results))
        return call.problem.pruned / (HEADS * N**2)

    def text(self, plain: Line) -> str:
        ratios = (a / b for a, b in zip(plain.times, self.times, strict=True))
        cells = [f"{self.poses.shape[1]}", f"{self.side:g}", f"{self.prune:g}"]
        cells += [f"{self.left_out():.0%}", *(f"{1e3 * t:.3g}" for t in self.times)]
        cells += [
            " / ".join(f"{r:.2g}" for r in ratios),
            f"{(self.out - plain.out).abs().max():.0e}",
        ]
        return f"| {' | '.join(cells)} |"


def lines(N: int, side: float) -> list[Line]:
    poses, values = SE3.random(1, N), torch.randn(1, HEADS, N, WIDTH)
    poses[..., :3, 3] = side * torch.rand(1, N, 3)
    return [Line(poses, values, side, prune) for prune in (0.0, 1e-6, 1e-3)]


def machine() -> str:
    info = Path("/proc/cpuinfo")
    found = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in found if line.startswith("model name")]
    cpu = models[0] if models else platform.processor()
    python = f"Python {platform.python_version()}, torch {torch.__version__}"
    busy = f"; {os.getloadavg()[0]:.1f} processes at work" if hasattr(os, "getloadavg") else ""
    return f"{cpu}, one core; {python}{busy}"


def main() -> None:
    parser = argparse.ArgumentParser(description="What pruning saves.")
    parser.add_argument("--repeats", type=int, default=5, help="rounds, of which the least counts")
    parser.add_argument("--write", action="store_true", help=f"write docs/.../{OUTPUT.name} too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    scenes = [lines(N, side) for N, side in ((2048, 5.0), (8192, 5.0), (8192, 10.0))]
    for turn in range(options.repeats):
        print(f"round {turn + 1} of {options.repeats}", file=sys.stderr, flush=True)
        for scene in scenes:
            for line in scene:
                line.measure()
    table = "\n".join([HEADER, *(line.text(scene[0]) for scene in scenes for line in scene)])
    print(table)
    if options.write:
        command = " ".join(("python benchmarks/pruning.py", *sys.argv[1:]))
        legend = LEGEND.format(repeats=options.repeats)
        page = f"# Pruning\n\n{table}\n\n{legend}\n\n`{command}` on {machine()}.\n"
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(page, encoding="utf-8")


if __name__ == "__main__":
    main()
