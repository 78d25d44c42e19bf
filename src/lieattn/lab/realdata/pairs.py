"""Which pairs of tokens a chart lets attend to each other."""

from __future__ import annotations

import torch

from ...geometry.interpolation import interpolate
from ...geometry.pairs import relate
from ...workflows.preprocessing import choose_preprocessing
from ...workflows.settings import TrainSettings
from ...workflows.sources import parts
from ...workflows.train import hidden_of_test


@torch.no_grad()
def pairs_used(settings: TrainSettings) -> dict[str, float]:
    """Share of the pairs of test windows that attention uses, by chart.

    Tokens are what a model sees: visible poses, and hidden ones where they start. Pairs are left
    out that have no coordinates in the chart, or are closer to its cut than its margin.
    """
    found = parts(settings)
    group = found.group
    used = dict.fromkeys(group.charts, 0)
    total = 0
    for windows, hidden in hidden_of_test(
        settings, found, choose_preprocessing(settings, found.train)
    ):
        guess = interpolate(group, windows.poses, windows.mask & ~hidden)
        both = windows.mask[:, :, None] & windows.mask[:, None, :]
        both = both & ~torch.eye(both.shape[-1], dtype=torch.bool)
        total += int(both.sum())
        for chart in group.charts:
            rel = relate(group, guess, guess, chart, None, True, group.chart_margin(chart))
            used[chart] += int((rel.valid & both).sum())
    return {chart: count / total for chart, count in used.items()}
