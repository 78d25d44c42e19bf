"""Seeds trained together: the same as the model that users have, and as one by one."""

from __future__ import annotations

from pathlib import Path

import pytest
import torch

import lieattn as la
from lieattn.lab.paper.batches import Batches
from lieattn.lab.paper.protocols import MODELS, PROTOCOLS, Settings, build_model
from lieattn.lab.paper.sequences import make_sequences
from lieattn.lab.paper.stacked import ParameterStack, StackedNetwork
from lieattn.lab.paper.storage import RunFolder
from lieattn.lab.paper.training import Trainer, data

GROUPS = ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3")
TINY = {"epochs": 2, "train": 128, "validation": 20, "test": 20, "compiled": False}


@pytest.mark.parametrize("protocol", PROTOCOLS)
@pytest.mark.parametrize("model", MODELS)
@pytest.mark.parametrize("name", GROUPS)
def test_stacked_network_is_the_model(name: str, model: str, protocol: str) -> None:
    group = la.get_group(name)
    torch.manual_seed(0)
    models = [build_model(group, model, PROTOCOLS[protocol]) for _ in range(2)]
    for each in models:  # away from the start, where biases are zero and weights are alike
        for p in each.parameters():
            p.data += 0.1 * torch.randn_like(p)
    sets = [make_sequences(group, 5, torch.Generator().manual_seed(s)) for s in range(2)]
    stack, batches = ParameterStack(models[0]), Batches(models[0], sets)
    flat = stack.stack(models).requires_grad_()
    batch = batches.take(torch.arange(5).expand(2, -1))
    network = StackedNetwork(models[0], compiled=False)
    gap, delta, losses = network(stack.split(flat), batch)
    losses = losses.mean(1)
    (gradient,) = torch.autograd.grad(losses.sum(), flat)
    for s, (each, own) in enumerate(zip(models, sets, strict=True)):
        out = each(own.poses)
        loss = la.losses.completion_loss(group, out, own.missing, own.beside)
        loss.backward()
        assert torch.allclose(gap[s].mT, out.gap, atol=2e-5)
        physical = delta[s].permute(2, 1, 0)
        assert torch.allclose(group.from_physical(physical), out.delta, atol=5e-5)
        assert torch.allclose(losses[s], loss, rtol=1e-5)
        for parameter, g in zip(
            each.parameters(), stack.unstack(gradient, s).values(), strict=True
        ):
            scale = 1 + float(parameter.grad.abs().max())
            assert torch.allclose(g, parameter.grad, atol=5e-5 * scale)


@pytest.mark.parametrize("model", MODELS)
def test_seeds_together_equal_seeds_one_by_one_bit_for_bit(model: str) -> None:
    together = Trainer(Settings("SE2", model, "paper", seeds=(0, 1, 2), **TINY))
    for _ in range(2):
        together.epoch()
    for i, seed in enumerate((0, 1, 2)):
        alone = Trainer(Settings("SE2", model, "paper", seeds=(seed,), **TINY))
        for _ in range(2):
            alone.epoch()
        assert torch.equal(alone.state.parameters[0], together.state.parameters[i])
        assert alone.state.history[0] == together.state.history[i]


@pytest.mark.parametrize("model", MODELS)
def test_training_equals_a_plain_loop_over_the_users_model(model: str) -> None:
    settings = Settings("SE2", model, "paper", seeds=(4,), **TINY)
    trainer = Trainer(settings)
    plain = trainer._initialise(4)
    optimiser = torch.optim.Adam(plain.parameters(), 1e-3)
    sets = data(settings, 4, "train")
    for epoch in range(2):
        for index in trainer._order(epoch)[:, 0]:
            loss = la.losses.completion_loss(
                la.SE2, plain(sets.poses[index]), sets.missing[index], sets.beside[index]
            )
            optimiser.zero_grad()
            loss.backward()
            torch.nn.utils.clip_grad_norm_(plain.parameters(), 2.0)
            optimiser.step()
        trainer.epoch()
    # Outputs, not parameters: biases that a softmax ignores have gradients of pure rounding, which
    # Adam takes for steps.
    check = data(settings, 4, "validation").poses
    ours, theirs = trainer.model(0, "last")(check), plain(check)
    assert torch.allclose(ours.gap.softmax(-1), theirs.gap.softmax(-1), atol=1e-4)
    assert torch.allclose(ours.delta, theirs.delta, atol=1e-4)


@pytest.mark.slow
# Dynamo looks at the gradient of every input, and hidden states are no leaves.
@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
@pytest.mark.parametrize("model", MODELS)
def test_compiled_training_equals_uncompiled(model: str) -> None:
    tiny = {**TINY, "epochs": 1}
    plain = Trainer(Settings("SE2", model, "paper", seeds=(0, 1), **tiny))
    compiled = Trainer(Settings("SE2", model, "paper", seeds=(0, 1), **{**tiny, "compiled": True}))
    plain.epoch()
    compiled.epoch()
    poses = data(plain.settings, 0, "validation").poses
    a, b = (trainer.model(0, "last")(poses) for trainer in (plain, compiled))
    assert torch.allclose(a.gap.softmax(-1), b.gap.softmax(-1), atol=1e-5)
    assert torch.allclose(a.delta, b.delta, atol=1e-5)


def test_training_learns() -> None:
    settings = Settings("SE2", "G", "improved", seeds=(0,), **{**TINY, "train": 1024, "epochs": 40})
    trainer = Trainer(settings)
    while not trainer.finished:
        trainer.epoch()
    errors = [line["validation_pose_error"] for line in trainer.state.history[0]]
    assert errors[-1] < errors[0] / 10
    assert trainer.state.best_error[0] == min(errors)
    assert trainer.state.best_epoch[0] == errors.index(min(errors)) + 1


def test_cosine_rate_warms_up_to_its_peak_and_ends_at_zero() -> None:
    improved = PROTOCOLS["improved"]
    rates = [improved.rate_at(step, 1000) for step in range(1000)]
    assert max(rates) == pytest.approx(2e-3)
    assert rates[0] < 1e-4
    assert rates[-1] < 1e-7
    assert {PROTOCOLS["paper"].rate_at(step, 1000) for step in range(1000)} == {1e-3}


def test_other_scores_are_refused() -> None:
    model = la.CompletionModel(la.SE2, la.LieTransformerConfig(score="full"))
    with pytest.raises(TypeError, match="norm and mlp"):
        StackedNetwork(model, compiled=False)


@pytest.mark.filterwarnings("ignore:The .grad attribute of a Tensor that is not a leaf")
def test_compiled_training_resumes_bit_for_bit(tmp_path: Path) -> None:
    settings = Settings("SE2", "A", "paper", seeds=(0, 1), **{**TINY, "compiled": True})
    whole = Trainer(settings)
    for _ in range(2):
        whole.epoch()
    folder = RunFolder(tmp_path, settings)
    folder.make()
    first = Trainer(settings)
    first.epoch()
    folder.save(first.state)
    resumed = Trainer(settings)
    state = folder.load(pytest.fail)
    assert state is not None
    resumed.restore(state)
    resumed.epoch()
    assert torch.equal(resumed.state.parameters, whole.state.parameters)
    assert resumed.state.history == whole.state.history
