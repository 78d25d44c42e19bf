"""The chart monitor counts pairs of different, real tokens."""

import pytest
import torch

import lieattn as la


def test_counts_near_and_across_the_cut() -> None:
    angles = torch.tensor([0.0, 1.0, torch.pi - 0.05])
    monitor = la.ChartMonitor(la.SO2, margin=0.1)
    report = monitor.update(la.SO2.from_angle(angles))
    assert (report.pairs, report.off_chart, report.near_cut) == (6, 0, 2)
    monitor.update(la.SO2.from_angle(angles))
    assert monitor.report.pairs == 12


def test_polar_chart_has_nothing_off() -> None:
    poses = la.Aff2.random(4, 16)
    poses[:, ::2] = poses[:, ::2] @ torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    assert la.ChartMonitor(la.Aff2).update(poses).off_chart > 100
    assert la.ChartMonitor(la.Aff2, chart="polar").update(poses).off_chart == 0


def test_padding_does_not_count() -> None:
    poses = torch.full((2, 5, 3, 3), torch.nan)
    poses[:, :3] = la.SE2.random(2, 3)
    mask = torch.arange(5).expand(2, -1) < 3
    report = la.ChartMonitor(la.SE2).update(poses, mask)
    assert report.pairs == 12
    assert report.off_chart == 0


def test_attached_it_sees_every_batch_of_a_model() -> None:
    model, monitor = la.CompletionModel(la.SE3), la.ChartMonitor(la.SE3)
    handle = monitor.attach(model)
    poses, mask = la.SE3.random(2, 5), torch.arange(5).expand(2, -1) < 4
    model(poses, mask=mask)
    model(poses=poses, mask=mask)
    handle.remove()
    model(poses)
    assert monitor.report.pairs == 2 * 2 * 4 * 3
    assert "48 pairs, 0 off the chart (0.0%)" in str(monitor.report)


def test_a_margin_is_an_angle() -> None:
    with pytest.raises(ValueError, match="from 0 to pi"):
        la.ChartMonitor(la.SE2, margin=4.0)
