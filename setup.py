"""The CPU kernel: one library a kind of machine, each left out where it cannot be built."""

import platform
from glob import glob

from setuptools import Extension, setup

FLAGS = ["-std=c++17", "-O3", "-fvisibility=hidden", "-pthread"]
# No -ffast-math: masks are infinities.
FLAGS += ["-fno-math-errno", "-fno-trapping-math"]
# Vectors never cross the library's border, and GCC takes lanes set one by one for unset.
FLAGS += ["-Wno-psabi", "-Wno-maybe-uninitialized", "-Wno-uninitialized"]

AVX512 = ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma"]
BUILDS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    BUILDS["avx2"] = ["-mavx2", "-mfma"]
    BUILDS["avx512"] = [*AVX512, "-mprefer-vector-width=512"]


def library(build: str) -> Extension:
    """No module of Python: `lieattn.ops._native_library` opens it with ctypes."""
    return Extension(
        f"lieattn.ops._native_{build}",
        [f"native/{build}.cpp"],
        depends=sorted(glob("native/*.h")),
        language="c++",
        extra_compile_args=[*FLAGS, *BUILDS[build]],
        extra_link_args=["-pthread"],
        optional=True,  # without a compiler the package works, with torch's operators
    )


setup(ext_modules=[library(build) for build in BUILDS])
