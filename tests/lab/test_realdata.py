"""`lieattn realdata`: the plan, a small run, the report, and going on."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import torch
from walks import command

import lieattn as la
from lieattn.lab.infill.settings import TrainSettings
from lieattn.lab.realdata.plan import GROUPS, chosen, models_of, plan
from lieattn.lab.realdata.report import build, over_geodesic
from lieattn.lab.report import markdown
from lieattn.lab.storage import RunError


def test_the_plan_holds_all_groups_models_and_seeds(tmp_path: Path) -> None:
    runs = plan(chosen([]), 3, 100, tmp_path)
    assert {run.group for run in runs} == {"SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3"}
    assert len({run.folder for run in runs}) == len(runs)
    assert {run.seed for run in runs} == {0, 1, 2}
    polar = [run for run in runs if run.model == "G polar"]
    assert {run.group for run in polar} == {"Aff2", "Aff3"}
    assert {run.settings.chart for run in polar} == {"polar"}
    assert models_of("SO2") == ["G", "C", "A"]
    assert chosen(["se(3)", "Aff2", "SE3"]) == ["SE3", "Aff2"]
    with pytest.raises(RunError, match="unknown group 'SE9'; known are SO2"):
        chosen(["SE9"])


def test_a_small_run_writes_its_report_and_is_not_run_twice(tmp_path: Path) -> None:
    options = ("--group", "SO2", "--seeds", 1, "--steps", 10, "--jobs", 1, "--out", tmp_path)
    code, out, errors = command("realdata", *options)
    assert (code, errors) == (0, "")
    assert "3 of 3 runs to do" in out
    assert "headings of a car" in out
    for name in ("results.json", "report.md", "report.html", "figures/realdata.svg"):
        assert (tmp_path / name).exists()
    found = json.loads((tmp_path / "results.json").read_text())
    assert [run["model"] for run in found["runs"]] == ["G", "C", "A"]
    code, out, _ = command("realdata", *options)
    assert "0 of 3 runs to do" in out


def fake(group: str, model: str, seed: int, factor: float) -> dict:
    """A run whose errors are those of interpolation times a factor."""

    def row(times: float) -> dict:
        blocks = {b.name: {"mean": times, "median": times} for b in la.get_group(group).blocks}
        return {"blocks": blocks, "mirrored": 0.0, "tokens": 5}

    letter = model.split()[0]
    rows = {"nearest": row(2.0), "geodesic": row(1.0), letter: row(factor)}
    settings = TrainSettings(files=(GROUPS[group],), model=letter, seed=seed).to_dict()
    return {
        "group": group,
        "model": model,
        "seed": seed,
        "settings": settings,
        "result": {"rows": rows},
    }


def test_the_report_has_every_method_and_its_spread() -> None:
    runs = [
        fake("SE3", model, seed, factor + 0.1 * seed)
        for model, factor in (("G", 0.5), ("C", 0.6), ("A", 0.9), ("IPA", 0.7))
        for seed in range(3)
    ] + [fake("Aff3", m, s, 0.4) for m in ("G", "G polar") for s in range(3)]
    text = markdown.render(build({"runs": runs}))
    assert "| SE(3) | backbones | 2 ± 0 | 0.6 ± 0.1 |" in text
    assert "| IPA | 0.8 ± 0.1 |" in text
    assert "| G polar |" in text
    assert "invariant point attention" in text


def test_blocks_that_interpolation_has_right_do_not_count() -> None:
    run = fake("SE2", "G", 0, 0.5)
    rows = run["result"]["rows"]
    rows["geodesic"]["blocks"]["rotation"]["mean"] = 0.0
    assert over_geodesic({**rows["G"], "all": rows}) == 0.5


def test_invariant_point_attention_is_a_rival_on_se3() -> None:
    pytest.importorskip("invariant_point_attention")
    from lieattn.lab.infill.ipa import PointInfillModel

    torch.manual_seed(0)
    model = PointInfillModel(la.SE3, la.LieTransformerConfig(dim=16, heads=2, layers=2))
    torch.nn.init.normal_(model.transformer.correction[-1].weight)
    poses = la.SE3.random(2, 7)
    hidden = (torch.arange(7) == 3).expand(2, 7)
    a = la.SE3.random()
    moved = model(la.SE3.compose(a, poses), hidden).poses
    expected = la.SE3.compose(a, model(poses, hidden).poses)
    torch.testing.assert_close(moved, expected, atol=1e-3, rtol=1e-3)
    with pytest.raises(RunError, match=r"model IPA knows SE\(3\), not SE\(2\)"):
        PointInfillModel(la.SE2, la.LieTransformerConfig())
