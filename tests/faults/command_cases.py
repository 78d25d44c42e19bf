"""Every command in a small size, for tests that stop, kill or starve it."""

from __future__ import annotations

import json
import shutil
import sys
import time
from collections.abc import Iterable
from dataclasses import dataclass, field
from pathlib import Path

sys.path.append(str(Path(__file__).parents[1] / "lab"))  # for walks

from walks import write_tum

from started import Started

TRAIN = "walk.tum --steps 40 --every 5 --dim 16 --layers 1 --batch 8"
PICTURES = (".png", ".svg")


@dataclass(frozen=True)
class Case:
    """A command that is run in a folder with `walk.tum`, `gaps.tum`, and a checkpoint `trained`.

    Attributes:
        resumes: it goes on from where it was; others leave whole files or none.
        results: files that are equal bit for bit however it came to its end.
    """

    name: str
    options: str
    results: tuple[str, ...] = ()
    resumes: bool = False

    @property
    def arguments(self) -> list[str]:
        return [self.name, *self.options.split()]


CASES = {
    case.name: case
    for case in (
        Case("data", "walk.tum --save out.npz --plot out.svg", ("out.npz",)),
        Case(
            "train",
            f"{TRAIN} --out out",
            ("out/last.safetensors", "out/best.safetensors", "out/result.json"),
            resumes=True,
        ),
        Case("predict", "trained gaps.tum --save out.npz --plot out.png", ("out.npz",)),
        Case(
            "reproduce",
            "--group SE2 --model G --epochs 4 --instances 64 --seeds 1 --jobs 1 --out out",
            ("out/results.json",),
            resumes=True,
        ),
        Case("evaluate", "trained --out out.json", ("out.json",)),
        Case(
            "realdata",
            "--group SO2 --steps 10 --seeds 1 --jobs 1 --out out",
            resumes=True,
        ),
        Case("verify", "--samples 50"),
        Case(
            "bench",
            "--quick --n 8 --threads 1 --no-memory --no-peers --no-backward --no-layer --out out",
        ),
    )
}


@dataclass
class Bench:
    """Folders to run commands in, and what an uninterrupted run of each leaves."""

    home: Path
    whole: dict[str, tuple[Path, float]] = field(default_factory=dict)

    def __post_init__(self) -> None:
        write_tum(self.home / "walk.tum")
        write_tum(self.home / "gaps.tum", n=120, missing=(30, 31, 50, 80))

    def folder(self, name: str) -> Path:
        """A new folder with what commands read."""
        path = self.home / name
        path.mkdir(parents=True)
        for file in ("walk.tum", "gaps.tum"):
            shutil.copy(self.home / file, path)
        if (self.home / "trained").exists():
            (path / "trained").symlink_to(self.home / "trained")
        return path

    def run(self, case: Case, folder: Path) -> tuple[int, str, str]:
        return Started(*case.arguments, cwd=folder).end()

    def uninterrupted(self, case: Case) -> tuple[Path, float]:
        """The folder of a run to the end, and its seconds."""
        if case.name not in self.whole:
            folder, start = self.folder(f"whole-{case.name}"), time.monotonic()
            code, _, errors = self.run(case, folder)
            assert code == 0, errors
            self.whole[case.name] = folder, time.monotonic() - start
        return self.whole[case.name]

    def same(self, case: Case, folder: Path) -> str:
        """What differs from an uninterrupted run; empty if nothing does."""
        other, _ = self.uninterrupted(case)
        if case.name == "realdata":
            return "" if _runs(folder) == _runs(other) else "runs differ"
        differ = [
            name
            for name in case.results
            if not (folder / name).exists()
            or (folder / name).read_bytes() != (other / name).read_bytes()
        ]
        return f"{', '.join(differ)} differ" if differ else ""

    def partial(self, case: Case, folder: Path, beside: bool = False) -> str:
        """Files of a stopped command that are not whole; empty if all are.

        Args:
            beside: files that are written beside their place are left, as after kill -9.
        """
        other, _ = self.uninterrupted(case)
        bad = []
        for path in _files(folder):
            twin = other / path.relative_to(folder)
            if path.name.endswith(".part"):
                bad += [] if beside else [path]
            elif not twin.exists():
                bad.append(path)
            elif path.suffix in PICTURES or case.name == "bench":
                if not _complete(path):  # a stopped benchmark shows what it measured until then
                    bad.append(path)
            elif path.read_bytes() != twin.read_bytes():
                bad.append(path)
        return ", ".join(str(path.relative_to(folder)) for path in bad)


def _files(folder: Path) -> Iterable[Path]:
    return (path for path in folder.rglob("*") if path.is_file() and "trained" not in path.parts)


def _complete(path: Path) -> bool:
    """Whether a picture, a JSON file or a page is there to its end."""
    ends = {".png": b"IEND\xaeB`\x82", ".svg": b"</svg>\n", ".json": b"}\n"}
    return path.read_bytes().endswith(ends.get(path.suffix, b"\n"))


def _runs(folder: Path) -> object:
    """All of the results but the time they took."""
    found = json.loads((folder / "out" / "results.json").read_text())
    return {key: value for key, value in found.items() if key != "seconds"}


def with_model(bench: Bench) -> None:
    """Train the checkpoint that `predict` and `evaluate` read."""
    if not (bench.home / "trained").exists():
        folder, _ = bench.uninterrupted(CASES["train"])
        shutil.copytree(folder / "out", bench.home / "trained")
