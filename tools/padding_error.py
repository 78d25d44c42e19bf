"""Prints how much padding a set to twice its size changes a model's outputs, by group.

Run as `python tools/padding_error.py`: the default model and the options that add most, sets of
4 to 32 poses, float32, largest absolute change and the largest entry of that output.
"""

import torch

import lieattn as la
from lieattn import LieTransformerConfig

OPTIONS: dict[str, dict[str, object]] = {
    "default": {},
    "mlp": {"score": "mlp"},
    "content": {"content": True},
    "updates": {"pose_updates": True},
    "normalise": {"normalise": True},
}
OUTPUTS = ("hidden", "delta", "poses")


def changes(group: la.Group, options: dict[str, object], n: int) -> dict[str, tuple[float, float]]:
    """Largest change and largest entry of each output of one random model."""
    torch.manual_seed(0)
    config = LieTransformerConfig.paper(**options)  # type: ignore[arg-type]
    model = la.LieTransformer(group, config).eval()
    poses = group.compose(group.random(), group.exp(0.4 * torch.randn(2, n, group.dim)))
    padded = torch.cat([poses, group.random(2, n)], dim=1)
    mask = torch.arange(2 * n).expand(2, -1) < n
    with torch.no_grad():
        alone, among = model(poses), model(padded, mask=mask)
    result = {}
    for name in OUTPUTS:
        x, y = getattr(among, name)[:, :n], getattr(alone, name)
        result[name] = (x - y).abs().max().item(), y.abs().max().item()
    return result


def main() -> None:
    print("| group | options |", " | ".join(f"{name} (entries to)" for name in OUTPUTS), "|")
    print("|---|---|---|---|---|")
    for group in la.available_groups().values():
        for kind in ("default", "all"):
            chosen = OPTIONS.values() if kind == "all" else [OPTIONS["default"]]
            found = [changes(group, options, n) for options in chosen for n in (4, 7, 8, 16, 32)]
            worst = (max(f[name] for f in found) for name in OUTPUTS)
            print(f"| {group} | {kind} |", " | ".join(f"{d:.1e} ({e:.1f})" for d, e in worst), "|")


if __name__ == "__main__":
    main()
