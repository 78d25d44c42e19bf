"""Models that version 0.1 wrote give the answers that they gave then, see checkpoints/README.md."""

from pathlib import Path
from typing import Any

import pytest
import torch
from safetensors import safe_open
from safetensors.torch import load_file
from torch import Tensor

import lieattn as la
from lieattn.models.baselines import PairTransformer, VectorTransformer
from lieattn.ops.native import call

FOLDER = Path(__file__).parent / "checkpoints" / "0.1"
KINDS = {
    "completion": la.CompletionModel,
    "infill": la.InfillModel,
    "pair": PairTransformer,
    "pair-completion": la.PairCompletionModel,
    "transformer": la.LieTransformer,
    "vector": VectorTransformer,
    "vector-completion": la.VectorCompletionModel,
    "vector-infill": la.VectorInfillModel,
}
CASES = sorted(path.parent.name for path in FOLDER.glob("*/case.safetensors"))


def load(case: str) -> tuple[Any, dict[str, Tensor], dict[str, Tensor], str]:
    """A model, what it was given, what it answered, and on which machine."""
    kind = max((name for name in KINDS if case.startswith(name)), key=len)
    with pytest.warns(UserWarning, match="format 1"):
        model = KINDS[kind].from_pretrained(FOLDER / case)
    path = FOLDER / case / "case.safetensors"
    answered = load_file(path)
    names = [name for name in answered if name.startswith("given.")]
    given = {name.removeprefix("given."): answered.pop(name) for name in names}
    with safe_open(path, "pt") as held:
        return model, given, answered, held.metadata()["machine"]


def machine() -> str:
    backend = "native" if call.LIBRARY else "reference"
    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {backend}"


def require_same(found: Tensor, expected: Tensor, written_on: str, name: str) -> None:
    """Equal bit for bit on the machine that wrote them, and up to rounding on others."""
    if written_on == machine():
        assert torch.equal(found, expected), name
    else:  # 1e-6 of their size: other kernels sum in another order
        torch.testing.assert_close(found, expected, rtol=1e-5, atol=1e-6, msg=name)


def test_every_kind_of_model_is_there() -> None:
    assert {max((name for name in KINDS if x.startswith(name)), key=len) for x in CASES} == {*KINDS}


@pytest.mark.parametrize("case", CASES)
def test_an_old_model_gives_its_old_answers(case: str) -> None:
    model, given, answered, written_on = load(case)
    poses, missing, truth = (given.pop(name, None) for name in ("poses", "missing", "truth"))
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        if missing is None:
            out = model(poses, **given)
        else:
            out = model(poses, missing, **given)
            filled = model.fill(poses, missing, level=0.8, **given)
            found["loss"] = la.infill_loss(model, out, truth, missing)
            found.update({f"fill.{name}": x for name, x in filled._asdict().items()})
    if hasattr(model, "complete"):
        completed = model.complete(poses, flanks="both", **given)
        found.update({f"complete.{name}": x for name, x in completed._asdict().items()})
    found.update({f"out.{name}": x for name, x in out._asdict().items() if x is not None})
    assert found.keys() == answered.keys()
    for name, expected in answered.items():
        require_same(found[name], expected, written_on, name)


@pytest.mark.parametrize("case", [case for case in CASES if "infill" in case])
def test_an_old_model_is_measured_as_it_was(case: str) -> None:
    model, given, _, written_on = load(case)
    unit, step = model.unit.clone(), model.step.clone()
    for buffer in (model.unit, model.step):
        buffer.fill_(1)
    last = model.transformer.correction[-1]
    with torch.no_grad():  # as before training
        last.weight.zero_()
        last.bias.zero_()
    del given["truth"]
    model.measure(given.pop("poses"), given.pop("missing"), **given)
    require_same(model.unit, unit, written_on, "unit")
    require_same(model.step, step, written_on, "step")
