"""The benchmark times what it says, in turns, and measures the memory of single calls."""

from __future__ import annotations

import io
import re
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console

import lieattn as la
from lieattn import Group
from lieattn.lab.bench import contestants, forecast, measuring, memory, timing
from lieattn.lab.bench.cases import PASSES, Case, Contestant, Problem
from lieattn.lab.bench.literal import literal_attention
from lieattn.lab.bench.page import document
from lieattn.lab.bench.peers import missing
from lieattn.lab.bench.request import Request
from lieattn.lab.bench.results import gather, skipped
from lieattn.lab.bench.run import run
from lieattn.lab.bench.terminal import print_tables
from lieattn.lab.report import markdown

linux = pytest.mark.skipif(not memory.measurable(), reason="no peak of a process")


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

    liar = Contestant("liar", "", "", lambda case: wrong("reference", case), exact=True)
    assert "away from those of the reference" in str(contestants.refusal(liar, case, "forward"))
    lame = Contestant("lame", "", "", unable)
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


def test_a_contestant_takes_turns_with_plain_attention(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(timing, "_clock", lambda call: call())  # calls tell how long they took
    order: list[str] = []

    def runner(name: str, seconds: float) -> timing.Runner:
        return timing.Runner(lambda: (order.append(name), seconds)[1], [])

    def turns(seconds: float, rival: timing.Runner) -> list[float]:
        own = runner("own", seconds)
        timing.take_turns(own, rival, repeat=30, budget=1.0)
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
        timing.take_turns(close, plain, repeat=9, budget=1.0, part=part)
        assert (close.close, len(close.times)) == (True, count)
    timing.take_turns(far, plain, repeat=9, budget=1.0, part=0.5)
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
    bench = measuring.Bench(replace(asked, limit=4.0))
    bench.cells.append(timing.Cell(Case("SO2", 2, 32), times={("literal", "forward"): [6.0]}))
    literal, case, large = bench.contestants["literal"], Case("SO2", 2, 64), Case("SO2", 2, 1024)
    slow = bench._why_not(literal, case, "forward")
    assert str(slow).startswith("over budget: a call would take more than 10 s")
    peaks = {("literal", "forward"): 10**9}
    bench.cells[:] = [timing.Cell(Case("SO2", 2, 256), memory=peaks)]
    assert forecast.memory(bench.cells, literal, large, "forward", 1) == 16e9
    heavy = bench._why_not(literal, large, "forward")
    assert str(heavy).startswith("too large: a call would take more than 4 GB")
    bench.cells.clear()
    assert bench._why_not(bench.contestants["sdpa"], large, "forward") is None
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

    plain = Contestant("plain", "", "", build)
    assert forecast.seconds([], plain, Case("SO2", 2, 512), "forward") == 0
    assert problems == []
    cases = [Case("SO2", 2, n) for n in (1024, 2048)]
    seconds = [forecast.seconds([], plain, case, "forward") for case in cases]
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


@linux
def test_memory_is_that_of_the_tensors_a_call_makes() -> None:
    n = 512
    peak = memory.peak("literal", Case("SO2", 2, n, heads=4), "forward", 1)
    assert isinstance(peak, int)
    pairs = n * n * 4
    assert 9 * pairs < peak < 100 * pairs  # the concatenation of h and w alone has 9 floats
    plain = memory.peak("sdpa", Case("SO2", 2, n, heads=4), "forward", 1)
    assert isinstance(plain, int)
    assert plain < peak / 4
    assert "unknown" in str(memory.peak("reference", Case("SO9", 2, 4), "forward", 1))
    assert isinstance(memory.peak("sdpa", Case("SO2", 2, 4), "forward", 2), int)  # still serves


def test_memory_of_plain_attention_is_measured_once_a_size() -> None:
    bench, key = measuring.Bench(Request(memory=False)), ("sdpa", "forward")
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
