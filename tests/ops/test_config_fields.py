"""Layers answer every option of a model as the reference does on every backend, or refuse it."""

from dataclasses import dataclass

import pytest
from config_cases import Case, all_cases, check, matters, without_cases

from lieattn import LieTransformerConfig
from lieattn.ops import tiled
from native_cases import needs_kernel

pytestmark = pytest.mark.filterwarnings("ignore:TF32 acceleration")  # when oneDNN is off
CASES = all_cases()


@dataclass(frozen=True)
class Novel(LieTransformerConfig):
    """A config with an option that nobody knows yet."""

    novelty: float = 0.0


def test_every_option_has_a_case() -> None:
    assert without_cases(LieTransformerConfig) == []
    assert without_cases(Novel) == ["novelty"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ignoring_an_option_would_be_seen(case: Case) -> None:
    assert case.permitted or matters(case)


@pytest.mark.parametrize(
    "backend",
    ["reference", "tiled", *(pytest.param(x, marks=needs_kernel) for x in ("native", "auto"))],
)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_layers_answer_as_the_reference_or_refuse(
    case: Case, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled, "PAIRS", 20)  # blocks of two queries
    answered = check(case, backend)
    assert answered or backend == "native"
