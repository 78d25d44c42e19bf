"""Life with torch: compile, export, ONNX, DDP, autocast, vmap, copies, seeds."""

import copy
import os
import pickle
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from torch import Tensor, nn

import lieattn as la
from lieattn import Group, LieTransformerConfig

GROUPS = [la.SE3, la.Aff2]
NAMES = ["SE3", "Aff2"]


def model_of(group: Group, **options: object) -> la.CompletionModel:
    torch.manual_seed(0)
    return la.CompletionModel(group, LieTransformerConfig(layers=2, **options)).eval()


def poses_of(group: Group, batch: int, n: int, seed: int = 0) -> Tensor:
    generator = torch.Generator().manual_seed(seed)
    x = 0.4 * torch.randn(batch, n, group.dim, generator=generator)
    return group.compose(group.random(batch, 1, generator=generator), group.exp(x))


def mask_of(batch: int, n: int) -> Tensor:
    return torch.arange(n).expand(batch, n) < n - 1


def assert_close(a: tuple[Tensor, ...], b: tuple[Tensor, ...], atol: float = 2e-5) -> None:
    for x, y in zip(a, b, strict=True):
        torch.testing.assert_close(x, y, rtol=1e-4, atol=atol)


@pytest.fixture(autouse=True)
def _fresh_compiler() -> None:
    torch._dynamo.reset()


class Plain(nn.Module):
    """A model with positional arguments, as exporters like them."""

    def __init__(self, model: nn.Module) -> None:
        super().__init__()
        self.model = model

    def forward(self, poses: Tensor, mask: Tensor) -> tuple[Tensor, ...]:
        out = self.model(poses, mask=mask)
        return out.gap, out.delta, out.poses


# ---- compile -----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
def test_models_compile_whole_and_train(group: Group) -> None:
    model, poses, mask = model_of(group), poses_of(group, 2, 5), mask_of(2, 5)
    compiled = torch.compile(model, fullgraph=True)
    assert_close(compiled(poses, mask=mask), model(poses, mask=mask))
    parameters = list(model.parameters())
    losses = (f(poses, mask=mask) for f in (model, compiled))
    expected, got = (
        torch.autograd.grad(out.gap[:, :4].square().sum() + out.poses.square().sum(), parameters)
        for out in losses
    )
    assert_close(got, expected, atol=1e-4)


@pytest.mark.parametrize(
    "options",
    [
        {"score": "mlp"},
        {"score": "full", "directed": True},
        {"content": True},
        pytest.param({"pose_updates": True, "detach_rotations": True}, marks=pytest.mark.slow),
        pytest.param(
            {"chart": "polar", "output": "global", "normalise": True}, marks=pytest.mark.slow
        ),
    ],
    ids=str,
)
def test_options_compile_whole(options: dict[str, object]) -> None:
    # aot_eager traces and differentiates like the default backend, without minutes of C++.
    model, poses = model_of(la.Aff2, **options), poses_of(la.Aff2, 2, 5)
    compiled = torch.compile(model, fullgraph=True, backend="aot_eager")
    assert_close(compiled(poses), model(poses))


def test_lists_and_biases_compile_whole() -> None:
    layer, poses, h = la.LieAttention(la.SE3, 8, 2), poses_of(la.SE3, 2, 5), torch.randn(2, 5, 8)
    neighbours, bias = torch.randint(-1, 5, (2, 5, 3)), torch.randn(2, 2, 5, 3)
    compiled = torch.compile(layer, fullgraph=True, backend="aot_eager")
    arguments = {"neighbours": neighbours, "bias": bias}
    torch.testing.assert_close(compiled(h, poses, **arguments), layer(h, poses, **arguments))


# ---- export ------------------------------------------------------------------------------------


def dynamic_shapes() -> tuple[dict[int, object], ...]:
    batch, tokens = torch.export.Dim("batch", min=1), torch.export.Dim("tokens", min=2)
    return {0: batch, 1: tokens}, {0: batch, 1: tokens}


