"""Attention and a transformer on processes that hold some of the tokens each, against one.

Run by torchrun; the first process prints what differs, as JSON.
"""

import json
import weakref

import torch
import torch.distributed as dist
from torch import Tensor

import lieattn as la
from lieattn import distributed

TOKENS = 37  # not a multiple of the processes
CONTEXT = 11  # keys of cross-attention


def compare_gather() -> dict[str, float]:
    """All tokens in their order, and gradients that everybody's use of them adds to."""
    whole = torch.arange(3.0 * TOKENS).view(3, TOKENS)
    own = distributed.shard(whole, 1).clone().requires_grad_()
    everyone = distributed.gather(own, 1)
    (everyone * (1 + dist.get_rank())).sum().backward()
    uses = sum(range(1, dist.get_world_size() + 1))
    return {
        "values": apart(everyone, whole),
        "gradients": apart(own.grad, torch.full_like(own, uses)),
    }


def compare_operator(
    name: str,
    backend: str = "auto",
    tokens: int = TOKENS,
    masked: bool = False,
    biased: bool = False,
    context: int = 0,
    **options: object,
) -> dict[str, float]:
    """Sums and gradients of all that has any, with `tokens` queries and keys, or other keys."""
    group = la.get_group(name)
    generator = torch.Generator().manual_seed(0)

    def numbers(*shape: int) -> Tensor:
        return torch.randn(*shape, generator=generator)

    keys = context or tokens
    chart = str(options.get("chart", "principal"))
    given = {
        "poses": group.exp(0.3 * numbers(2, tokens, group.dim)),
        "values": numbers(2, 4, keys, 8),
        "weights": numbers(4, len(group.chart_blocks(chart))).abs() + 0.5,
    }
    shards = {"poses": -3, "values": -2}
    if context:
        given["key_poses"], shards["key_poses"] = group.exp(0.3 * numbers(2, keys, group.dim)), -3
    if biased:
        given["bias"], shards["bias"] = numbers(2, 4, tokens, keys), -2
    mask = torch.rand(2, keys, generator=generator) < 0.7 if masked else None
    goal = numbers(2, 4, tokens, 8)

    def loss(out: Tensor, coords: Tensor, target: Tensor) -> Tensor:
        return (out * target).sum() + coords.square().sum()

    whole = {key: x.clone().requires_grad_() for key, x in given.items()}
    expected = la.lie_attention(
        group,
        whole["poses"],
        whole.get("key_poses", whole["poses"]),
        whole["values"],
        whole["weights"],
        None if mask is None else mask[:, None, None, :],
        backend="reference",
        bias=whole.get("bias"),
        **{"exclude_self": not context, **options},
    )
    loss(*expected, goal).backward()

    own = {
        key: (distributed.shard(x, shards[key]) if key in shards else x).clone().requires_grad_()
        for key, x in given.items()
    }
    own_mask = None if mask is None else distributed.shard(mask, -1)
    out = distributed.sharded_attention(group, backend=backend, mask=own_mask, **own, **options)
    loss(*out, distributed.shard(goal, -2)).backward()
    distributed.sum_gradients([own["weights"]])

    def mine(key: str, x: Tensor) -> Tensor:
        return distributed.shard(x, shards[key]) if key in shards else x

    return {
        "out": apart(out[0], distributed.shard(expected[0], -2)),
        "coords": apart(out[1], distributed.shard(expected[1], -2)),
        **{f"d {key}": apart(x.grad, mine(key, whole[key].grad)) for key, x in own.items()},
    }


def compare_model(tokens: int = TOKENS, **options: object) -> dict[str, float]:
    """A step of training: poses that come out, and gradients of parameters and poses."""
    generator = torch.Generator().manual_seed(1)
    poses = la.SE3.random(2, tokens, generator=generator)
    target = la.SE3.random(2, tokens, generator=generator)
    features = torch.randn(2, tokens, 5, generator=generator)
    mask = torch.rand(2, tokens, generator=generator) < 0.8
    mask[:, :3] = True

    def build() -> la.LieTransformer:
        torch.manual_seed(0)
        config = la.LieTransformerConfig.paper(layers=2, features=5, **options)
        return la.LieTransformer(la.SE3, config)

    def loss(out: la.LieTransformerOutput, truth: Tensor, real: Tensor) -> Tensor:
        off = (out.poses - truth).square().sum((-2, -1))
        return torch.where(real, off, 0).sum() + out.hidden[real].square().sum()

    whole, model = build(), build()
    at = poses.clone().requires_grad_()
    expected = whole(at, mask=mask, features=features)
    loss(expected, target, mask).backward()
    own = distributed.shard(mask, -1)
    own_at = distributed.shard(poses, -3).clone().requires_grad_()
    out = distributed.sharded_forward(
        model, own_at, mask=own, features=distributed.shard(features, -2)
    )
    loss(out, distributed.shard(target, -3), own).backward()
    distributed.sum_gradients(model.parameters())
    # All in one: the gradient of a bias that softmax takes out is nothing but rounding.
    gradients = [torch.cat([p.grad.flatten() for p in x.parameters()]) for x in (model, whole)]
    return {
        "poses": apart(out.poses, distributed.shard(expected.poses, -3)),
        "d poses": apart(own_at.grad, distributed.shard(at.grad, -3)),
        "gradients": apart(*gradients),
    }


def apart(x: Tensor | None, y: Tensor) -> float:
    """Relative difference, the largest of all processes."""
    assert x is not None
    assert x.shape == y.shape
    norm = y.norm().clamp(min=1e-3)
    found = ((x - y).norm() / norm).detach()
    dist.all_reduce(found, dist.ReduceOp.MAX)
    return found.item()


def main() -> None:
    torch.set_num_threads(1)
    dist.init_process_group("gloo")
    found = {
        "gather": compare_gather(),
        **{f"{g}": compare_operator(g, masked=True) for g in ("SE2", "SO3", "SE3", "Aff2")},
        "polar": compare_operator("Aff2", chart="polar", margin=0.01),
        "tiled": compare_operator("SE3", "tiled", masked=True),
        "with oneself": compare_operator("SE3", exclude_self=False),
        "bias": compare_operator("SE3", biased=True, masked=True),
        "cross": compare_operator("SE3", context=CONTEXT),
        "cross, all": compare_operator("SE2", context=CONTEXT, masked=True, biased=True),
        # Fewer tokens than processes: somebody has none, and takes part all the same.
        "one token": compare_operator("SE3", tokens=1, exclude_self=False),
        "one key": compare_operator("SE3", context=1),
        "model": compare_model(),
        "model, content": compare_model(content=True, score="mlp"),
        "model, updates": compare_model(pose_updates=True),
        "model, normalised": compare_model(normalise=True, pose_updates=True),
        "model, one token": compare_model(tokens=1, exclude_self=False),
    }
    rank, processes = dist.get_rank(), weakref.ref(dist.group.WORLD)
    distributed.leave()
    assert processes() is None, "the process group outlives its end"
    if rank == 0:
        print(json.dumps(found))


if __name__ == "__main__":
    main()
