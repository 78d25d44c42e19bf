"""Lie group logarithms: lieattn against kornia, pypose, jaxlie and scipy, in one table.

    python benchmarks/lie_ops.py [--pairs 1_000_000] [--repeats 5] [--write]

The process is pinned to one core before any library starts its threads, so everybody has one.
Repetitions go round robin (A, B, C, A, B, C, ...): a slow spell of the machine hits all alike.
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
# On one core XLA has no choice; the flags ask the same of it where no core can be set.
os.environ["XLA_FLAGS"] = "--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"

import torch
from torch import Tensor
from torch._dynamo.exc import TorchDynamoException

from lieattn import SE3, Aff3, relations

INSTALL = "pip install -c constraints.txt -e '.[bench]'"
OUTPUT = Path(__file__).parents[1] / "docs" / "benchmarks" / "lie_ops.md"
PACKAGES = ("lieattn", "torch", "kornia", "pypose", "jaxlie", "jax", "scipy", "mpmath")
PAIRS, AFFINE = "SE(3) log(gᵢ⁻¹gⱼ), float32", "Aff(3) log"
AFFINE_MATRICES, SCIPY_MATRICES, EXACT_MATRICES = 100_000, 300, 200
LEGEND = f"""\
Microseconds of CPU time a pair or matrix on one core, the least of {{repeats}} rounds in which all
take turns, without compilation. Peers start from their own quaternions, lieattn from matrices. The
reference is jaxlie for SE(3), scipy for Aff(3): forward / forward and backward. Errors are the
worst. SE(3): relative error of log(exp(x)), pose rounded to float32, and largest entry of
d log(exp(x))/dx - I, over {{pairs:,}} x with angles log-uniform in [1e-8, pi - 1e-3]. Aff(3):
relative error against mpmath with 60 digits on {EXACT_MATRICES} matrices exp(X), |X| in [1, 2];
timed in a batch of {AFFINE_MATRICES:,}, scipy's loop on {SCIPY_MATRICES}."""

Function = Callable[..., Any]
# Sizes are fixed, as under jax.jit; torch would leave them open from the second one on.
COMPILE: Function = partial(torch.compile, fullgraph=True, dynamic=False)


def say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)


# ---- the table -------------------------------------------------------------------------------

HEADER = """\
| operation | library | forward, µs | forward + backward, µs | time / reference \
| error, linear part | error, translation | error, gradient |
|---|---|---:|---:|---:|---:|---:|---:|"""
TIMES, ERRORS = ("forward", "backward"), ("linear", "translation", "gradient")


@dataclass
class Row:
    """One line of the table; what was not measured is absent from `figures`."""

    operation: str
    library: str
    note: str = ""  # stands in the place of the times
    size: int = 1  # elements a call
    calls: dict[str, Callable[[], Any]] = field(default_factory=dict)  # by TIMES
    figures: dict[str, float] = field(default_factory=dict)  # by TIMES, in us, and ERRORS

    def line(self, rows: list[Row]) -> str:
        reference = "scipy" if self.operation.startswith(AFFINE) else "jaxlie"
        base = next((row.figures for row in rows if row.library.startswith(reference)), {})
        own = self.figures
        ratios = (f"{own[k] / base[k]:.2g}" for k in TIMES if k in own and k in base)
        times = [f"{own[k]:.{3 if own[k] < 1000 else 4}g}" if k in own else "—" for k in TIMES]
        errors = (f"{own[k]:.1e}" if k in own else "—" for k in ERRORS)
        times[0] = self.note or times[0]
        cells = (self.operation, self.library, *times, " / ".join(ratios) or "—", *errors)
        return f"| {' | '.join(cells)} |"


def round_robin(rows: list[Row], repeats: int) -> None:
    """Time the calls of all rows in one round, then in the next; keep the least of each."""
    for turn in range(repeats):
        say(f"{rows[0].operation}: round {turn + 1} of {repeats}")
        for row in rows:
            for kind, call in row.calls.items():
                start = time.process_time()
                call()
                spent = (time.process_time() - start) / row.size * 1e6
                row.figures[kind] = min(spent, row.figures.get(kind, math.inf))


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
    for how, compiler in (("eager", None), ("torch.compile", COMPILE)):
        library = torch_library(f"{name}, {how}", Tensor.float, log, physical_exp, compiler)
        library.scale = SE3.to_physical(torch.ones(6, dtype=torch.float64))
        yield library


