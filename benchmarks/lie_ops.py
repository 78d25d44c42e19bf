"""Lie group logarithms: lieattn against kornia, pypose, jaxlie and scipy, in one table.

    python benchmarks/lie_ops.py [--pairs 1_000_000] [--repeats 5] [--write]

One core for everybody: the process is pinned to one before any library starts its threads. Times
are CPU time of the process, the least of repetitions that go round robin (A, B, C, A, B, C, ...),
so that a slow spell of the machine hits all alike; compilation is not counted. Every peer starts
from its own representation (quaternion and translation), lieattn from 4x4 matrices.
"""

from __future__ import annotations

import argparse
import math
import os
import platform
import sys
import time
import warnings
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from functools import partial
from importlib import metadata
from pathlib import Path
from typing import Any

if hasattr(os, "sched_setaffinity"):
    os.sched_setaffinity(0, {max(os.sched_getaffinity(0))})
# XLA sizes its thread pool by the affinity too; the flags are for systems that have none.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import torch  # noqa: E402
from torch import Tensor  # noqa: E402
from torch._dynamo.exc import TorchDynamoException  # noqa: E402

from lieattn import SE3, Aff3, relations  # noqa: E402

INSTALL = "pip install -c constraints.txt -e '.[bench]'"
OUTPUT = Path(__file__).parents[1] / "docs" / "benchmarks" / "lie_ops.md"
PACKAGES = ("lieattn", "torch", "kornia", "pypose", "jaxlie", "jax", "scipy", "mpmath")
PAIRS, AFFINE = "SE(3) log(gᵢ⁻¹gⱼ), float32", "Aff(3) log"
AFFINE_MATRICES, SCIPY_MATRICES, EXACT_MATRICES = 100_000, 300, 200
LEGEND = """\
Times are microseconds of CPU for one pair or matrix on one core, the least of {repeats} rounds in
which all take turns; compilation is not counted, nor is the peers' conversion from matrices.
"time / reference" is relative to jaxlie on SE(3) and to scipy on Aff(3), forward / forward and
backward. Errors are the worst found. SE(3): relative error of log(exp(x)) against x, poses rounded
to float32, and the largest entry of d log(exp(x))/dx - I, over {pairs:,} samples with angles
log-uniform in [1e-8, pi - 1e-3]. Aff(3): relative error against mpmath with 60 digits on
{exact} matrices exp(X), |X| in [1, 2]; times are for batches of {affine:,}, scipy's for {scipy}."""

Function = Callable[..., Any]
# One graph for the sizes at hand: sizes left open would be slower, and jit does not leave them.
COMPILE: Function = partial(torch.compile, fullgraph=True, dynamic=False)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- the table -------------------------------------------------------------------------------

HEADER = """\
| operation | library | forward, µs | forward + backward, µs | time / reference \
| error, linear part | error, translation | error, gradient |
|---|---|---:|---:|---:|---:|---:|---:|"""


@dataclass
class Row:
    """One line: microseconds an element and worst errors. What was not measured is absent."""

    operation: str
    library: str
    note: str = ""  # stands in the place of the times
    times: dict[str, float] = field(default_factory=dict)  # "forward", "gradient"
    errors: dict[str, float] = field(default_factory=dict)  # "linear", "translation", "gradient"

    def line(self, rows: list[Row]) -> str:
        reference = "scipy" if self.operation.startswith(AFFINE) else "jaxlie"
        base = next((row.times for row in rows if row.library.startswith(reference)), {})
        ratios = (f"{self.times[k] / base[k]:.2g}" for k in self.times if k in base)
        times = [
            f"{self.times[k]:.3g}" if k in self.times else "—" for k in ("forward", "gradient")
        ]
        times[0] = self.note or times[0]
        kinds = ("linear", "translation", "gradient")
        errors = (f"{self.errors[k]:.1e}" if k in self.errors else "—" for k in kinds)
        cells = (self.operation, self.library, *times, " / ".join(ratios) or "—", *errors)
        return f"| {' | '.join(cells)} |"


@dataclass
class Task:
    """What is timed: a call on `size` elements, entered as `kind` into a row."""

    row: Row
    kind: str
    call: Callable[[], Any]
    size: int


def round_robin(tasks: list[Task], repeats: int) -> None:
    """Enter the least time of each task; one round of all of them, then the next."""
    for turn in range(repeats):
        say(f"{tasks[0].row.operation}, {tasks[0].kind}: round {turn + 1} of {repeats}")
        for task in tasks:
            start = time.process_time()
            task.call()
            spent = (time.process_time() - start) / task.size * 1e6
            task.row.times[task.kind] = min(spent, task.row.times.get(task.kind, math.inf))


