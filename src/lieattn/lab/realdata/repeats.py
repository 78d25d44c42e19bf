"""How much of what is hidden can be seen elsewhere in its window."""

from __future__ import annotations

import torch

from ...models.infill.analogies import same, steps_to
from ...workflows.preprocessing import choose_preprocessing
from ...workflows.settings import TrainSettings
from ...workflows.sources import parts
from ...workflows.train import hidden_of_test


@torch.no_grad()
def repeats(settings: TrainSettings) -> dict[str, float]:
    """Shares of the hidden poses of test windows that can be had without a correction.

    Whose linear part, or position, is that of a visible pose; which are a step from a visible pose
    that is seen elsewhere, over as many places. And `windows`, how many there are to learn from.
    All in the frame of the hidden pose, up to `_analogies.SAME`.
    """
    found = parts(settings)
    group, n = found.group, found.group.n
    counts = dict.fromkeys(("linear", "position", "step"), 0)
    total = 0
    for windows, hidden in hidden_of_test(
        settings, found, choose_preprocessing(settings, found.train)
    ):
        rows = hidden.nonzero(as_tuple=True)
        poses = windows.poses[rows[0]].double()
        seen = (windows.mask & ~hidden)[rows[0]]
        each = torch.arange(len(poses))[:, None]
        local = group.relative(poses[each, rows[1][:, None]].expand_as(poses), poses)
        unit = torch.eye(local.shape[-1], dtype=local.dtype)
        linear = same(local[..., :n, :n], unit[:n, :n]) & seen
        position = same(local[..., :n, n:], unit[:n, n:]) & seen
        steps = steps_to(rows[1], seen)
        moved = group.relative(poses[each, steps.k], poses[each, steps.l])
        step = same(local[each, steps.j] @ moved, unit) & steps.there
        total += len(poses)
        for name, hit in (("linear", linear), ("position", position), ("step", step)):
            counts[name] += int(hit.any(-1).sum())
    shares = {name: count / total for name, count in counts.items()}
    return {**shares, "windows": len(found.train)}
