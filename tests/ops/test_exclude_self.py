"""`exclude_self=None`: key i is left out for query i where the keys are the queries."""

from collections.abc import Callable

import pytest
import torch
from torch import Tensor

import lieattn as la

N = 5
POSES = la.SE3.random(2, N)
VALUES = torch.eye(N).expand(2, 1, N, N)  # sums of values are the weights of the pairs
WEIGHTS = torch.ones(1, 2)
ASK = "Pass exclude_self=True .* or exclude_self=False"


def attend(q: Tensor, k: Tensor, exclude_self: bool | None = None) -> Tensor:
    return la.lie_attention(la.SE3, q, k, VALUES, WEIGHTS, exclude_self=exclude_self)[0]


def excluded(q: Tensor, k: Tensor) -> bool:
    found = attend(q, k)
    same = [torch.equal(found, attend(q, k, choice)) for choice in (False, True)]
    assert same.count(True) == 1
    return same[1]


SAME: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "the tensor itself": lambda p: (p, p),
    "a new dimension": lambda p: (p[0][None], p[0][None]),
    "slices": lambda p: (p[:, 0:], p[:, 0:]),
    "every second set": lambda p: ((x := p.repeat(2, 1, 1, 1))[::2], x[::2]),
    "one set of a batch": lambda p: (p[:1], p[0][None]),
    "detached": lambda p: (p, p.detach()),
    "expanded": lambda p: (p[:1].expand(2, -1, -1, -1), p[:1].expand(2, -1, -1, -1)),
    "transposed": lambda p: (p.mT.contiguous().mT,) * 2,
    "numpy's memory": lambda p: (p, torch.from_numpy(p.numpy())),
    "a parameter": lambda p: (torch.nn.Parameter(p), p),
}
OTHER: dict[str, Callable[[Tensor], tuple[Tensor, Tensor]]] = {
    "a copy": lambda p: (p, p.clone()),
    "another order": lambda p: (p, p[:, torch.arange(N)]),
    "another part": lambda p: (la.SE3.random(2, N + 1)[:, 1:], p),
    "the next tokens": lambda p: ((q := la.SE3.random(2, N + 1))[:, :-1], q[:, 1:]),
    "expanded over other sets": lambda p: (p, p[:1].expand(2, -1, -1, -1)),
    "flipped sets": lambda p: (p, p.flip(0)),
}


@pytest.mark.parametrize("views", SAME.values(), ids=list(SAME))
def test_views_of_the_same_poses_leave_out_the_diagonal(
    views: Callable[[Tensor], tuple[Tensor, Tensor]],
) -> None:
    assert excluded(*views(POSES))


@pytest.mark.parametrize("views", OTHER.values(), ids=list(OTHER))
def test_other_poses_keep_the_diagonal(views: Callable[[Tensor], tuple[Tensor, Tensor]]) -> None:
    assert not excluded(*views(POSES))


def test_sets_of_other_sizes_need_no_choice() -> None:
    assert attend(la.SE3.random(2, 3), POSES).shape == (2, 1, 3, N)
    assert attend(POSES[:, :3], POSES).shape == (2, 1, 3, N)


@pytest.mark.parametrize("shape", [(0, N), (2, 0)], ids=str)
def test_sets_of_nothing_give_nothing(shape: tuple[int, int]) -> None:
    poses, values = la.SE3.random(*shape), torch.zeros(shape[0], 1, shape[1], 3)
    for keys in (poses, poses.clone()):
        out, _ = la.lie_attention(la.SE3, poses, keys, values, WEIGHTS)
        assert out.shape == values.shape


def test_closures_of_a_transform_can_be_told() -> None:
    values = VALUES[0].expand(3, 1, N, N)
    mapped = torch.func.vmap(lambda v: la.lie_attention(la.SE3, POSES, POSES, v, WEIGHTS)[0])
    torch.testing.assert_close(mapped(values)[0], attend(POSES, POSES, True))


TRANSFORMS: dict[str, Callable[..., Callable[..., Tensor]]] = {
    "vmap": torch.func.vmap,
    "grad": lambda f: torch.func.grad(lambda q, k: f(q, k).sum()),
    "compile": lambda f: torch.compile(f, backend="eager"),
    "export": lambda f: lambda q, k: torch.export.export(Module(f), (q, k)).module()(q, k),
    "trace": lambda f: torch.jit.trace(f, (POSES, POSES)),
}


class Module(torch.nn.Module):
    def __init__(self, f: Callable[..., Tensor]) -> None:
        super().__init__()
        self.f = f

    def forward(self, q: Tensor, k: Tensor) -> Tensor:
        return self.f(q, k)


@pytest.mark.filterwarnings("ignore::torch.jit.TracerWarning", "ignore::DeprecationWarning")
@pytest.mark.parametrize("name", TRANSFORMS)
def test_where_it_cannot_be_told_the_call_asks(name: str) -> None:
    torch._dynamo.reset()
    for keys in (POSES, POSES.clone()):
        with pytest.raises(ValueError, match=ASK):
            TRANSFORMS[name](attend)(POSES, keys)
    if name in ("compile", "vmap"):
        for choice in (True, False):
            found = TRANSFORMS[name](
                lambda q, k, choice=choice: la.lie_attention(
                    la.SE3, q, k, VALUES[0], WEIGHTS, exclude_self=choice
                )[0]
            )(POSES, POSES)
            torch.testing.assert_close(found, attend(POSES, POSES, choice))


def test_layers_pass_it_themselves() -> None:
    layer, h = la.LieAttention(la.SE3, 8, 2), torch.randn(2, N, 8)
    expected = layer(h, POSES)
    torch.testing.assert_close(torch.func.vmap(layer)(h, POSES), expected)
    torch._dynamo.reset()
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    torch.testing.assert_close(compiled(h, POSES), expected)


def test_a_layer_does_with_a_context_as_the_operator() -> None:
    h = torch.randn(2, N, 8)
    layers = {}
    for choice in (None, True, False):
        torch.manual_seed(0)
        layers[choice] = la.LieAttention(la.SE3, 8, 2, exclude_self=choice)

    def out(choice: bool | None, keys: Tensor) -> Tensor:
        return layers[choice](h, POSES, context=h, context_poses=keys)

    alone = layers[None](h, POSES)
    assert torch.equal(alone, layers[True](h, POSES))
    assert torch.equal(out(None, POSES), alone)
    assert torch.equal(out(None, POSES.clone()), out(False, POSES))
    assert torch.equal(out(True, POSES.clone()), alone)
    assert not torch.allclose(out(False, POSES), alone)
    with pytest.raises(ValueError, match=ASK):
        torch.func.vmap(lambda g: layers[None](h[0], g, context=h[0], context_poses=g))(POSES)
