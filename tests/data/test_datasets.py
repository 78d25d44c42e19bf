"""Data that come with the library: of their groups, split without leaks, small, attributed."""

from __future__ import annotations

from itertools import combinations, product
from pathlib import Path

import pytest
import torch

import lieattn as la
from lieattn import data

BUILTIN = Path(data.__file__).parent / "builtin"
PAPER = ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3")


@pytest.fixture(scope="module", params=list(data.DATASETS))
def found(request: pytest.FixtureRequest) -> data.Dataset:
    return data.dataset(request.param)


def test_every_group_of_the_paper_has_one() -> None:
    assert sorted(x.group.name for x in data.DATASETS.values()) == sorted(PAPER)


def test_poses_are_of_the_group_and_none_is_padding(found: data.Dataset) -> None:
    for x in (*found.train, *found.valid, *found.test):
        assert x.group is found.group
        assert x.mask.all()
        assert len(x) >= 8
        found.group.check(x.poses)


def test_nothing_is_on_both_sides(found: data.Dataset) -> None:
    parts = [found.train, found.valid, found.test]
    assert all(parts)
    if len(found.train) > 1:  # the drive through the park is one file, cut into stretches
        sources = [{x.source for x in part} for part in parts]
        assert not (sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2])


def test_stretches_of_the_drive_are_apart() -> None:
    park = data.dataset("victoria_park")
    ends = [park.train[0].poses[-1], park.valid[0].poses[0]]
    assert (la.SE2.translation(ends[0]) - la.SE2.translation(ends[1])).norm() > 20  # metres


@pytest.mark.parametrize("name", ["emoji", "bricks"])
def test_no_set_has_a_near_copy_in_another_part(name: str) -> None:
    """Faces that differ by a mouth share most of their layers, whatever their files are called."""
    found = data.dataset(name)
    parts = [[steps(x) for x in part] for part in (found.train, found.valid, found.test)]
    for first, second in combinations(parts, 2):
        for a, b in product(first, second):
            assert len(a & b) <= min(len(a), len(b)) / 2


def steps(x: data.PoseSet) -> set[tuple[float, ...]]:
    """Relative poses from one token to the next, to two digits."""
    rows = x.group.relative(x.poses[:-1], x.poses[1:]).flatten(1)
    return {tuple(row) for row in (100 * rows).round().tolist()}


def test_it_is_said_whose_they_are(found: data.Dataset) -> None:
    assert any(word in found.about for word in ("BSD", "MIT", "CC0", "CC BY"))
    notice = (BUILTIN / "NOTICE.md").read_text(encoding="utf-8")
    assert data.DATASETS[found.name].file + ".npz" in notice


def test_they_take_little_room() -> None:
    assert sum(path.stat().st_size for path in BUILTIN.iterdir()) < 1_000_000


def test_rotations_are_those_of_the_rigid_motions() -> None:
    rigid, rotations = data.dataset("backbones"), data.dataset("orientations")
    for a, b in zip(rigid.train, rotations.train, strict=True):
        torch.testing.assert_close(a.poses[:, :3, :3], b.poses)


def test_shares_off_the_chart_are_those_of_the_documentation() -> None:
    """docs/data.md prints these."""
    share = {}
    for name in ("emoji", "bricks"):
        found = data.dataset(name)
        share[name] = data.describe([*found.train, *found.valid, *found.test]).off_chart
    assert share == pytest.approx({"emoji": 0.11, "bricks": 0.55}, abs=0.01)


def test_a_name_that_is_not_there() -> None:
    with pytest.raises(ValueError, match="unknown data set 'lego'; known are headings, "):
        data.dataset("lego")