# ---- libraries with an SE(3) logarithm -------------------------------------------------------


@dataclass
class Library:
    """`log(a^-1 b)` of one library, on its own arrays."""

    name: str
    pack: Function  # float64 matrices [N, 4, 4] to its poses in float32; not timed
    array: Function  # any other tensor to its arrays in float32
    forward: Function  # (a, b) to coordinates [N, 6]
    gradient: Function  # (a, b, w): that of sum(w * log(a^-1 b)), for both poses
    round_trip: Function  # (identity, x, w): gradient of sum(w * log(exp(x))) for x
    scale: Tensor  # factors [6] from its coordinates to physical ones, translation and angles


def torch_library(
    name: str, pack: Function, log: Function, exp: Function, compiler: Function | None = None
) -> Library:
    def loss(a: Tensor, b: Tensor, w: Tensor) -> Tensor:
        return (log(a, b) * w).sum()

    # The loss is compiled together with the logarithm, as under jax.jit.
    forward, loss = (compiler(log), compiler(loss)) if compiler else (log, loss)

    def gradient(a: Tensor, b: Tensor, w: Tensor) -> tuple[Tensor, ...]:
        a, b = a.detach().requires_grad_(), b.detach().requires_grad_()
        return torch.autograd.grad(loss(a, b, w), (a, b))

    def round_trip(identity: Tensor, x: Tensor, w: Tensor) -> Tensor:
        g = exp(x.requires_grad_())
        return torch.autograd.grad(g, x, gradient(identity, g, w)[1])[0]

    forward = torch.no_grad()(forward)
    return Library(name, pack, Tensor.float, forward, gradient, round_trip, torch.ones(6))


def lieattn_libraries(name: str, log: Function) -> Iterator[Library]:
    def exp(x: Tensor) -> Tensor:
        return SE3.exp(SE3.from_physical(x))

    for how, compiler in (("eager", None), ("torch.compile", COMPILE)):
        library = torch_library(f"{name}, {how}", Tensor.float, log, exp, compiler)
        library.scale = SE3.to_physical(torch.ones(6, dtype=torch.float64))
        yield library


def kornia_libraries() -> Iterator[Library]:
    from kornia.geometry.liegroup import Se3

    def log(a: Tensor, b: Tensor) -> Tensor:
        return (Se3.from_qxyz(a).inverse() * Se3.from_qxyz(b)).log()

    def exp(x: Tensor) -> Tensor:
        g = Se3.exp(x)
        return torch.cat((g.quaternion.data, g.t), dim=-1)

    yield torch_library("kornia, eager", _wxyz_t, log, exp)
    # Not fullgraph: torch.compile has to break the graph of Se3.inverse.
    yield torch_library(
        "kornia, torch.compile", _wxyz_t, log, exp, partial(COMPILE, fullgraph=False)
    )


def pypose_libraries() -> Iterator[Library]:
    import pypose

    def log(a: Tensor, b: Tensor) -> Tensor:
        return (pypose.SE3(a).Inv() @ pypose.SE3(b)).Log().tensor()

    def exp(x: Tensor) -> Tensor:
        return pypose.se3(x).Exp().tensor()

    # Eager only: torch.compile cannot trace its tensor class, with or without fullgraph.
    yield torch_library("pypose, eager", _t_xyzw, log, exp)


def jaxlie_libraries() -> Iterator[Library]:
    import jax
    import jaxlie

    def log(a: Any, b: Any) -> Any:
        return (jaxlie.SE3(a).inverse() @ jaxlie.SE3(b)).log()

    def loss(a: Any, b: Any, w: Any) -> Any:
        return (log(a, b) * w).sum()

    def round_trip(identity: Any, x: Any, w: Any) -> Any:
        return loss(identity, jaxlie.SE3.exp(x).wxyz_xyz, w)

    def array(x: Tensor) -> Any:
        return jax.numpy.asarray(x.float().numpy())

    def jit(function: Function) -> Function:
        jitted = jax.jit(function)
        return lambda *arguments: jax.block_until_ready(jitted(*arguments))

    functions = (jit(log), jit(jax.grad(loss, (0, 1))), jit(jax.grad(round_trip, 1)))
    yield Library("jaxlie, jit", lambda g: array(_wxyz_t(g)), array, *functions, torch.ones(6))


