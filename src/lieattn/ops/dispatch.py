"""Which backend answers a request: the first that can, or the one that is named."""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Sequence
from importlib import import_module
from typing import Protocol, cast

import torch
from torch import Tensor

from .._core.tensors import transformed
from .._core.text import unknown
from ..groups import Group
from . import reference, tiled
from .request import Request


class Backend(Protocol):
    """What a module of a backend offers.

    `unsupported` need not look for fields that `ANSWERS` does not name: they are refused before.
    """

    ANSWERS: frozenset[str]
    unsupported: Callable[[Request], str | None]
    run: Callable[[Request], tuple[Tensor, Tensor]]


logger = logging.getLogger("lieattn")

# Modules of fast backends, imported when they are first asked for: one line a backend here, and
# its name where it may be chosen.
MODULES = {"native": "lieattn.ops.native", "triton": "lieattn.ops.triton"}
# Tried before the reference, by device. Not Triton: it has not been measured on a GPU.
FAST: dict[str, tuple[str, ...]] = {"cpu": ("native",)}
BACKENDS = ("auto", "reference", "tiled", *MODULES)

# Fields of a request in words, for reasons; others go by their name.
WORDS = {
    "neighbours": "lists of neighbours",
    "q_content": "logits of contents",
    "scale": "scales that coordinates are divided by",
    "dtype": "a dtype of coordinates other than that of the poses",
    "first": "blocks of a set's queries",
}

_loaded = {"reference": cast(Backend, reference), "tiled": cast(Backend, tiled)}
_missing: dict[str, str] = {}
_logged: set[str] = set()


def run(request: Request, backend: str = "auto") -> tuple[Tensor, Tensor]:
    """The two sums of a request, by the backend of the given name."""
    return choose(request, backend).run(request)


def choose(request: Request, backend: str = "auto") -> Backend:
    """The backend of the given name, or with "auto" the fastest that can do the request."""
    if backend != "auto":
        require_backend(backend)
        return _required(request, backend)
    # Exported programs run on other machines, and in other runtimes: torch's own operators.
    fast = () if _exporting() else FAST.get(request.q_poses.device.type, ())
    for name in fast:
        reason = refusal(request, name)
        if reason is None:
            return _loaded[name]
        log_once(f"backend {name} passed over: {reason}")
    return _required(request, "reference" if tiled.single_block(request) else "tiled")


def refusal(request: Request, name: str) -> str | None:
    """Why a backend cannot answer a request, in a sentence, or None if it can."""
    missing = _load(name)
    if missing is not None:
        return missing
    backend = _loaded[name]
    unknown = [field for field in request.used if field not in backend.ANSWERS]
    if unknown:
        return f"it does not take {WORDS.get(unknown[0], unknown[0])}."
    return backend.unsupported(request)


def not_for_kernels(request: Request, groups: Sequence[Group]) -> str | None:
    """What no kernel can do, in a sentence: they take block weights, and compute in float32."""
    group, values = request.group, request.values.dtype
    if group not in groups:  # not by name: another group may have the same
        return f"it knows {', '.join(known.name for known in groups)}, not {group}."
    if not isinstance(request.weights, Tensor):
        return "it knows block weights, not scores or functions."
    poses = {request.q_poses.dtype, request.k_poses.dtype}
    if poses != {torch.float32}:
        return f"it computes in float32, and poses are {names(poses)}."
    if values not in (torch.float32, torch.float16, torch.bfloat16):
        return f"it computes in float32, and values are {values}."
    if transformed():
        return "it does not run inside vmap, grad or jvp of torch.func, nor in forward mode."
    return None


def tensors_given(request: Request) -> list[Tensor]:
    """The tensors that kernels read."""
    given = request.q_poses, request.k_poses, request.values, request.weights
    return [x for x in (*given, request.mask, request.bias) if isinstance(x, Tensor)]


def names(items: Iterable[object]) -> str:
    """For a sentence."""
    return " and ".join(sorted(map(str, items)))


def is_fast(request: Request) -> bool:
    """True where a backend of the device's own can do the request."""
    return choose(request) not in (_loaded["reference"], _loaded["tiled"])


def _exporting() -> bool:
    """While torch.export traces, or torch.compile where torch (before 2.6) cannot tell."""
    ask = getattr(torch.compiler, "is_exporting", torch.compiler.is_compiling)
    return bool(ask())


def require_backend(backend: str) -> None:
    """A name that is known."""
    if backend not in BACKENDS:
        raise ValueError(unknown("backend", backend, BACKENDS))


def _required(request: Request, backend: str) -> Backend:
    reason = refusal(request, backend)
    if reason is not None:
        raise ValueError(
            f"backend {backend!r} cannot do this: {reason.rstrip('.')}. Use backend='tiled', which "
            "does everything, or 'auto', which takes the fastest that can."
        )
    return _loaded[backend]


def _load(name: str) -> str | None:
    """Import a backend; why it cannot be had, or None."""
    if name in _loaded or name in _missing:
        return _missing.get(name)
    try:
        _loaded[name] = cast(Backend, import_module(MODULES[name]))
    except (ImportError, OSError) as error:  # a library that is missing, or of another machine
        _missing[name] = f"it is not there ({error})."
    return _missing.get(name)


# Imports cannot be traced, so the compiler calls `_load` and keeps the answer. This is what
# torch.compiler.assume_constant_result does, after importing the compiler, which takes seconds.
_load._dynamo_marked_constant = True  # type: ignore[attr-defined]


def log_once(message: str) -> None:
    """Log at DEBUG level, the first time."""
    if torch.compiler.is_compiling() or message in _logged:
        return
    _logged.add(message)
    logger.debug(message)
