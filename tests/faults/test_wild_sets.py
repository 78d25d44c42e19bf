"""A set that is not admitted leaves all other sets of its batch as they are, bit for bit."""

import random
from collections.abc import Callable
from typing import Any

import pytest
import torch
from extreme_poses import OPTIONS, Asked, Option, extreme_sets
from fault_counts import LEVEL, SEED, tries
from torch import Tensor, nn

import lieattn as la
from lieattn import Group
from lieattn.ops import run_request
from lieattn.ops._derivatives import tensors_of

B, N = 4, 5
BACKENDS = ("auto", "reference", "tiled", "native")
SMALL = {"dim": 8, "heads": 2, "layers": 2}
HOW = "one pose or a whole set: NaN, infinite, zero, singular, too large, too far, too small"
# One at a time: a model whose every field is as it is by default, and what changes the geometry.
MODELS: tuple[dict[str, Any], ...] = (
    {},
    {"normalise": True},
    {"content": True, "directed": True},
    {"score": "full"},
    {"score": "mlp"},
    {"pose_updates": True},
    {"positive": "log", "output": "global"},
)


def wild(group: Group, poses: Tensor, draw: random.Random) -> Tensor:
    """A set like `poses [N, m, m]` in which one pose, or each of them, is not admitted."""
    n, found = group.n, poses.clone()
    whole = draw.random() < 0.3
    places = list(range(len(poses))) if whole else [draw.randrange(len(poses))]
    kinds = ["nan", "inf", "one nan", "zero", "huge", "largest"]
    if "translation" in [block.kind for block in group.blocks]:
        kinds += ["far", "farther", "infinitely far"]
    if "scale" in [block.kind for block in group.blocks]:
        kinds += ["tiny", "enormous"]
    if "shear" in [block.kind for block in group.blocks]:
        kinds += ["singular"]
    kind = draw.choice(kinds)
    at = found[places]
    if kind in ("nan", "inf", "zero"):
        at[:] = {"nan": torch.nan, "inf": torch.inf, "zero": 0.0}[kind]
    elif kind == "one nan":
        at[:, draw.randrange(n), draw.randrange(n)] = torch.nan
    elif kind in ("huge", "largest"):
        at[:, :n] *= {"huge": 1e25, "largest": 1e38}[kind]
    elif kind in ("far", "farther", "infinitely far"):
        at[:, draw.randrange(n), n] = {"far": 1e19, "farther": -1e36}.get(kind, -torch.inf)
    elif kind in ("tiny", "enormous"):
        at[:, :n, :n] *= {"tiny": 1e-30, "enormous": 1e30}[kind]
    else:
        at[:, 0, :n] = 0
    found[places] = at
    return found


def poses_of(group: Group, dtype: torch.dtype, seed: int) -> Tensor:
    """Ordinary sets, and now and then sets over the whole range that is promised."""
    generator = torch.Generator().manual_seed(seed)
    if seed % 3 == 0:
        return extreme_sets(group, dtype, B, N, generator)
    return group.random(B, N, generator=generator, dtype=dtype)


def others(x: Tensor, place: int) -> Tensor:
    """All sets but one."""
    return torch.cat([x[:place], x[place + 1 :]])


def by_operator(
    group: Group, option: Option, poses: Tensor, backend: str, place: int, seed: int
) -> dict[str, Tensor]:
    """Results of the other sets, and gradients of a loss of these."""
    asked = Asked(group, option, poses, seed)
    request = asked.request(poses.dtype)
    results = run_request(request, backend)
    cotangents = [c.clone() for c in asked.cotangents]
    for c in cotangents:
        c[place] = 0
    named = {k: x for k, x in tensors_of(request).items() if x.requires_grad and k != "k_poses"}
    how = {"allow_unused": True, "materialize_grads": True}
    found = torch.autograd.grad(results, list(named.values()), cotangents, **how)
    shared = ("weights", "score.")
    kept = {
        f"d {name}": x if name.startswith(shared) else others(x, place)
        for name, x in zip(named, found, strict=True)
    }
    out, coords = (others(x.detach(), place) for x in results)
    return {"out": out, "coords": coords, **kept}


def by_module(
    module: nn.Module, call: Callable[[Tensor], tuple[Tensor, ...]], poses: Tensor, place: int
) -> dict[str, Tensor]:
    """The same of a layer or a model: results, gradients of poses and of every parameter."""
    leaf = poses.clone().requires_grad_()
    results = call(leaf)
    generator = torch.Generator().manual_seed(0)
    cotangents = [torch.randn(x.shape, generator=generator).to(x.dtype) for x in results]
    for c in cotangents:
        c[place] = 0
    parameters = dict(module.named_parameters())
    how = {"allow_unused": True, "materialize_grads": True}
    leaves = [leaf, *parameters.values()]
    d_poses, *found = torch.autograd.grad(results, leaves, cotangents, **how)
    sums = {f"result {i}": others(x.detach(), place) for i, x in enumerate(results)}
    gradients = {f"d {name}": x for name, x in zip(parameters, found, strict=True)}
    return {**sums, "d poses": others(d_poses, place), **gradients}


