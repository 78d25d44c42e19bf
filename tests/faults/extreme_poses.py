"""Sets of poses over the whole range that is promised, and the operator's answers to them."""

from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Generator, Tensor

import lieattn as la
from lieattn import Group
from lieattn.ops import Request, run_request
from lieattn.ops._derivatives import tensors_of
from lieattn.ops.reference import content_logits
from lieattn.scores import BlockNorm

CONDITION = {torch.float32: 1e4, torch.float64: 1e8}
HEADS, WIDTH = 2, 3
DRAWS = 16


def log_uniform(low: float, high: float, *shape: int, generator: Generator) -> Tensor:
    at = torch.rand(*shape, generator=generator, dtype=torch.float64)
    return low * (high / low) ** at


def extreme_sets(
    group: Group,
    dtype: torch.dtype,
    B: int,
    N: int,
    generator: Generator,
    condition: float = 0,
    scale: float = 1e8,
    farthest: float = 1e18,
) -> Tensor:
    """`[B, N, m, m]`: rotations are Haar in half of the sets, and equal in a set in the others.

    Conditions are log-uniform from 1 to 1e4 (float64: 1e8), scales from 1e-8 to 1e8, translations
    from 1e-3 to 1e18, as far as the group has them. Of Aff(n) a quarter of the sets are mirrored.
    """
    n = group.n
    alike = (torch.arange(B) % 2 == 1)[:, None, None, None]

    def rotations() -> Tensor:
        rotation = {2: la.SO2, 3: la.SO3}[n]
        R = rotation.random(B, N, generator=generator, dtype=torch.float64)
        return torch.where(alike, R[:, :1], R)

    kinds = [block.kind for block in group.blocks]
    linear = rotations()
    if "rotation" not in kinds:
        linear = torch.eye(n, dtype=torch.float64).expand_as(linear)
    if "shear" in kinds:
        most = condition or CONDITION[dtype]
        conditions = log_uniform(1, most, B, N, generator=generator)
        between = torch.rand(B, N, n, generator=generator, dtype=torch.float64)
        between[..., 0], between[..., -1] = 0, 1
        sigma = conditions[..., None] ** -between
        sigma = sigma / sigma.prod(-1, keepdim=True) ** (1 / n)
        linear = linear * sigma[..., None, :] @ rotations()
        linear[::4, :, :, 0] *= -1
    if "scale" in kinds:
        linear = linear * log_uniform(1 / scale, scale, B, N, 1, 1, generator=generator)
    if "translation" not in kinds:
        return linear.to(dtype)
    direction = torch.randn(B, N, n, generator=generator, dtype=torch.float64)
    direction = direction / direction.norm(dim=-1, keepdim=True)
    far = log_uniform(1e-3, farthest, B, N, 1, generator=generator)
    poses = group.identity(B, N, dtype=torch.float64)
    poses[..., :n, :n], poses[..., :n, n] = linear, direction * far
    return poses.to(dtype)


def kernel_sets(group: Group, dtype: torch.dtype, B: int, N: int, generator: Generator) -> Tensor:
    """Sets that the CPU kernel answers itself, up to the limits of what it takes."""
    wide = {"condition": 300.0, "scale": 30.0, "farthest": 1e11}
    return extreme_sets(group, dtype, B, N, generator, **wide)


@dataclass(frozen=True)
class Option:
    """What else is asked of the operator."""

    name: str
    chart: str = "principal"
    score: str | None = None  # of `la.scores`; block weights if None
    directed: bool = False
    changes: dict[str, Any] = field(default_factory=dict)  # fields of the request
    kernel: bool = False  # whether the CPU kernel answers it


OPTIONS = (
    Option("plain", kernel=True),
    Option("margin", changes={"margin": 0.05}, kernel=True),
    Option("mask", kernel=True),
    Option("bias", kernel=True),
    Option("content"),
    Option("scale"),
    Option("neighbours"),
    Option("prune", changes={"prune": 1e-3}, kernel=True),
    Option("isotropic", score="isotropic"),
    Option("diagonal", score="diagonal"),
    Option("full", score="full"),
    Option("mlp", score="mlp"),
    Option("directed", score="norm", directed=True),
    Option("polar", chart="polar"),
    Option("polar, margin", chart="polar", changes={"margin": 0.01}),
)


@dataclass
class Answer:
    """Results of a request and gradients of a random function of them, by the tensors' names."""

    out: Tensor
    coords: Tensor
    gradients: dict[str, Tensor]

    def tensors(self) -> Iterator[tuple[str, Tensor]]:
        yield "out", self.out
        yield "coords", self.coords
        yield from self.gradients.items()


