"""`lieattn realdata`: the plan, a small run, going on, what is measured of the data."""

from __future__ import annotations

import json
import re
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from walks import command

import lieattn as la
from lieattn._core.errors import RunError
from lieattn.data import PoseSet, save
from lieattn.lab.realdata.measures import pairs_used, repeats
from lieattn.lab.realdata.plan import GROUPS, chosen, models_of, plan
from lieattn.workflows.preprocessing import choose_preprocessing
from lieattn.workflows.settings import TrainSettings
from lieattn.workflows.sources import parts
from lieattn.workflows.train import hidden_of_test, make_trainer

ROOT = Path(__file__).parents[2]
SMALL = la.LieTransformerConfig(dim=16, heads=2, layers=2)
OPTIONS = ("--group", "SO2", "--seeds", 2, "--steps", 10, "--jobs", 1)


# ---- the plan --------------------------------------------------------------------------------


def test_the_plan_holds_all_groups_models_and_seeds(tmp_path: Path) -> None:
    runs = plan(chosen([]), 3, None, tmp_path)
    assert {run.group for run in runs} == {"SO2", "SE2", "SO3", "SE3", "Aff2", "Aff3"}
    assert len({run.folder for run in runs}) == len(runs)
    assert {run.seed for run in runs} == {0, 1, 2}
    polar = [run for run in runs if run.model == "G polar"]
    assert {run.group for run in polar} == {"Aff2", "Aff3"}
    assert {run.settings.chart for run in polar} == {"polar"}
    assert models_of("SO2") == ["A", "A with invariants", "C", "G"]
    assert chosen(["se(3)", "Aff2", "SE3"]) == ["SE3", "Aff2"]
    with pytest.raises(RunError, match="unknown group 'SE9'; known are SO2"):
        chosen(["SE9"])


def test_models_of_a_group_differ_in_how_they_attend_alone(tmp_path: Path) -> None:
    for group in GROUPS:
        runs = [run for run in plan([group], 1, None, tmp_path) if run.model != "IPA"]
        plain = {replace(run.settings, model="G", chart="auto") for run in runs if run.model != "A"}
        assert len(plain) == 1
        (vectors,) = (run.settings for run in runs if run.model == "A")
        invariants = {"analogies": True} if group.startswith("Aff") else {"second_differences": 2}
        assert {replace(vectors, model="G", **invariants)} == plain


@pytest.mark.parametrize("group", GROUPS)
def test_models_of_a_group_are_of_one_size_and_told_the_same(group: str, tmp_path: Path) -> None:
    sizes, told = {}, {}
    for run in plan([group], 1, None, tmp_path):
        model = trainer_of(run.settings).model
        sizes[run.model] = sum(p.numel() for p in model.parameters())
        told[run.model] = replace(model.config, encoder=SMALL, absolute_frame=False)
        # Vector tokens are in the frame of the file by themselves.
        framed = run.settings.absolute_frame and run.settings.model != "A"
        assert model.config.absolute_frame == framed == (group == "Aff2" and run.model[0] != "A")
    plain = told.pop("A")
    invariants = {"analogies": True} if group.startswith("Aff") else {"second_differences": 2}
    assert all(x == replace(plain, **invariants) for x in told.values())
    assert max(sizes.values()) < 1.1 * min(sizes.values())


def trainer_of(settings: TrainSettings) -> Any:
    """At its start, on a few windows: it measures interpolation on them."""
    found = parts(settings)
    few = replace(found, train=found.train[:4], valid=found.valid[:4], test=found.test[:4])
    return make_trainer(settings, few, choose_preprocessing(settings, few.train))


def exam_of(settings: TrainSettings) -> torch.Tensor:
    found = parts(settings)
    return hidden_of_test(settings, found, choose_preprocessing(settings, found.train[:4]))[0][1]


def test_seeds_change_parameters_order_and_what_is_hidden(tmp_path: Path) -> None:
    one, other = (run.settings for run in plan(["SO2"], 2, None, tmp_path) if run.model == "G")
    first, second = trainer_of(one), trainer_of(other)
    assert not torch.equal(first.model.transformer.h0, second.model.transformer.h0)
    assert not torch.equal(first.stream.batch(0)[1], second.stream.batch(0)[1])
    exams = [exam_of(x) for x in (one, other)]
    assert not torch.equal(*exams)


def test_all_models_of_a_seed_find_the_same_hidden_poses(tmp_path: Path) -> None:
    exams = [exam_of(run.settings) for run in plan(["SE3"], 1, None, tmp_path)]
    assert all(torch.equal(x, exams[0]) for x in exams)


# ---- a run -----------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Path:
    out = tmp_path_factory.mktemp("realdata")
    code, text, errors = command("realdata", *OPTIONS, "--out", out)
    assert (code, errors) == (0, "")
    assert "8 of 8 runs to do" in text
    assert "SO(2)" in text
    return out


def test_a_small_run_writes_its_report(small: Path) -> None:
    for name in ("results.json", "report.md", "report.html", "figures/realdata.svg"):
        assert (small / name).exists()
    found = json.loads((small / "results.json").read_text())
    assert [run["model"] for run in found["runs"]] == ["A with invariants"] * 2 + ["A"] * 2 + [
        "C"
    ] * 2 + ["G"] * 2
    assert found["command"] == "lieattn realdata --group SO2 --seeds 2 --steps 10"
    assert found["seconds"] > 0
    errors = {r["result"]["rows"]["geodesic"]["blocks"]["rotation"]["mean"] for r in found["runs"]}
    assert len(errors) == 2  # other poses are hidden with another seed, the same for all models


