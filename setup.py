"""The CPU kernel: one library a kind of machine, each left out where it cannot be built."""

import os
import platform
from glob import glob

from setuptools import Extension, setup
from setuptools.command.bdist_wheel import bdist_wheel
from setuptools.command.build_ext import build_ext

FLAGS = ["-std=c++17", "-O3", "-fvisibility=hidden", "-pthread"]
# No -ffast-math: masks are infinities.
FLAGS += ["-fno-math-errno", "-fno-trapping-math"]
# Vectors never cross the library's border, and GCC takes lanes set one by one for unset.
FLAGS += ["-Wno-psabi", "-Wno-maybe-uninitialized", "-Wno-uninitialized"]
# Many a Python was built with -g and hands it on: 6 MB of a library's 7.
FLAGS += ["-g0"]

AVX512 = ["-mavx512f", "-mavx512dq", "-mavx512vl", "-mavx512bw", "-mfma"]
BUILDS = {"baseline": []}
if platform.machine().lower() in ("x86_64", "amd64"):
    BUILDS["avx2"] = ["-mavx2", "-mfma"]
    BUILDS["avx512"] = [*AVX512, "-mprefer-vector-width=512"]


def library(build: str) -> Extension:
    """No module of Python: `lieattn.ops.native.library` opens it with ctypes."""
    return Extension(
        f"lieattn.ops.native._{build}",
        [f"native/{build}.cpp"],
        depends=sorted(glob("native/*.h")),
        language="c++",
        extra_compile_args=[*FLAGS, *BUILDS[build]],
        extra_link_args=["-pthread"],
        optional=True,  # without a compiler the package works, with torch's operators
    )


class BuildLibraries(build_ext):
    """Libraries for ctypes: no version of Python in the name, no function for its import."""

    def get_ext_filename(self, fullname: str) -> str:
        return os.path.join(*fullname.split(".")) + ".so"

    def get_export_symbols(self, ext: Extension) -> list[str]:
        return []


class Wheel(bdist_wheel):
    """One wheel for every Python, of one kind of machine."""

    def finalize_options(self) -> None:
        super().finalize_options()
        self.root_is_pure = False

    def get_tag(self) -> tuple[str, str, str]:
        return ("py3", "none", super().get_tag()[2])


setup(
    ext_modules=[library(build) for build in BUILDS],
    cmdclass={"build_ext": BuildLibraries, "bdist_wheel": Wheel},
)
