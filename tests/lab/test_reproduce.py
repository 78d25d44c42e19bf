"""`lieattn reproduce` as users run it: in a process, stopped, killed, taken up again."""

from __future__ import annotations

import json
import multiprocessing
import os
import random
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest
from rich.console import Console

from lieattn._core.errors import RunError
from lieattn.lab.paper import reproduce
from lieattn.lab.paper.reproduce import collect, plan_of, sessions
from lieattn.lab.paper.storage import RunFolder
from lieattn.lab.workers import run_all

COMMAND = (sys.executable, "-m", "lieattn.cli", "reproduce")
SMALL = ("--group", "SE2", "--epochs", "3", "--instances", "64", "--seeds", "2")
ENVIRONMENT = {**os.environ, "COLUMNS": "100", "NO_COLOR": "1"}


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [*COMMAND, *arguments], capture_output=True, text=True, timeout=300, env=ENVIRONMENT
    )


@pytest.fixture(scope="module")
def finished(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A small run that came to its end, and what it printed."""
    out = tmp_path_factory.mktemp("runs") / "small"
    done = run(*SMALL, "--out", str(out))
    assert done.returncode == 0, done.stderr
    return out, done.stdout


def test_it_ends_with_tables_and_the_path_of_the_report(finished: tuple[Path, str]) -> None:
    out, text = finished
    assert "6 runs in 3 configurations" in text
    assert "SE(2), 3 epochs" in text
    assert text.rstrip().splitlines()[-2:] == [
        f"Report:    {out / 'report.html'}",
        f"Markdown:  {out / 'report.md'}",
    ]
    assert (out / "report.html").exists()
    assert "\x1b" not in text  # plain lines when piped


def test_it_leaves_logs_results_and_models_that_load(finished: tuple[Path, str]) -> None:
    import lieattn as la

    out, _ = finished
    found = json.loads((out / "results.json").read_text(encoding="utf-8"))
    assert sorted(found["configurations"]) == ["paper/SE2/A", "paper/SE2/C", "paper/SE2/G"]
    result = found["configurations"]["paper/SE2/G"]
    assert result["parameters"] == {"total": 33384, "score": 36}
    assert [seed["seed"] for seed in result["seeds"]] == [0, 1]
    for seed in result["seeds"]:
        for iterate in ("best", "last"):
            assert seed[iterate]["equivariance_without_flips"] < 1e-11
        assert len(seed["curve"]) == 3
    folder = out / "paper" / "SE2" / "G"
    lines = (folder / "seed-1.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
    model = la.CompletionModel.from_pretrained(folder / "seed-0-best")
    assert model.complete(la.SE2.random(7)).pose.shape == (3, 3)


def test_a_finished_run_is_not_run_again(finished: tuple[Path, str]) -> None:
    out, _ = finished
    stamp = (out / "paper" / "SE2" / "G" / "result.json").stat().st_mtime_ns
    results = (out / "results.json").read_bytes()
    done = run(*SMALL, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert "All of it was there already" in done.stdout
    assert (out / "paper" / "SE2" / "G" / "result.json").stat().st_mtime_ns == stamp
    assert (out / "results.json").read_bytes() == results


def test_again_runs_it_anew_to_the_same_numbers(finished: tuple[Path, str]) -> None:
    out, _ = finished
    results = (out / "results.json").read_bytes()
    stamp = (out / "paper" / "SE2" / "A" / "result.json").stat().st_mtime_ns
    done = run(*SMALL, "--model", "A", "--overwrite", "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert (out / "paper" / "SE2" / "A" / "result.json").stat().st_mtime_ns > stamp
    assert (out / "results.json").read_bytes() == results


def test_another_configuration_in_the_folder_is_refused(finished: tuple[Path, str]) -> None:
    out, _ = finished
    before = (out / "results.json").read_bytes()
    done = run(*SMALL[:-1], "1", "--out", str(out))
    assert done.returncode == 2
    assert "holds runs with other settings: seeds [0, 1] there, [0] asked for" in done.stderr
    assert "Traceback" not in done.stderr
    assert (out / "results.json").read_bytes() == before


@pytest.mark.slow
def test_killed_three_times_it_ends_with_the_same_json(tmp_path: Path) -> None:
    size = ("--group", "SE2", "--model", "G", "--model", "A", "--epochs", "40", "--seeds", "2")
    size = (*size, "--instances", "320")
    whole = run(*size, "--out", str(tmp_path / "whole"))
    assert whole.returncode == 0, whole.stderr
    out = tmp_path / "killed"
    chance = random.Random(0)
    log = out / "paper" / "SE2" / "G" / "seed-0.jsonl"
    kills = 0
    for least in (2, 12, 24):
        process = subprocess.Popen(
            [*COMMAND, *size, "--out", str(out)],
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            env=ENVIRONMENT,
        )
        deadline = time.monotonic() + 120
        while process.poll() is None and time.monotonic() < deadline:
            if log.exists() and len(log.read_bytes().splitlines()) >= least:
                break
            time.sleep(0.02)
        time.sleep(chance.uniform(0, 0.3))
        if process.poll() is None:
            kills += 1
        process.send_signal(signal.SIGKILL)
        process.wait()
    assert kills == 3, "the run was over before it could be killed"
    assert not (out / "results.json").exists()
    done = run(*size, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert (out / "results.json").read_bytes() == (tmp_path / "whole/results.json").read_bytes()
    for model in ("G", "A"):
        for name in ("seed-0.jsonl", "seed-1.jsonl", "result.json"):
            path = Path("paper") / "SE2" / model / name
            assert (out / path).read_bytes() == (tmp_path / "whole" / path).read_bytes()


@pytest.mark.parametrize("wait", [0.2, 6.0])  # while workers start, and while they train
def test_ctrl_c_says_how_to_go_on(wait: float, tmp_path: Path) -> None:
    process = subprocess.Popen(
        [*COMMAND, "--group", "SE2", "--model", "G", "--epochs", "4000", "--out", str(tmp_path)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        env=ENVIRONMENT,
        start_new_session=True,
        # A test run in the background has Ctrl-C ignored, and would hand that down.
        preexec_fn=lambda: signal.signal(signal.SIGINT, signal.default_int_handler),
    )
    assert process.stdout is not None
    process.stdout.readline()  # it has begun
    time.sleep(wait)
    os.killpg(process.pid, signal.SIGINT)  # as a terminal does, to the workers too
    try:
        _, errors = process.communicate(timeout=60)
    finally:
        process.kill()
    assert process.returncode == 130
    assert errors == (
        "lieattn reproduce: stopped by Ctrl-C. What was computed is kept; the same command goes on "
        "from there.\n"
    )


def signals_blocked(_: int) -> None:
    """A task that answers with the signals that its worker has blocked."""
    status = Path("/proc/self/status").read_text(encoding="utf-8")
    raise RunError(status.split("SigBlk:")[1].split()[0])


def test_a_worker_never_hears_ctrl_c_itself() -> None:
    if not Path("/proc/self/status").exists():
        pytest.skip("needs /proc")
    with pytest.raises(RunError) as told:
        run_all(signals_blocked, [0], 1, Console(quiet=True), done=lambda: 0, total=1)
    assert int(str(told.value), base=16) & 1 << (signal.SIGINT - 1)


def test_two_at_once_in_one_folder_are_kept_apart(tmp_path: Path) -> None:
    pytest.importorskip("fcntl")
    with reproduce.exclusive(tmp_path / reproduce.LOCK):
        done = run(*SMALL, "--out", str(tmp_path))
    assert done.returncode == 2
    assert "another lieattn is at work" in done.stderr


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (("--group", "SU2"), "unknown group 'SU2'; known are SE2, SO3, Aff2, SO2, SE3, Aff3"),
        (("--model", "B"), "unknown model 'B'; known are G, C, A"),
        (("--protocol", "mine"), "unknown protocol 'mine'; known are paper, improved"),
        (("--instances", "10"), "--instances must be at least 64"),
    ],
)
def test_unknown_names_are_answered_with_the_known_ones(
    options: tuple[str, str], message: str, tmp_path: Path
) -> None:
    done = run(*options, "--out", str(tmp_path / "out"))
    assert done.returncode == 2
    assert message in done.stderr
    assert "Traceback" not in done.stderr
    assert not (tmp_path / "out").exists()


def test_a_folder_that_cannot_be_written_is_said(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("not a folder", encoding="utf-8")
    done = run(*SMALL, "--out", str(tmp_path / "file"))
    assert done.returncode == 2
    assert f"cannot write {tmp_path / 'file'}" in done.stderr
    assert "--out" in done.stderr
    assert (tmp_path / "file").read_text(encoding="utf-8") == "not a folder"


@pytest.mark.slow
def test_a_damaged_checkpoint_is_named_and_the_run_goes_on(tmp_path: Path) -> None:
    arguments = (*SMALL, "--model", "G", "--out", str(tmp_path))
    assert run(*arguments).returncode == 0
    results = (tmp_path / "results.json").read_bytes()
    folder = tmp_path / "paper" / "SE2" / "G"
    (folder / "result.json").unlink()
    (folder / "checkpoint.safetensors").write_bytes(b"garbage")
    done = run(*arguments)
    assert done.returncode == 0, done.stderr
    assert "checkpoint.safetensors is damaged" in done.stdout
    assert (tmp_path / "results.json").read_bytes() == results


def test_the_paper_is_the_default_and_all_means_all() -> None:
    assert [s.name for s in plan_of(models=["G"])] == [
        "paper/Aff2/G",
        "paper/SE2/G",
        "paper/SO3/G",
    ]
    everything = plan_of(groups=["all"], models=["ALL"], protocols=["all"])
    assert len(everything) == len({s.name for s in everything}) == 36
    full = everything[0]
    assert (full.epochs, full.train, full.validation, full.test) == (200, 5000, 500, 500)
    assert {s.group for s in plan_of(groups=["se(2)", "SE2"])} == {"SE2"}
    assert plan_of(quick=True)[0].epochs == 20
    assert plan_of(quick=True, epochs=7)[0].epochs == 7


def test_it_compiles_where_that_pays_and_can_be_done(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reproduce, "can_compile", lambda: True)
    assert all(s.compiled for s in plan_of())
    assert not any(s.compiled for s in plan_of(quick=True))  # not worth it
    monkeypatch.undo()
    monkeypatch.setattr(reproduce.shutil, "which", lambda name: None)
    assert not any(s.compiled for s in plan_of())


@pytest.mark.parametrize("moment", ["starting", "training"])
def test_a_worker_that_is_killed_is_said(moment: str, tmp_path: Path) -> None:
    (settings,) = plan_of(["SE2"], ["G"], epochs=4000)
    folder = RunFolder(tmp_path, settings)
    folder.make()

    def kill() -> None:
        if moment == "starting" or folder.epochs():
            for child in multiprocessing.active_children():
                child.kill()

    with pytest.raises(RunError, match=r"a worker was killed.*--jobs 1.*to go on"):
        run_all(
            reproduce.run_one,
            [folder],
            1,
            Console(quiet=True),
            done=lambda: 0,
            total=1,
            tick=kill,
        )


@pytest.mark.slow
def test_a_worker_that_cannot_write_is_said(tmp_path: Path) -> None:
    arguments = (*SMALL, "--model", "G", "--out", str(tmp_path))
    blocked = tmp_path / "paper" / "SE2" / "G" / "seed-0-best"
    blocked.parent.mkdir(parents=True)
    blocked.write_text("in the way", encoding="utf-8")
    done = run(*arguments)
    assert done.returncode == 2
    assert f"cannot write {blocked}" in done.stderr
    assert "Traceback" not in done.stderr
    blocked.unlink()
    again = run(*arguments)
    assert again.returncode == 0, again.stderr


def test_damaged_notes_and_results(finished: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "[b]copy"  # and a name that looks like markup
    shutil.copytree(finished[0], out)
    (out / "timing.json").write_text("[{}]", encoding="utf-8")
    done = run(*SMALL, "--out", str(out))
    assert done.returncode == 0, done.stderr
    assert f"Report:    {out / 'report.html'}" in done.stdout
    (out / "paper" / "SE2" / "G" / "result.json").write_text("{}", encoding="utf-8")
    done = run(*SMALL, "--out", str(out))
    assert done.returncode == 2
    assert "result.json is not a result" in done.stderr


def test_time_is_kept_across_interruptions(tmp_path: Path) -> None:
    notes = [
        {"protocols": [], "groups": [], "models": [], "finished": names, "processes": 2} | more
        for names, more in (
            (["paper/SE2/G", "paper/SE2/A"], {"seconds": 3.0}),
            ([], {"seconds": 7.0}),  # stopped before anything was finished
            (["paper/SE2/A"], {"seconds": 4.0}),  # run anew
        )
    ]
    (tmp_path / "timing.json").write_text(json.dumps(notes), encoding="utf-8")
    found = {"configurations": {f"paper/SE2/{model}": {"seeds": [0, 1, 2]} for model in "GA"}}
    noted = sessions(tmp_path, found)
    assert [session["runs"] for session in noted] == [3, 0, 3]
    assert [session["seconds"] for session in noted] == [3.0, 7.0, 4.0]


def test_every_run_is_counted_once(finished: tuple[Path, str], tmp_path: Path) -> None:
    out = tmp_path / "copy"
    shutil.copytree(finished[0], out)
    noted = json.loads((out / "timing.json").read_text(encoding="utf-8"))
    noted[0]["finished"].remove("paper/SE2/G")  # a kill between a result and its note
    (out / "timing.json").write_text(json.dumps(noted), encoding="utf-8")
    assert run(*SMALL, "--out", str(out)).returncode == 0
    assert sum(session["runs"] for session in sessions(out, collect(out))) == 6
    assert run(*SMALL, "--model", "A", "--overwrite", "--out", str(out)).returncode == 0
    noted = sessions(out, collect(out))
    assert sum(session["runs"] for session in noted) == 6
    names = [name for session in noted for name in session["finished"]]
    assert sorted(names) == ["paper/SE2/A", "paper/SE2/C", "paper/SE2/G"]
    assert noted[-1]["finished"] == ["paper/SE2/A"]
    (out / "timing.json").unlink()
    assert run(*SMALL, "--out", str(out)).returncode == 0
    assert [session["runs"] for session in sessions(out, collect(out))] == [6]


def test_what_is_not_installed_is_said_before_training(tmp_path: Path) -> None:
    hide = "import sys; sys.modules['matplotlib'] = None; from lieattn.cli import main; main()"
    done = subprocess.run(
        [sys.executable, "-c", hide, "reproduce", *SMALL, "--out", str(tmp_path / "out")],
        capture_output=True,
        text=True,
        timeout=120,
        env=ENVIRONMENT,
    )
    assert done.returncode == 2
    assert "needs matplotlib" in done.stderr
    assert "lieattn[lab]" in done.stderr
    assert not (tmp_path / "out").exists()
