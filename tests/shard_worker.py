"""Attention and a transformer on two processes, each with some of the tokens, against one.

Run by torchrun; the first process prints what differs, as JSON.
"""

import json

import torch
import torch.distributed as dist
from torch import Tensor

import lieattn as la
from lieattn import distributed

TOKENS = 37  # not a multiple of the processes


def compare_operator(name: str, backend: str) -> dict[str, float]:
    group = la.get_group(name)
    generator = torch.Generator().manual_seed(0)
    poses = 0.3 * torch.randn(2, TOKENS, group.dim, generator=generator)
    poses = group.exp(poses)
    values = torch.randn(2, 4, TOKENS, 8, generator=generator)
    weights = torch.rand(4, len(group.blocks), generator=generator) + 0.5
    mask = torch.rand(2, TOKENS, generator=generator) < 0.8
    goal = torch.randn(2, 4, TOKENS, 8, generator=generator)

    def loss(out: Tensor, coords: Tensor, target: Tensor) -> Tensor:
        return (out * target).sum() + coords.square().sum()

    whole = [x.clone().requires_grad_() for x in (poses, values, weights)]
    allowed = mask[:, None, None, :]
    expected = la.lie_attention(group, whole[0], whole[0], *whole[1:], allowed, backend="reference")
    loss(*expected, goal).backward()

    own_poses = distributed.shard(poses, -3).clone().requires_grad_()
    own_values = distributed.shard(values, -2).clone().requires_grad_()
    own_weights = weights.clone().requires_grad_()
    own_mask = distributed.shard(mask, -1)
    out = distributed.sharded_attention(
        group, own_poses, own_values, own_weights, mask=own_mask, backend=backend
    )
    loss(*out, distributed.shard(goal, -2)).backward()
    distributed.sum_gradients([own_weights])
    return {
        "out": apart(out[0], distributed.shard(expected[0], -2)),
        "coords": apart(out[1], distributed.shard(expected[1], -2)),
        "d poses": apart(own_poses.grad, distributed.shard(whole[0].grad, -3)),
        "d values": apart(own_values.grad, distributed.shard(whole[1].grad, -2)),
        "d weights": apart(own_weights.grad, whole[2].grad),
    }


def compare_model(**options: object) -> dict[str, float]:
    generator = torch.Generator().manual_seed(1)
    poses = la.SE3.random(2, TOKENS, generator=generator)
    target = la.SE3.random(2, TOKENS, generator=generator)
    mask = torch.rand(2, TOKENS, generator=generator) < 0.8
    mask[:, :3] = True

    def build() -> la.LieTransformer:
        torch.manual_seed(0)
        return la.LieTransformer(la.SE3, la.LieTransformerConfig(layers=2, **options))

    def loss(out: la.LieTransformerOutput, truth: Tensor, real: Tensor) -> Tensor:
        off = (out.poses - truth).square().sum((-2, -1))
        return torch.where(real, off, 0).sum() + out.hidden[real].square().sum()

    whole, model = build(), build()
    expected = whole(poses, mask=mask)
    loss(expected, target, mask).backward()
    own = distributed.shard(mask, -1)
    out = distributed.sharded_forward(model, distributed.shard(poses, -3), mask=own)
    loss(out, distributed.shard(target, -3), own).backward()
    distributed.sum_gradients(model.parameters())
    # All in one: the gradient of a bias that softmax takes out is nothing but rounding.
    gradients = [torch.cat([p.grad.flatten() for p in x.parameters()]) for x in (model, whole)]
    return {
        "poses": apart(out.poses, distributed.shard(expected.poses, -3)),
        "gradients": apart(*gradients),
    }


def apart(x: Tensor, y: Tensor) -> float:
    """Relative difference, the larger one of the two processes."""
    norm = y.norm().clamp(min=1e-3)
    found = ((x - y).norm() / norm).detach()
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {
        **{f"{g} auto": compare_operator(g, "auto") for g in ("SE2", "SO3", "SE3", "Aff2")},
        "SE3 tiled": compare_operator("SE3", "tiled"),
        "model": compare_model(),
        "content": compare_model(content=True, score="mlp"),
        "updates": compare_model(pose_updates=True),
    }
    if dist.get_rank() == 0:
        print(json.dumps(found))
    dist.destroy_process_group()


if __name__ == "__main__":
    main()
