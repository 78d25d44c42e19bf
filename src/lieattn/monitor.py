"""Counts of the pairs that are off the chart, and of those close to its cut."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor, nn
from torch.utils.hooks import RemovableHandle

from ._core.masks import split_mask, without_padding
from ._core.tensors import island
from .geometry.pairs import require_set
from .groups import Group


@dataclass
class ChartReport:
    """Counts of pairs of different tokens of a set."""

    pairs: int = 0
    off_chart: int = 0  # no logarithm: attention leaves them out
    near_cut: int = 0  # on the chart, but within the margin of its cut
    margin: float = 0.1

    def __str__(self) -> str:
        share = 100 / max(self.pairs, 1)
        return (
            f"{self.pairs} pairs, {self.off_chart} off the chart ({share * self.off_chart:.1f}%), "
            f"{self.near_cut} within {self.margin:g} rad of the cut "
            f"({share * self.near_cut:.1f}%)"
        )


class ChartMonitor:
    """Counts, over batches, the pairs that are off the chart and those close to its cut.

    Args:
        group: the group of the poses.
        chart: "principal" or "polar".
        margin: the distance to the cut that counts as close, in radians.

    >>> import lieattn as la
    >>> mirror = torch.diag(torch.tensor([1.0, -1.0, 1.0]))
    >>> monitor = la.ChartMonitor(la.Aff2)
    >>> print(monitor.update(torch.stack([torch.eye(3), mirror])))
    2 pairs, 2 off the chart (100.0%), 0 within 0.1 rad of the cut (0.0%)
    """

    def __init__(self, group: Group, chart: str = "principal", margin: float = 0.1) -> None:
        if not 0 <= margin <= torch.pi:
            raise ValueError(f"margin is an angle from 0 to pi, got {margin}.")
        group.chart_blocks(chart)
        self.group, self.chart = group, chart
        self.report = ChartReport(margin=margin)

    @torch.no_grad()
    def update(self, poses: Tensor, mask: Tensor | None = None) -> ChartReport:
        """Count a batch `[..., N, m, m]` with `mask [..., N]`; returns the totals so far."""
        require_set(self.group, poses)
        split_mask(mask, poses)
        n = poses.shape[-3]
        counted = ~torch.eye(n, dtype=torch.bool, device=poses.device)
        if mask is not None:
            poses = without_padding(self.group, poses, mask)
            counted = counted & mask[..., :, None] & mask[..., None, :]
        q, k = poses[..., :, None, :, :], poses[..., None, :, :, :]
        with island(poses):
            valid = self.group.relation(q, k, self.chart)[1]
            inside = self.group.in_chart(
                self.group.relative(q, k), margin=self.report.margin, chart=self.chart
            )
        self.report.pairs += int(counted.expand(valid.shape).sum())
        self.report.off_chart += int((counted & ~valid).sum())
        self.report.near_cut += int((counted & valid & ~inside).sum())
        return self.report

    def attach(self, model: nn.Module) -> RemovableHandle:
        """Count every batch that a model receives, until the handle is removed.

        >>> import lieattn as la
        >>> model, monitor = la.LieTransformer(la.SE3), la.ChartMonitor(la.SE3)
        >>> handle = monitor.attach(model)
        >>> _ = model(la.SE3.random(2, 7))
        >>> handle.remove()
        >>> monitor.report.pairs
        84
        """

        return model.register_forward_pre_hook(self._count, with_kwargs=True)

    def _count(self, _: nn.Module, args: tuple[Any, ...], kwargs: dict[str, Any]) -> None:
        poses, mask = args[0] if args else kwargs.get("poses"), kwargs.get("mask")
        if isinstance(poses, Tensor):  # the model refuses anything else
            tokens = mask if isinstance(mask, Tensor) and mask.dim() == poses.dim() - 2 else None
            self.update(poses, tokens)
