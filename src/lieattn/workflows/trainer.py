"""Training of a model that fills gaps, a step at a time, from any step on."""

from __future__ import annotations

from dataclasses import dataclass
from math import cos, inf, pi
from typing import Any

import torch
from torch import Tensor, nn

from .._core.options import option
from .._core.random import generator
from ..geometry.errors import relative_errors, softened
from ..geometry.interpolation import interpolate
from ..models.infill.loss import LOG_ERRORS, infill_losses
from ..models.infill.model import InfillModel
from .errors import block_errors
from .process_group import ProcessGroup
from .settings import TrainSettings
from .tensors import Exam, Stack, Stream, examination, longest_hidden, pieces

MEASURED = 512  # windows on which the errors of interpolation are measured
PAIRS = 2**21  # of tokens, at once, in those: long windows are fewer
WARM_UP = 0.05  # of the steps
MOMENTS = ("exp_avg", "exp_avg_sq")  # that Adam keeps of every parameter


@dataclass
class Progress:
    """How far a run is. With the tensors of a `Trainer` it determines the next step."""

    step: int = option(0, least=0, most=10**9)
    best_loss: float = option(inf)
    best_step: int = option(0, least=0, most=10**9)


class Trainer:
    """Trains a model on windows.

    Batches, hidden poses and dropout depend on seed and step alone, so a resumed run equals an
    uninterrupted one bit for bit.
    """

    def __init__(
        self,
        settings: TrainSettings,
        model: InfillModel,
        train: Stack,
        valid: Stack,
        processes: ProcessGroup | None = None,
    ) -> None:
        self.settings, self.processes = settings, processes or ProcessGroup()
        self.model = model
        model.transformer.check_inputs = False  # poses were checked when they were read
        batch = settings.batch * self.processes.size
        self.stream = Stream(train, batch, settings.hide, settings.gaps, settings.seed)
        self.checks = examination(valid, settings.hide, settings.gaps, settings.seed, "valid")
        self.progress = Progress()
        # Losses of interpolation, by which losses are divided; 1 if it makes no error.
        self.train_baseline = self._measure(train) or 1.0
        self.baseline = self._interpolated(self.checks) or 1.0
        self.network: nn.Module = self.processes.wrap(model)
        self.optimiser = torch.optim.Adam(model.parameters(), lr=settings.rate, fused=True)
        for p in model.parameters():  # there from the start, to be saved and restored
            self.optimiser.state[p] = {
                "step": torch.tensor(0.0),
                **{name: torch.zeros_like(p) for name in MOMENTS},
            }

    @torch.no_grad()
    def _measure(self, train: Stack) -> float:
        """Set the model's units; the loss of interpolation on some of the training windows."""
        own = generator("measure", self.settings.seed)
        most = max(min(MEASURED, PAIRS // train.mask.shape[1] ** 2), 8)
        some = torch.randperm(len(train.mask), generator=own)[:most]
        rows, hidden = Stream(
            train.rows(some), len(some), self.settings.hide, self.settings.gaps, self.settings.seed
        ).batch(0)
        self.model.measure(rows.poses, missing=hidden, mask=rows.mask, features=rows.features)
        return self._interpolated([(rows, hidden)])

    def _interpolated(self, exam: Exam) -> float:
        errors = []
        for rows, hidden in exam:
            group = self.model.group
            guess = interpolate(group, rows.poses, rows.mask & ~hidden)
            unit = self.model.unit
            off = relative_errors(group, unit, guess[hidden], rows.poses[hidden])
            errors.append(softened(off).mean(-1))
        return torch.cat(errors).mean().item()

    @property
    def longest(self) -> int:
        """Poses in a row that are hidden, at most, in training and in validation alike.

        Sets that are shorter than a window are taken whole, and less of them is hidden.
        """
        parts = (self.stream.windows.mask, self.checks[0][0].mask)
        return longest_hidden(self.settings, min(int(x.sum(-1).max()) for x in parts))

    @property
    def finished(self) -> bool:
        return self.progress.step >= self.settings.steps

    # ---- steps -------------------------------------------------------------------------------

    def rate(self, step: int) -> float:
        """A warm-up, then half a cosine."""
        steps = self.settings.steps
        warm = max(int(steps * WARM_UP), 1)
        if step < warm:
            return self.settings.rate * (step + 1) / warm
        return self.settings.rate * (1 + cos(pi * (step - warm) / max(steps - warm, 1))) / 2

    def step(self) -> float:
        """One batch; the error of all processes together, that of interpolation being 1."""
        step = self.progress.step
        rows, hidden = self.stream.batch(step)
        count = hidden.sum().clamp(min=1)
        mine = self.processes.share(len(hidden))
        own, hidden = rows.rows(torch.arange(len(hidden))[mine]).trimmed(hidden[mine])
        dropout = generator(f"dropout {self.processes.rank}", self.settings.seed, step)
        torch.manual_seed(dropout.initial_seed())
        self.network.train()
        out = self.network(own.poses, missing=hidden, mask=own.mask, features=own.features)
        losses = infill_losses(self.model, out, own.poses, missing=hidden)
        part = (losses.risk + LOG_ERRORS * losses.misfit).sum() / count
        self.optimiser.zero_grad()
        # Gradients are averaged over processes, the loss is a sum over them.
        (part * self.processes.size).backward()
        nn.utils.clip_grad_norm_(self.model.parameters(), self.settings.clip)
        self.optimiser.param_groups[0]["lr"] = self.rate(step)
        self.optimiser.step()
        self.progress.step = step + 1
        total = self.processes.total(losses.error.detach().sum() / count).item()
        return total / self.train_baseline

    @property
    def _different(self) -> int:
        """Validation poses that are hidden at least once: windows that are few are drawn again."""
        hidden = [hidden for _, hidden in self.checks]
        return int(torch.stack(hidden).any(0).sum())

    @torch.no_grad()
    def _check(self) -> tuple[float, Tensor, Tensor]:
        """Of the hidden validation tokens: mean loss, errors by block, predicted log errors."""
        self.model.eval()
        losses, errors, log_errors = [], [], []
        for own, chosen in pieces(self.checks):
            out = self.model(own.poses, missing=chosen, mask=own.mask, features=own.features)
            losses.append(infill_losses(self.model, out, own.poses, missing=chosen).error[chosen])
            found, _ = block_errors(self.model.group, out.poses[chosen], own.poses[chosen])
            errors.append(found)
            log_errors.append(out.log_error[chosen])
        return torch.cat(losses).mean().item(), torch.cat(errors), torch.cat(log_errors)

    def validate(self) -> dict[str, Any]:
        """Loss, over that of interpolation, and errors on the validation windows.

        The model's bounds are calibrated on them.
        """
        loss, error, log_error = self._check()
        loss /= self.baseline
        self.model.calibrate(error, log_error, self._different)
        better = loss < self.progress.best_loss
        if better:
            self.progress.best_loss, self.progress.best_step = loss, self.progress.step
        names = [block.name for block in self.model.group.blocks]
        means = dict(zip(names, error.mean(0).tolist(), strict=True))
        return {"valid_loss": loss, "valid_error": means, "best": better}

    # ---- state -------------------------------------------------------------------------------

    def tensors(self) -> dict[str, Tensor]:
        """Model and optimiser, by name; the tensors themselves, not copies."""
        found = {f"model.{name}": x for name, x in self.model.state_dict().items()}
        for name, p in self.model.named_parameters():
            for key, x in self.optimiser.state[p].items():
                found[f"optimiser.{name}.{key}"] = x
        return found

    def restore(self, tensors: dict[str, Tensor] | None, progress: Progress | None) -> None:
        """Go on from a checkpoint that the first process has read; None: from the start."""
        mine = self.tensors()
        if tensors is not None and progress is not None:
            for name, x in mine.items():
                x.copy_(tensors[name])
            self.progress = progress
        numbers = torch.tensor(
            [self.progress.step, self.progress.best_loss, self.progress.best_step],
            dtype=torch.float64,
        )
        self.processes.send([numbers, *mine.values()])
        self.progress = Progress(int(numbers[0]), numbers[1].item(), int(numbers[2]))
