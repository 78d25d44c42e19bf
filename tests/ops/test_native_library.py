"""Which library the native backend loads, and what it says without one."""

from pathlib import Path

import pytest

from lieattn.ops.native import library as _native_library
from native_cases import LIBRARIES, needs_kernel

pytestmark = pytest.mark.usefixtures("seeded")


@needs_kernel
def test_the_best_library_is_taken_unless_another_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("LIEATTN_NATIVE", raising=False)
    assert _native_library.load_best().build == next(iter(LIBRARIES))
    for build in LIBRARIES:
        monkeypatch.setenv("LIEATTN_NATIVE", build)
        assert _native_library.load_best().build == build


@pytest.mark.parametrize(("value", "error"), [("off", "switches it off"), ("neon", "known are")])
def test_the_kernel_can_be_switched_off(
    value: str, error: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("LIEATTN_NATIVE", value)
    kind = _native_library.Missing if value == "off" else ValueError
    with pytest.raises(kind, match=error):
        _native_library.load_best()


@needs_kernel
def test_a_library_that_the_machine_cannot_run_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native_library, "_runnable", lambda: ["baseline"])
    monkeypatch.setenv("LIEATTN_NATIVE", "avx512")
    with pytest.raises(_native_library.Missing, match="cannot run the avx512 build, only baseline"):
        _native_library.load_best()
    monkeypatch.delenv("LIEATTN_NATIVE")
    assert _native_library.load_best().build == "baseline"


def test_a_library_that_was_not_built_is_refused(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(_native_library, "FOLDER", tmp_path)
    with pytest.raises(_native_library.Missing, match=r"baseline build is not there: .* compiler"):
        _native_library.load_best()


@needs_kernel
def test_a_library_of_another_version_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(_native_library, "ABI", _native_library.ABI + 1)
    with pytest.raises(_native_library.Missing, match="another version"):
        _native_library.load_best()
