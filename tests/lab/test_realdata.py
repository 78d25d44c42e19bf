"""`lieattn realdata`: the plan, a small run, going on, the report, and the published page."""

from __future__ import annotations

import io
import json
import re
import runpy
import signal
import subprocess
import sys
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from walks import command

import lieattn as la
from lieattn.lab.infill.advice import choose
from lieattn.lab.infill.run import hidden_of_test, make_trainer
from lieattn.lab.infill.settings import TrainSettings
from lieattn.lab.infill.sources import parts
from lieattn.lab.realdata.pairs import pairs_used
from lieattn.lab.realdata.plan import GROUPS, RECIPES, chosen, models_of, plan
from lieattn.lab.realdata.report import (
    build,
    charts_table,
    front_note,
    glance_table,
    group_table,
    print_tables,
)
from lieattn.lab.realdata.results import rows_of, verdict
from lieattn.lab.report import markdown
from lieattn.lab.storage import RunError

ROOT = Path(__file__).parents[2]
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
    assert models_of("SO2") == ["G", "C", "A", "A told"]
    assert chosen(["se(3)", "Aff2", "SE3"]) == ["SE3", "Aff2"]
    with pytest.raises(RunError, match="unknown group 'SE9'; known are SO2"):
        chosen(["SE9"])


def test_models_of_a_group_differ_in_how_they_attend_alone(tmp_path: Path) -> None:
    for group in GROUPS:
        runs = [run for run in plan([group], 1, None, tmp_path) if run.model != "IPA"]
        plain = {replace(run.settings, model="G", chart="auto") for run in runs if run.model != "A"}
        assert len(plain) == 1
        (vectors,) = (run.settings for run in runs if run.model == "A")
        invariants = {"analogies": True} if group.startswith("Aff") else {"bends": 2}
        assert {replace(vectors, model="G", **invariants)} == plain


@pytest.mark.parametrize("group", GROUPS)
def test_models_of_a_group_are_of_one_size_and_told_the_same(group: str, tmp_path: Path) -> None:
    sizes, told = {}, {}
    for run in plan([group], 1, None, tmp_path):
        model = trainer_of(run.settings).model
        sizes[run.model] = sum(p.numel() for p in model.parameters())
        told[run.model] = {name: x for name, x in model.options.items() if name != "framed"}
        # Vector tokens are in the frame of the file by themselves.
        framed = run.settings.framed and run.settings.model != "A"
        assert model.framed == framed == (group == "Aff2" and run.model[0] != "A")
    plain = told.pop("A")
    invariants = {"analogies": 1} if group.startswith("Aff") else {"bends": 2}
    assert all(x == {**plain, **invariants} for x in told.values())
    assert max(sizes.values()) < 1.1 * min(sizes.values())


def trainer_of(settings: TrainSettings) -> Any:
    """At its start, on a few windows: it measures interpolation on them."""
    found = parts(settings)
    few = replace(found, train=found.train[:4], valid=found.valid[:4], test=found.test[:4])
    return make_trainer(settings, few, choose(settings, few.train))


def exam_of(settings: TrainSettings) -> torch.Tensor:
    found = parts(settings)
    return hidden_of_test(settings, found, choose(settings, found.train[:4]))[0][1]


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
    assert [run["model"] for run in found["runs"]] == ["A told"] * 2 + ["A"] * 2 + ["C"] * 2 + [
        "G"
    ] * 2
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
    assert re.search(r"seed-0 holds another run: .*steps was 10, now 20.*--again", errors)
    assert "Traceback" not in errors