@pytest.mark.parametrize(
    "group", [la.SE3, pytest.param(la.Aff2, marks=pytest.mark.slow)], ids=NAMES
)
def test_models_export_with_any_batch_and_set_size(group: Group) -> None:
    model = Plain(model_of(group))
    example = poses_of(group, 2, 5), mask_of(2, 5)
    exported = torch.export.export(model, example, dynamic_shapes=dynamic_shapes())
    for batch, n in ((2, 5), (3, 9), (7, 2)):
        inputs = poses_of(group, batch, n, seed=1), mask_of(batch, n)
        assert_close(exported.module()(*inputs), model(*inputs))


def test_exported_programs_can_be_saved(tmp_path: Path) -> None:
    model, poses = model_of(la.SE2), poses_of(la.SE2, 2, 5)
    torch.export.save(torch.export.export(model, (poses,)), tmp_path / "model.pt2")
    program = torch.export.load(tmp_path / "model.pt2")
    assert_close(tuple(program.module()(poses)), model(poses))


@pytest.mark.slow
@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
@pytest.mark.filterwarnings("ignore::DeprecationWarning", "ignore::UserWarning")
@pytest.mark.filterwarnings("ignore::FutureWarning")
def test_models_run_in_onnxruntime(group: Group, tmp_path: Path) -> None:
    onnxruntime = pytest.importorskip("onnxruntime")
    model, path = Plain(model_of(group)), tmp_path / "model.onnx"
    example = poses_of(group, 2, 5), mask_of(2, 5)
    program = torch.onnx.export(
        model, example, dynamo=True, dynamic_shapes=dynamic_shapes(), verbose=False
    )
    program.save(path)
    session = onnxruntime.InferenceSession(path, providers=["CPUExecutionProvider"])
    names = [x.name for x in session.get_inputs()]
    for batch, n in ((2, 5), (4, 9)):
        inputs = poses_of(group, batch, n, seed=1), mask_of(batch, n)
        got = session.run(None, {k: x.numpy() for k, x in zip(names, inputs, strict=True)})
        assert_close(tuple(torch.as_tensor(x) for x in got), model(*inputs))


# ---- several processes -------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
def test_two_processes_get_the_gradients_of_one(group: Group, tmp_path: Path) -> None:
    script = Path(__file__).with_name("ddp_worker.py")
    command = [sys.executable, str(script), group.name, str(tmp_path)]
    environment = {**os.environ, "OMP_NUM_THREADS": "1"}
    run = subprocess.run(
        command, capture_output=True, text=True, env=environment, check=False, timeout=600
    )
    assert run.returncode == 0, run.stderr[-3000:]
    first, second = (torch.load(tmp_path / f"{rank}.pt", weights_only=True) for rank in range(2))
    single = torch.load(tmp_path / "single.pt", weights_only=True)
    for name, gradient in single.items():
        assert torch.equal(first[name], second[name])
        torch.testing.assert_close(first[name], gradient, rtol=1e-4, atol=1e-6)


# ---- autocast ----------------------------------------------------------------------------------


@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
def test_autocast_leaves_a_model_in_float32(group: Group) -> None:
    model, poses = model_of(group), poses_of(group, 2, 5)
    with torch.autocast("cpu", torch.bfloat16):
        out = model(poses)
    assert_close(out, model(poses), atol=0)


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # said by torch when oneDNN is off
@pytest.mark.parametrize("group", GROUPS, ids=NAMES)
def test_autocast_can_be_let_in_and_geometry_stays_out(group: Group) -> None:
    model, poses = model_of(group, autocast=True), poses_of(group, 2, 5)
    # oneDNN's bfloat16 kernels stop the process on machines that announce AMX but forbid it.
    with torch.backends.mkldnn.flags(enabled=False), torch.autocast("cpu", torch.bfloat16):
        out = model(poses)
        w = la.relations(group, poses, poses).coords
        pooled = la.lie_attention(
            group, poses, poses, torch.zeros(2, 1, 5, 1), torch.ones(1, len(group.blocks))
        )[1]
    assert out.gap.dtype == torch.bfloat16
    assert out.poses.dtype == out.delta.dtype == torch.float32
    group.check(out.poses)
    assert_close((out.poses,), (model(poses).poses,), atol=0.1)
    torch.testing.assert_close(w, la.relations(group, poses, poses).coords, rtol=1e-5, atol=1e-6)
    assert pooled.dtype == torch.float32


