"""Full disks, folders that cannot be written, files in the way: one line, and nothing is lost."""

import os
import random
import resource
import shutil
import signal
import subprocess
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest
from command_cases import CASES, Bench, Case, with_model
from fault_counts import LEVEL, SEED, tries

from started import Started

STARVED = ("data", "train", "predict", "reproduce", "evaluate", "bench", "realdata")  # in turns


def _mount(path: Path, *options: str) -> bool:
    """Mount a small file system of memory, where that is allowed."""
    path.mkdir(exist_ok=True)
    try:
        command = ["mount", "-t", "tmpfs", "-o", ",".join(options), "none", str(path)]
        return subprocess.run(command, capture_output=True).returncode == 0
    except OSError:  # no mount here
        return False


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Callable[..., Path | None]]:
    """Small disks; None where none can be mounted."""
    mounted: list[Path] = []

    def make(size: int) -> Path | None:
        path = tmp_path / f"disk-{len(mounted)}"
        if not _mount(path, f"size={size}"):
            return None
        mounted.append(path)
        return path

    yield make
    for path in mounted:
        subprocess.run(["umount", "-l", str(path)], check=False)


def _limit(size: int) -> None:
    """No file may grow beyond a size: writes then fail as on a full disk."""
    signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))


def _told(errors: str) -> bool:
    """Whether it was said in a line what could not be written."""
    lines = [line for line in errors.splitlines() if not line.startswith("warning")]
    return len(lines) == 1 and "cannot write" in lines[0] and "Traceback" not in errors


def _case(bench: Bench, i: int) -> Case:
    case = CASES[STARVED[i % len(STARVED)] if LEVEL != "smoke" else "data"]
    if case.name in ("predict", "evaluate"):
        with_model(bench)
    return case


def _sizes(folder: Path, case: Case) -> int:
    """Bytes that a command writes."""
    written = [p for p in folder.rglob("*") if p.is_file() and "trained" not in p.parts]
    return sum(p.stat().st_size for p in written if p.name not in ("walk.tum", "gaps.tum"))


def test_full_disks_are_said_and_lose_nothing(
    bench: Bench, disk: Callable[..., Path | None], tally: Callable[..., Any]
) -> None:
    number = tries("full disks")
    chance = random.Random(SEED)
    with tally(
        "A full disk is said in one line; when there is room, the same command ends with the same "
        "bits",
        "all commands that write, on small file systems, or with a limit on the size of files",
    ) as t:
        for i in range(number):
            case = _case(bench, i)
            whole, _ = bench.uninterrupted(case)
            folder = bench.folder(f"full-{i}")
            size = int(_sizes(whole, case) * chance.uniform(0.05, 0.7))
            inputs = sum(p.stat().st_size for p in folder.glob("*.tum"))
            small = disk(4096 * (-(-inputs // 4096) + 2 + size // 4096))
            before = None
            if small is not None:
                for path in folder.iterdir():
                    shutil.copy(path, small, follow_symlinks=False)
                folder = small
            else:
                most = max(p.stat().st_size for p in whole.rglob("*.*") if p.is_file())
                before = lambda most=most: _limit(int(most * 0.5))  # noqa: E731
            code, _, errors = Started(*case.arguments, cwd=folder, before=before).end()
            about = f"try {i}, {case.name}, {size} bytes: "
            if code == 0:
                t.count("there was room enough")
            t.check(code == 0 or (code == 2 and _told(errors)), f"{about}{code}, {errors!r}")
            if small is not None:
                subprocess.run(["mount", "-o", "remount,size=64m", str(small)], check=True)
            code, _, errors = bench.run(case, folder)
            different = bench.same(case, folder) if code == 0 else errors
            t.check(not different, f"{about}with room: {different}", times=0)
            t.count("file systems" if small is not None else "limits on files")


def test_what_is_in_the_way_is_said(
    bench: Bench, disk: Callable[..., Path | None], tally: Callable[..., Any]
) -> None:
    number = tries("full disks")
    with tally(
        "A read-only folder, or a file where a folder is wanted, is said in one line",
        "all commands that write",
    ) as t:
        for i in range(number):
            case = _case(bench, i)
            folder = bench.folder(f"way-{i}")
            where = folder / "there"
            read_only = i % 2 == 1 and disk is not None
            mounted = disk(1 << 16) if read_only else None
            if mounted is not None:
                subprocess.run(["mount", "-o", "remount,ro", str(mounted)], check=True)
                where = mounted
            elif read_only and os.geteuid():
                where.mkdir(mode=0o500)
            else:
                where.write_text("a file")
            arguments = [
                x.replace("out", str(where / "out"), 1) if _is_out(x) else x for x in case.arguments
            ]
            code, _, errors = Started(*arguments, cwd=folder).end()
            t.check(code == 2 and _told(errors), f"try {i}, {case.name}, {where}: {errors!r}")
            t.check(where.is_dir() or where.read_text() == "a file", f"try {i}: harmed", times=0)


def _is_out(argument: str) -> bool:
    return argument == "out" or argument.startswith("out.")
