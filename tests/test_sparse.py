"""Tensors that are not dense are refused by a sentence that says how to make them so."""

import pytest
import torch
from torch import Tensor

import lieattn as la

B, N = 2, 4
POSES = la.SE3.random(B, N)
LAYOUTS = {
    "coo": Tensor.to_sparse,
    "csr": Tensor.to_sparse_csr,
    "nested": lambda x: torch.nested.nested_tensor(list(x)),
}
HOW = r"must be a dense tensor, got .*Use x.to_(dense|padded_tensor)"

pytestmark = pytest.mark.filterwarnings("ignore:Sparse CSR", "ignore:The PyTorch API of nested")


@pytest.fixture(params=LAYOUTS)
def layout(request: pytest.FixtureRequest) -> str:
    return request.param


def refused(name: str) -> object:
    return pytest.raises(TypeError, match=f"{name}.*{HOW}")


@pytest.mark.parametrize("name", ["q_poses", "k_poses", "values", "weights", "mask", "bias"])
def test_the_operator_wants_dense_tensors(name: str, layout: str) -> None:
    given = {
        "q_poses": POSES,
        "k_poses": POSES.clone(),
        "values": torch.ones(B, 3, N, 5),
        "weights": torch.ones(3, 2),
        "mask": torch.ones(B, 1, N, N, dtype=torch.bool),
        "bias": torch.zeros(B, 3, N, N),
    }
    with refused({"q_poses": "query poses", "k_poses": "key poses"}.get(name, name)):
        la.lie_attention(la.SE3, **{**given, name: LAYOUTS[layout](given[name])})


@pytest.mark.parametrize("name", ["h", "context", "context_poses", "mask", "bias", "neighbours"])
def test_a_layer_wants_dense_tensors(name: str, layout: str) -> None:
    layer, h = la.LieAttention(la.SE3, 8, 2), torch.zeros(B, N, 8)
    given = {
        "h": h,
        "context": h.clone(),
        "context_poses": POSES.clone(),
        "mask": torch.ones(B, N, N, dtype=torch.bool),
        "bias": torch.zeros(B, 2, N, N),
        "neighbours": torch.zeros(B, N, N, dtype=torch.int64),
    }
    with refused(name):
        layer(poses=POSES, **{**given, name: LAYOUTS[layout](given[name])})


@pytest.mark.parametrize("name", ["poses", "features", "mask", "frozen", "bias", "neighbours"])
def test_a_model_wants_dense_tensors(name: str, layout: str) -> None:
    features = 3 if name == "features" else 0
    model = la.LieTransformer(la.SE3, la.LieTransformerConfig(layers=1, features=features))
    given = {
        "poses": POSES,
        "features": torch.zeros(B, N, 3),
        "mask": torch.ones(B, N, N, dtype=torch.bool),
        "frozen": torch.zeros(B, N, dtype=torch.bool),
        "bias": torch.zeros(B, 4, N, N),
        "neighbours": torch.zeros(B, N, N, dtype=torch.int64),
    }
    with refused(name):
        model(**{"poses": POSES, name: LAYOUTS[layout](given[name])})


@pytest.mark.parametrize("kind", [la.CompletionModel, la.VectorCompletionModel, la.InfillModel])
def test_other_models_want_dense_poses(kind: type, layout: str) -> None:
    name = "missing" if kind is la.InfillModel else "mask"
    with refused("poses"):
        kind(la.SE3)(LAYOUTS[layout](POSES), **{name: torch.ones(B, N, dtype=torch.bool)})


@pytest.mark.parametrize("method", ["log", "inverse", "check", "project", "adjoint"])
def test_a_group_wants_dense_poses(method: str, layout: str) -> None:
    with refused("poses"):
        getattr(la.SE3, method)(LAYOUTS[layout](POSES))


def test_a_group_wants_dense_coordinates_and_pairs(layout: str) -> None:
    x = LAYOUTS[layout](torch.zeros(B, 6))
    for call in (la.SE3.exp, la.SE3.hat, la.SE3.to_physical, la.SE3.from_physical):
        with refused("coordinates"):
            call(x)
    for call in (la.SE3.compose, la.SE3.relative):
        with refused("poses"):
            call(POSES, LAYOUTS[layout](POSES))
    with refused("poses"):
        la.relations(la.SE3, POSES, LAYOUTS[layout](POSES))
