"""The CPU kernel's libraries: which there are, which this machine can run, how to call one.

A library is built for AVX-512, AVX2 or any machine; the best that the machine can run is taken.
The environment variable LIEATTN_NATIVE names another one, or "off" for none.
"""

from __future__ import annotations

import ctypes
import os
from contextlib import suppress
from ctypes import c_char_p, c_double, c_int64, c_void_p
from pathlib import Path

VARIABLE = "LIEATTN_NATIVE"
FOLDER = Path(__file__).parent  # where setup.py puts them
BUILDS = ("avx512", "avx2", "baseline")  # best first
ABI = 2  # of native/library.h
UNFIT = 1  # the kernel's answer where some sets are not for it
NO_MEMORY = 3


class Problem(ctypes.Structure):
    """`LieattnProblem` of native/problem.h."""

    _fields_ = (
        *((name, c_int64) for name in ("batch", "heads", "queries", "keys", "width")),
        *((name, c_int64) for name in ("group", "exclude_self", "threads")),
        ("team", c_void_p),
        ("margin", c_double),
        ("prune", c_double),
        ("pruned", c_int64),
        *((name, c_void_p) for name in ("q_poses", "k_poses", "values", "weights")),
        ("mask", c_void_p),
        ("mask_strides", c_int64 * 4),
        ("bias", c_void_p),
        ("bias_strides", c_int64 * 4),
        ("unfit", c_void_p),
    )


class Gradients(ctypes.Structure):
    """`LieattnGradients` of native/problem.h."""

    _fields_ = (
        *((name, c_void_p) for name in ("out", "coords", "normaliser", "out_grad", "coords_grad")),
        *((name, c_void_p) for name in ("values_grad", "weights_grad", "q_grad", "k_grad")),
        ("bias_grad", c_void_p),
        ("bias_copy", c_int64),
    )


def openmp() -> int | None:
    """Where torch's threads can be asked for, if they are those of OpenMP.

    torch loads their library for everybody, so its functions are in the program's own table.
    """
    try:
        return ctypes.cast(ctypes.CDLL(None).GOMP_parallel, c_void_p).value
    except (AttributeError, OSError, TypeError):  # another library of threads, another system
        return None


class Missing(Exception):
    """There is no such library here, with the reason."""


class Library:
    """One build of the kernel."""

    def __init__(self, build: str) -> None:
        self.build, library = build, _open(build)
        # Kept as instances: ctypes makes functions anew at every access, with types forgotten.
        self.forward, self.backward = library.lieattn_forward, library.lieattn_backward
        self.forward.argtypes = [ctypes.POINTER(Problem), c_void_p, c_void_p, c_void_p]
        self.backward.argtypes = [ctypes.POINTER(Problem), ctypes.POINTER(Gradients)]


def load(build: str) -> Library:
    """The library of a build, or `Missing`."""
    runnable = _runnable()
    if build not in runnable:
        raise Missing(f"this machine cannot run the {build} build, only {', '.join(runnable)}")
    return Library(build)


def load_best() -> Library:
    """What LIEATTN_NATIVE asks for, or the best that there is; else `Missing`."""
    asked = os.environ.get(VARIABLE, "")
    if asked == "off":
        raise Missing(f"{VARIABLE}=off switches it off")
    if asked and asked not in BUILDS:
        known = ", ".join((*BUILDS, "off"))
        raise ValueError(f"{VARIABLE} is {asked!r}; known are {known}. Unset it for the best.")
    if asked:
        return load(asked)
    missing = []
    for build in _runnable():
        try:
            return load(build)
        except Missing as error:
            missing.append(str(error))
    raise Missing("; ".join(missing))


def available() -> list[Library]:
    """Builds that are here and that this machine can run, best first."""
    found = []
    for build in BUILDS:
        with suppress(Missing):
            found.append(load(build))
    return found


def _runnable() -> list[str]:
    """Asked of the build that every machine can run: it knows the processor and the system."""
    ask = _open("baseline").lieattn_builds
    ask.restype = c_char_p
    return ask().decode().split()


def _open(build: str) -> ctypes.CDLL:
    path = FOLDER / f"_{build}.so"
    if not path.exists():
        raise Missing(
            f"the {build} build is not there: install lieattn where there is a C++ compiler"
        )
    try:
        library = ctypes.CDLL(str(path))
        library.lieattn_abi.restype = c_int64
        abi = library.lieattn_abi()
    except (OSError, AttributeError) as error:
        raise Missing(f"{path.name} cannot be used ({error})") from error
    expected = ABI << 32 | ctypes.sizeof(Problem) << 16 | ctypes.sizeof(Gradients)
    if abi != expected:
        raise Missing(
            f"{path.name} was built from another version (it says {abi:#x}, expected "
            f"{expected:#x}): install lieattn again"
        )
    return library
