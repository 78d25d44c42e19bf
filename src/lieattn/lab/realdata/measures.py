"""What is measured of the data themselves: pairs that a chart uses, and repeated poses."""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor

from ...geometry.interpolation import interpolate
from ...geometry.pairs import relate
from ...models.infill.analogies import same, steps_to
from ...workflows.preprocessing import choose_preprocessing
from ...workflows.settings import TrainSettings
from ...workflows.sources import Parts, parts
from ...workflows.train import hidden_of_test


@torch.no_grad()
def pairs_used(settings: TrainSettings) -> dict[str, float]:
    """Share of the pairs of test windows that attention uses, by chart.

    Tokens are those of a model: visible poses, and hidden ones at their start. Pairs without
    coordinates in the chart are left out, and pairs closer to its cut than its margin.
    """
    found, exam = _exam(settings)
    group = found.group
    used: dict[str, list[Tensor]] = {chart: [] for chart in group.charts}
    for windows, hidden in exam:
        guess = interpolate(group, windows.poses, windows.mask & ~hidden)
        pairs = windows.mask[:, :, None] & windows.mask[:, None, :]
        pairs = pairs & ~torch.eye(pairs.shape[-1], dtype=torch.bool)
        for chart, valid in used.items():
            rel = relate(group, guess, guess, chart, None, True, group.chart_margin(chart))
            valid.append(rel.valid[pairs])
    return _shares(used)


@torch.no_grad()
def repeats(settings: TrainSettings) -> dict[str, float]:
    """Shares of the hidden poses of test windows that need no correction.

    Those with the linear part, or the position, of a visible pose; those that are a step from a
    visible pose which also occurs elsewhere, over as many places. And `windows`, the number of
    training windows. All in the frame of the hidden pose, up to `analogies.SAME`.
    """
    found, exam = _exam(settings)
    group, n = found.group, found.group.n
    hits: dict[str, list[Tensor]] = {"linear": [], "position": [], "step": []}
    for windows, hidden in exam:
        rows = hidden.nonzero(as_tuple=True)
        poses = windows.poses[rows[0]].double()
        seen = (windows.mask & ~hidden)[rows[0]]
        each = torch.arange(len(poses))[:, None]
        local = group.relative(poses[each, rows[1][:, None]].expand_as(poses), poses)
        unit = torch.eye(local.shape[-1], dtype=local.dtype)
        steps = steps_to(rows[1], seen)
        moved = group.relative(poses[each, steps.k], poses[each, steps.l])
        step = same(local[each, steps.j] @ moved, unit) & steps.there
        hits["linear"].append((same(local[..., :n, :n], unit[:n, :n]) & seen).any(-1))
        hits["position"].append((same(local[..., :n, n:], unit[:n, n:]) & seen).any(-1))
        hits["step"].append(step.any(-1))
    return {**_shares(hits), "windows": len(found.train)}


def _exam(settings: TrainSettings) -> tuple[Parts, Any]:
    """The data, and the test windows with what is hidden in them."""
    found = parts(settings)
    preprocessing = choose_preprocessing(settings, found.train)
    return found, hidden_of_test(settings, found, preprocessing)


def _shares(hits: dict[str, list[Tensor]]) -> dict[str, float]:
    return {name: torch.cat(x).double().mean().item() for name, x in hits.items()}
