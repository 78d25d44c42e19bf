"""The report of `lieattn realdata`, and the published page."""

from __future__ import annotations

import io
import json
import re
import runpy
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

import lieattn as la
from lieattn.lab.realdata.affine import charts_table
from lieattn.lab.realdata.plan import GROUPS, RECIPES, published_models
from lieattn.lab.realdata.report import build, front_note, glance_table, group_table, print_tables
from lieattn.lab.realdata.results import rows_of, verdict
from lieattn.lab.report import markdown
from lieattn.workflows.settings import TrainSettings

ROOT = Path(__file__).parents[2]

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
    repeated = {"linear": 0.25, "position": 0.125, "step": 0.5, "windows": 1000}
    return {
        "command": "lieattn realdata",
        "seconds": 100.0,
        "jobs": 2,
        "made_with": {"lieattn": "0"},
        "pairs": dict.fromkeys(GROUPS, pairs),
        "repeats": dict.fromkeys(("Aff2", "Aff3"), repeated),
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
    assert "- **Aff(3)**: G polar 0.3, A 0.9: ahead of nearest, geodesic and A" in text
    assert "| Aff(3) | 25% | 12% | 50% | 1,000 |" in text
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
    runs += [fake("Aff2", "A", 0, 0.7), fake("Aff2", "A with invariants", 0, 0.55)]
    found = results(runs)
    assert verdict(found, "Aff2").ours == "G polar"
    assert "A with invariants is ahead of it on Aff(2)." in front_note(found)
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
        for model in published_models(group)
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
    short = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "training.md").write_text(short, encoding="utf-8")
    tool["publish"](tmp_path / "run", tmp_path)
    page = (tmp_path / "docs" / "real-data" / "README.md").read_text(encoding="utf-8")
    assert found["command"] in page
    assert markdown.table(charts_table(found)) in page
    for name in re.findall(r"\]\((figures/[^)]*)\)", page):
        assert (tmp_path / "docs" / "real-data" / name).exists()
    written = (tmp_path / "docs" / "training.md").read_text(encoding="utf-8")
    assert f"<!-- realdata -->\n{markdown.table(glance_table(found))}\n" in written
    (tmp_path / "run" / "results.json").write_text(json.dumps({**found, "runs": found["runs"][1:]}))
    with pytest.raises(SystemExit, match="does not hold the whole table: 80 of 81"):
        tool["publish"](tmp_path / "run", tmp_path)


def test_the_pages_say_what_the_published_numbers_say() -> None:
    tool, docs = published()
    short = (ROOT / "docs" / "training.md").read_text(encoding="utf-8")
    found = json.loads((docs / "results.json").read_text(encoding="utf-8"))
    tool["require_whole"](found, docs)
    assert tool["page"](found) == (docs / "README.md").read_text(encoding="utf-8")
    assert tool["with_table"](short, found) == short
    for figure in build(found).figures():
        assert (docs / "figures" / f"{figure.name}.svg").exists()