def physical_exp(x: Tensor) -> Tensor:
    return SE3.exp(SE3.from_physical(x))


def kornia_libraries() -> Iterator[Library]:
    from kornia.geometry.liegroup import Se3

    def log(a: Tensor, b: Tensor) -> Tensor:
        return (Se3.from_qxyz(a).inverse() * Se3.from_qxyz(b)).log()

    def exp(x: Tensor) -> Tensor:
        g = Se3.exp(x)
        return torch.cat((g.quaternion.data, g.t), dim=-1)

    yield torch_library("kornia, eager", _wxyz_t, log, exp)
    # Not fullgraph: torch.compile has to break the graph of Se3.inverse.
    compiler = partial(COMPILE, fullgraph=False)
    yield torch_library("kornia, torch.compile", _wxyz_t, log, exp, compiler)


def pypose_libraries() -> Iterator[Library]:
    import pypose

    # Eager only: torch.compile cannot trace its tensor class, with or without fullgraph.
    yield torch_library(
        "pypose, eager",
        _t_xyzw,
        lambda a, b: (pypose.SE3(a).Inv() @ pypose.SE3(b)).Log().tensor(),
        lambda x: pypose.se3(x).Exp().tensor(),
    )


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

    functions = map(jit, (log, jax.grad(loss, (0, 1)), jax.grad(round_trip, 1)))
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
    pairs = (q.repeat_interleave(side, 0), k.repeat(side, 1, 1), w.flatten(0, 1))
    ours = lieattn_libraries("lieattn", SE3.log_relative)
    rows = [_se3_row(PAIRS, library, *pairs) for library in ours]
    for name in PEERS:
        rows += [_se3_row(PAIRS, library, *pairs) for library in _installed(name)]
    operation = f"the same pairs from {side} x {side} poses"
    sets = lieattn_libraries("lieattn `relations`", lambda q, k: relations(SE3, q, k).coords)
    rows += [_se3_row(operation, library, q, k, w) for library in sets]
    round_robin(rows, repeats)
    return rows


def _installed(name: str) -> list[Library] | list[str]:
    """What a peer offers, or its name alone."""
    try:
        return list(PEERS[name]())
    except ModuleNotFoundError as error:
        say(f"{name} is left out: {error}. To install it: {INSTALL}")
        return [name]


def _se3_row(operation: str, library: Library | str, a: Tensor, b: Tensor, w: Tensor) -> Row:
    if isinstance(library, str):
        return Row(operation, library, note="not installed")
    say(f"{operation}: compile, warm up and check {library.name}")
    row = Row(operation, library.name, size=w[..., 0].numel())
    poses = (library.pack(a), library.pack(b))
    row.calls["forward"] = partial(library.forward, *poses)
    row.calls["backward"] = partial(library.gradient, *poses, library.array(w))
    for call in row.calls.values():
        call()
    if operation == PAIRS:
        row.figures = _se3_errors(library, _coordinates(row.size))
    return row


def _coordinates(n: int) -> Tensor:
    """Physical coordinates `[n, 6]`: Gaussian translation, angles from 1e-8 to pi - 1e-3."""
    rng = torch.Generator().manual_seed(0)  # the same for every library
    x = torch.randn(n, 6, dtype=torch.float64, generator=rng)
    low, high = math.log(1e-8), math.log(math.pi - 1e-3)
    angle = torch.empty(n, 1, dtype=x.dtype).uniform_(low, high, generator=rng)
    x[:, 3:] *= angle.exp() / x[:, 3:].norm(dim=-1, keepdim=True)
    return x


def _se3_errors(library: Library, x: Tensor) -> dict[str, float]:
    """Worst errors of log(exp(x)) in float32, through the functions that are timed.

    The value starts from exp(x) in float64, rounded to the library's poses: x is what one wants
    back, so that rounding counts. Each sample gives one row of the Jacobian, i mod 6.
    """
    identity = library.pack(SE3.identity(len(x), dtype=x.dtype))
    found = library.forward(identity, library.pack(physical_exp(x)))
    found = torch.tensor(found.__array__()).double() * library.scale
    rows = torch.eye(6, dtype=x.dtype)[torch.arange(len(x)) % 6]
    jacobian = library.round_trip(identity, library.array(x), library.array(rows * library.scale))
    return {
        "linear": _worst(found[:, 3:], x[:, 3:]),
        "translation": _worst(found[:, :3], x[:, :3]),
        "gradient": float((torch.tensor(jacobian.__array__()) - rows).abs().max()),
    }


