"""The benchmark: it times the right thing, says what it measured, and can be stopped."""

from __future__ import annotations

import copy
import io
import json
import os
import re
import runpy
import signal
import subprocess
import sys
from itertools import product
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import lieattn as la
from lieattn import Group
from lieattn._core.errors import RunError
from lieattn.cli.app import app
from lieattn.lab.bench import contestants, measuring, memory, progress, timing
from lieattn.lab.bench.cases import PASSES, Case, Contestant, Problem
from lieattn.lab.bench.forecast import Forecast
from lieattn.lab.bench.literal import literal_attention
from lieattn.lab.bench.page import document, front_note, front_table
from lieattn.lab.bench.peers import missing
from lieattn.lab.bench.request import Request, request
from lieattn.lab.bench.results import gather, ratio, rows, short, skipped
from lieattn.lab.bench.run import run
from lieattn.lab.bench.terminal import print_tables
from lieattn.lab.report import markdown

ROOT = Path(__file__).parents[2]
TINY = Request(("SE3", "SO3"), (4, 8), (2,), heads=2, repeat=2, budget=0.1, memory=False)
linux = pytest.mark.skipif(not memory.measurable(), reason="no peak that can be reset")


@pytest.fixture(scope="module")
def found(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    """A whole run, as it was written."""
    out = tmp_path_factory.mktemp("bench")
    assert run(TINY, out, Console(file=io.StringIO(), width=80)) is None
    return json.loads((out / "bench.json").read_text(encoding="utf-8"))


# ---- what is timed ---------------------------------------------------------------------------


def test_the_literal_form_is_the_operator(group: Group) -> None:
    case = Case(group.name, 4, 7, heads=2, batch=2)
    poses, h = case.poses(), case.random(2, 7, 8)
    weights, W = torch.rand(2, len(group.blocks)) + 0.5, case.random(8, 8 + group.dim)
    literal = literal_attention(group, poses, h, weights, W)
    values = (h @ W[:, :8].T).unflatten(-1, (2, 4)).transpose(1, 2)
    out, coords = la.lie_attention(group, poses, poses, values, weights)
    W_w = W[:, 8:].unflatten(0, (2, 4))
    torch.testing.assert_close(literal, out + coords @ W_w.mT, atol=2e-5, rtol=2e-5)


def test_all_pairs_of_the_poses_are_on_the_chart(group: Group) -> None:
    poses = Case(group.name, 4, 40).poses()
    assert la.relations(group, poses, poses).valid.all()


@pytest.mark.parametrize("name", ["sdpa", "reference", "literal", *contestants.PEERS])
def test_a_pass_takes_the_gradients_it_says(name: str) -> None:
    if name in missing():
        pytest.skip(f"{name} is not installed")
    problem = contestants.everybody(["reference"], peers=True)[name].build(Case("SE3", 4, 6))
    inputs = len(problem.inputs) + len(problem.parameters)
    shapes = [tuple(x.shape) for x in problem.call("forward")()]
    assert shapes == [tuple(shape) for shape in problem.shapes]
    assert len(problem.call("backward")()) == inputs
    assert len(problem.call("poses")()) == inputs + len(problem.poses)
    assert not problem.call("forward")()[0].requires_grad


def test_a_backend_that_cannot_or_errs_is_left_out(monkeypatch: pytest.MonkeyPatch) -> None:
    case, reference = Case("SE2", 4, 64), contestants.everybody(["reference"], False)["reference"]
    assert all(contestants.refusal(reference, case, which) is None for which in PASSES)

    def wrong(backend: str, case: Case) -> Problem:
        problem = contestants._lie_attention(backend, case)
        return Problem(lambda *a: [2 * x for x in problem.function(*a)], *_rest(problem))

    def unable(case: Case) -> Problem:
        raise RuntimeError("no compiler\nand a long story")

    liar = Contestant("reference", "", "", lambda case: wrong("reference", case))
    assert "away from those of the reference" in str(contestants.refusal(liar, case, "forward"))
    lame = Contestant("reference", "", "", unable)
    assert contestants.refusal(lame, case, "forward") == "no compiler"


def test_a_backend_that_refuses_everything_has_a_note_and_no_row(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(measuring, "own_backends", lambda: ("reference", "warp"))
    console = Console(record=True, width=80, file=io.StringIO())
    asked = Request(
        ("SO2",), (4, 8), (2,), repeat=1, backward=False, memory=False, layer=False, peers=False
    )
    run(asked, tmp_path, console)
    text = console.export_text()
    assert text.count("warp is left out: unknown backend") == 1
    assert not re.search("warp +-", text)
    page = (tmp_path / "bench.md").read_text(encoding="utf-8")
    assert "lieattn warp is left out" in page
    assert "**lieattn reference**" in page
    assert "**lieattn warp**" not in page


def _rest(problem: Problem) -> tuple[Any, ...]:
    return problem.inputs, problem.poses, problem.shapes


# ---- turns -----------------------------------------------------------------------------------


def test_a_contestant_takes_turns_with_plain_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_clock", lambda call: call())  # calls tell how long they took
    order: list[str] = []

    def runner(name: str, seconds: float) -> timing.Runner:
        return timing.Runner(lambda: (order.append(name), seconds)[1], [])

    def turns(seconds: float, rival: timing.Runner) -> list[float]:
        own = runner("own", seconds)
        shares = list(timing.take_turns(own, rival, repeat=30, budget=1.0))
        assert shares == sorted(shares)
        assert all(share < 1 for share in shares)
        return own.times

    plain = timing.Runner(runner("sdpa", 0.1).call, [0.1])
    assert len(turns(0.01, plain)) == 30  # all of its turns
    assert order == ["own"] + ["sdpa", "own"] * 30  # the first call is not counted
    assert len(turns(0.07, plain)) == 15  # its budget
    assert len(turns(0.3, plain)) == timing.LEAST  # near plain attention: enough turns
    order.clear()
    assert len(turns(0.9, plain)) == 1  # far from it: a quarter of the budget
    assert order == ["own", "sdpa", "own"]
    order.clear()
    assert turns(3.0, plain) == [3.0]  # so long a call is made once, and counts
    assert order == ["own"]
    close, far = runner("own", 0.1), runner("own", 0.9)
    for part, count in ((0.5, 5), (1.0, 9)):  # of nine turns: the rest come later
        list(timing.take_turns(close, plain, repeat=9, budget=1.0, part=part))
        assert (close.close, len(close.times)) == (True, count)
    list(timing.take_turns(far, plain, repeat=9, budget=1.0, part=0.5))
    assert (far.close, len(far.times)) == (False, 1)


def test_least_and_median_are_told() -> None:
    cell = timing.Cell(Case("SE2", 4, 4), times={("native", "forward"): [0.3, 0.1, 0.2]})
    record = cell.records()[0]
    assert (record["minimum"], record["median"], record["repetitions"]) == (0.1, 0.2, 3)


def test_short_calls_are_repeated_within_a_turn(monkeypatch: pytest.MonkeyPatch) -> None:
    seconds = iter([0.0009, 0.0005, 0.0004, 0.0006, 1.0])
    monkeypatch.setattr(timing, "_clock", lambda call: next(seconds))
    assert timing._turn(lambda: None) == 0.0004
    assert next(seconds) == 1.0


def test_what_would_take_too_long_or_too_much_is_said_in_the_table() -> None:
    asked = Request(
        ("SO2",), (32, 64), (2,), repeat=1, backward=False, memory=False, layer=False, peers=False
    )
    bench = measuring.Bench(asked)
    bench.cells.append(timing.Cell(Case("SO2", 2, 32), times={("literal", "forward"): [6.0]}))
    literal, case, large = bench.contestants["literal"], Case("SO2", 2, 64), Case("SO2", 2, 1024)
    with memory.Meter(1) as meter:
        forecast = Forecast(bench.cells, meter)
        slow = bench._why_not(literal, case, "forward", forecast)
        assert str(slow).startswith("over budget: a call would take more than 10 s")
        bench.cells.clear()
        forecast.bytes_of["literal", Case("SO2", 2, 256), "forward"] = 10**9
        assert forecast.bytes(literal, large, "forward") == 16e9
        heavy = bench._why_not(literal, large, "forward", forecast)
        assert str(heavy).startswith("too large: a call would take more than 4 GB")
        assert bench._why_not(bench.contestants["sdpa"], large, "forward", forecast) is None
    for cell in (timing.Cell(case), timing.Cell(large)):
        cell.times["sdpa", "forward"] = [0.1]
        cell.missing["literal", "forward"] = str(slow if cell.case is case else heavy)
        cell.missing["tiled", "forward"] = "no reason with a word of its own"
        bench.cells.append(cell)
    found = gather(bench, complete=True)
    assert f"paper-literal, N 1024: {heavy}." in skipped(found)
    console = Console(record=True, width=80, file=io.StringIO())
    print_tables(found, console)
    text, page = console.export_text(), markdown.render(document(found), folder=".")
    for words in ("over +budget", "too +large"):
        assert re.search(f"paper-literal +{words}\n", text)
        assert re.search(rf"\| paper-literal \| {words.replace(' +', ' ')} \| - \|", page)
    assert re.search(r"tiled +- +-", text)


def test_a_size_without_a_smaller_one_is_told_from_a_probe() -> None:
    problems: list[int] = []

    def build(case: Case) -> Problem:
        problems.append(case.n)
        return contestants._sdpa(case)

    with memory.Meter(1) as meter:
        forecast, plain = Forecast([], meter), Contestant("plain", "", "", build)
        assert forecast.seconds(plain, Case("SO2", 2, 512), "forward") == 0
        assert problems == []
        seconds = [forecast.seconds(plain, Case("SO2", 2, n), "forward") for n in (1024, 2048)]
    assert problems == [256]
    assert seconds[1] == pytest.approx(4 * seconds[0])


def test_long_sets_are_of_forward_passes_in_one_turn() -> None:
    asked = Request(("SO2", "SE3"), (8,), (2, 4), long=(32,))
    assert [(c.group, c.width, c.n) for c in asked.plan()] == [
        ("SO2", 2, 8),
        ("SO2", 4, 8),
        ("SE3", 2, 8),
        ("SE3", 4, 8),
        ("SO2", 2, 32),
        ("SE3", 2, 32),
    ]
    short_case, long_case = Case("SO2", 2, 8), Case("SO2", 2, 32)
    assert (asked.passes(short_case), asked.passes(long_case)) == (tuple(PASSES), ("forward",))
    assert (asked.repeat_of(short_case), asked.repeat_of(long_case)) == (asked.repeat, 1)
    assert asked.patience_of(long_case) > asked.patience_of(short_case)


# ---- memory ----------------------------------------------------------------------------------


@linux
def test_memory_is_that_of_the_tensors_a_call_makes() -> None:
    with memory.Meter(1) as meter:
        n = 512
        peak = meter.peak("literal", Case("SO2", 2, n, heads=4), "forward")
        assert isinstance(peak, int)
        pairs = n * n * 4
        assert 9 * pairs < peak < 100 * pairs  # the concatenation of h and w alone has 9 floats
        plain = meter.peak("sdpa", Case("SO2", 2, n, heads=4), "forward")
        assert isinstance(plain, int)
        assert plain < peak / 4
        assert "unknown" in str(meter.peak("reference", Case("SO9", 2, 4), "forward"))
        assert isinstance(meter.peak("sdpa", Case("SO2", 2, 4), "forward"), int)  # still serves


def test_memory_of_plain_attention_is_measured_once_a_size() -> None:
    bench, key = measuring.Bench(TINY), ("sdpa", "forward")
    bench.cells.append(timing.Cell(Case("SE3", 2, 8), memory={key: 7, ("tiled", "forward"): 9}))
    assert bench._plain_peak(timing.Cell(Case("SO3", 2, 8)), key) == 7
    assert bench._plain_peak(timing.Cell(Case("SO3", 2, 4)), key) is None
    assert bench._plain_peak(timing.Cell(Case("SO3", 2, 8)), ("tiled", "forward")) is None


@linux
def test_what_was_freed_before_a_call_is_not_counted() -> None:
    code = (
        "from lieattn.lab.bench import cases, memory; waste = bytearray(300_000_000); del waste; "
        "print(memory.measure('sdpa', cases.Case('SO2', 2, 8), 'forward'))"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60)
    assert int(done.stdout) < 50_000_000, done.stderr


# ---- results ---------------------------------------------------------------------------------


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
    row = next(row for row in rows(found, cell) if row.name == "literal")
    for which, below in (("forward", "forward"), ("backward", "backward"), ("poses", "backward")):
        expected = least["literal", which] / least["sdpa", below]
        assert row.ratios[which] == pytest.approx(expected)


def test_tables_fit_80_columns_and_pages_hold_them(found: dict[str, Any]) -> None:
    console = Console(record=True, width=80, file=io.StringIO())
    print_tables(found, console)
    text = console.export_text()
    assert "…" not in text
    page = markdown.render(document(found), folder=".")
    for cell in found["cells"]:
        for row in rows(found, cell):
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


# ---- the published page ----------------------------------------------------------------------


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


# ---- the command -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("wrong", "message"),
    [
        ({"groups": ["SE9"]}, "unknown group 'SE9'; known are SO2, .*, and all"),
        ({"backends": ["warp"]}, "unknown backend 'warp'; known are auto, reference"),
        ({"sizes": [0]}, "--n must be at least 1, got 0"),
        ({"sizes": [8], "long": [8]}, "--n or for --long, and 8 is for both"),
        ({"repeat": 0}, "--repeat must be at least 1, got 0"),
        ({"widths": [-1]}, "--head-width must be at least 1"),
        ({"budget": 0.0}, "--budget must be above 0"),
    ],
)
def test_bad_requests_are_met_with_a_line(wrong: dict[str, Any], message: str) -> None:
    given: dict[str, Any] = {"groups": [], "sizes": [], "widths": [], "backends": []}
    with pytest.raises(RunError, match=message):
        request(**{**given, "quick": True, "limit": None, "threads": 1, **wrong})


def test_requests_have_defaults_and_take_names_as_people_write_them() -> None:
    asked = request(["se(3)", "aff2"], [], [], [], quick=True, limit=1.0, threads=1, repeat=None)
    assert asked.groups == ("SE3", "Aff2")
    assert (asked.sizes, asked.repeat) == ((128, 512), 5)
    full = request(["all"], [9, 3], [], [], quick=False, limit=1.0, threads=1, heads=2)
    assert full.groups == tuple(la.available_groups())
    assert (full.sizes, full.widths, full.heads) == ((3, 9), (16, 64), 2)


def test_the_command_says_in_a_line_what_is_wrong(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for arguments, message in (
        (["--out", str(tmp_path / "file")], "cannot write .*file: .*--out"),
        (["--group", "SE9"], "unknown group 'SE9'; .*"),
        (["--n", "0"], "--n must be .*"),
    ):
        done = CliRunner().invoke(app, ["bench", "--quick", *arguments])
        assert done.exit_code == 2
        assert done.stdout == ""
        assert re.fullmatch(rf"lieattn: {message}[.?]\n", done.stderr)


def test_ctrl_c_keeps_what_was_measured(tmp_path: Path) -> None:
    sizes = ("--n", "8", "--n", "600", "--no-memory", "--no-peers", "--no-backward")
    sizes += ("--no-layer",)
    command = [sys.executable, "-m", "lieattn.cli", "bench", "--quick", "--threads", "1", *sizes]
    process = subprocess.Popen(
        [*command, "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        # A run in the background would ignore it.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    assert any("1 of 2" in line for line in process.stdout)  # 8 is done; 600 is not
    process.send_signal(signal.SIGINT)
    out, errors = process.communicate(timeout=60)
    assert process.returncode == 130
    kept = f"What was measured is in {tmp_path}."
    assert errors == f"lieattn bench: stopped by Ctrl-C. {kept}\n"
    found = json.loads((tmp_path / "bench.json").read_text(encoding="utf-8"))
    assert not found["complete"]
    assert found["cells"][0]["records"][0]["minimum"] > 0
    assert "SDPA" in out
    assert "stopped before its end" in (tmp_path / "bench.md").read_text(encoding="utf-8")