@pytest.mark.filterwarnings("ignore:TF32 acceleration")  # said by torch when oneDNN is off
def test_a_model_of_bfloat16_parameters_keeps_its_geometry() -> None:
    model, poses = model_of(la.SE3).bfloat16(), poses_of(la.SE3, 2, 5)
    with torch.backends.mkldnn.flags(enabled=False):
        out = model(poses)
    assert out.hidden.dtype == torch.bfloat16
    assert out.poses.dtype == torch.float32
    la.SE3.check(out.poses)


@pytest.mark.parametrize("poses_dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize("model_dtype", [torch.float32, torch.float64])
def test_poses_and_parameters_may_differ_in_dtype(
    poses_dtype: torch.dtype, model_dtype: torch.dtype
) -> None:
    model = model_of(la.Aff2, normalise=True, pose_updates=True, chart="polar")
    poses = poses_of(la.Aff2, 2, 5)
    out = model.to(model_dtype)(poses.to(poses_dtype))
    assert out.hidden.dtype == model_dtype
    assert out.poses.dtype == poses_dtype
    torch.testing.assert_close(out.poses.float(), model.float()(poses).poses, rtol=1e-4, atol=1e-4)


# ---- copies, seeds, transforms -----------------------------------------------------------------


def test_copies_are_models_of_their_own(group: Group) -> None:
    model, poses = model_of(group), poses_of(group, 1, 5)
    for other in (copy.deepcopy(model), pickle.loads(pickle.dumps(model))):
        assert other.group is group
        assert_close(other(poses), model(poses), atol=0)
        next(other.parameters()).data += 1
    assert_close(model(poses), model_of(group)(poses), atol=0)


def test_a_seed_decides_everything() -> None:
    runs = []
    for _ in range(2):
        torch.manual_seed(3)
        model = la.CompletionModel(la.SE3, LieTransformerConfig(dropout=0.1)).train()
        optimiser = torch.optim.Adam(model.parameters(), 1e-3)
        for _ in range(3):
            out = model(la.SE3.random(4, 7))
            optimiser.zero_grad()
            (out.gap.square().mean() + out.delta.square().mean()).backward()
            optimiser.step()
        runs.append(model.state_dict())
    assert all(torch.equal(x, runs[1][name]) for name, x in runs[0].items())


def test_stacked_models_run_under_vmap() -> None:
    models, poses = [model_of(la.SE2) for _ in range(3)], poses_of(la.SE2, 2, 5)
    for i, model in enumerate(models):
        next(model.parameters()).data += i
    parameters, buffers = torch.func.stack_module_state(models)

    def call(p: dict[str, Tensor], b: dict[str, Tensor], x: Tensor) -> Tensor:
        return torch.func.functional_call(models[0], (p, b), (x,)).poses

    together = torch.vmap(call, (0, 0, None))(parameters, buffers, poses)
    alone = torch.stack([model(poses).poses for model in models])
    torch.testing.assert_close(together, alone, rtol=1e-5, atol=1e-5)


def test_sets_run_under_vmap() -> None:
    model, poses = model_of(la.SE3).transformer, poses_of(la.SE3, 3, 5)
    together = torch.vmap(lambda g: model(g).poses)(poses)
    torch.testing.assert_close(together, model(poses).poses, rtol=1e-5, atol=1e-5)


def test_a_few_steps_of_training_lower_the_loss() -> None:
    torch.manual_seed(0)
    model, poses = la.CompletionModel(la.SE2), poses_of(la.SE2, 8, 6)
    target = la.SE2.compose(poses, la.SE2.exp(torch.tensor([0.3, -0.2, 0.5])))
    optimiser = torch.optim.Adam(model.parameters(), 3e-3)
    losses = []
    for _ in range(30):
        out = model(poses)
        loss = la.losses.algebra_loss(la.SE2, out.delta, poses, target)
        optimiser.zero_grad()
        loss.backward()
        optimiser.step()
        losses.append(loss.item())
    assert losses[-1] < 0.05 * losses[0]
