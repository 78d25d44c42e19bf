"""Checkpoints that were damaged, and checkpoints that somebody crafted."""

import io
import json
import random
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from fault_counts import SEED, tries
from hostile import crafted
from rich.console import Console

import lieattn as la
from lieattn import data
from lieattn._core.errors import RunError
from lieattn.workflows.predict import PredictRequest, predict
from lieattn.workflows.process_group import ProcessGroup
from lieattn.workflows.settings import TrainSettings
from lieattn.workflows.store import BEST, LAST, load_trained
from lieattn.workflows.train import train

SECONDS, MEGABYTES = 10.0, 1000.0  # of work, and of memory, that a refusal may take
SMALL: dict[str, Any] = {"steps": 2, "every": 1, "dim": 8, "heads": 2, "layers": 2, "batch": 4}
MORE: dict[str, Any] = {"copies": True, "analogies": True, "absolute_frame": True, "kinds": 4}
# Two models that have all there is between them.
RUNS: dict[str, dict[str, Any]] = {
    "SE3": {"second_differences": 2, "gaps": "any"},
    "SE2": {"model": "C", "pose_updates": True, **MORE},
}


@pytest.fixture(scope="module")
def runs(tmp_path_factory: pytest.TempPathFactory) -> dict[Path, Path]:
    """Files of poses, and folders of models that were trained on them."""
    found = {}
    for name, more in RUNS.items():
        folder = tmp_path_factory.mktemp(name)
        group = la.get_group(name)
        steps = 0.1 * torch.randn(3, 40, group.dim, generator=torch.Generator().manual_seed(0))
        poses = group.identity(3, dtype=torch.float64)[:, None].repeat(1, 40, 1, 1)
        for i in range(1, 40):
            poses[:, i] = group.compose(poses[:, i - 1], group.exp(steps[:, i].double()))
        names = tuple("abcd"[i % 4] for i in range(40))
        there = torch.ones(40, dtype=torch.bool)
        sets = [data.PoseSet(group, x, there, names, f"s{k}", f"s{k}") for k, x in enumerate(poses)]
        file = folder / "walk.npz"
        data.save(file, sets)
        settings = TrainSettings((str(file),), window=12, **SMALL, **more)
        train(settings, folder / "run", Console(quiet=True), ProcessGroup())
        found[folder / "run"] = file
    return found


def flipped(content: bytes, draw: random.Random, header: bool) -> bytes:
    """One bit changed, in the header with its length, or in the data."""
    start = 8 + int.from_bytes(content[:8], "little")
    place = draw.randrange(start) if header else draw.randrange(start, len(content))
    damaged = bytearray(content)
    damaged[place] ^= 1 << draw.randrange(8)
    return bytes(damaged)


MODELS = [la.LieTransformer, la.CompletionModel, la.VectorInfillModel, la.PairCompletionModel]


