"""Sets too long for one process: every process holds some tokens and computes their rows.

Poses and values are gathered from all processes, queries stay where they are: time and memory of
attention are shared out, and results and gradients are those of one process up to rounding. Start
processes with torchrun and `torch.distributed.init_process_group`; examples/long_set.py shows it.
"""

from __future__ import annotations

import time
from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import torch
import torch.distributed as dist

# Before there is a process group: its functions take that of the time of import for a default, and
# torch imports it at the first call of a custom operator. The group would outlive
# `destroy_process_group`, and its threads now and then abort a process that exits.
import torch.distributed.nn
from torch import Tensor

from ._core.calls import by_name
from .geometry.pairs import require_set, require_sets
from .groups import Group, get_group
from .nn.transformer import LieTransformer, LieTransformerOutput, decode
from .ops import Request
from .ops.dispatch import run
from .ops.request import Logits

SETTLED = 0.5  # seconds, in which threads that have work to let go of do so
Processes = Any  # a torch.distributed.ProcessGroup; None for all


def leave() -> None:
    """End the default process group, after its threads had time to let go of their work.

    gloo's threads need the interpreter to let go of their last work, and torch (2.13) waits for
    them with the interpreter held: ended at once, a process may wait forever. Models wrapped
    by DistributedDataParallel hold on to the group: drop them first.
    """
    time.sleep(SETTLED)
    dist.destroy_process_group()


def shard(x: Tensor, dim: int, processes: Processes = None) -> Tensor:
    """The tokens of this process, of a dimension that holds all of them.

    >>> shard(torch.arange(5), 0)            # outside of torchrun there is one process
    tensor([0, 1, 2, 3, 4])
    """
    rank, size = _place(processes)
    return x.tensor_split(size, dim)[rank]


def gather(x: Tensor, dim: int, processes: Processes = None) -> Tensor:
    """The tokens of all processes, in their order: `gather(shard(x, dim), dim)` is x.

    The gradient of a token is the sum of what all processes send back, so every process has to
    take part in the backward pass, one without tokens too.

    Args:
        x: this process's share; shares may differ in size along `dim`, in nothing else.
        dim: the dimension of tokens.
    """
    if _place(processes)[1] == 1:
        return x
    return _Gather.apply(x, dim, _sizes(x.shape[dim], x.device, processes), processes)


class _Gather(torch.autograd.Function):
    @staticmethod
    def forward(ctx: Any, x: Tensor, dim: int, sizes: list[int], processes: Processes) -> Tensor:
        ctx.dim, ctx.sizes, ctx.processes = dim, sizes, processes
        rows = _padded(x.movedim(dim, 0).contiguous(), max(sizes))
        parts = [torch.empty_like(rows) for _ in sizes]
        dist.all_gather(parts, rows, group=processes)
        own = [part[:size] for part, size in zip(parts, sizes, strict=True)]
        return torch.cat(own).movedim(0, dim)

    @staticmethod
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None, None, None]:
        # A sum of everything, of which each takes its share: gloo has no reduce_scatter. A clone,
        # since the gradient may be somebody else's too.
        total = gradient.movedim(ctx.dim, 0).clone(memory_format=torch.contiguous_format)
        dist.all_reduce(total, group=ctx.processes)
        own = total.split(ctx.sizes)[_place(ctx.processes)[0]]
        return own.movedim(0, ctx.dim), None, None, None


class _Keys:
    """How keys are laid out: this process's first, then those of the next ones.

    Attention does not mind the order of keys, and this way query i is key i in every process.
    """

    def __init__(self, own: int, device: torch.device, processes: Processes) -> None:
        self.processes = processes
        self.rank, self.count = _place(processes)
        self.sizes = [own] if self.count == 1 else _sizes(own, device, processes)

    def gather(self, x: Tensor, dim: int) -> Tensor:
        """Tokens of all processes, from this one's share."""
        if self.count == 1:
            return x
        return self.turned(_Gather.apply(x, dim, self.sizes, self.processes), dim)

    def total(self, x: Tensor) -> Tensor:
        """The sum over all processes."""
        return gather(x[None], 0, self.processes).sum(0)

    def turned(self, x: Tensor, dim: int) -> Tensor:
        """What has a column for each token in the order of the set, in the order of keys."""
        if x.dim() < -dim or x.shape[dim] == 1:  # broadcasts
            return x
        return x.roll(-sum(self.sizes[: self.rank]), dim)