class Asked:
    """One request in one precision, from numbers that are the same in every precision."""

    def __init__(self, group: Group, option: Option, poses: Tensor, seed: int) -> None:
        generator = torch.Generator().manual_seed(seed)
        self.group, self.option, self.poses = group, option, poses
        B, N = poses.shape[:2]
        blocks = group.chart_blocks(option.chart)

        def normal(*shape: int) -> Tensor:
            return torch.randn(*shape, generator=generator).to(poses.dtype)

        self.leaves = {"q_poses": poses, "values": normal(B, HEADS, N, WIDTH)}
        if option.score is None:
            self.leaves["weights"] = 0.5 + torch.rand(HEADS, len(blocks), generator=generator)
        self.fixed: dict[str, Any] = dict(option.changes)
        if option.name == "mask":
            self.fixed["mask"] = torch.rand(B, 1, N, N, generator=generator) < 0.7
        if option.name == "bias":
            self.leaves["bias"] = normal(B, HEADS, N, N)
        if option.name == "content":
            self.leaves["q_content"] = normal(B, HEADS, N, 4)
            self.leaves["k_content"] = normal(B, HEADS, N, 4)
        if option.name == "scale":
            sizes = log_uniform(1e-3, 1e3, B, 1, len(group.blocks), generator=generator)
            counts = torch.tensor([block.dim for block in group.blocks])
            self.leaves["scale"] = sizes.repeat_interleave(counts, -1).to(poses.dtype)
        if option.name == "neighbours":
            self.fixed["neighbours"] = torch.randint(-1, N, (B, N, 3), generator=generator)
        self.cotangents = (
            normal(B, HEADS, N, WIDTH),
            normal(B, HEADS, N, group.chart_dim(option.chart)),
        )
        self.seed = seed

    def request(self, dtype: torch.dtype) -> Request:
        """The request in a precision, its tensors leaves; queries and keys are one set."""
        x = {name: t.detach().to(dtype).requires_grad_() for name, t in self.leaves.items()}
        weights = x.pop("weights") if "weights" in x else self._score().to(dtype)
        poses = x.pop("q_poses")
        return Request(
            group=self.group,
            q_poses=poses,
            k_poses=poses,
            values=x.pop("values"),
            weights=weights,
            chart=self.option.chart,
            exclude_self=True,
            **x,
            **self.fixed,
        )

    def _score(self) -> la.scores.Score:
        option = self.option
        assert option.score is not None
        with torch.random.fork_rng():
            torch.manual_seed(self.seed)
            score = la.scores.make(
                option.score, self.group, HEADS, chart=option.chart, directed=option.directed
            )
            for p in score.parameters():
                torch.nn.init.normal_(p, std=0.5)
        return score

    def answer(self, backend: str, dtype: torch.dtype) -> Answer:
        """Results and gradients in a precision."""
        request = self.request(dtype)
        results = run_request(request, backend)
        named = tensors_of(request)
        named = {k: x for k, x in named.items() if x.requires_grad and k != "k_poses"}
        cotangents = [c.to(dtype) for c in self.cotangents]
        found = torch.autograd.grad(results, list(named.values()), cotangents, allow_unused=True)
        gradients = {k: g for k, g in zip(named, found, strict=True) if g is not None}
        return Answer(results[0].detach(), results[1].detach(), gradients)

    @torch.no_grad()
    def truth(self) -> "Truth":
        """The reference in float64 on the same numbers."""
        request = self.request(torch.float64)
        out, coords = run_request(request, "reference")
        size = request.values.norm(dim=-1).amax(-1, keepdim=True)
        moves = sum(b.dim for b in self.group.blocks if b.kind == "translation")
        return Truth(out, coords, size, moves, self._contested(request))

    def _contested(self, request: Request) -> Tensor:
        """Rows whose weights move by more than 1e-3 if every logit is off by a part in 1e6.

        The worst of many draws: one draw may leave two keys that nearly tie in their order. Of a
        learned kernel, whose terms cancel, the coordinates are off by a part in 1e6 instead.
        """
        rel, score = request.relations(), request.weights
        if isinstance(score, Tensor):
            score = BlockNorm(score, [b.dim for b in self.group.chart_blocks(self.option.chart)])
        logits = self._logits(request, score, rel.coords)
        allowed = rel.valid.unsqueeze(-3)
        allowed = (allowed if request.mask is None else allowed & request.mask).expand(logits.shape)
        generator = torch.Generator().manual_seed(self.seed)

        def weights(logits: Tensor) -> Tensor:
            found = torch.where(allowed, logits, -1e300).softmax(-1)
            return torch.where(allowed, found, 0)

        def off(x: Tensor) -> Tensor:
            drawn = torch.rand(x.shape, generator=generator, dtype=torch.float64)
            return x * (1 + 1e-6 * (2 * drawn - 1))

        exact = weights(logits)
        contested = torch.zeros(logits.shape[:-1], dtype=torch.bool)
        for _ in range(DRAWS):
            if self.option.score == "mlp":
                moved = weights(self._logits(request, score, off(rel.coords)))
            else:
                moved = weights(off(logits))
            contested |= (moved - exact).abs().amax(-1) > 1e-3
        return contested

    def _logits(self, request: Request, score: Any, coords: Tensor) -> Tensor:
        """All that a softmax is taken of, `[B, H, N, Nk]`."""
        logits = score(coords)
        logits = logits.expand(*logits.shape[:-3], HEADS, *logits.shape[-2:])
        if request.bias is not None:
            logits = logits + request.bias
        if request.q_content is not None and request.k_content is not None:
            logits = logits + content_logits(
                request.q_content, request.k_content, request.neighbours
            )
        return logits


@dataclass
class Truth:
    """Sums of float64, and how far off those of float32 may be."""

    out: Tensor
    coords: Tensor
    size: Tensor  # of the values, [B, H, 1]
    moves: int  # coordinates that are translations
    contested: Tensor  # [B, H, N]

    def disagree(self, answer: Answer) -> Tensor:
        """Sets in which a row is off by more than 1%, `[B]`.

        Of translations, of the other coordinates (where they are not tiny), and of the values.
        """
        n = self.moves
        found, coords = answer.coords.double(), self.coords
        near = self._far_off(found[..., n:], coords[..., n:], 1e-3)
        moved = self._far_off(found[..., :n], coords[..., :n], 1e-30)
        mixed = (answer.out.double() - self.out).norm(dim=-1) > 0.01 * self.size
        return ((near | moved | mixed) & ~self.contested).flatten(1).any(1)

    @staticmethod
    def _far_off(found: Tensor, truth: Tensor, tiny: float) -> Tensor:
        close = (found - truth).norm(dim=-1) <= 0.01 * (truth.norm(dim=-1) + tiny)
        return ~close
