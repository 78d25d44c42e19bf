"""The native kernel of two builds, cell by cell, in one interleaved run.

`python benchmarks/compare_builds.py OLD NEW` with two source folders that hold built kernels, such
as `old/src` and `src`. Each cell of `lieattn bench` has 20 pairs of turns, old and new in changing
order. A cell is slower when the lower bound of its ratio is above the limit in each of three runs,
each in processes of its own, since where memory lies differs between processes by more than the
limit; cells that are not so in the first run are not run again. Prints a line a cell, exits with 1
if any is slower.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from itertools import product
from math import exp, log, sqrt
from statistics import mean, stdev

GROUPS = ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3")
PASSES = ("forward", "backward", "poses")
PAIRS, RUNS = 20, 3
STUDENT = 2.093  # two-sided 95% of 19 degrees of freedom
TURN = 0.05  # seconds of a turn, at least one call

WORKER = """
import json, sys, time
import torch
from lieattn.lab.bench.cases import Case
from lieattn.lab.bench.contestants import _lie_attention
torch.set_num_threads(int(sys.argv[1]))
for line in sys.stdin:
    asked = json.loads(line)
    if "case" in asked:
        call = _lie_attention("native", Case(*asked["case"])).call(asked["pass"])
        call()
        print("ready", flush=True)
        continue
    least, spent = float("inf"), 0.0
    while spent < asked["turn"]:
        start = time.perf_counter()
        call()
        seconds = time.perf_counter() - start
        least, spent = min(least, seconds), spent + seconds
    print(least, flush=True)
"""


class Build:
    """A process that imports one build."""

    def __init__(self, source: str, threads: int) -> None:
        self.process = subprocess.Popen(
            [sys.executable, "-c", WORKER, str(threads)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
            env={**os.environ, "PYTHONPATH": source},
        )

    def ask(self, **what: object) -> str:
        assert self.process.stdin is not None
        assert self.process.stdout is not None
        self.process.stdin.write(json.dumps(what) + "\n")
        self.process.stdin.flush()
        return self.process.stdout.readline().strip()

    def end(self) -> None:
        self.process.communicate()


def bounds(old: Build, new: Build, case: list[object], which: str) -> tuple[float, float]:
    """Mean ratio new over old of a cell, and its lower bound."""
    for build in (old, new):
        build.ask(case=case, **{"pass": which})
    logs = []
    for pair in range(PAIRS):
        order = (old, new) if pair % 2 else (new, old)
        times = {build: float(build.ask(turn=TURN)) for build in order}
        logs.append(log(times[new] / times[old]))
    spread = STUDENT * stdev(logs) / sqrt(PAIRS)
    return exp(mean(logs)), exp(mean(logs) - spread)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("old")
    parser.add_argument("new")
    parser.add_argument("--groups", nargs="+", default=GROUPS)
    parser.add_argument("--n", nargs="+", type=int, default=(512, 2048, 8192))
    parser.add_argument("--widths", nargs="+", type=int, default=(16, 64))
    parser.add_argument("--passes", nargs="+", default=PASSES)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--limit", type=float, default=1.03)
    parser.add_argument("--limit-aff2", type=float, default=1.15)
    asked = parser.parse_args()
    builds = [Build(source, asked.threads) for source in (asked.old, asked.new)]
    slower = []
    for group, width, n, which in product(asked.groups, asked.widths, asked.n, asked.passes):
        limit = asked.limit_aff2 if group == "Aff2" else asked.limit
        runs = []
        for _ in range(RUNS):
            runs.append(bounds(*builds, [group, width, n], which))
            if runs[-1][1] <= limit:
                break
            for build in builds:
                build.end()
            builds = [Build(source, asked.threads) for source in (asked.old, asked.new)]
        is_slower = all(low > limit for _, low in runs)
        cell = f"{group} width {width} N {n} {which}"
        said = ", ".join(f"{ratio:.3f} (from {low:.3f})" for ratio, low in runs)
        print(f"{cell:32} {said}{'  SLOWER' if is_slower else ''}", flush=True)
        if is_slower:
            slower.append(cell)
    print(f"slower: {len(slower)}" + "".join(f"\n  {cell}" for cell in slower))
    raise SystemExit(bool(slower))


if __name__ == "__main__":
    main()