def sharded_attention(
    group: Group | str,
    poses: Tensor,
    values: Tensor,
    weights: Tensor | Logits,
    exclude_self: bool | None = None,
    chart: str = "principal",
    backend: str = "auto",
    *,
    key_poses: Tensor | None = None,
    mask: Tensor | None = None,
    bias: Tensor | None = None,
    margin: float = 0.0,
    processes: Processes = None,
) -> tuple[Tensor, Tensor]:
    """`lie_attention` of sets of which this process holds some tokens.

    Args:
        group, weights, chart, backend, margin: as of `lie_attention`.
        exclude_self: leave out key i for query i; by default where the keys are the queries.
        poses: `[..., n, m, m]`, this process's queries.
        values: `[..., H, k, dv]`, those of this process's keys.
        key_poses: `[..., k, m, m]`, this process's, of another set; by default the queries.
        mask: `[..., k]`, True = real token; this process's.
        bias: added to the logits, `[n, K]`, or `[..., H, n, K]` where sizes of 1 broadcast: this
            process's rows, and a column for each of the keys of all processes, in their order.
        processes: a process group; all of them by default.
    Returns:
        `out [..., H, n, dv]` and `coords [..., H, n, C]` of this process's queries. Weights get
        the gradients of those alone: call `sum_gradients`.

    >>> from lieattn import SE3
    >>> poses, values = SE3.random(1, 9), torch.randn(1, 4, 9, 8)
    >>> out, coords = sharded_attention(SE3, poses, values, torch.ones(4, 2))
    >>> out.shape, coords.shape
    (torch.Size([1, 4, 9, 8]), torch.Size([1, 4, 9, 6]))
    """
    group = get_group(group)
    own = poses if key_poses is None else key_poses
    require_sets(group, poses, own)
    if exclude_self and key_poses is not None:
        raise ValueError("exclude_self is for a set with itself: leave it out, or key_poses.")
    keys = _Keys(own.shape[-3], own.device, processes)
    request = Request(
        group,
        poses,
        keys.gather(own, -3),
        keys.gather(values, -2),
        weights,
        None if mask is None else keys.gather(mask, -1)[..., None, None, :],
        None if bias is None else keys.turned(bias, -1),
        exclude_self=key_poses is None if exclude_self is None else exclude_self,
        chart=chart,
        margin=margin,
    )
    # The checks of a request but for one: queries need not be as many as keys here.
    replace(request, exclude_self=False).check()
    return run(request, backend)


@by_name()
def sharded_forward(
    model: LieTransformer,
    poses: Tensor,
    *,
    mask: Tensor | None = None,
    features: Tensor | None = None,
    processes: Processes = None,
) -> LieTransformerOutput:
    """`model(poses, mask=, features=)` of a set of which this process holds some tokens.

    Args:
        model: the same in every process. Nothing is pruned.
        poses, mask, features: this process's, `[..., n, ...]`; mask is one of tokens.
    Returns:
        The output of this process's tokens. Parameters get the gradients of those alone: call
        `sum_gradients` after `backward`.
    """
    require_set(model.group, poses)
    if mask is not None and mask.shape != poses.shape[:-2]:
        raise ValueError(
            f"mask must have shape {list(poses.shape[:-2])}, one value a token of this process, "
            f"got {list(mask.shape)}. Masks of pairs need the whole set in one process."
        )
    keys = _Keys(poses.shape[-3], poses.device, processes)
    encoded = model.encode(poses, mask=mask, features=features, gather=keys)
    return decode(model, poses, encoded)


def sum_gradients(parameters: Iterable[Tensor], processes: Processes = None) -> None:
    """Add up the gradients of all processes, in place: those of a loss that is a sum over tokens.

    For a mean, divide every process's sum by the number of all tokens.
    """
    if _place(processes)[1] == 1:
        return
    for p in parameters:
        if p.requires_grad:
            if p.grad is None:
                p.grad = torch.zeros_like(p)
            dist.all_reduce(p.grad, group=processes)


def _place(processes: Processes) -> tuple[int, int]:
    """This process's number, and how many there are."""
    if not (dist.is_available() and dist.is_initialized()):
        return 0, 1
    return dist.get_rank(processes), dist.get_world_size(processes)


def _sizes(own: int, device: torch.device, processes: Processes) -> list[int]:
    mine = torch.tensor([own], device=device)
    everyone = [torch.empty_like(mine) for _ in range(_place(processes)[1])]
    dist.all_gather(everyone, mine, group=processes)
    return [int(x) for x in everyone]


def _padded(x: Tensor, size: int) -> Tensor:
    if x.shape[0] == size:
        return x
    return torch.cat([x, x.new_zeros(size - x.shape[0], *x.shape[1:])])
