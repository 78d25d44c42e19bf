"""Ctrl-C and SIGTERM: one line from the first moments on; `import lieattn` itself loads little."""

from __future__ import annotations

import ast
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

import lieattn
from started import Started


def run(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    return done.stdout.strip()


@pytest.mark.parametrize(
    ("arguments", "kept"),
    [
        (("data", "headings"), "Nothing was written."),
        (
            ("train", "headings", "--out", "run"),
            "Nothing is lost: the same command goes on from where it was.",
        ),
    ],
)
@pytest.mark.parametrize("sent", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_during_imports_gives_one_line(
    arguments: tuple[str, ...], kept: str, sent: signal.Signals, tmp_path: Path
) -> None:
    started = Started(*arguments, cwd=tmp_path)
    time.sleep(0.3)
    code, errors = started.stopped_by(sent, everyone=True)
    name = {signal.SIGINT: "Ctrl-C", signal.SIGTERM: "SIGTERM"}[sent]
    assert errors == f"lieattn {arguments[0]}: stopped by {name}. {kept}\n"
    assert code == 128 + sent
    assert not list(tmp_path.iterdir())


def test_a_signal_waits_while_a_file_is_written(tmp_path: Path) -> None:
    code = (
        "import os, signal, sys; from pathlib import Path; from lieattn._core import stopping\n"
        "stopping.watch('lieattn data', 'Nothing was written.')\n"
        "with stopping.written(Path('a\\x1b.npz')):\n"
        "    os.kill(os.getpid(), signal.SIGTERM); print('written', flush=True)\n"
        "print('never')"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert (done.returncode, done.stdout) == (143, "written\n")
    assert done.stderr == "lieattn data: stopped by SIGTERM. Written: a\\x1b.npz.\n"


def test_a_stop_is_not_lost_in_a_finaliser_or_an_import() -> None:
    start = (
        "import os, signal; from lieattn._core import stopping\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"  # ignored in the background
        "stopping.watch('lieattn train', 'All is kept.')\n"
        "def stop(): os.kill(os.getpid(), signal.SIGINT); [None for _ in range(9)]\n"
        "with stopping.unwinding():\n"
    )
    for lost in (
        "    class Last:\n        def __del__(self): stop()\n    Last()\n",
        "    try: stop()\n    except BaseException: pass\n",
        "    try: stop()\n    except BaseException: raise ImportError('numpy') from None\n",
    ):
        command = [sys.executable, "-c", f"{start}{lost}\nprint('never')"]
        done = subprocess.run(command, capture_output=True, text=True)
        assert (done.returncode, done.stdout) == (130, "")
        assert done.stderr == "lieattn train: stopped by Ctrl-C. All is kept.\n"


def test_a_library_leaves_signals_alone() -> None:
    code = (
        "import signal; before = [signal.getsignal(x) for x in (2, 15)]; import lieattn; "
        "lieattn.SE3; import lieattn.cli; print(before == [signal.getsignal(x) for x in (2, 15)])"
    )
    assert run(code) == "True"


def test_a_signal_that_is_ignored_stays_ignored() -> None:
    code = (
        "import signal, sys; signal.signal(signal.SIGINT, signal.SIG_IGN); sys.argv[1:] = ['data'];"
        "from lieattn._core import stopping; stopping.watch('lieattn data', '');"
        "print(signal.getsignal(signal.SIGINT) is signal.SIG_IGN)"
    )
    assert run(code) == "True"


# ---- names that are loaded when they are used --------------------------------------------------


def test_import_does_not_import_torch() -> None:
    assert run("import sys, lieattn; print('torch' in sys.modules)") == "False"


def test_names_are_all_there_in_any_order() -> None:
    # Importing a submodule binds its name: that of what is called is kept.
    code = "import lieattn.groups, lieattn.geometry, lieattn as la; from lieattn import SE3; "
    assert (
        run(f"{code} print(la.get_group('SE3') is SE3, la.relations.__name__)") == "True relations"
    )
    for name in lieattn.__all__:
        assert getattr(lieattn, name) is not None
    assert dir(lieattn) == sorted(lieattn.__all__)
    with pytest.raises(AttributeError, match="no attribute 'nonsense'"):
        _ = lieattn.nonsense  # type: ignore[attr-defined]


def test_type_checkers_see_the_names_that_there_are() -> None:
    """The stub has every name, from where `import lieattn` takes it."""
    stub = Path(lieattn.__file__).with_suffix(".pyi").read_text(encoding="utf-8")
    imports = [x for x in ast.parse(stub).body if isinstance(x, ast.ImportFrom)]
    homes = {a.name: x.module for x in imports for a in x.names}
    assert all(a.asname == a.name for x in imports for a in x.names)  # exported
    assert set(homes) == set(lieattn.__all__)
    assert {name: home for name, home in homes.items() if name in lieattn._HOMES} == lieattn._HOMES
