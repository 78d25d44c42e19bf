"""Commands on groups without a rotation and on products: units of every block, of any group."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch
from walks import TINY, command

import lieattn as la
from algebras import beside
from lieattn import data
from lieattn.groups import Block
from lieattn.groups.registry import _REGISTRY, register
from lieattn.lab.paper.sequences import make_sequences
from lieattn.workflows.errors import block_errors, heading, in_units, unit_of
from lieattn.workflows.metrics import summary
from unrotated import Dilations

SHORT = ["--steps", "3", "--every", "3", "--batch", "2"]


@pytest.fixture(params=["Dil3", "T3", "SE3xSO2", "SE2xSE2", "SE3 x T2"])
def other(request: pytest.FixtureRequest) -> Iterator[la.Group]:
    """A group of the library, or one that is registered for the time of a test."""

    def known(*names: str) -> torch.Tensor:
        return beside(*(la.get_group(name).basis(dtype=torch.float64) for name in names))

    made = {
        "Dil3": lambda: Dilations("Dil3", 3),
        "SE3xSO2": lambda: la.matrix_group("SE3xSO2", known("SE3", "SO2")),
        "SE2xSE2": lambda: la.matrix_group("SE2xSE2", known("SE2", "SE2")),
    }
    if request.param not in made:
        yield la.get_group(request.param)
        return
    group = register(made[request.param]())
    yield group
    del _REGISTRY[group.name]


def walk(group: la.Group, n: int, seed: int) -> data.PoseSet:
    """Steps whose translations are some tens of units long."""
    generator = torch.Generator().manual_seed(seed)
    x = 0.2 * torch.randn(n, group.dim, generator=generator, dtype=torch.float64)
    x[:, group.coordinates_of("translation")] *= 100
    poses = [group.identity(dtype=torch.float64)]
    for step in group.exp(x):
        poses.append(group.compose(poses[-1], step))
    return data.from_tensor(group, torch.stack(poses), source=f"walk {seed}")


@pytest.mark.parametrize("other", ["Dil3", "SE2xSE2", "SE3 x T2"], indirect=True)
def test_a_model_is_trained_and_fills_gaps(other: la.Group, tmp_path: Path) -> None:
    path, run = tmp_path / "x.npz", tmp_path / "run"
    data.save(path, [walk(other, 12, seed) for seed in range(4)])
    code, out, errors = command("train", path, "--window", 6, *TINY, *SHORT, "--out", run)
    assert (code, errors) == (0, ""), out
    assert re.search(r"scale [\d.]+: translations are divided", out)
    far = float(re.search(r"off by ([\d.,]+) in position", out)[1].replace(",", ""))
    assert far > 5  # in units of the file
    code, out, errors = command("evaluate", run)
    assert (code, errors) == (0, ""), out
    for block in other.blocks:
        assert heading(block).split(",")[0][:8] in out
    code, out, errors = command("predict", run, path, "--hide", "5%", "--save", tmp_path / "y.npz")
    assert (code, errors) == (0, ""), out
    assert ("rotations in degrees" in out.replace("\n", " ")) == bool(
        other.coordinates_of("rotation")
    )
    (first, *_) = data.read(tmp_path / "y.npz")
    assert first.group is other


def test_all_translations_are_in_the_unit_of_the_file(other: la.Group) -> None:
    """Errors of poses in metres, times 1000, are those of the same poses in millimetres."""
    metres = walk(other, 20, 0)
    millimetres = data.rescaled(metres, 1000.0)
    other.check(millimetres.poses)
    found, _ = block_errors(other, metres.poses[:-1], metres.poses[1:])
    finer, _ = block_errors(other, millimetres.poses[:-1], millimetres.poses[1:])
    torch.testing.assert_close(in_units(other, found, 1000.0), in_units(other, finer, 1.0))
    rows = summary(other, found, torch.zeros(len(found)), 1000.0)["blocks"]
    for k, block in enumerate(other.blocks):
        unit = {"translation": "file", "rotation": "deg", "scale": "log"}[block.kind]
        assert rows[block.name]["unit"] == unit
        factor = {"file": 1000.0, "deg": 180 / torch.pi, "log": 1.0}[unit]
        assert rows[block.name]["mean"] == pytest.approx(factor * found[:, k].mean().item())


def test_sets_are_centred_and_described_in_all_positions(other: la.Group) -> None:
    poses = walk(other, 20, 0)
    moved = data.centred(poses)
    where = other.position_entries
    torch.testing.assert_close(
        moved.poses[:, where].mean(0), torch.zeros(int(where.sum())).double()
    )
    w = other.log_relative(poses.poses[:-1], poses.poses[1:])
    torch.testing.assert_close(other.log_relative(moved.poses[:-1], moved.poses[1:]), w)
    small, large = (data.describe([x]).distance for x in (poses, data.rescaled(poses, 10.0)))
    assert small is not None
    assert large == pytest.approx(10 * small)


def test_sequences_of_steps_are_in_the_group(other: la.Group) -> None:
    if other.name in ("Dil3", "T3"):
        sets = make_sequences(other, 5, torch.Generator().manual_seed(0), torch.float64)
        other.check(sets.poses)


def test_units_and_headings_go_by_kind() -> None:
    blocks = [Block("velocity", 3, "translation"), Block("rotation2", 3), Block("screw", 1)]
    assert [unit_of(block) for block in blocks] == ["file", "deg", "coordinate"]
    assert [heading(block) for block in blocks] == ["velocity", "rotation2, deg", "screw"]
