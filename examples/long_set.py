"""A transformer over a set that is shared out between processes.

    torchrun --nproc-per-node=2 examples/long_set.py
    torchrun --nproc-per-node=2 examples/long_set.py --tokens 40000

Every process holds its share of the tokens and computes their rows of the attention; a step of
training is done, and with few enough tokens it is compared with that of a single process.
"""

from __future__ import annotations

import argparse
import time

import torch
import torch.distributed as dist
from torch import Tensor

import lieattn as la
from lieattn import distributed

COMPARED = 3000  # tokens: more would be too many for one process to be fun


def build() -> la.LieTransformer:
    torch.manual_seed(0)  # the same parameters in every process
    return la.LieTransformer(la.SE3, la.LieTransformerConfig.paper(dim=32, layers=2))


def loss_of(out: la.LieTransformerOutput, target: Tensor, tokens: int) -> Tensor:
    """A sum over this process's tokens, divided by the number of all."""
    off = la.SE3.relation(out.poses, target)[0]
    return off.square().sum() / tokens


def main() -> None:
    arguments = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    arguments.add_argument("--tokens", type=int, default=2000)
    tokens = arguments.parse_args().tokens
    dist.init_process_group("gloo")
    generator = torch.Generator().manual_seed(1)
    poses = la.SE3.random(1, tokens, generator=generator)
    target = la.SE3.random(1, tokens, generator=generator)

    model = build()
    own, own_target = (distributed.shard(x, -3) for x in (poses, target))
    start = time.perf_counter()
    loss = loss_of(distributed.sharded_forward(model, own), own_target, tokens)
    loss.backward()
    distributed.sum_gradients(model.parameters())
    seconds = time.perf_counter() - start
    total = loss.detach().clone()
    dist.all_reduce(total)

    if dist.get_rank() == 0:
        size = dist.get_world_size()
        print(
            f"A set of {tokens:,} tokens on {size} processes, {own.shape[-3]:,} tokens in this one."
        )
        print(f"Forward and backward: {seconds:.2f} s, loss {total:.6f}.")
        if tokens <= COMPARED:
            compare(model, poses, target)
        else:
            print(f"Up to {COMPARED:,} tokens the same is done by one process, and compared.")
    distributed.leave()


def compare(model: la.LieTransformer, poses: Tensor, target: Tensor) -> None:
    """Do the same in this process alone."""
    alone = build()
    loss = loss_of(alone(poses), target, poses.shape[-3])
    loss.backward()
    shared, whole = (torch.cat([p.grad.flatten() for p in x.parameters()]) for x in (model, alone))
    apart = (shared - whole).norm() / whole.norm()
    print(f"One process alone: loss {loss:.6f}; gradients differ by {apart:.0e} of their size.")


if __name__ == "__main__":
    main()