# ---- Aff(3) ----------------------------------------------------------------------------------


def aff3_rows(repeats: int) -> list[Row]:
    """Logarithms of a batch of matrices, and of its first ones in a loop over scipy."""
    X = torch.randn(AFFINE_MATRICES, 12, dtype=torch.float64)
    X *= torch.empty(len(X), 1, dtype=X.dtype).uniform_(1, 2) / X.norm(dim=-1, keepdim=True)
    g = Aff3.exp(X).float()  # exact in either dtype, so one truth serves both
    truth = _exact_logarithms(g[:EXACT_MATRICES])
    rows = []
    for row, log, matrices in _aff3_entries(g):
        say(f"{row.operation}: compile, warm up and check {row.library}")
        rows.append(row)
        try:
            row.figures = _aff3_errors(log(matrices)[:EXACT_MATRICES], truth)
        except (ModuleNotFoundError, TorchDynamoException) as error:
            found = not isinstance(error, ModuleNotFoundError)
            row.note = "does not compile" if found else "not installed"
            say(f"{row.library} {row.note}: {str(error).splitlines()[0]}. Peers: {INSTALL}")
        else:
            row.size, row.calls = len(matrices), {"forward": partial(log, matrices)}
    round_robin(rows, repeats)
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
    ours = isinstance(found, Tensor)  # coordinates; scipy returns matrices
    logs = Aff3.hat(found.double()) if ours else torch.stack([*map(torch.as_tensor, found)])
    parts = {"linear": (..., slice(3), slice(3)), "translation": (..., slice(3), 3)}
    return {name: _worst(logs[part], truth[part]) for name, part in parts.items()}


def _worst(found: Tensor, truth: Tensor) -> float:
    """Largest relative error of a batch."""
    error = (found - truth).flatten(1).norm(dim=1)
    return float((error / truth.flatten(1).norm(dim=1)).max())


# ---- the script ------------------------------------------------------------------------------


def machine() -> str:
    info = Path("/proc/cpuinfo")
    lines = info.read_text().splitlines() if info.exists() else []
    models = [line.split(":")[1].strip() for line in lines if line.startswith("model name")]
    installed = {d.name.lower(): d.version for d in metadata.distributions()}
    versions = [f"{name} {installed[name]}" for name in PACKAGES if name in installed]
    cpu = models[0] if models else platform.processor()
    return f"{cpu}, one core; Python {platform.python_version()}, {', '.join(versions)}"


def main() -> None:
    parser = argparse.ArgumentParser(description="Time and accuracy of Lie group logarithms.")
    parser.add_argument("--pairs", type=int, default=1_000_000, help="pairs of SE(3) poses")
    parser.add_argument("--repeats", type=int, default=5, help="rounds, of which the least counts")
    parser.add_argument("--write", action="store_true", help=f"write docs/.../{OUTPUT.name} too")
    options = parser.parse_args()
    torch.set_num_threads(1)
    torch.manual_seed(0)
    warnings.filterwarnings("ignore")  # deprecations within the peers, scipy's error estimates
    side = max(2, math.isqrt(options.pairs))
    rows = se3_rows(side, options.repeats) + aff3_rows(options.repeats)
    table = "\n".join((HEADER, *(row.line(rows) for row in rows)))
    print(table)
    if options.write:
        legend = LEGEND.format(repeats=options.repeats, pairs=side**2)
        command = " ".join(("python benchmarks/lie_ops.py", *sys.argv[1:]))
        page = f"# Lie group logarithms\n\n{table}\n\n{legend}\n\n`{command}` on {machine()}.\n"
        OUTPUT.parent.mkdir(parents=True, exist_ok=True)
        OUTPUT.write_text(page, encoding="utf-8")
        say(f"wrote {OUTPUT}")


if __name__ == "__main__":
    main()
