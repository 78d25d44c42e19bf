"""Models for every field of `LieTransformerConfig`, whose layers are answered by a named backend.

`test_config_fields.py` tries them on the backends of this machine, `triton_cases.py` on Triton's
interpreter. A field without a case here fails `test_config_fields.py`.
"""

from dataclasses import dataclass, field, fields

import pytest
import torch
from torch import Tensor

import lieattn as la
from lieattn import Group, LieTransformerConfig, scores

B, N = 2, 5
SMALL = {"dim": 8, "heads": 2, "layers": 2}
Given = dict[str, object]


@dataclass(frozen=True)
class Case:
    """A config with a field that is not the default, and the same one without it."""

    changes: Given
    given: Given = field(default_factory=dict)  # options of both
    group: Group = la.SE3
    permitted: float = 0.0  # error that the field allows
    autocast: bool = False
    training: bool = False

    @property
    def name(self) -> str:
        options = {**self.given, **self.changes}
        return "-".join([str(self.group), *(f"{name}={value}" for name, value in options.items())])


CASES: dict[str, list[Case]] = {
    "dim": [Case({"dim": 4})],
    "heads": [Case({"heads": 1})],
    "layers": [Case({"layers": 1})],
    "score": [Case({"score": name}) for name in scores.SCORES if name != "norm"],
    "positive": [Case({"positive": "log"})],
    "directed": [Case({"directed": True})],
    "content": [Case({"content": True}), Case({"content": True}, {"normalise": True})],
    "chart": [Case({"chart": "polar"}, group=la.Aff2)],
    "chart_margin": [Case({"chart_margin": 0.9}), Case({"chart_margin": 0.9}, group=la.SO2)],
    "exclude_self": [Case({"exclude_self": False})],
    "features": [Case({"features": 3})],
    "pose_updates": [Case({"pose_updates": True})],
    "detach_rotations": [Case({"detach_rotations": True}, {"pose_updates": True})],
    "output": [Case({"output": "global"}, group=la.Aff2)],
    "normalise": [Case({"normalise": True}), Case({"normalise": True}, {"pose_updates": True})],
    "dropout": [Case({"dropout": 0.5}, training=True)],
    "autocast": [Case({"autocast": True}, autocast=True)],
    "prune": [Case({"prune": 0.01}, permitted=0.05)],
}


def without_cases(kind: type[LieTransformerConfig]) -> list[str]:
    """Fields that no case tries."""
    return [field.name for field in fields(kind) if not CASES.get(field.name)]


def poses_of(group: Group) -> Tensor:
    generator = torch.Generator().manual_seed(0)
    return group.random(B, N, generator=generator)


def model_of(case: Case, options: Given) -> la.LieTransformer:
    """Away from the start, where much is zero; parameters of one name and shape are the same."""
    config = LieTransformerConfig(**{**SMALL, **case.given, **options})
    model = la.LieTransformer(case.group, config).train(case.training)
    with torch.no_grad():
        for name, x in model.named_parameters():
            draw = torch.Generator().manual_seed(len(name) + 7 * x.numel())
            x.copy_(0.5 * torch.randn(x.shape, generator=draw) + (x.dim() == 1))
    return model


def answer(case: Case, options: Given, backend: str | None) -> dict[str, Tensor]:
    """Results and gradients, of layers that compute relations by a backend, or share them."""
    model = model_of(case, options)
    leaves = {"poses": poses_of(case.group), **dict(model.named_parameters())}
    torch.manual_seed(0)
    width = model.config.features
    features = torch.randn(B, N, width) if width else None
    leaves["poses"].requires_grad_()
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("lieattn.ops.policy.is_fast", lambda request: False)
        if backend is not None:
            patch.setattr("lieattn.ops.policy.KEPT_BYTES", -1)
            for layer in model.layers:
                layer.attention.backend = backend
        out = _run(model, leaves["poses"], features, case.autocast)
    results = {"hidden": out.hidden, "delta": out.delta, "poses": out.poses}
    loss = sum((x * torch.randn(x.shape)).sum() for x in results.values())
    how = {"allow_unused": True, "materialize_grads": True}
    found = torch.autograd.grad(loss, list(leaves.values()), **how)
    gradients = {f"d {name}": x for name, x in zip(leaves, found, strict=True)}
    moved = leaves["poses"].detach()[..., None, :, :] @ case.group.basis()
    gradients["d poses"] = (gradients["d poses"][..., None, :, :] * moved).sum((-2, -1))
    return {name: x.detach() for name, x in {**results, **gradients}.items()}


def _run(
    model: la.LieTransformer, poses: Tensor, features: Tensor | None, autocast: bool
) -> la.LieTransformerOutput:
    torch.manual_seed(1)  # of dropout
    # oneDNN's bfloat16 kernels stop the process on machines that announce AMX but forbid it.
    with (
        torch.backends.mkldnn.flags(enabled=not autocast),
        torch.autocast("cpu", torch.bfloat16, enabled=autocast),
    ):
        return model(poses, features=features)


def apart(a: dict[str, Tensor], b: dict[str, Tensor]) -> float:
    """The largest distance of two results in parts of their size; infinite for other shapes."""
    largest = 0.0
    for name in a.keys() & b.keys():
        x, y = a[name], b[name]
        if x.shape != y.shape or x.dtype != y.dtype:
            return float("inf")
        size = max(1.0, float(y.double().norm()))
        largest = max(largest, float((x.double() - y.double()).norm()) / size)
    return largest


_asked: dict[str, dict[str, Tensor]] = {}


def asked(case: Case) -> dict[str, Tensor]:
    """The answer of layers that share relations."""
    if case.name not in _asked:
        _asked[case.name] = answer(case, case.changes, None)
    return _asked[case.name]


def check(case: Case, backend: str) -> bool:
    """Layers answer as the reference does, or refuse with a reason; whether they answer."""
    try:
        found = answer(case, case.changes, backend)
    except ValueError as error:
        if f"backend {backend!r} cannot do this: it " not in str(error):
            raise
        return False
    expected = asked(case)
    allowed = max(case.permitted, 0.01 if case.autocast else 2e-4)
    assert found.keys() == expected.keys()
    error = apart(found, expected)
    assert error <= allowed, f"{case.name}: {error:.1e} from the reference"
    return True


def matters(case: Case) -> bool:
    """Whether an answer without the field would be seen to be wrong."""
    return apart(answer(case, {}, None), asked(case)) > 0.02


def all_cases() -> list[Case]:
    return [case for of_field in CASES.values() for case in of_field]