def different(a: dict[str, Tensor], b: dict[str, Tensor]) -> list[str]:
    """What is not the same, bit for bit: a gradient may be too large for float32 in both."""
    assert a.keys() == b.keys()
    a, b = ({name: x.nan_to_num(0.1) for name, x in found.items()} for found in (a, b))
    return [name for name, x in a.items() if not torch.equal(x, b[name])]


def test_wild_sets_leave_others_alone_in_the_operator(tally: Callable[..., Any]) -> None:
    with tally("A set that is not admitted changes no bit of other sets: operator", HOW) as t:
        for i in range(tries("wild sets", least=40)):
            draw = random.Random(f"{SEED} {i}")
            group = la.get_group(draw.choice(list(la.available_groups())))
            charts = [option for option in OPTIONS if option.chart in group.charts]
            option, backend = draw.choice(charts), draw.choice(BACKENDS)
            dtype = draw.choice((torch.float32, torch.float32, torch.float64))
            poses, place = poses_of(group, dtype, i), draw.randrange(B)
            broken = poses.clone()
            broken[place] = wild(group, poses[place], draw)
            where = group, option
            try:
                expected = by_operator(*where, poses, backend, place, i)
            except ValueError as refused:
                if "cannot do this" not in str(refused):
                    raise
                t.count("refused")
                continue
            wrong = different(by_operator(*where, broken, backend, place, i), expected)
            about = f"try {i}, {group} {option.name} {backend} {dtype}, set {place}"
            t.check(not wrong, f"{about}: {wrong}")


def model_of(group: Group, changes: dict[str, Any], seed: int) -> la.LieTransformer:
    """A model away from its start, where much is zero, that reads no values."""
    if changes.get("output") == "global" and not group.is_global("polar"):
        changes = {key: value for key, value in changes.items() if key != "output"}
    model = la.LieTransformer(group, la.LieTransformerConfig(**{**SMALL, **changes}))
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for p in model.parameters():
            p += 0.2 * torch.randn(p.shape, generator=generator)
    model.check_inputs = False
    return model


def try_model(t: Any, name: str, model: la.LieTransformer, call: Any, i: int) -> None:
    draw = random.Random(f"{SEED} {i}")
    poses, place = poses_of(model.group, torch.float32, i), draw.randrange(B)
    broken = poses.clone()
    broken[place] = wild(model.group, poses[place], draw)

    def run(x: Tensor) -> tuple[Tensor, ...]:
        out = call(x)
        return out.hidden, out.delta, out.poses

    expected = by_module(model, run, poses, place)
    wrong = different(by_module(model, run, broken, place), expected)
    t.check(not wrong, f"try {i}, {model.group} {name}, set {place}: {wrong}")


def test_wild_sets_leave_others_alone_in_models(tally: Callable[..., Any]) -> None:
    with tally("A set that is not admitted changes no bit of other sets: models", HOW) as t:
        for i in range(tries("wild sets", least=40)):
            group = la.get_group(list(la.available_groups())[i % len(la.available_groups())])
            changes = MODELS[i // len(la.available_groups()) % len(MODELS)]
            model = model_of(group, changes, i)
            try_model(t, str(changes), model, model, i)


def test_wild_sets_leave_others_alone_in_layers(tally: Callable[..., Any]) -> None:
    with tally("A set that is not admitted changes no bit of other sets: layers", HOW) as t:
        for i in range(tries("wild sets", least=40) // 2):
            draw = random.Random(f"{SEED} {i}")
            group = la.get_group(draw.choice(list(la.available_groups())))
            score = draw.choice(list(la.scores.SCORES))
            how = {"content": draw.random() < 0.5, "directed": draw.random() < 0.3}
            layer = la.LieAttention(group, 8, 2, score, **how)
            generator = torch.Generator().manual_seed(i)
            h = torch.randn(B, N, 8, generator=generator)
            poses, place = poses_of(group, torch.float32, i), draw.randrange(B)
            broken = poses.clone()
            broken[place] = wild(group, poses[place], draw)

            def run(x: Tensor, layer: nn.Module = layer, h: Tensor = h) -> tuple[Tensor, ...]:
                return (layer(h, x),)

            expected = by_module(layer, run, poses, place)
            wrong = different(by_module(layer, run, broken, place), expected)
            t.check(not wrong, f"try {i}, {group} {score} {how}, set {place}: {wrong}")


@pytest.mark.skipif(LEVEL == "smoke", reason="the compiler takes a minute")
@pytest.mark.parametrize("name", la.available_groups() if LEVEL in ("full", "long") else ["SE3"])
def test_wild_sets_leave_others_alone_in_compiled_models(
    name: str, tally: Callable[..., Any]
) -> None:
    group = la.get_group(name)
    with tally("A set that is not admitted changes no bit of other sets: compiled", HOW) as t:
        torch.compiler.reset()
        model = model_of(group, {"layers": 1}, 0)
        model.check_inputs = True  # compiled models must not read values
        compiled = torch.compile(model)
        for i in range(tries("wild sets", least=40) // 8):
            try_model(t, "compiled", model, compiled, i)
