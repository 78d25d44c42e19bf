"""The benchmark reports what it measured: numbers, tables, pages, progress."""

from __future__ import annotations

import copy
import io
import json
import os
import re
import runpy
from itertools import product
from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from lieattn.lab.bench import contestants, measuring, progress
from lieattn.lab.bench.cases import PASSES
from lieattn.lab.bench.page import document, front_note, front_table
from lieattn.lab.bench.peers import missing
from lieattn.lab.bench.request import Request
from lieattn.lab.bench.results import ratio, rows, short
from lieattn.lab.bench.run import run
from lieattn.lab.bench.terminal import print_tables
from lieattn.lab.report import markdown

ROOT = Path(__file__).parents[2]
TINY = Request(("SE3", "SO3"), (4, 8), (2,), heads=2, repeat=2, budget=0.1, threads=1, memory=False)


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A whole run, as it was written."""
    out = tmp_path_factory.mktemp("bench")
    assert run(TINY, out, Console(file=io.StringIO(), width=80)) is None
    return json.loads((out / "bench.json").read_text(encoding="utf-8"))


def test_a_run_measures_every_pass_of_everybody(found: dict[str, Any]) -> None:
    assert found["complete"]
    assert [(c["group"], c["n"]) for c in found["cells"]] == [
        ("SE3", 4),
        ("SE3", 8),
        ("SO3", 4),
        ("SO3", 8),
    ]
    for cell in found["cells"]:
        keys = {(r["contestant"], r["pass"]) for r in cell["records"] if "minimum" in r}
        assert {("sdpa", "forward"), ("sdpa", "backward")} <= keys
        for name in ("reference", "literal"):
            assert {(name, which) for which in PASSES} <= keys
        peers = {key[0] for key in keys} & set(contestants.PEERS)
        assert peers == (
            set(contestants.PEERS) - set(missing()) if cell["group"] == "SE3" else set()
        )
    for name in missing():
        assert any(name in note and "pip install" in note for note in found["notes"])


def test_ratios_are_to_sdpa_of_the_same_cell(found: dict[str, Any]) -> None:
    cell = found["cells"][1]
    least = {(r["contestant"], r["pass"]): r["minimum"] for r in cell["records"]}
    row = next(x for x in rows(found) if x.cell is cell and x.name == "literal")
    for which, below in (("forward", "forward"), ("backward", "backward"), ("poses", "backward")):
        expected = least["literal", which] / least["sdpa", below]
        assert row.ratios[which] == pytest.approx(expected)


def test_tables_fit_80_columns_and_pages_hold_them(found: dict[str, Any]) -> None:
    console = Console(record=True, width=80, file=io.StringIO())
    print_tables(found, console)
    text = console.export_text()
    assert "…" not in text
    page = markdown.render(document(found), folder=".")
    for row in rows(found):
        number = ratio(row.ratios["forward"])
        label = row.label.removeprefix("lieattn ")
        assert re.search(rf"{label} .* {re.escape(number)} ", text)
        assert re.search(rf"\| {row.label} \| .* \| {re.escape(number)} \|", page)
    assert "./time.svg" in page
    assert "./time-backward.svg" in page
    for figure in document(found).figures():
        svg = figure.svg.decode()
        for title in ("SE(3), head width 2", "SO(3), head width 2", "paper-literal", "SDPA"):
            assert title in svg


def test_the_layer_is_timed_beside_its_reference(found: dict[str, Any]) -> None:
    layer = found["layer"]
    assert (layer["batch"], layer["n"], layer["dim"], layer["heads"]) == (64, 7, 32, 4)
    least = {(r["group"], r["backend"], r["pass"]): r["minimum"] for r in layer["records"]}
    assert set(least) == set(product(("SE3", "SO3"), ("auto", "reference"), PASSES))
    console = Console(record=True, width=80, file=io.StringIO())
    print_tables(found, console)
    page = markdown.render(document(found), folder=".")
    expected = ratio(least["SO3", "auto", "poses"] / least["SO3", "reference", "poses"])
    chosen = layer["chosen"]["SO3"]
    assert re.search(rf"\nSO\(3\) {chosen} .* {re.escape(expected)}\n", console.export_text())
    assert re.search(rf"\n\| SO\(3\) \| {chosen} \| .* \| {re.escape(expected)} \|\n", page)


def test_large_numbers_fit_80_columns_too(found: dict[str, Any]) -> None:
    large = copy.deepcopy(found) | {"memory_method": "guessed"}
    for cell in large["cells"]:
        cell["n"] = 16384
        for record in cell["records"]:
            record |= {"minimum": 98.7 if record["contestant"] != "sdpa" else 0.11}
            record["memory"] = 14_900_000_000
    console = Console(record=True, width=80, file=io.StringIO())
    print_tables(large, console)
    text = console.export_text()
    assert "…" not in text
    assert re.search("16384 SDPA .*\n(.*\n)* +reference +98,700 +897 .* 15,000 +15,000", text)


def test_memory_that_was_not_measured_is_a_dash_but_for_the_one_backward_of_sdpa(
    found: dict[str, Any],
) -> None:
    some = copy.deepcopy(found) | {"memory_method": "guessed"}
    for record in (record for cell in some["cells"] for record in cell["records"]):
        if record["pass"] == "backward":
            record["memory"] = 7_700_000
    console = Console(record=True, width=80, file=io.StringIO())
    print_tables(some, console)
    lines = console.export_text().splitlines()
    assert next(line for line in lines if "SDPA " in line).split()[-2:] == ["-", "7.7"]
    assert next(line for line in lines if "reference" in line).split()[-2:] == ["-", "-"]


@pytest.mark.parametrize(("load", "warned"), [(0.1, False), (3.0, True)])
def test_a_busy_machine_is_noted(
    load: float, warned: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (load, 0.0, 0.0))
    notes = measuring.Bench(TINY).notes
    assert any("busy (load 3.0)" in note for note in notes) == warned


def test_results_name_no_computer_and_no_folder(found: dict[str, Any]) -> None:
    text = json.dumps(found)
    assert os.uname().nodename not in text
    assert str(ROOT) not in text
    assert found["machine"]["torch_features"]
    assert found["command"] == (
        "lieattn bench --group SE3 --group SO3 --n 4 --n 8 --head-width 2 --heads 2 --repeat 2 "
        "--budget 0.1 --threads 1 --no-memory"
    )


@pytest.mark.parametrize("terminal", [True, False])
def test_progress_tells_what_is_measured_and_what_is_done(
    terminal: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(progress, "SILENCE", 0.0)
    asked = Request(
        ("SO2",), (4, 8), (2,), repeat=1, backward=False, memory=False, layer=False, peers=False
    )
    stream = io.StringIO()
    console = Console(file=stream, force_terminal=terminal, width=80)
    progress.follow(measuring.Bench(asked).run(), 2, console)
    text = re.sub(r"\x1b\[[0-9;?]*[A-Za-z]", "", stream.getvalue())
    lines = text.replace("\r", "\n").splitlines()
    for name in ("SDPA", "tiled", "paper-literal"):
        assert any(f"SO(2), width 2, N 8: {name}, forward" in line for line in lines)
    ends = [line for line in lines if " of 2" in line]
    assert re.search(r"SO\(2\), width 2, N 8 .* [0-9.,]+ x SDPA, 2 of 2", ends[1])
    if terminal:
        assert "100%" in lines[-1]
        assert max(map(len, lines)) <= 80
    else:
        assert all(line.endswith(" s left") for line in ends)


def test_progress_fits_a_terminal_however_long_the_names() -> None:
    for each in contestants.everybody(contestants.own_backends(), peers=True).values():
        text = f"memory of {each.short}, backward"
        event = measuring.Event("Aff(3), width 64, N 65536", 0.5, text)
        stream = io.StringIO()
        progress.follow([event], 1, Console(file=stream, force_terminal=True, width=80))
        assert f"Aff(3), width 64, N 65536: {text}" in stream.getvalue()


def test_a_file_is_told_before_a_long_call_whose_it_is() -> None:
    events = [
        measuring.Event("N 8", 0.1, f"{name}", seconds)
        for name, seconds in (("a", 0.1), ("b", 60.0))
    ]
    stream = io.StringIO()
    progress.follow(events, 1, Console(file=stream, width=80))
    assert stream.getvalue() == "00:00:00  N 8: b, about 60 s\n"


def test_numbers_are_short() -> None:
    times = (0.0312, 0.312, 3.12, 31.2, 312.4, 3124.0)
    assert " ".join(map(short, times)) == "0.031 0.312 3.12 31.2 312 3,120"
    ratios = (0.734, 1.0, 16.4, 1684.0, None)
    assert " ".join(map(ratio, ratios)) == "0.73 1.00 16 1,684 -"
    assert progress.time_left(30.0, 0.5) == "30 s left"
    assert progress.time_left(300.0, 0.5) == "5 min left"


def test_publishing_writes_pages_that_agree_with_the_numbers(
    found: dict[str, Any], tmp_path: Path
) -> None:
    tool = runpy.run_path(str(ROOT / "tools" / "publish_bench.py"))
    (tmp_path / "run").mkdir()
    (tmp_path / "run" / "bench.json").write_text(json.dumps(found))
    short = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    (tmp_path / "docs").mkdir()
    (tmp_path / "docs" / "performance.md").write_text(short, encoding="utf-8")
    tool["publish"](tmp_path / "run", tmp_path)
    page = (tmp_path / "docs" / "benchmarks" / "README.md").read_text(encoding="utf-8")
    assert found["command"] in page
    for name in re.findall(r"\]\((figures/[^)]*)\)", page):
        assert (tmp_path / "docs" / "benchmarks" / name).exists()
    table = markdown.table(front_table(found))
    written = (tmp_path / "docs" / "performance.md").read_text(encoding="utf-8")
    assert f"<!-- bench -->\n{table}\n\n{front_note(found)}\n<!-- end of bench -->" in written
    assert "forward / forward + backward with pose gradients" in front_note(found)
    assert len(front_table(found).rows) == 2
    (tmp_path / "run" / "bench.json").write_text(json.dumps({**found, "complete": False}))
    with pytest.raises(SystemExit, match="stopped before its end"):
        tool["publish"](tmp_path / "run", tmp_path)


def test_the_pages_say_what_the_published_numbers_say() -> None:
    """Without published numbers docs/performance.md has no table."""
    tool = runpy.run_path(str(ROOT / "tools" / "publish_bench.py"))
    docs = ROOT / "docs" / "benchmarks"
    short = (ROOT / "docs" / "performance.md").read_text(encoding="utf-8")
    if not (docs / "bench.json").exists():
        assert "<!-- bench -->\n<!-- end of bench -->" in short
        assert not (docs / "README.md").exists()
        return
    published = json.loads((docs / "bench.json").read_text(encoding="utf-8"))
    assert published["complete"]
    assert tool["page"](published) == (docs / "README.md").read_text(encoding="utf-8")
    assert tool["with_table"](short, published) == short
    for figure in document(published).figures():
        assert (docs / "figures" / f"{figure.name}.svg").exists()
