"""What the tests of pruning share: scenes, exact answers, and the bound of the guide."""

import math
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache, partial

import torch
from torch import Tensor

import lieattn as la
from lieattn.ops.native import call as _native_call
from lieattn.ops.request import Operands

TILE = 64  # keys that are left out together


Random = Callable[..., Tensor]


def volume(random: Random, B: int, N: int, n: int) -> Tensor:
    return 6 * random(B, N, n)


def clusters(random: Random, B: int, N: int, n: int) -> Tensor:
    centres = 20 * random(B, 7, n)
    return centres[:, (7 * random(N)).long()] + 0.3 * random(B, N, n)


def outlier(random: Random, B: int, N: int, n: int) -> Tensor:
    """Nearly all keys in a far cluster, a few near by, and one at the end of the world."""
    at = 0.5 * random(B, N, n)
    at[:, N // 8 :] += 3
    at[:, -1] = 1e6
    return at


def line(random: Random, B: int, N: int, n: int) -> Tensor:
    """One after the other, as on a road: in order, unlike the others."""
    return 0.05 * torch.arange(N)[:, None] * torch.ones(n) + 0.1 * random(B, N, n)


def heap(random: Random, B: int, N: int, n: int) -> Tensor:
    """Two places, each taken many times."""
    return 2.5 * (random(B, N, 1) < 0.1) * torch.ones(n)


PLACES = {f.__name__: f for f in (volume, clusters, outlier, line, heap)}


def ragged(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return (torch.arange(Nk) < torch.tensor([Nk - Nk // 3, Nk])[:B, None])[:, None, None]


def causal(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return torch.ones(Nq, Nk, dtype=torch.bool).tril()


def arbitrary(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return random(B, H, Nq, Nk) < 0.3


def strided(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return (random(1, 1, Nk, Nq) < 0.3).mT


def of_queries(random: Random, B: int, H: int, Nq: int, Nk: int) -> Tensor:
    return random(B, 1, Nq, 1) < 0.95


MASKS = {f.__name__: f for f in (ragged, causal, arbitrary, strided, of_queries)}

# lambda / tau of translations and rotations, a row a head.
WEIGHTS = {
    "alike": [[10.0, 0.5], [10.0, 0.5]],
    "apart": [[100.0, 1.0], [10.0, 0.0], [0.1, 2.0]],
    "negative rotations": [[30.0, -0.3], [30.0, -1.0]],
    "not of distance": [[20.0, 0.5], [0.0, 1.0], [-1e-3, 1.0]],
    "sharp": [[3e4, 1.0], [1e6, 100.0]],
}


@dataclass(frozen=True)
class Scene:
    """A request on the native backend."""

    group: str = "SE3"
    places: str = "volume"
    weights: str = "alike"
    mask: str = ""
    B: int = 2
    Nq: int = 333
    Nk: int = 0  # the same set as the queries
    width: int = 5
    scale: float = 1.0  # of translations
    turns: float = 1.0  # of rotations, 0 for none
    exclude_self: bool = True
    margin: float = 0.0
    seed: int = 0

    def inputs(self) -> tuple[list[Tensor], Tensor | None]:
        """Poses of queries and keys, values, weights; mask."""
        generator = torch.Generator().manual_seed(self.seed)
        random = partial(torch.rand, generator=generator, dtype=torch.float64)
        weights = torch.tensor(WEIGHTS[self.weights], dtype=torch.float64)
        weights[:, 0] /= self.scale**2
        H, Nk = len(weights), self.Nk or self.Nq
        q = self.poses(self.Nq, generator, random)
        k = self.poses(Nk, generator, random) if self.Nk else q
        values = random(self.B, H, Nk, self.width) - 0.5
        values[..., : Nk // 2, :] += 1  # what is left out must be able to matter
        mask = MASKS[self.mask](random, self.B, H, self.Nq, Nk) if self.mask else None
        return [x.float() for x in (q, k, values, weights)], mask

    def poses(self, N: int, generator: torch.Generator, random: Random) -> Tensor:
        group = la.get_group(self.group)
        g = group.random(self.B, N, generator=generator, dtype=torch.float64)
        if self.turns == 0:
            g[..., : group.n, : group.n] = torch.eye(group.n)
        g[..., : group.n, group.n] = self.scale * PLACES[self.places](random, self.B, N, group.n)
        return g

    def sums(
        self,
        prune: float,
        backend: str = "native",
        dtype: torch.dtype = torch.float32,
        leaves: list[Tensor] | None = None,
    ) -> tuple[Tensor, Tensor]:
        """Both results, of the inputs or of others."""
        inputs, mask = self.inputs()
        return la.lie_attention(
            self.group,
            *(leaves or [x.to(dtype) for x in inputs]),
            mask,
            self.exclude_self and not self.Nk,
            backend=backend,
            margin=self.margin,
            prune=prune,
        )

    def gradients(
        self, prune: float, backend: str = "native", dtype: torch.dtype = torch.float32
    ) -> tuple[Tensor, ...]:
        """Of all inputs."""
        leaves = [x.to(dtype).requires_grad_() for x in self.inputs()[0]]
        sums = self.sums(prune, backend, leaves=leaves)
        generator = torch.Generator().manual_seed(self.seed + 1)
        cotangents = [torch.randn(x.shape, generator=generator).to(dtype) for x in sums]
        return torch.autograd.grad(sums, leaves, cotangents)

    def share(self, prune: float) -> float:
        """Of pairs and heads, those left out."""
        inputs, mask = self.inputs()
        exclude_self = self.exclude_self and not self.Nk
        mask = None if mask is None else mask[(None,) * (4 - mask.dim())]
        operands = Operands(self.group, *inputs, mask, None, exclude_self, self.margin, prune)
        call = _native_call.Call(operands)
        B, H, Nq, Nk = call.pairs
        D = la.get_group(self.group).dim
        results = [torch.empty(B, H, Nq, width) for width in (self.width, D, 3)]
        assert call.run(call.library.forward, *(x.data_ptr() for x in results))
        return call.problem.pruned / (B * H * Nq * Nk)


@cache
def exact(scene: Scene) -> tuple[Tensor, Tensor]:
    return scene.sums(0.0, "tiled", torch.float64)


@cache
def exact_gradients(scene: Scene) -> tuple[Tensor, ...]:
    return scene.gradients(0.0, "tiled", torch.float64)


def excess(scene: Scene, prune: float) -> tuple[float, float, float]:
    """Largest errors as multiples of what the guide allows: values, translations, rotations.

    Rounding is taken off: four times the largest error of the same kernel without pruning.
    """
    (_, _, values, weights), _ = scene.inputs()
    found, plain, truth = scene.sums(prune), scene.sums(0.0), exact(scene)
    n = la.get_group(scene.group).n
    span = values.amax(-2, keepdim=True) - values.amin(-2, keepdim=True)
    prunes = (weights[:, :1] > 0).double()  # heads of which something may be left out
    length = weights[:, :1].clamp(min=1e-30) ** -0.5
    moves, turns = found[1].split([n, found[1].shape[-1] - n], dim=-1)
    allowed = [
        prunes[..., None] * span,
        prunes * (norms(moves) + length),
        prunes * (norms(turns) + math.sqrt(2) * math.pi),
    ]
    errors, roundings, sizes = (
        [(x[0] - y[0]).abs(), norms((x[1] - y[1])[..., :n]), norms((x[1] - y[1])[..., n:])]
        for x, y in ((found, truth), (plain, truth), (truth, [torch.zeros(1)] * 2))
    )
    beyond = [
        e - 4 * r.max() - 1e-6 * s.max() for e, r, s in zip(errors, roundings, sizes, strict=True)
    ]
    first, second, third = (
        float((e / (prune * unit + 1e-30)).max()) for e, unit in zip(beyond, allowed, strict=True)
    )
    return first, second, third


def norms(x: Tensor) -> Tensor:
    return x.norm(dim=-1)


def check(scene: Scene, prunes: tuple[float, ...] = (0.3, 1e-2, 1e-5)) -> None:
    for prune in prunes:
        errors = excess(scene, prune)
        assert max(errors) <= 1, f"{scene}, prune {prune}: {errors} of what is allowed"
