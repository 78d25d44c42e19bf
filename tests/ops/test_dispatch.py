"""Which backend answers: the first that can, the one that was named, and reasons otherwise."""

import logging
import sys
from functools import partial
from types import ModuleType

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn.ops import BACKENDS, Request, dispatch, reference, tiled

N = 5
POSES = la.SE2.random(1, N)


def request_of(**options: object) -> Request:
    return Request(la.SE2, POSES, POSES, torch.ones(1, 2, N, 3), torch.ones(2, 2), **options)


def attention(**options: object) -> tuple[Tensor, Tensor]:
    values = torch.arange(2.0 * N * 3).reshape(1, 2, N, 3)
    return la.lie_attention(la.SE2, POSES, POSES, values, torch.ones(2, 2), **options)


@pytest.fixture(autouse=True)
def _nothing_loaded(monkeypatch: pytest.MonkeyPatch) -> None:
    """As in a new process, where the fast backends are missing."""
    own = {name: dispatch._loaded[name] for name in ("reference", "tiled")}
    monkeypatch.setattr(dispatch, "_loaded", own)
    monkeypatch.setattr(dispatch, "_missing", {})
    monkeypatch.setattr(dispatch, "_logged", set())
    for module in dispatch.MODULES.values():
        monkeypatch.setitem(sys.modules, module, None)  # importing it is an ImportError


@pytest.fixture
def native(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """A backend that answers with ones, and cannot do biases."""
    module = ModuleType(dispatch.MODULES["native"])

    def run(request: Request) -> tuple[Tensor, Tensor]:
        out = reference.run(request)
        return torch.ones_like(out[0]), torch.ones_like(out[1])

    module.run = run  # type: ignore[attr-defined]
    module.ANSWERS = reference.ANSWERS  # type: ignore[attr-defined]
    module.unsupported = lambda request: None if request.bias is None else "it has no biases."
    monkeypatch.setitem(sys.modules, dispatch.MODULES["native"], module)
    return module


def test_all_backends_have_a_name() -> None:
    assert BACKENDS == ("auto", "reference", "tiled", "native", "triton")


def test_one_block_is_the_references_and_more_are_tiled(monkeypatch: pytest.MonkeyPatch) -> None:
    assert dispatch.choose(request_of()) is reference
    monkeypatch.setattr(tiled, "PAIRS", N * N - 1)
    assert dispatch.choose(request_of()) is tiled


def test_the_fastest_that_can_is_taken(native: ModuleType) -> None:
    assert dispatch.choose(request_of()) is native
    assert dispatch.is_fast(request_of())
    assert dispatch.choose(request_of(bias=torch.zeros(N, N))) is reference
    assert not dispatch.is_fast(request_of(bias=torch.zeros(N, N)))
    assert (attention()[0] == 1).all()


def test_backends_of_other_devices_are_not_asked(native: ModuleType) -> None:
    poses = torch.empty(1, N, 3, 3, device="meta")
    values = torch.ones(1, 2, N, 3, device="meta")
    request = Request(la.SE2, poses, poses, values, torch.ones(2, 2, device="meta"))
    assert dispatch.choose(request) is reference


def test_a_reason_is_told_once_to_those_who_listen(
    native: ModuleType, caplog: pytest.LogCaptureFixture
) -> None:
    with caplog.at_level(logging.DEBUG, "lieattn"):
        for _ in range(2):
            attention(bias=torch.zeros(N, N))
    told = [(r.name, r.levelno, r.getMessage()) for r in caplog.records]
    message = "backend native passed over: it has no biases."
    assert told == [("lieattn", logging.DEBUG, message)]


def test_nothing_is_told_to_those_who_do_not(capfd: pytest.CaptureFixture[str]) -> None:
    attention()
    assert capfd.readouterr() == ("", "")


def test_a_backend_that_is_missing_is_passed_over(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.DEBUG, "lieattn"):
        out = attention()
    assert torch.equal(out[0], attention(backend="reference")[0])
    assert "backend native passed over: it is not there" in caplog.text


def test_a_backend_that_cannot_is_refused_with_its_reason(native: ModuleType) -> None:
    with pytest.raises(ValueError, match=r"'native' cannot do this: it has no biases. Use .*tiled"):
        attention(backend="native", bias=torch.zeros(N, N))
    assert (attention(backend="native")[0] == 1).all()


@pytest.mark.parametrize("backend", ["native", "triton"])
def test_a_backend_that_is_missing_is_refused(backend: str) -> None:
    with pytest.raises(ValueError, match=f"'{backend}' cannot do this: it is not there .*tiled"):
        attention(backend=backend)


def test_a_backend_is_found_while_compiling(native: ModuleType) -> None:
    torch._dynamo.reset()
    asked = partial(attention, exclude_self=True)
    compiled = torch.compile(asked, fullgraph=True, backend="aot_eager")
    assert (compiled()[0] == 1).all()
    assert (compiled(bias=torch.zeros(N, N))[0] != 1).any()


def test_a_norm_of_blocks_reaches_backends_as_weights(native: ModuleType) -> None:
    seen = []
    module_run = native.run
    native.run = lambda request: seen.append(request.weights) or module_run(request)  # type: ignore[attr-defined]
    layers = [la.LieAttention(la.Aff2, 4, 2, score) for score in ("norm", "isotropic", "mlp")]
    poses = la.Aff2.random(1, N)
    for layer in layers:
        layer(torch.zeros(1, N, 4), poses)
    norm, isotropic, mlp = seen
    assert torch.equal(norm, layers[0].score.weights)
    assert torch.equal(isotropic, layers[1].score.weights.expand(2, 4))
    assert mlp is layers[2].score