def test_single_flipped_bits_of_models_are_refused(
    tmp_path: Path, tally: Callable[..., Any]
) -> None:
    with tally(
        "A model with a flipped bit is refused",
        "one bit of model.safetensors, half of them in its header, half in its data",
    ) as t:
        for i in range(tries("flipped bits", least=8)):
            draw, kind = random.Random(f"{SEED} {i}"), MODELS[i // 2 % len(MODELS)]
            folder = tmp_path / kind.__name__
            path = folder / "model.safetensors"
            if not folder.exists():
                kind(la.SE2).save_pretrained(folder)
                (folder / "whole").write_bytes(path.read_bytes())
            path.write_bytes(flipped((folder / "whole").read_bytes(), draw, header=i % 2 == 0))
            try:
                kind.from_pretrained(folder)
                refused = False
            except la.CheckpointError:
                refused = True
            t.check(refused, f"bit {i} of {kind.__name__}")


def test_single_flipped_bits_of_checkpoints_are_refused(
    runs: dict[Path, Path], tmp_path: Path, tally: Callable[..., Any]
) -> None:
    with tally(
        "A checkpoint of `lieattn train` with a flipped bit is refused",
        "one bit of best or last.safetensors, half of them in its header, half in its data",
    ) as t:
        for i in range(tries("flipped bits", least=8)):
            draw = random.Random(f"{SEED} {i}")
            whole = draw.choice(list(runs)) / draw.choice((BEST, LAST))
            path = tmp_path / whole.name
            path.write_bytes(flipped(whole.read_bytes(), draw, header=i % 2 == 0))
            try:
                load_trained(path)
                told = ""
            except RunError as error:
                told = str(error)
            t.check("no whole checkpoint" in told, f"bit {i} of {whole.name}: {told}")


def test_crafted_checkpoints_are_refused_or_used(
    runs: dict[Path, Path], tmp_path: Path, tally: Callable[..., Any]
) -> None:
    with tally(
        "A crafted checkpoint is refused in one line, or used; no traceback, no seconds lost",
        "fields, sizes, tensors and weights replaced at random under valid checksums, in a process",
    ) as t:
        for i in range(tries("crafted checkpoints", least=12)):
            file, path = _craft(runs, tmp_path, i)
            began = time.process_time()
            told = _told(path, file)
            seconds = time.process_time() - began
            t.check(told is not None, f"checkpoint {i}: ended in an exception")
            lines = told or []
            t.check(all(_plain(x) for x in lines), f"checkpoint {i}: {str(lines)[:300]}", times=0)
            t.check(seconds < SECONDS, f"checkpoint {i}: {seconds:.1f} s", times=0)
            t.count("loaded", times=int("loaded" in lines))


def _craft(runs: dict[Path, Path], tmp_path: Path, i: int) -> tuple[Path, Path]:
    """A file of poses, and a crafted checkpoint of a model of such."""
    draw = random.Random(f"{SEED} {i}")
    run = draw.choice(list(runs))
    path = tmp_path / "crafted.safetensors"
    path.write_bytes(crafted((run / draw.choice((BEST, BEST, LAST))).read_bytes(), draw))
    return runs[run], path


def _told(path: Path, file: Path) -> list[str] | None:
    """What `predict` says of a checkpoint, and whether it was loaded; None for a traceback."""
    lines = []
    try:
        load_trained(path)
        lines.append("loaded")
        screen = Console(file=io.StringIO(), width=80)
        lines += predict(PredictRequest(path, [str(file)], "3,7-9"), screen)
    except RunError as error:
        lines.append(str(error))
    except Exception as error:
        print(f"{type(error).__name__}: {str(error)[:300]}")
        return None
    return lines


def _plain(line: str) -> bool:
    return line.isprintable() and len(line) < 2000


def test_crafted_checkpoints_end_commands_in_a_line(
    runs: dict[Path, Path], tmp_path: Path, tally: Callable[..., Any]
) -> None:
    number = tries("crafted checkpoints as commands", least=2)
    with tally(
        "A command refuses a crafted checkpoint in one line, 10 s and 1 GB, or uses it",
        "`lieattn predict` with checkpoints as above; one of 40 GB that are not on the disk",
    ) as t:
        for i in range(number):
            file, path = _craft(runs, tmp_path, i)
            if i == 0:
                with open(path, "r+b") as whole:
                    whole.truncate(40 * 2**30)
            found = _measured(path, file, tmp_path / "found.json")
            lines = found["output"].splitlines()
            fine = found["code"] in (0, 2) and "Traceback" not in found["output"]
            t.check(
                fine and all(_plain(line) for line in lines),
                f"checkpoint {i}: code {found['code']}, {found['output'][-300:]!r}",
            )
            cost = f"{found['seconds']:.1f} s, {found['megabytes']:.0f} MB"
            cheap = found["seconds"] < SECONDS and found["megabytes"] < MEGABYTES
            t.check(cheap, f"checkpoint {i}: {cost}", times=0)


def _measured(path: Path, file: Path, out: Path) -> dict[str, Any]:
    """Code, output, seconds and megabytes of `lieattn predict`."""
    script = Path(__file__).with_name("measured.py")
    command = ["-m", "lieattn.cli", "predict", str(path), str(file), "--hide", "3,7-9"]
    subprocess.run([sys.executable, script, out, "120", sys.executable, *command], check=True)
    found: dict[str, Any] = json.loads(out.read_text())
    return found