def _wxyz_t(g: Tensor) -> Tensor:
    return torch.cat(SE3.to_quaternion_wxyz(g), dim=-1).float()


def _t_xyzw(g: Tensor) -> Tensor:
    return torch.cat(SE3.to_quaternion_xyzw(g)[::-1], dim=-1).float()


PEERS = {"kornia": kornia_libraries, "pypose": pypose_libraries, "jaxlie": jaxlie_libraries}


# ---- SE(3) -----------------------------------------------------------------------------------


def se3_rows(side: int, repeats: int) -> list[Row]:
    """All pairs of side x side poses."""
    q, k = SE3.random(2, side, dtype=torch.float64)
    w = torch.randn(side, side, 6)
    written_out = (q.repeat_interleave(side, 0), k.repeat(side, 1, 1), w.flatten(0, 1))
    x = _coordinates(side**2)
    rows, tasks, libraries = [], [], []
    for operation, library in _se3_entries(f"the same pairs from {side} × {side} poses"):
        if isinstance(library, str):
            rows.append(Row(operation, library, note="not installed"))
            continue
        rows.append(Row(operation, library.name))
        libraries.append(library)
        a, b, weight = written_out if operation == PAIRS else (q, k, w)
        poses = (library.pack(a), library.pack(b))
        forward = partial(library.forward, *poses)
        gradient = partial(library.gradient, *poses, library.array(weight))
        tasks.append(Task(rows[-1], "forward", forward, side**2))
        tasks.append(Task(rows[-1], "gradient", gradient, side**2))
        say(f"{operation}: compile and warm up {library.name}")
        forward(), gradient()
    round_robin(tasks, repeats)
    for row, library in zip((row for row in rows if not row.note), libraries, strict=True):
        row.errors = _se3_errors(library, x) if row.operation == PAIRS else {}
    return rows


def _se3_entries(all_pairs: str) -> Iterator[tuple[str, Library | str]]:
    """Who takes part in which operation; the name alone of a library that is not installed."""
    yield from ((PAIRS, library) for library in lieattn_libraries("lieattn", SE3.log_relative))
    for name, build in PEERS.items():
        try:
            yield from ((PAIRS, library) for library in build())
        except ModuleNotFoundError as error:
            say(f"{name} is left out: {error}. To install it: {INSTALL}")
            yield PAIRS, name
    relate = lieattn_libraries("lieattn `relations`", lambda q, k: relations(SE3, q, k).coords)
    yield from ((all_pairs, library) for library in relate)


def _coordinates(n: int) -> Tensor:
    """Physical coordinates `[n, 6]`: Gaussian translation, angles from 1e-8 to pi - 1e-3."""
    x = torch.randn(n, 6, dtype=torch.float64)
    angle = torch.empty(n, 1, dtype=x.dtype).uniform_(math.log(1e-8), math.log(math.pi - 1e-3))
    x[:, 3:] *= angle.exp() / x[:, 3:].norm(dim=-1, keepdim=True)
    return x


def _se3_errors(library: Library, x: Tensor) -> dict[str, float]:
    """Worst errors of log(exp(x)) in float32, through the functions that are timed.

    The value starts from exp(x) in float64, rounded to the library's poses: x is what one wants
    back, so that rounding counts. Each sample gives one row of the Jacobian, i mod 6.
    """
    say(f"accuracy of {library.name}")
    identity = library.pack(SE3.identity(len(x), dtype=x.dtype))
    found = library.forward(identity, library.pack(SE3.exp(SE3.from_physical(x))))
    found = torch.tensor(found.__array__()).double() * library.scale
    error, size = (v.unflatten(-1, (2, 3)).norm(dim=-1) for v in (found - x, x))
    translation, linear = (error / size).amax(0).tolist()
    rows = torch.eye(6, dtype=x.dtype)[torch.arange(len(x)) % 6]
    jacobian = library.round_trip(identity, library.array(x), library.array(rows * library.scale))
    gradient = float((torch.tensor(jacobian.__array__()) - rows).abs().max())
    return {"linear": linear, "translation": translation, "gradient": gradient}


# ---- Aff(3) ----------------------------------------------------------------------------------