def begun(out: Path) -> subprocess.Popen[str]:
    """The command at work in a process of its own, in the middle of a run."""
    arguments = ["realdata", "--group", "SO2", "--seeds", "1", "--jobs", "1", "--steps", "200"]
    started = subprocess.Popen(
        [sys.executable, "-m", "lieattn.cli", *arguments, "--out", str(out)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
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
    _, errors = started.communicate(timeout=60)
    assert started.returncode == 130
    assert errors == "lieattn: stopped. The same command, without --again, goes on from here.\n"


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


# ---- the report ------------------------------------------------------------------------------


def fake(
    group: str,
    model: str,
    seed: int,
    factor: float,
    tail: float = 1.0,
    valid: float | None = None,
) -> dict[str, Any]:
    """A run whose errors are those of interpolation times a factor."""

    def row(times: float) -> dict[str, Any]:
        blocks = {b.name: {"mean": times, "median": times} for b in la.get_group(group).blocks}
        return {"blocks": blocks, "mirrored": 0.0, "tokens": 5}

    letter = model.split()[0]
    rows = {"nearest": row(2.0), "geodesic": row(1.0), letter: row(factor)}
    for block in rows[letter]["blocks"].values():
        block["median"] *= tail
    settings = TrainSettings(files=(GROUPS[group],), model=letter, seed=seed).to_dict()
    result = {"rows": rows, "windows": 3}
    names = ("group", "model", "seed", "settings", "parameters", "valid_loss", "result")
    values = (group, model, seed, settings, 1000, factor if valid is None else valid, result)
    return dict(zip(names, values, strict=True))


def results(runs: list[dict[str, Any]]) -> dict[str, Any]:
    pairs = {"principal": 0.5, "polar": 1.0}
    return {
        "command": "lieattn realdata",
        "seconds": 100.0,
        "jobs": 2,
        "made_with": {"lieattn": "0"},
        "pairs": dict.fromkeys(GROUPS, pairs),
        "runs": runs,
    }


def test_the_report_has_every_method_and_its_spread() -> None:
    runs = [
        fake("SE3", model, seed, factor + 0.1 * seed)
        for model, factor in (("G", 0.5), ("C", 0.6), ("A", 0.9), ("IPA", 0.7))
        for seed in range(3)
    ]
    runs += [fake("Aff3", "A", s, 0.9) for s in range(3)]
    runs += [fake("Aff3", m, s, x) for m, x in (("G", 0.4), ("G polar", 0.3)) for s in range(3)]
    text = markdown.render(build(results(runs)))
    assert "| error over geodesic | SE(3) | Aff(3) |" in text
    assert "| data | backbones | bricks |" in text
    assert "| geodesic | 1 | 1 |" in text
    assert "| IPA | 0.8 ± 0.1 |  |" in text
    assert "| G | **0.6 ± 0.1** | 0.4 ± 0 |" in text
    assert "| G polar | = G | **0.3 ± 0** |" in text
    assert "| Aff(3) | 50% | 100% | 0.4 ± 0 | 0.3 ± 0 | 25 ± 0% |" in text
    assert "- **Aff(3)**: G polar 0.3, A 0.9: ahead of A and of all simple rivals" in text
    assert "IPA is left out" not in text


def test_the_table_of_a_terminal_is_not_cut_off() -> None:
    console = Console(file=io.StringIO(), width=80)
    print_tables(whole(), console)
    assert isinstance(console.file, io.StringIO)
    text = console.file.getvalue()
    assert "…" not in text
    assert max(map(len, text.splitlines())) <= 80
    lines = [line.split() for line in text.splitlines()]
    assert ["nearest", *["2.00"] * 6] in lines
    assert ["G", "polar", "=", "G", "=", "G", "=", "G", "=", "G", "0.50", "0.50"] in lines


def test_medians_are_told_apart_from_means() -> None:
    found = results([fake("SO2", "G", 0, 0.5, tail=0.5)])
    row = next(row for row in group_table(found, "SO2").rows if row[0] == "G")
    assert row == ["G", "0.5 (0.25)", "0.5", "0.25"]


@pytest.mark.parametrize(("a", "ahead", "seeds"), [(0.6, True, 2), (0.4, False, 0)])
def test_the_verdict_is_by_seeds_too(a: float, ahead: bool, seeds: int) -> None:
    runs = [fake("SE2", "G", s, 0.5) for s in range(2)] + [fake("SE2", "A", s, a) for s in range(2)]
    found = results(runs)
    x = verdict(found, "SE2")
    assert (x.ours, x.rival, x.ahead, x.seeds, x.of) == ("G", "A", ahead, seeds, 2)
    text = markdown.render(build(found))
    assert ("**not ahead**" in text) is not ahead
    assert ("but SE(2)" in front_note(found)) is not ahead


def test_the_chart_is_chosen_by_validation_and_who_else_is_ahead_is_said() -> None:
    runs = [fake("Aff2", "G", 0, 0.5, valid=0.9), fake("Aff2", "G polar", 0, 0.6, valid=0.8)]
    runs += [fake("Aff2", "A", 0, 0.7), fake("Aff2", "A told", 0, 0.55)]
    found = results(runs)
    assert verdict(found, "Aff2").ours == "G polar"
    assert "A told is ahead of it on Aff(2)." in front_note(found)
    assert "C is ahead" not in front_note(found)


def test_blocks_that_interpolation_has_right_do_not_count() -> None:
    run = fake("SE2", "G", 0, 0.5)
    run["result"]["rows"]["geodesic"]["blocks"]["rotation"]["mean"] = 0.0
    assert rows_of(results([run]), "SE2")["G"][0].over == 0.5


# ---- the published page ----------------------------------------------------------------------


def published() -> tuple[Any, Path]:
    return runpy.run_path(str(ROOT / "tools" / "publish_realdata.py")), ROOT / "docs" / "real-data"


def whole() -> dict[str, Any]:
    runs = [
        fake(group, model, seed, 0.5)
        for group in GROUPS
        for model in RECIPES[group].costs
        for seed in range(3)
    ]
    for run in runs:
        run["settings"]["steps"] = RECIPES[run["group"]].steps
    return results(runs)


def test_publishing_writes_pages_that_agree_with_the_numbers(tmp_path: Path) -> None:
    tool, _ = published()
    found = whole()
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "results.json").write_text(json.dumps(found))
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    (tmp_path / "README.md").write_text(front, encoding="utf-8")
    tool["publish"](tmp_path / "run", tmp_path)
    page = (tmp_path / "docs" / "real-data" / "README.md").read_text(encoding="utf-8")
    assert found["command"] in page
    assert markdown.table(charts_table(found)) in page
    for name in re.findall(r"\]\((figures/[^)]*)\)", page):
        assert (tmp_path / "docs" / "real-data" / name).exists()
    written = (tmp_path / "README.md").read_text(encoding="utf-8")
    assert f"<!-- realdata -->\n{markdown.table(glance_table(found))}\n" in written
    (tmp_path / "run" / "results.json").write_text(json.dumps({**found, "runs": found["runs"][1:]}))
    with pytest.raises(SystemExit, match="does not hold the whole table: 80 of 81"):
        tool["publish"](tmp_path / "run", tmp_path)


def test_the_pages_say_what_the_published_numbers_say() -> None:
    tool, docs = published()
    front = (ROOT / "README.md").read_text(encoding="utf-8")
    if not (docs / "results.json").exists():
        assert "<!-- realdata -->\n<!-- end of realdata -->" in front
        return
    found = json.loads((docs / "results.json").read_text(encoding="utf-8"))
    tool["require_whole"](found, docs)
    assert tool["page"](found) == (docs / "README.md").read_text(encoding="utf-8")
    assert tool["with_table"](front, found) == front
    for figure in build(found).figures():
        assert (docs / "figures" / f"{figure.name}.svg").exists()


# ---- invariant point attention ---------------------------------------------------------------


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
