"""Windows, splits, batches: sizes, seeds, and that nothing leaks."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest
import torch
from real_files import BY_NAME
from torch.utils.data import DataLoader

import lieattn as la
from lieattn import data
from lieattn.data.sets import PoseSet


def walk(n: int, source: str = "", group: la.Group = la.SE3) -> PoseSet:
    """A set whose poses are told apart by their names."""
    generator = torch.Generator().manual_seed(n)
    poses = group.random(n, generator=generator, dtype=torch.float64)
    return data.from_tensor(group, poses, name=f"walk {source}", source=source)


# ---- windows ---------------------------------------------------------------------------------


@pytest.mark.parametrize(("n", "size", "stride"), [(10, 3, 1), (10, 3, 3), (3, 3, 2), (11, 4, 6)])
def test_windows_are_stretches_of_the_poses(n: int, size: int, stride: int) -> None:
    x = walk(n)
    cut = data.windows([x], size, stride)
    assert len(cut) == (n - size) // stride + 1
    for i, part in enumerate(cut):
        assert torch.equal(part.poses, x.poses[i * stride : i * stride + size])
        assert part.names == x.names[i * stride : i * stride + size]
        assert (part.group, part.source) == (x.group, x.source)


def test_what_is_short_is_dropped_or_kept() -> None:
    sets = [walk(10), walk(2), walk(1)]
    assert [len(x) for x in data.windows(sets, 4)] == [4, 4]
    assert [len(x) for x in data.windows(sets, 4, short="keep")] == [4, 4, 2, 2, 1]
    # Every pose is in one of them, and no window lies inside the one before it.
    kept = data.windows([walk(10)], 4, 2, short="keep")
    assert [x.name for x in kept] == ["walk [0:4]", "walk [2:6]", "walk [4:8]", "walk [6:10]"]


def test_windows_without_a_pose_are_left_out() -> None:
    mask = torch.tensor([True, True, False, False, True, True])
    x = data.from_tensor(la.SE2, la.SE2.random(6), mask)
    assert [x.name for x in data.windows([x], 2)] == ["[0:2]", "[4:6]"]


@pytest.mark.parametrize("arguments", [(0,), (3, 0), (-1, 2)])
def test_windows_need_sizes(arguments: tuple[int, ...]) -> None:
    with pytest.raises(ValueError, match="at least 1"):
        data.windows([walk(4)], *arguments)
    with pytest.raises(ValueError, match="'drop' or 'keep', got 'pad'"):
        data.windows([walk(4)], 2, short="pad")


# ---- splits ----------------------------------------------------------------------------------


def test_a_split_keeps_files_together_whatever_their_order() -> None:
    sets = [walk(5 + i % 7, f"{i % 40}.pdb") for i in range(100)]
    parts = data.split(sets, seed=3)
    sources = [{x.source for x in part} for part in parts]
    assert not (sources[0] & sources[1] | sources[0] & sources[2] | sources[1] & sources[2])
    assert sum(len(part) for part in parts) == 100
    share = [sum(len(x) for x in part) / sum(len(x) for x in sets) for part in parts]
    assert share == pytest.approx([0.8, 0.1, 0.1], abs=0.03)
    again = data.split(data.shuffle(sets, 1), seed=3)
    assert [{x.source for x in part} for part in again] == sources
    assert [{x.source for x in part} for part in data.split(sets, seed=4)] != sources


def test_every_part_of_a_split_has_a_file() -> None:
    sets = [walk(1000, "large"), walk(1, "a"), walk(1, "b")]
    assert all(data.split(sets, (0.98, 0.01, 0.01)))
    with pytest.raises(ValueError, match=r"2 files cannot be split .* leak.*array `sources`"):
        data.split(sets[:2])
    with pytest.raises(ValueError, match="two or more positive numbers"):
        data.split(sets, (float("inf"), 1.0))
    with pytest.raises(ValueError, match="two or more positive numbers"):
        data.split(sets, (1.0, 0.0))


def test_a_file_read_by_several_names_is_one_file() -> None:
    sets = [walk(9, name) for name in ("w.tum", "./w.tum", str(Path("w.tum").resolve()), "v.tum")]
    parts = data.split(sets, (0.5, 0.5))
    assert sorted(len(part) for part in parts) == [1, 3]


def test_a_trajectory_splits_into_stretches_with_gaps() -> None:
    x = walk(101)
    parts = data.split_in_order(x, gap=10)
    assert [len(part) for part in parts] == [65, 8, 8]
    indices = [[int(name) for name in part.names] for part in parts]
    assert indices[1][0] - indices[0][-1] == indices[2][0] - indices[1][-1] == 11
    assert [len(part) for part in data.split_in_order(walk(3), (0.98, 0.01, 0.01))] == [1, 1, 1]
    with pytest.raises(ValueError, match="5 poses are too few for 3 parts, gap 2"):
        data.split_in_order(walk(5), gap=2)


def test_shuffles_repeat_with_their_seed() -> None:
    sets = [walk(3, str(i)) for i in range(20)]
    assert data.shuffle(sets, 1) == data.shuffle(sets, 1) != data.shuffle(sets, 2)
    x = walk(20)
    mixed = data.shuffle_tokens(x, 5)
    assert mixed.names != x.names
    order = [int(name) for name in mixed.names]
    assert sorted(order) == list(range(20))
    assert torch.equal(mixed.poses, x.poses[order])


# ---- batches ---------------------------------------------------------------------------------


def test_a_loader_gives_batches_that_models_take() -> None:
    sets = [walk(n, str(n)) for n in (1, 4, 7, 5, 9)]
    loader = DataLoader(
        sets,
        batch_size=2,
        shuffle=True,
        generator=torch.Generator().manual_seed(0),
        collate_fn=partial(data.collate, dtype=torch.float32),
    )
    model = la.LieTransformer(la.SE3)
    tokens = 0
    for batch in loader:
        out = model(batch.poses, mask=batch.mask)
        assert out.hidden.isfinite().all()
        tokens += int(batch.mask.sum())
    assert tokens == 26


def test_workers_send_sets_home() -> None:
    sets = [data.read(BY_NAME["klaus3.g2o"])[0]] * 3
    loader = DataLoader(sets, batch_size=3, num_workers=1, collate_fn=data.collate)
    (batch,) = loader
    assert batch.poses.shape == (3, 3, 4, 4)


def test_padding_is_identities_under_a_mask(group: la.Group) -> None:
    a, b = walk(2, "a", group), walk(4, "b", group)
    batch = data.collate([a, b])
    assert batch.names == ("walk a", "walk b")
    assert batch.mask.tolist() == [[True, True, False, False], [True] * 4]
    assert torch.equal(batch.poses[0, :2], a.poses)
    assert torch.equal(batch.poses[0, 2:], group.identity(2, dtype=torch.float64))
    with pytest.raises(ValueError, match="no sets"):
        data.collate([])


def test_sets_of_two_groups_make_no_batch() -> None:
    with pytest.raises(ValueError, match=r"'walk a' is of SE\(3\), 'walk b' of SE\(2\)"):
        data.collate([walk(2, "a"), walk(2, "b", la.SE2)])


def test_hidden_tokens_are_a_share_of_those_that_are_there(generator: torch.Generator) -> None:
    mask = torch.arange(20) < torch.tensor([[20], [10], [2], [1], [0]])
    visible, hidden = data.hide(mask, 0.2, generator=generator)
    assert hidden.sum(-1).tolist() == [4, 2, 1, 0, 0]
    assert torch.equal(visible | hidden, mask)
    assert not (visible & hidden).any()
    again = data.hide(mask, 0.2, generator=torch.Generator().manual_seed(20260214))
    assert torch.equal(again[1], hidden)
    counts = torch.stack([data.hide(mask[:2, :10], 0.5)[1][1] for _ in range(400)]).sum(0)
    assert counts.min() > 120  # each token in its turn
    with pytest.raises(ValueError, match="between 0 and 1"):
        data.hide(mask, 1.0)
    with pytest.raises(ValueError, match="must be bool"):
        data.hide(mask.float())


# ---- tensors of one's own, units -------------------------------------------------------------


def test_sets_from_tensors_are_checked(group: la.Group) -> None:
    g = group.random(3)
    x = data.from_tensor(group, g)
    group.check(x.poses)
    torch.testing.assert_close(x.poses.float(), g)
    g[1] = torch.nan
    with pytest.raises(ValueError, match=r"poses\[1\] holds NaN"):
        data.from_tensor(group, g)
    mask = torch.tensor([True, False, True])
    masked = data.from_tensor(group, g, mask)
    assert torch.equal(masked.poses[1], group.identity(dtype=torch.float64))
    assert "1 of them masked" in repr(masked)
    with pytest.raises(ValueError, match=r"bool \[3\], got torch.bool \[2\]"):
        data.from_tensor(group, g, mask[:2])
    with pytest.raises(ValueError, match="2 names for 3 poses"):
        data.from_tensor(group, group.random(3), names=("a", "b"))
    with pytest.raises(ValueError, match="N at least 1"):
        data.from_tensor(group, g[:0])
    m = group.matrix_size
    with pytest.raises(ValueError, match=rf"must be \[N, {m}, {m}\], .*, got \[3, 5, 5\]"):
        data.from_tensor(group, torch.eye(5).expand(3, 5, 5))


def test_units_and_origins_leave_what_they_should(group: la.Group) -> None:
    x = walk(6, "", group)
    for other in (data.rescaled(x, 10.0), data.centred(x)):
        group.check(other.poses)
        n = group.n
        assert torch.equal(other.poses[:, :n, :n], x.poses[:, :n, :n])
    moved = data.centred(x)
    if group.matrix_size > group.n:
        assert moved.poses[:, :-1, -1].mean(0).abs().max() < 1e-12
        assert torch.equal(data.rescaled(x, 10.0).poses[:, :-1, -1], 10 * x.poses[:, :-1, -1])
    torch.testing.assert_close(
        la.relations(group, moved.poses, moved.poses).coords,
        la.relations(group, x.poses, x.poses).coords,
        atol=1e-9,
        rtol=1e-9,
    )
    with pytest.raises(ValueError, match="above 0"):
        data.rescaled(x, 0.0)


# ---- summaries -------------------------------------------------------------------------------


def test_a_summary_counts_what_the_monitor_counts(group: la.Group) -> None:
    sets = [walk(n, str(n), group) for n in (5, 12, 30)]
    summary = data.describe(sets)
    monitor = la.ChartMonitor(group)
    for x in sets:
        monitor.update(x.poses)
    assert summary.pairs == monitor.report.pairs
    assert summary.off_chart == monitor.report.off_chart / monitor.report.pairs
    assert summary.near_cut == monitor.report.near_cut / monitor.report.pairs
    assert (summary.sets, summary.poses, summary.masked) == (3, 47, 0)
    assert (summary.smallest, summary.median, summary.largest) == (5, 12, 30)


def test_advice_is_for_what_is_there() -> None:
    def advice(group: la.Group, poses: torch.Tensor) -> str:
        return " ".join(data.describe([data.from_tensor(group, poses)]).advice())

    rows = torch.tensor([[0.0, 0, 0], [1.0, 0, 0.5], [0, 1.0, 1.0]], dtype=torch.float64)
    near = la.SE2.from_xy_theta(rows)
    assert "chart='principal' will do: every pair" in advice(la.SE2, near)
    assert "no rescaling is needed" in advice(la.SE2, near)
    far = la.SE2.from_xy_theta(rows * torch.tensor([40.0, 40, 1]) + torch.tensor([1e6, 0, 0]))
    assert "divide translations by 4" in advice(la.SE2, far)
    assert "times farther from the origin" in advice(la.SE2, far)
    turn = la.SE2.from_xy_theta(rows * torch.tensor([1, 1, 2 * torch.pi]))
    assert "67% of pairs within 0.01 rad of the cut" in advice(la.SE2, turn)
    mirror = near @ torch.diag_embed(torch.tensor([[1.0, 1, 1], [1, -1, 1], [1, 1, 1]])).double()
    assert "use chart='polar': 67% of the pairs" in advice(la.Aff2, mirror)
    assert "all poses are in SE(2): group='SE2'" in advice(la.Aff2, near)
    assert "cut it with data.windows" in advice(la.SO2, la.SO2.random(5000))


def test_sets_of_different_scales_are_to_be_normalised(tmp_path: Path) -> None:
    sets = [data.rescaled(walk(9, str(s)), s) for s in (1.0, 50.0)]
    summary = data.describe(sets)
    assert summary.spread == pytest.approx(50)
    assert "50-fold between sets: use normalise=True" in " ".join(summary.advice())


def test_many_sets_and_long_ones_are_sampled() -> None:
    many = [walk(3, str(i), la.SO2) for i in range(2000)]
    assert data.describe(many).pairs < 10_000
    long = data.describe([walk(20_000, "", la.SO2)])
    assert 190_000 < long.pairs < 210_000
    assert long.near_cut == pytest.approx(0.1 / torch.pi, rel=0.2)
    assert long == data.describe([walk(20_000, "", la.SO2)])
    with pytest.raises(ValueError, match="no sets"):
        data.describe([])