def aff3_rows(repeats: int) -> list[Row]:
    """Logarithms of a batch of matrices, and of its first ones in a loop over scipy."""
    X = torch.randn(AFFINE_MATRICES, 12, dtype=torch.float64)
    X *= torch.empty(len(X), 1, dtype=X.dtype).uniform_(1, 2) / X.norm(dim=-1, keepdim=True)
    g = Aff3.exp(X).float()  # exact in either dtype, so one truth serves both
    truth = _exact_logarithms(g[:EXACT_MATRICES])
    rows, tasks = [], []
    for row, log, matrices in _aff3_entries(g):
        rows.append(row)
        say(f"{row.operation}: compile and warm up {row.library}")
        try:
            found = log(matrices)[:EXACT_MATRICES]
        except (ModuleNotFoundError, TorchDynamoException) as error:
            missing = isinstance(error, ModuleNotFoundError)
            row.note = "not installed" if missing else "does not compile"
            say(f"{row.library} is left out: {error}" + f" Install: {INSTALL}" * missing)
            continue
        row.errors = _aff3_errors(found, truth)
        tasks.append(Task(row, "forward", partial(log, matrices), len(matrices)))
    round_robin(tasks, repeats)
    return rows


def _aff3_entries(g: Tensor) -> Iterator[tuple[Row, Function, Tensor]]:
    for dtype in (torch.float64, torch.float32):
        operation = f"{AFFINE}, {str(dtype).removeprefix('torch.')}"
        yield Row(operation, "lieattn, eager"), Aff3.log, g.to(dtype)
        yield Row(operation, "lieattn, torch.compile"), COMPILE(Aff3.log), g.to(dtype)
    row = Row(f"{AFFINE}, float64", "scipy `logm`, Python loop")
    yield row, _scipy_logarithms, g[:SCIPY_MATRICES].double()


def _scipy_logarithms(g: Tensor) -> list[Any]:
    from scipy.linalg import logm

    return [logm(matrix) for matrix in g.numpy()]


def _exact_logarithms(g: Tensor) -> Tensor:
    import mpmath

    say(f"{AFFINE}: {len(g)} logarithms with 60 digits")
    logs = []
    with mpmath.workdps(60):
        for matrix in map(mpmath.matrix, g.double().tolist()):
            log = mpmath.logm(matrix)
            if mpmath.mnorm(mpmath.expm(log) - matrix) > 1e-50:
                raise ArithmeticError(f"mpmath's expm does not invert its logm at {matrix}.")
            logs.append([[float(mpmath.re(entry)) for entry in row] for row in log.tolist()])
    return torch.tensor(logs, dtype=torch.float64)


def _aff3_errors(found: Any, truth: Tensor) -> dict[str, float]:
    lieattn = isinstance(found, Tensor)
    logs = Aff3.hat(found.double()) if lieattn else torch.stack([*map(torch.as_tensor, found)])
    parts = {"linear": (..., slice(3), slice(3)), "translation": (..., slice(3), slice(3, 4))}
    return {
        name: float(
            ((logs - truth)[part].norm(dim=(-2, -1)) / truth[part].norm(dim=(-2, -1))).max()
        )
        for name, part in parts.items()
    }


# ---- the script ------------------------------------------------------------------------------


def machine() -> str:
    """CPU and versions on one line."""
    cpu = platform.processor() or platform.machine()
    if Path("/proc/cpuinfo").exists():
        models = (line for line in Path("/proc/cpuinfo").open() if line.startswith("model name"))
        cpu = next(models, f":{cpu}").split(":")[1].strip()
    installed = {d.name.lower(): d.version for d in metadata.distributions()}
    versions = ", ".join(f"{p} {installed[p]}" for p in PACKAGES if p in installed)
    return f"{cpu}, one core; Python {platform.python_version()}, {versions}."


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and accuracy of Lie group logarithms.")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="pairs of SE(3) poses")
    parser.add_argument("--repeats", type=int, default=5, help="rounds, of which the least counts")
    parser.add_argument("--write", action="store_true", help=f"write {OUTPUT.name} as well")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")  # those of the peers; a table is no place for them
    side = max(1, math.isqrt(options.pairs))
    rows = se3_rows(side, options.repeats) + aff3_rows(options.repeats)
    table = "\n".join((HEADER, *(row.line(rows) for row in rows)))
    print(table)
    if options.write:
        command = " ".join(("python", "benchmarks/lie_ops.py", *sys.argv[1:]))
        legend = LEGEND.format(
            repeats=options.repeats,
            pairs=side**2,
            exact=EXACT_MATRICES,
            affine=AFFINE_MATRICES,
            scipy=SCIPY_MATRICES,
        )
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(
            f"# Lie group logarithms\n\n{table}\n\n{legend}\n\nMade by `{command}` on "
            f"{machine()}\n",
            encoding="utf-8",
        )
        say(f"wrote {OUTPUT}")


if __name__ == "__main__":
    main()
