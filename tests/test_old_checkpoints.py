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


def load(case: str) -> tuple[Any, dict[str, Tensor]]:
    """A model, and what it was given, under the names of arguments."""
    kind = max((name for name in KINDS if case.startswith(name)), key=len)
    with pytest.warns(UserWarning, match="format 1"):
        model = KINDS[kind].from_pretrained(FOLDER / case)
    return model, held(case, "given.")


def held(case: str, prefix: str) -> dict[str, Tensor]:
    tensors = load_file(FOLDER / case / "case.safetensors").items()
    return {name.removeprefix(prefix): x for name, x in tensors if name.startswith(prefix)}


def this_machine() -> str:
    backend = "native" if call.LIBRARY else "reference"
    return f"torch {torch.__version__}, {torch.backends.cpu.get_cpu_capability()}, {backend}"


def require_same(case: str, found: dict[str, Tensor]) -> None:
    """The answers of version 0.1 up to rounding; on the machine of the file bit for bit."""
    with safe_open(FOLDER / case / "case.safetensors", "pt") as file:
        exact = file.metadata()["machine"] == this_machine()
    for name, x in found.items():
        then, now = (held(case, prefix)[name] for prefix in ("then.", "exact."))
        size = 1 if x.dtype == torch.bool else x[x.isfinite()].abs().max().clamp(min=1)
        torch.testing.assert_close(x / size, then / size, rtol=0, atol=1e-6, msg=name)
        assert torch.equal(x, now) or not exact, name


def test_every_kind_of_model_is_there() -> None:
    assert {max((name for name in KINDS if x.startswith(name)), key=len) for x in CASES} == {*KINDS}


@pytest.mark.parametrize("case", CASES)
def test_an_old_model_gives_its_old_answers(case: str) -> None:
    model, given = load(case)
    poses, missing, truth = (given.pop(name, None) for name in ("poses", "missing", "truth"))
    found: dict[str, Tensor] = {}
    with torch.no_grad():
        if missing is None:
            out = model(poses, **given)
        else:
            out = model(poses, missing=missing, **given)
            filled = model.fill(poses, missing=missing, level=0.8, **given)
            found["loss"] = la.infill_loss(model, out, truth, missing=missing)
            found.update({f"fill.{name}": x for name, x in filled._asdict().items()})
    if hasattr(model, "complete"):
        completed = model.complete(poses, **given)
        found.update({f"complete.{name}": x for name, x in completed._asdict().items()})
    names = {"log_error": "doubt"}  # as 0.1 called it
    out_fields = {names.get(name, name): x for name, x in out._asdict().items()}
    found.update({f"out.{name}": x for name, x in out_fields.items() if x is not None})
    measured = {name for name in held(case, "then.") if name.startswith("measured.")}
    assert found.keys() | measured == held(case, "then.").keys()
    require_same(case, found)


@pytest.mark.parametrize("case", [case for case in CASES if "infill" in case])
def test_an_old_model_is_measured_as_it_was(case: str) -> None:
    model, given = load(case)
    for buffer in (model.unit, model.step):
        buffer.fill_(1)
    last = model.transformer.correction[-1]
    with torch.no_grad():  # as before training
        last.weight.zero_()
        last.bias.zero_()
    del given["truth"]
    model.measure(given.pop("poses"), **given)
    require_same(case, {"measured.unit": model.unit, "measured.step": model.step})
