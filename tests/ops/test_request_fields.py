"""Backends answer every field of a request as the reference does, or refuse it with a reason."""

from dataclasses import dataclass, fields

import pytest
import request_cases
import torch
from request_cases import B, Case, N, base, check, matters, without_cases

from lieattn.ops import BACKENDS, Request, dispatch, run_request, tiled
from native_cases import needs_kernel

CASES = [case for of_field in request_cases.cases().values() for case in of_field]
NAMED = [name for name in BACKENDS if name != "auto"]
# Triton runs in an interpreter, in a process of its own: see triton_cases.py.
HERE = ["reference", "tiled", pytest.param("native", marks=needs_kernel)]


@dataclass(frozen=True)
class Novel(Request):
    """A request with a field that nobody knows yet."""

    novelty: float | None = None


def novel(value: float | None) -> Novel:
    plain = base()
    given = {field.name: getattr(plain, field.name) for field in fields(Request)}
    return Novel(**given, novelty=value)


def test_every_field_has_a_case() -> None:
    assert without_cases(Request) == []
    assert without_cases(Novel) == ["novelty"]


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_ignoring_a_field_would_be_seen(case: Case) -> None:
    assert case.permitted or matters(case)


@pytest.mark.parametrize("backend", HERE)
@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_backend_answers_as_the_reference_or_refuses(
    case: Case, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tiled, "PAIRS", 2 * B * N)  # blocks of two queries
    answered = check(case, backend)
    assert answered or backend == "native"


@pytest.mark.parametrize("backend", NAMED)
def test_a_new_field_is_refused_until_it_is_declared(backend: str) -> None:
    assert novel(1.0).used == [*novel(None).used, "novelty"]
    assert dispatch.refusal(novel(1.0), backend) == "it does not take novelty."
    assert "novelty" not in str(dispatch.refusal(novel(None), backend))
    for name in (backend, "auto"):
        with pytest.raises(ValueError, match="cannot do this: it does not take novelty"):
            dispatch.run(novel(1.0), name)


@pytest.mark.parametrize("backend", NAMED)
def test_backends_declare_fields_that_there_are(backend: str) -> None:
    dispatch.refusal(base(), backend)  # imports it
    assert {field.name for field in fields(Request)} >= dispatch._loaded[backend].ANSWERS


def test_contents_come_in_pairs() -> None:
    with pytest.raises(ValueError, match="q_content and k_content go together"):
        run_request(base(q_content=torch.zeros(B, 3, N, 2)))