def test_what_is_finished_is_not_run_twice_and_what_is_lost_is_run_alone(small: Path) -> None:
    before = (small / "results.json").read_bytes()
    _, text, _ = command("realdata", *OPTIONS, "--out", small)
    assert "0 of 8 runs to do" in text
    assert (small / "results.json").read_bytes() == before
    (small / "SO2" / "A" / "seed-1" / "result.json").unlink()
    _, text, _ = command("realdata", *OPTIONS, "--out", small)
    assert "1 of 8 runs to do" in text
    after = json.loads((small / "results.json").read_text())
    assert after["runs"] == json.loads(before)["runs"]


def test_a_folder_of_other_settings_is_refused(small: Path) -> None:
    other = [20 if x == 10 else x for x in OPTIONS]
    code, _, errors = command("realdata", *other, "--out", small)
    assert code == 2
    assert re.search(r"seed-0 holds another run: .*steps was 10, now 20.*--overwrite", errors)
    assert "Traceback" not in errors


def begun(out: Path) -> subprocess.Popen[str]:
    """The command at work in a process of its own, in the middle of a run."""
    arguments = ["realdata", "--group", "SO2", "--seeds", "1", "--jobs", "1", "--steps", "200"]
    started = subprocess.Popen(
        [sys.executable, "-m", "lieattn.cli", *arguments, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # Shells let what they start in the background ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    deadline = time.monotonic() + 600
    while not list(out.glob("SO2/*/seed-0/log.jsonl")):
        if started.poll() is not None or time.monotonic() > deadline:
            started.kill()
            raise AssertionError(started.communicate())
        time.sleep(0.2)
    return started


def test_stopped_by_a_key_it_says_how_to_go_on(tmp_path: Path) -> None:
    started = begun(tmp_path)
    started.send_signal(signal.SIGINT)
    try:
        _, errors = started.communicate(timeout=60)
    finally:
        started.kill()
    assert started.returncode == 130
    assert errors == (
        "lieattn realdata: stopped by Ctrl-C. What was computed is kept; the same command goes on "
        "from there.\n"
    )


def test_killed_it_takes_its_workers_along(tmp_path: Path) -> None:
    started = begun(tmp_path)
    started.kill()
    started.communicate(timeout=120)  # which waits for all that have its output open
    assert started.returncode == -signal.SIGKILL


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--group", "SE9"], "unknown group 'SE9'; known are SO2, .*, and all"),
        (["--seeds", "0"], "--seeds"),
        (["--steps", "1"], "--steps"),
        (["--jobs", "0"], "--jobs"),
    ],
)
def test_bad_requests_are_met_with_a_line(arguments: list[str], message: str) -> None:
    code, _, errors = command("realdata", *arguments)
    assert code == 2
    assert re.search(message, errors)
    assert "Traceback" not in errors


def test_a_place_that_cannot_be_written_is_told(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    code, _, errors = command("realdata", *OPTIONS, "--out", tmp_path / "file")
    assert code == 2
    assert errors.startswith("lieattn: cannot write ")


# ---- pairs -----------------------------------------------------------------------------------


def test_the_polar_chart_uses_all_pairs_but_those_at_its_cut(tmp_path: Path) -> None:
    runs = plan(["Aff2", "SE2"], 1, None, tmp_path)
    used = {run.group: pairs_used(run.settings) for run in runs if run.model == "G"}
    assert used["Aff2"]["principal"] < 0.95
    assert used["Aff2"]["polar"] > 0.98
    assert used["SE2"]["principal"] == used["SE2"]["polar"] > 0.99  # one chart by two names


# ---- repeats ---------------------------------------------------------------------------------


def test_what_repeats_in_rows_and_in_nothing(tmp_path: Path) -> None:
    """Rows of equal steps, poses that repeat, and poses of which nothing does."""
    poses = la.Aff2.random(30, 12, generator=torch.Generator().manual_seed(0), dtype=torch.float64)
    row = torch.eye(3, dtype=torch.float64).repeat(30, 12, 1, 1)
    row[..., 0, 2] = torch.arange(12.0)
    for name, sets, expected in (
        ("rows", row, {"linear": 1, "position": 0, "step": 1}),
        ("twice", poses[:, :6].repeat(1, 2, 1, 1), {"linear": 1, "position": 1, "step": 1}),
        ("none", poses, {"linear": 0, "position": 0, "step": 0}),
    ):
        files = [tmp_path / f"{name}-{i}.npz" for i in range(3)]
        for file, part in zip(files, sets.split(10), strict=True):
            there, names = torch.ones(12, dtype=torch.bool), tuple(map(str, range(12)))
            save(file, [PoseSet(la.Aff2, x, there, names, "", file.name) for x in part])
        given = {"files": tuple(map(str, files)), "window": 12, "hide": 0.1, "gaps": "tokens"}
        found = repeats(TrainSettings(**given))
        assert found.pop("windows") == 10
        assert found == expected, name


# ---- invariant point attention ---------------------------------------------------------------


def test_invariant_point_attention_is_a_rival_on_se3() -> None:
    pytest.importorskip("invariant_point_attention")
    from lieattn.models.baselines.ipa import PointInfillModel

    torch.manual_seed(0)
    model = PointInfillModel(la.SE3, la.InfillConfig(encoder=SMALL))
    torch.nn.init.normal_(model.transformer.correction[-1].weight)
    poses = la.SE3.random(2, 7)
    hidden = (torch.arange(7) == 3).expand(2, 7)
    a = la.SE3.random()
    moved = model(la.SE3.compose(a, poses), missing=hidden).poses
    expected = la.SE3.compose(a, model(poses, missing=hidden).poses)
    torch.testing.assert_close(moved, expected, atol=1e-3, rtol=1e-3)
    with pytest.raises(RunError, match=r"model IPA knows SE\(3\), not SE\(2\)"):
        PointInfillModel(la.SE2)
