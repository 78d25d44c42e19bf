"""Requests for every field of `Request`, and what the answer of a backend must be.

`test_request_fields.py` tries them on the backends of this machine, `triton_cases.py` on Triton's
interpreter. A field without a request here fails `test_request_fields.py`.
"""

import inspect
from copy import deepcopy
from dataclasses import dataclass, fields, replace
from functools import cache

import torch
from torch import Tensor

import lieattn as la
from lieattn import Group, scores
from lieattn.ops import Request, dispatch
from lieattn.ops._derivatives import tensors_of, with_tensors

B, H, N, D = 2, 3, 5, 4
OPERATOR = tuple(inspect.signature(la.lie_attention).parameters)


@dataclass(frozen=True)
class Case:
    """A request that uses a field, and the same one without."""

    name: str
    asked: Request
    plain: Request
    permitted: float = 0.0  # error that the field allows: it need not be made use of


def draw(*shape: int, seed: int = 0) -> Tensor:
    return torch.randn(shape, generator=torch.Generator().manual_seed(seed))


def spread(group: Group, n: int = N, batch: tuple[int, ...] = (B,), seed: int = 0) -> Tensor:
    """Poses around one, of which all pairs are on the chart."""
    return group.exp(0.4 * draw(*batch, n, group.dim, seed=seed))


def base(group: Group = la.SE3, chart: str = "principal", **changes: object) -> Request:
    """Attention from one set to another, without options."""
    weights = 0.2 + draw(H, len(group.chart_blocks(chart)), seed=3).abs()
    poses = spread(group), spread(group, seed=1)
    asked = Request(group, *poses, draw(B, H, N, D, seed=2), weights, chart=chart)
    return replace(asked, **changes)


def bits(*shape: int) -> Tensor:
    return torch.rand(shape, generator=torch.Generator().manual_seed(5)) < 0.6


def infinite(*shape: int) -> Tensor:
    """A bias of which some numbers are -inf."""
    return draw(*shape, seed=5).masked_fill(~bits(*shape), -torch.inf)


def cases_of(name: str, *changes: dict[str, object], **given: object) -> list[Case]:
    """Requests that have `given` and one of the changes, against those without the change."""
    plain = base(**given)
    return [Case(f"{name}-{i}", replace(plain, **x), plain) for i, x in enumerate(changes)]


def squared_norms(coords: Tensor) -> Tensor:
    """A score that is a function, the same for all heads."""
    logits = -coords.square().sum(-1).unsqueeze(-3)
    return logits.expand(*logits.shape[:-3], H, -1, -1)


def mixed(name: str) -> scores.Score:
    torch.manual_seed(0)
    return scores.make(name, la.SE3, H)


@cache
def cases() -> dict[str, list[Case]]:
    """By field."""
    turned = {g: spread(g) @ g.exp(3 * draw(1, N, g.dim, seed=8)) for g in (la.SO2, la.SE2, la.SO3)}
    content = {"q_content": draw(B, H, N, 3, seed=6), "k_content": draw(B, H, N, 3, seed=7)}
    lists = torch.tensor([[0, 2, -1], [4, 1, 3], [-1, -1, -1], [2, 2, 0], [1, -1, -1]])
    pairs = [(N, N), (B, 1, 1, N), (B, 1, N, 1), (B, 1, N, N), (1, H, N, N), (1, 1, N, N)]
    apart = spread(la.SE3, 2 * N, (1,)) + 0
    apart[..., :3, 3] *= 20
    keys, more = spread(la.SE3, N + 2, seed=1), draw(B, H, N + 2, D)
    return {
        "group": [
            Case(f"group-{g}", base(g), base())
            for g in la.available_groups().values()
            if g != la.SE3
        ],
        "q_poses": cases_of(
            "q_poses",
            {"q_poses": spread(la.SE3, seed=9)},
            {"q_poses": spread(la.SE3, 3)},
            {"q_poses": spread(la.SE3, batch=(), seed=9)},
            {"q_poses": spread(la.SE3).double()},
        ),
        "k_poses": cases_of(
            "k_poses",
            {"k_poses": spread(la.SE3)},
            {"k_poses": spread(la.SE3, batch=(1,), seed=9)},
            {"k_poses": spread(la.SE3).double()},
        ),
        "values": cases_of(
            "values",
            {"values": draw(B, H, N, D)},
            {"values": draw(H, N, 1)},
            {"values": draw(2, B, H, N, D)},
            {"values": draw(B, H, N, D).bfloat16()},
            {"values": draw(B, H, N, D).double()},
        ),
        "weights": cases_of(
            "weights",
            {"weights": torch.tensor([[2.0, 0.0], [0.0, 1.0], [-0.1, 0.2]])},
            {"weights": torch.ones(H, 2, dtype=torch.float64)},
            *({"weights": mixed(name)} for name in scores.SCORES),
            {"weights": squared_norms},
        ),
        "mask": cases_of(
            "mask",
            *({"mask": bits(*shape)} for shape in [(N,), (H, N, N), *pairs]),
            {"mask": torch.zeros(N, N, dtype=torch.bool)},
            {"mask": bits(N, N).mT},
        ),
        "bias": cases_of(
            "bias",
            *({"bias": draw(*shape)} for shape in pairs if shape[-1] > 1),
            {"bias": infinite(B, H, N, N)},
            {"bias": infinite(N, 1)},
            {"bias": draw(1, N).double()},
        ),
        "exclude_self": [
            *cases_of("exclude_self", {"exclude_self": True}),
            *cases_of("exclude_self-Aff2", {"exclude_self": True}, group=la.Aff2),
        ],
        "chart": [
            Case(f"chart-{g}", base(g, "polar"), base(g)) for g in (la.Aff2, la.Aff3)
        ],
        "neighbours": cases_of(
            "neighbours",
            {"neighbours": lists},
            {"neighbours": lists, "mask": bits(B, 1, N, 3), "bias": draw(B, H, N, 3)},
            {"neighbours": lists, **content},
        ),
        "margin": [
            case
            for g, poses in turned.items()
            for case in cases_of(f"margin-{g}", {"margin": 1.0}, group=g, q_poses=poses)
        ],
        "q_content": [
            *cases_of("q_content", content, {**content, "bias": draw(N, N)}),
            *cases_of("q_content-prune", content, prune=1e-6),
        ],
        "k_content": cases_of("k_content", {"k_content": draw(B, H, N, 3, seed=9)}, **content),
        "scale": cases_of(
            "scale",
            {"scale": 0.5 + draw(B, 1, 6).abs()},
            {"scale": 0.5 + draw(B, 1, 6).abs(), "dtype": torch.float64},
        ),
        "dtype": cases_of("dtype", {"dtype": torch.float64}),
        "prune": [
            replace(case, permitted=2 * case.asked.prune)
            for case in cases_of(
                "prune",
                *({"prune": share} for share in (1e-3, 0.1)),
                q_poses=apart, k_poses=apart, values=draw(1, H, 2 * N, D), exclude_self=True,
            )
        ],
        "first": [
            *cases_of("first", {"first": 2}, exclude_self=True, k_poses=keys, values=more),
            *cases_of("first-lists", {"first": 1}, exclude_self=True, neighbours=lists),
        ],
    }  # fmt: skip


