"""Prints the table of equivariance errors in docs/performance.md: the worst option of each group.

Run as `python tools/equivariance_table.py`: three random models and sets of 32 poses for each
option, ten random elements each, about two minutes.
"""

import torch

import lieattn as la
from lieattn import LieTransformerConfig
from lieattn.testing import allowed_error, equivariance_error

OPTIONS: dict[str, dict[str, object]] = {
    **{score: {"score": score} for score in la.scores.SCORES},
    "log weights": {"positive": "log"},
    "directed": {"directed": True},
    "content": {"content": True},
    "polar": {"chart": "polar"},
    "features": {"features": 3},
    "pose updates": {"pose_updates": True},
    "global output": {"output": "global"},
    "normalise": {"normalise": True},
}


def error(group: la.Group, options: dict[str, object], seed: int) -> float:
    """Error of one random model on one random set."""
    torch.manual_seed(seed)
    config = LieTransformerConfig.paper(**options)  # type: ignore[arg-type]
    model = la.LieTransformer(group, config)
    poses = group.random(1, 32)
    features = torch.randn(1, 32, config.features) if config.features else None
    return equivariance_error(lambda g: model.eval()(g, features), group, poses)


def vector_error(group: la.Group) -> float:
    torch.manual_seed(0)
    return equivariance_error(la.VectorCompletionModel(group), group, group.random(1, 32))


def main() -> None:
    print("| group | paper's model | worst option | allowed | vector tokens |")
    print("|---|---|---|---|---|")
    for name in ("SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3"):
        group = la.get_group(name)
        errors = {
            option: sum(error(group, options, seed) for seed in range(3)) / 3
            for option, options in OPTIONS.items()
        }
        worst = max(errors, key=errors.__getitem__)
        print(
            f"| {group} | {errors['norm']:.0e} | {errors[worst]:.0e} ({worst}) "
            f"| {allowed_error(group, torch.float32):.0e} | {vector_error(group):.0e} |",
            flush=True,
        )


if __name__ == "__main__":
    main()
