"""Trains one step on two gloo processes and on one; writes the gradients for the test to compare.

Run as `python ddp_worker.py GROUP FOLDER`.
"""

import sys
from pathlib import Path

import torch
import torch.distributed as dist
import torch.multiprocessing as mp
from torch import Tensor, nn
from torch.nn.parallel import DistributedDataParallel

import lieattn as la
from lieattn import LieTransformerConfig
from lieattn.distributed import leave


def build(group: la.Group) -> la.CompletionModel:
    torch.manual_seed(0)
    return la.CompletionModel(group, LieTransformerConfig(layers=2, pose_updates=True))


def data(group: la.Group) -> tuple[Tensor, Tensor]:
    generator = torch.Generator().manual_seed(1)
    x = 0.3 * torch.randn(4, 6, group.dim, generator=generator)
    poses = group.compose(group.random(4, 1, generator=generator), group.exp(x))
    return poses, torch.arange(6).expand(4, 6) < 5


def gradients(model: nn.Module, group: la.Group, poses: Tensor, mask: Tensor) -> dict[str, Tensor]:
    out = model(poses, mask=mask)
    target = torch.full_like(out.gap, 0.5) * (torch.arange(6) < 2)
    loss = la.losses.gap_loss(out.gap, target, mask)
    loss = loss + la.losses.geodesic_loss(group, out.poses, poses.flip(0), mask)
    loss.backward()
    return {name.removeprefix("module."): p.grad for name, p in model.named_parameters()}


def work(rank: int, name: str, folder: str) -> None:
    torch.set_num_threads(1)
    group = la.get_group(name)
    dist.init_process_group(
        "gloo", init_method=f"file://{folder}/rendezvous", rank=rank, world_size=2
    )
    poses, mask = data(group)
    # Sets 0, 3 and 1, 2, so that each process flips its own pair as the single process does.
    own = torch.tensor([[0, 3], [1, 2]])[rank]
    model = DistributedDataParallel(build(group))
    torch.save(gradients(model, group, poses[own], mask[own]), Path(folder) / f"{rank}.pt")
    del model
    leave()


def main() -> None:
    name, folder = sys.argv[1:]
    group = la.get_group(name)
    torch.save(gradients(build(group), group, *data(group)), Path(folder) / "single.pt")
    mp.spawn(work, args=(name, folder), nprocs=2)


if __name__ == "__main__":
    main()
