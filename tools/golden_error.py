"""Worst error of every group over the golden logarithms, in units of eps (cond |g| + |w|).

python tools/golden_error.py
"""

import json
from pathlib import Path

import torch

from lieattn import Group, get_group

GOLDEN = Path(__file__).parents[1] / "tests" / "golden" / "golden.json"


def worst(group: Group, cases: list[dict], dtype: torch.dtype) -> float:
    """Largest error over the cases on the chart; NaN would show as infinity."""
    ratios = []
    for case in cases:
        truth = case if dtype == torch.float64 else case["float32"]
        if truth["chart"] != "in":
            continue
        g = torch.tensor(truth["g"], dtype=dtype)
        exact = torch.tensor(truth["w"], dtype=torch.float64)
        error = (group.log(g).double() - exact).norm().nan_to_num(nan=torch.inf)
        size = truth["cond_abs"] * g.double().norm() + exact.norm()
        ratios.append((error / (torch.finfo(dtype).eps * size)).item() if error > 0 else 0.0)
    return max(ratios)


def main() -> None:
    print("| group | float32 | float64 |\n|---|---:|---:|")
    for name, cases in json.loads(GOLDEN.read_text())["cases"].items():
        group = get_group(name)
        row = [worst(group, cases, dtype) for dtype in (torch.float32, torch.float64)]
        print(f"| {group} | {row[0]:.2f} | {row[1]:.2f} |")


if __name__ == "__main__":
    main()
