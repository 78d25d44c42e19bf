"""Training of one configuration: all its seeds at once, one epoch at a time, resumable."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from ..._core.random import generator
from ...groups import get_group
from ...models.completion import FLANKS, CompletionModel
from .batches import Batches
from .metrics import flanking, pose_errors
from .protocols import PROTOCOLS, Settings
from .sequences import SequenceSet, make_sequences
from .stacked import ParameterStack, StackedNetwork


def data(settings: Settings, seed: int, split: str) -> SequenceSet:
    """The sequences of a split, "train", "validation" or "test"."""
    count = getattr(settings, split)
    return make_sequences(get_group(settings.group), count, generator(split, seed))


# What the history of a seed holds for every epoch.
HISTORY = (
    "epoch",
    "rate",
    "train_loss",
    "validation_loss",
    "validation_pose_error",
    "validation_flanking",
)


@dataclass
class State:
    """Everything that the next epoch depends on: tensors and numbers, to be saved and restored."""

    parameters: Tensor  # [S, P]
    mean: Tensor  # [S, P], Adam's first moment
    square: Tensor  # [S, P], Adam's second moment
    best: Tensor  # [S, P], parameters of the best epoch on the validation set
    best_error: list[float]
    best_epoch: list[int]
    epoch: int = 0
    history: list[list[dict[str, Any]]] = field(default_factory=list)  # [S][epochs]


class Trainer:
    """Trains the seeds of a configuration as one stacked model.

    Nothing is drawn from a generator that outlives an epoch: the order of batches is a function of
    seed and epoch, so that a run resumed from a `State` is the uninterrupted one bit for bit.
    """

    def __init__(self, settings: Settings) -> None:
        self.settings, self.protocol = settings, PROTOCOLS[settings.protocol]
        self.group = get_group(settings.group)
        models = [self._initialise(seed) for seed in settings.seeds]
        self.stack = ParameterStack(models[0])
        self.network = StackedNetwork(models[0], settings.compiled)
        trained = [data(settings, seed, "train") for seed in settings.seeds]
        self.checks = [data(settings, seed, "validation") for seed in settings.seeds]
        self.rejected = sum(sets.rejected for sets in [*trained, *self.checks])
        self.batches = Batches(models[0], trained)
        self.check_batches = Batches(models[0], self.checks)
        self.steps = settings.train // self.protocol.batch  # no ragged last batch
        start = self.stack.stack(models)
        self.parameters = start.clone().requires_grad_()
        # Leaves of their own over the same memory: what the optimiser writes, they see.
        views = self.stack.split(self.parameters.detach())
        self.leaves = {name: x.requires_grad_() for name, x in views.items()}
        self.optimiser = torch.optim.Adam([self.parameters], lr=self.protocol.rate, fused=True)
        zeros, seeds = torch.zeros_like(start), len(models)
        state = State(start, zeros, zeros.clone(), start.clone(), [torch.inf] * seeds, [0] * seeds)
        state.history = [[] for _ in models]
        self.restore(state)

    def _initialise(self, seed: int) -> CompletionModel:
        with torch.random.fork_rng(devices=[]):
            torch.manual_seed(generator("initialisation", seed).initial_seed())
            return self.settings.build()

    @property
    def finished(self) -> bool:
        return self.state.epoch >= self.settings.epochs

    def restore(self, state: State) -> None:
        """Go on from a state."""
        self.state = state
        with torch.no_grad():
            self.parameters.copy_(state.parameters)
        step = torch.tensor(float(state.epoch * self.steps))
        self.optimiser.state[self.parameters] = {
            "step": step,
            "exp_avg": state.mean.clone(),
            "exp_avg_sq": state.square.clone(),
        }

    def epoch(self) -> None:
        """One pass over the training sets, then the validation sets."""
        number, steps = self.state.epoch, self.steps
        order = self._order(number)
        total = torch.zeros(len(self.settings.seeds))
        for i in range(steps):
            rate = self.protocol.rate_at(number * steps + i, self.settings.epochs * steps)
            total += self._step(order[i], rate)
        adam = self.optimiser.state[self.parameters]
        self.state.parameters = self.parameters.detach().clone()
        self.state.mean, self.state.square = adam["exp_avg"], adam["exp_avg_sq"]
        self.state.epoch = number + 1
        self._validate(total / steps, rate)

    def _order(self, epoch: int) -> Tensor:
        """Which sequences are in which batch, `[steps, S, B]`."""
        size = self.protocol.batch
        orders = []
        for seed in self.settings.seeds:
            own = generator("order", seed, epoch)
            order = torch.randperm(self.settings.train, generator=own)
            orders.append(order[: self.steps * size].view(self.steps, size))
        return torch.stack(orders, dim=1)

    def _step(self, index: Tensor, rate: float) -> Tensor:
        losses = self.network(self.leaves, self.batches.take(index))[2].mean(1)
        gradients = torch.autograd.grad(losses.sum(), list(self.leaves.values()))
        gradient = self.stack.join(gradients)
        norm = torch.linalg.vector_norm(gradient, dim=1, keepdim=True)
        # As torch.nn.utils.clip_grad_norm_, for each seed by itself.
        self.parameters.grad = gradient * (self.protocol.clip / (norm + 1e-6)).clamp(max=1)
        self.optimiser.param_groups[0]["lr"] = rate
        self.optimiser.step()
        return losses.detach()

    def _validate(self, losses: Tensor, rate: float) -> None:
        state = self.state
        gap, delta, check = self._read()
        answer = FLANKS[self.protocol.flanks]
        for s, sets in enumerate(self.checks):
            step = self.group.exp(self.group.from_physical(delta[s]))
            probabilities = gap[s].softmax(-1)
            poses = answer(self.group, self.group.compose(sets.poses, step), probabilities)
            errors, _ = pose_errors(self.group, poses, sets.missing)
            error = errors.mean().item()
            if error < state.best_error[s]:
                state.best_error[s], state.best_epoch[s] = error, state.epoch
                state.best[s] = state.parameters[s]
            flanked = flanking(probabilities, sets.beside)
            line = (state.epoch, rate, losses[s].item(), check[s].item(), error, flanked)
            state.history[s].append(dict(zip(HISTORY, line, strict=True)))

    def _read(self) -> tuple[Tensor, Tensor, Tensor]:
        """Of the validation sets: logits `[S, n, N]`, corrections `[S, n, N, dim]`, losses `[S]`.

        Batches have the size of training, so that no other shape has to be compiled. The last one
        is filled up with the first sequences.
        """
        size, count = self.protocol.batch, self.settings.validation
        index = torch.arange(-(-count // size) * size).view(-1, 1, size) % count
        read = []
        for part in index.expand(-1, len(self.settings.seeds), -1):
            gap, delta, each = self.network(self.leaves, self.check_batches.take(part))
            read.append((gap.mT.detach(), delta.permute(0, 3, 2, 1).detach(), each.detach()))
        gap, delta, each = (torch.cat(x, dim=1)[:, :count] for x in zip(*read, strict=True))
        return gap, delta, each.mean(1)

    def model(self, seed_index: int, iterate: str) -> CompletionModel:
        """The model of a seed, its "last" or its "best" iterate."""
        flat = self.state.best if iterate == "best" else self.state.parameters
        model = self.settings.build().eval()
        model.load_state_dict(self.stack.unstack(flat, seed_index))
        return model