def without_cases(kind: type[Request]) -> list[str]:
    """Fields that no case tries."""
    return [field.name for field in fields(kind) if not cases().get(field.name)]


# ---- answers -----------------------------------------------------------------------------------


def run(request: Request, backend: str) -> tuple[Tensor, Tensor]:
    """By `lie_attention` where it has an argument for all that is asked."""
    square = request.q_poses.shape[-3] == request.k_poses.shape[-3]
    if set(request.used) <= set(OPERATOR) and (square or not request.exclude_self):
        given = {name: getattr(request, name) for name in request.used if name != "exclude_self"}
        options = {"exclude_self": request.exclude_self, "backend": backend}
        return la.lie_attention(**given, **options)
    return dispatch.run(request, backend)


def answer(request: Request, backend: str) -> dict[str, Tensor]:
    """Both sums, and the gradients of all tensors by name, of poses along the group."""
    given = {name: x for name, x in tensors_of(request).items() if x.is_floating_point()}
    leaves = {name: x.detach().clone().requires_grad_() for name, x in given.items()}
    sums = run(with_tensors(request, leaves), backend)
    loss = sum((x.double() * draw(*x.shape, seed=i).double()).sum() for i, x in enumerate(sums))
    found = torch.autograd.grad(
        loss, list(leaves.values()), allow_unused=True, materialize_grads=True
    )
    gradients = dict(zip(leaves, found, strict=True))
    basis = request.group.basis(dtype=torch.float64)
    for name in ("q_poses", "k_poses"):
        moved = given[name].double()[..., None, :, :] @ basis
        gradients[name] = (gradients[name].double()[..., None, :, :] * moved).sum((-2, -1))
    return {"out": sums[0].detach(), "coords": sums[1].detach(), **gradients}


@cache
def expected(request: Request) -> dict[str, Tensor]:
    """The reference, in the dtypes of the request."""
    return answer(request, "reference")


@cache
def exact(request: Request) -> dict[str, Tensor]:
    """The reference in float64, of the same numbers."""
    if isinstance(request.weights, torch.nn.Module):
        request = replace(request, weights=deepcopy(request.weights).double())
    doubled = {n: x.double() for n, x in tensors_of(request).items() if x.is_floating_point()}
    return answer(with_tensors(request, doubled), "reference")


def differ(a: dict[str, Tensor], b: dict[str, Tensor], by: float) -> bool:
    """Whether a result has another shape, or is further away than `by`, in parts of its size."""
    for name, x in a.items():
        if name not in b or x.shape != b[name].shape:
            return True
        error = (x.double() - b[name].double()).norm()
        if not error <= by * max(1.0, float(b[name].double().norm())):
            return True
    return False


def check(case: Case, backend: str) -> bool:
    """The backend refuses with a reason, or answers as the reference; whether it answers."""
    try:
        found = answer(case.asked, backend)
    except ValueError as error:
        if f"backend {backend!r} cannot do this: it " not in str(error):
            raise
        return False
    same = expected(case.asked)
    assert all(x.shape == found[n].shape and x.dtype == found[n].dtype for n, x in same.items())
    half = found["out"].dtype == torch.bfloat16
    allowed = max(case.permitted, 1e-2 if half else 1e-5)
    assert not differ(found, exact(case.asked), allowed), case.name
    return True


def matters(case: Case) -> bool:
    """Whether an answer without the field would be seen to be wrong."""
    by_type = [[x.dtype for x in expected(r).values()] for r in (case.asked, case.plain)]
    return by_type[0] != by_type[1] or differ(exact(case.plain), exact(case.asked), 1e-2)
