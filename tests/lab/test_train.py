"""`lieattn train`: what it reads, chooses, writes, and that nothing is lost when it is killed."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from walks import TINY, command, of_format, write_tum

from held import as_earlier, unpack
from lieattn import data
from lieattn._core.errors import RunError
from lieattn._core.files import pack
from lieattn.workflows.settings import ENOUGH, PRACTICE, TrainSettings, merged
from lieattn.workflows.sources import parts
from lieattn.workflows.store import BEST, LAST, LOG, TrainFolder, load_trained
from lieattn.workflows.tables import print_errors
from lieattn.workflows.tensors import Stream, hide_some, stack
from lieattn.workflows.trainer import Trainer
from started import Started


@pytest.fixture
def tum(tmp_path: Path) -> Path:
    return write_tum(tmp_path / "walk.tum")


def log(folder: Path) -> list[dict[str, Any]]:
    lines = [json.loads(line) for line in (folder / "log.jsonl").read_text().splitlines()]
    return [{k: v for k, v in line.items() if k != "seconds"} for line in lines]


# ---- a run -------------------------------------------------------------------------------------


def test_a_file_is_trained_on_with_one_command(
    tum: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    code, out, errors = command("train", "walk.tum", *TINY)
    assert (code, errors) == (0, "")
    assert "split     in order, 20 poses apart" in out
    assert "chart principal: every pair has a logarithm" in out
    assert re.search(r"scale [\d.]+: ", out)
    assert re.search(r"step +12 of 12, loss \d\.\d+, validation \d\.\d+", out)
    for row in ("nearest", "geodesic", "G"):
        assert re.search(rf"^ *{row} +[\d.]+", out, re.MULTILINE), out
    assert "lieattn predict runs/walk walk.tum --hide 10%" in out
    folder = tmp_path / "runs" / "walk"
    assert [line["step"] for line in log(folder)] == [4, 8, 12]
    assert {"settings.json", "log.jsonl", BEST, LAST, "result.json"} <= set(os.listdir(folder))
    assert load_trained(folder).group.name == "SE3"
    assert max(map(len, out.splitlines())) <= 100


def test_a_finished_run_is_not_run_again(tum: Path, tmp_path: Path) -> None:
    where = ("--out", tmp_path / "run")
    assert command("train", tum, *TINY, *where)[0] == 0
    before = (tmp_path / "run" / LAST).read_bytes()
    code, out, _ = command("train", tum, *TINY, *where)
    assert code == 0
    assert "Finished before" in out.replace("\n", " ")
    assert (tmp_path / "run" / LAST).read_bytes() == before


def test_the_same_seed_gives_the_same_bits_and_another_others(tum: Path, tmp_path: Path) -> None:
    for name, seed in (("a", 0), ("b", 0), ("c", 1)):
        assert command("train", tum, *TINY, "--out", tmp_path / name, "--seed", seed)[0] == 0
    one, same, other = (unpack(tmp_path / name / LAST)[0] for name in "abc")
    assert all(torch.equal(one[key], same[key]) for key in one)
    assert not all(torch.equal(one[key], other[key]) for key in one)


@pytest.mark.parametrize("name", list(data.DATASETS))
def test_every_data_set_can_be_trained_on(name: str, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    options = ("--steps", 2, "--dim", 8, "--heads", 2, "--layers", 1, "--batch", 4)
    code, out, errors = command("train", name, "--out", folder, *options, "--window", 12)
    assert (code, errors) == (0, "")
    assert "split     as the data set is" in out
    if name == "bricks":
        assert "chart polar" in out
    assert load_trained(folder).group is data.dataset(name).group


@pytest.mark.parametrize("options", [["--model", "c"], ["--model", "A"], ["--pose-updates"]])
def test_other_models_train(options: list[str], tum: Path, tmp_path: Path) -> None:
    code, _, errors = command("train", tum, *TINY, "--out", tmp_path / "run", *options)
    assert (code, errors) == (0, "")


# ---- stopping and going on -----------------------------------------------------------------------


LONGER = ("--steps", 40, "--every", 10, "--dim", 16, "--layers", 1, "--batch", 8)
STEADY = (*LONGER, "--dropout", 0.1, "--threads", 1)


@pytest.fixture(scope="module")
def whole(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A run that nobody interrupts."""
    folder = tmp_path_factory.mktemp("whole")
    walk = write_tum(folder / "walk.tum")
    assert command("train", walk, *STEADY, "--out", folder / "run")[0] == 0
    return folder / "run"


# Files are moved to their places: settings; at every validation the best model, if it is; the last
# checkpoint to where the one before it is kept; the new one to its place.
@pytest.mark.parametrize(
    ("point", "reached"),
    [("step 27", [20]), ("replace 6", [10, 20]), ("replace 7", [10, 20])],
)
def test_a_killed_run_goes_on_and_ends_with_the_same_bits(
    point: str, reached: list[int], whole: Path, tmp_path: Path
) -> None:
    walk, killed = whole.parent / "walk.tum", tmp_path / "run"
    script = Path(__file__).with_name("killed.py")
    arguments = [sys.executable, script, point, "train", walk, "--out", killed, *STEADY]
    done = subprocess.run([str(x) for x in arguments], capture_output=True, text=True)
    assert done.returncode == -signal.SIGKILL, done.stderr
    code, out, errors = command("train", walk, "--out", killed, *STEADY)
    assert (code, errors) == (0, "")
    found = re.search(r"Going on from step (\d+)\.", out)
    assert (int(found[1]) if found else 0) in reached  # nothing before the last checkpoint is lost
    for name in (LAST, BEST):
        one, about = unpack(killed / name)
        other, expected = unpack(whole / name)
        assert about == expected
        assert (killed / name).read_bytes() == (whole / name).read_bytes()
        assert one.keys() == other.keys()
        assert all(torch.equal(one[key], other[key]) for key in one)
    assert log(killed) == log(whole)
    results = [json.loads((x / "result.json").read_text()) for x in (killed, whole)]
    assert results[0] == results[1]


def interrupted(number: int) -> Callable[[Trainer], float]:
    """`Trainer.step` with Ctrl-C before a step."""
    step = Trainer.step

    def stopped(self: Trainer) -> float:
        if self.progress.step == number:
            raise KeyboardInterrupt
        return step(self)

    return stopped


@pytest.mark.slow
def test_ctrl_c_says_how_to_go_on(tum: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    sized = ["--steps", "100000", *TINY[2:], "--out", str(folder)]
    started = Started("train", str(tum), *sized)
    started.wait_for(lambda: len(log(folder)) >= 2 if (folder / LOG).exists() else False)
    code, errors = started.stopped_by(signal.SIGINT)
    assert code == 130
    found = re.fullmatch(
        r"lieattn train: stopped by Ctrl-C\. The last checkpoint \(step (\d+)\) is kept; "
        r"the same command goes on from there\.\n",
        errors,
    )
    assert found, errors
    assert unpack(folder / LAST)[1]["progress"]["step"] == int(found[1])


def test_threads_are_those_of_the_run_before(tum: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert command("train", tum, *TINY, "--out", folder, "--threads", 1)[0] == 0
    settings = json.loads((folder / "settings.json").read_text())
    assert TrainFolder(folder).threads() == settings["threads"] == 1
    (folder / "settings.json").write_text(json.dumps({**settings, "threads": 2}))
    try:
        assert command("train", tum, *TINY, "--out", folder)[0] == 0
        assert torch.get_num_threads() == 2
    finally:
        torch.set_num_threads(1)


def test_more_threads_than_any_machine_has_are_refused(tum: Path, tmp_path: Path) -> None:
    most, threads, folder = 4 * (os.cpu_count() or 1), 100_000, tmp_path / "run"
    code, _, errors = command("train", tum, *TINY, "--out", folder, "--threads", threads)
    assert code == 2
    assert f"{threads:,} threads are too many" in errors
    assert f"at most {most} are taken" in errors
    assert command("train", tum, *TINY, "--out", folder, "--threads", 1)[0] == 0
    path = folder / "settings.json"
    path.write_text(json.dumps({**json.loads(path.read_text()), "threads": 2**31}))
    code, _, errors = command("train", tum, *TINY, "--out", folder)
    assert code == 2
    assert "threads are too many" in errors
    assert command("train", tum, *TINY, "--out", folder, "--threads", 1)[0] == 0


@pytest.mark.parametrize("threads", [True, 0, -1, 1.5, "2", None, [1]])
def test_threads_that_are_none_are_left_to_the_machine(threads: object, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(json.dumps({"threads": threads}))
    assert TrainFolder(tmp_path).threads() is None


@pytest.mark.parametrize(
    "text", ["[" * 100_000, "[]", '{"settings": []}', '{"settings": {"dim": NaN}}', "9" * 5000]
)
def test_settings_that_are_damaged_are_told(text: str, tum: Path, tmp_path: Path) -> None:
    (tmp_path / "settings.json").write_text(text)
    code, _, errors = command("train", tum, *TINY, "--out", tmp_path)
    assert code == 2
    assert "settings.json is damaged, or not of lieattn train" in errors


def test_settings_of_another_run_are_shown_escaped_and_cut(tum: Path, tmp_path: Path) -> None:
    where = ("--out", tmp_path / "run")
    assert command("train", tum, *TINY, *where)[0] == 0
    path = tmp_path / "run" / "settings.json"
    held = json.loads(path.read_text())
    evil = "\x1b]0;owned\x07" + "x" * 10**6
    path.write_text(json.dumps({**held, "settings": {**held["settings"], "chart": evil}}))
    code, _, errors = command("train", tum, *TINY, *where)
    assert code == 2
    assert "holds another run: chart was" in errors
    assert errors.strip().isprintable()
    assert len(errors) < 1000


def test_a_run_of_an_earlier_version_goes_on_and_ends_with_the_same_bits(
    whole: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    walk, earlier = whole.parent / "walk.tum", tmp_path / "run"
    with monkeypatch.context() as patch:
        patch.setattr(Trainer, "step", interrupted(27))
        assert command("train", walk, "--out", earlier, *STEADY)[0] == 130
    for name in (LAST, BEST):
        tensors, about = unpack(earlier / name)
        (earlier / name).write_bytes(as_earlier(tensors, of_format(3, about)))
    assert "was written by an earlier lieattn" in load_trained(earlier).note
    code, out, errors = command("train", walk, "--out", earlier, *STEADY)
    assert (code, errors) == (0, "")
    assert "Going on from step 20." in out
    assert (earlier / LAST).read_bytes() == (whole / LAST).read_bytes()
    assert (earlier / BEST).read_bytes() == (whole / BEST).read_bytes()
    assert load_trained(earlier).note == ""


@pytest.fixture
def stored(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A run of version 0.1, stopped at step 4 of 8, in the folder of the poses it was trained on.

    Its settings have the names of that version: `bends`, `framed`.
    """
    monkeypatch.chdir(tmp_path)
    write_tum(tmp_path / "walk.tum", 120)
    return shutil.copytree(Path(__file__).with_name("checkpoints") / "format-4", tmp_path / "run")


SINCE_4 = (
    *("--steps", 8, "--every", 4, "--dim", 8, "--heads", 2, "--layers", 1, "--batch", 4),
    *("--window", 12, "--second-differences", 1, "--absolute-frame", "--copies", "--analogies"),
)


def test_stored_checkpoints_of_format_4_give_the_same_answers(stored: Path) -> None:
    expected = json.loads((stored / "expected.json").read_text())
    trained = load_trained(stored)
    assert trained.settings.second_differences == 1
    assert trained.settings.absolute_frame
    code, text, _ = command("predict", stored, "walk.tum", "--hide", "5,20-22", "--json")
    assert code == 0
    for one, other in zip(json.loads(text)["sets"][0]["found"], expected["found"], strict=True):
        assert torch.allclose(torch.tensor(one["pose"]), torch.tensor(other["pose"]), atol=1e-5)
        assert one["within"] == other["within"]


def test_stored_runs_of_format_4_go_on_to_the_same_losses(stored: Path) -> None:
    expected = json.loads((stored / "expected.json").read_text())["log"]
    code, out, errors = command("train", "walk.tum", *SINCE_4, "--out", "run")
    assert (code, errors) == (0, "")
    assert "Going on from step 4." in out
    for one, other in zip(log(stored), expected, strict=True):
        assert one == {**other, "valid_error": pytest.approx(other["valid_error"], rel=1e-3)} | {
            name: pytest.approx(other[name], rel=1e-3) for name in ("train_loss", "valid_loss")
        }
    assert unpack(stored / LAST)[1]["settings"]["second_differences"] == 1
    code, _, errors = command("train", "walk.tum", *SINCE_4, "--out", "run", "--no-absolute-frame")
    assert code == 2
    assert "absolute_frame was True, now not given" in errors


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("--again", "--overwrite"),
        ("--bends=2", "--second-differences"),
        ("--no-framed", "--no-abs"),
    ],
)
def test_earlier_names_of_options_are_refused_with_the_new_name(old: str, new: str) -> None:
    code, _, errors = command("train", "headings", old)
    assert code == 2
    assert errors.startswith(f"lieattn: {old.partition('=')[0]} is now {new}")
    assert command("reproduce", "--again")[2] == "lieattn: --again is now --overwrite.\n"


def test_a_checkpoint_of_another_model_is_not_gone_on_from(tum: Path, tmp_path: Path) -> None:
    where = ("--out", tmp_path / "run")
    assert command("train", tum, *TINY, *where)[0] == 0
    path = tmp_path / "run" / LAST
    tensors, about = unpack(path)
    path.write_bytes(pack({**tensors, "model.transformer.h0": torch.zeros(3)}, about))
    code, _, errors = command("train", tum, *TINY, *where)
    assert code == 2
    assert "the checkpoint is of another model. Choose another --out, or --overwrite" in errors


def test_a_folder_that_is_a_file_is_not_a_full_disk(tum: Path, tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    for out in (tmp_path / "file", tmp_path / "file" / "run"):
        code, _, errors = command("train", tum, *TINY, "--out", out)
        assert code == 2
        assert "There is a file where a folder is expected: move it, or choose another" in errors
        assert "space" not in errors


def test_other_settings_or_data_are_refused(tum: Path, tmp_path: Path) -> None:
    where = ("--out", tmp_path / "run")
    assert command("train", tum, *TINY, *where)[0] == 0
    before = (tmp_path / "run" / LAST).read_bytes()
    code, _, errors = command("train", tum, *TINY, *where, "--rate", 0.01)
    assert code == 2
    assert "holds another run: rate was 0.002, now 0.01. Choose another folder" in errors
    other = write_tum(tmp_path / "other.tum", phase=1.0)
    code, _, errors = command("train", other, *TINY, *where)
    assert code == 2
    assert "the poses are others" in errors
    assert (tmp_path / "run" / LAST).read_bytes() == before
    assert command("train", other, *TINY, *where, "--overwrite")[0] == 0


@pytest.mark.parametrize("more", [[], ["--overwrite"]])
@pytest.mark.parametrize("name", ["log.jsonl", "result.json", "settings.json"])
def test_files_of_others_are_not_replaced(
    name: str, more: list[str], tum: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / name).write_text("{}")
    code, _, errors = command("train", tum, *TINY, "--out", folder, *more)
    assert code == 2
    assert re.search(rf"mine.*{name}.* of lieattn train.*Choose another", errors)
    assert (folder / name).read_text() == "{}"


def test_a_damaged_log_does_not_keep_a_run_from_going_on(tum: Path, tmp_path: Path) -> None:
    where = ("--out", tmp_path / "run")
    assert command("train", tum, *TINY, *where)[0] == 0
    with open(tmp_path / "run" / LOG, "ab") as file:
        file.write(b'{"foo": 1}\n\377\376\n')
    assert command("train", tum, *TINY, *where)[0] == 0
    assert [line["step"] for line in log(tmp_path / "run")] == [4, 8, 12]


def test_a_damaged_checkpoint_is_set_aside(tum: Path, tmp_path: Path) -> None:
    folder = tmp_path / "run"
    assert command("train", tum, *TINY, "--out", folder)[0] == 0
    whole = unpack(folder / LAST)[0]
    (folder / LAST).write_bytes((folder / LAST).read_bytes()[:-100])
    code, out, errors = command("train", tum, *TINY, "--out", folder)
    assert code == 0
    assert "is damaged" in errors
    assert "Going on from step 8." in out
    again = unpack(folder / LAST)[0]
    assert all(torch.equal(whole[key], again[key]) for key in whole)
    assert [line["step"] for line in log(folder)] == [4, 8, 12]


def test_a_full_disk_is_said_and_loses_nothing(
    tum: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = tmp_path / "run"
    assert command("train", tum, *TINY, "--out", folder, "--steps", 12)[0] == 0
    before = {p.name: p.read_bytes() for p in folder.iterdir()}
    real = os.fsync

    def full(descriptor: int) -> None:
        real(descriptor)
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    code, _, errors = command("train", tum, *TINY, "--out", tmp_path / "other")
    assert code == 2
    assert "No space left on device" in errors
    assert {p.name: p.read_bytes() for p in folder.iterdir()} == before


# ---- settings ------------------------------------------------------------------------------------


def test_a_config_with_both_names_of_a_setting_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "walk.toml"
    path.write_text('files = "walk.tum"\nsecond_differences = 3\nbends = 1\n')
    with pytest.raises(RunError, match=r"'second_differences', and 'bends', its earlier name"):
        merged(path, {})


def test_a_toml_file_holds_the_options_and_flags_come_first(tum: Path, tmp_path: Path) -> None:
    path = tmp_path / "walk.toml"
    path.write_text('files = ["walk.tum"]\nsteps = 7\nrate = 1\nscale = 2.5\nmodel = "c"\n')
    settings = merged(path, {"steps": 9})
    options = {"steps": 9, "rate": 1, "scale": 2.5, "model": "C"}
    assert settings == TrainSettings((str(tum),), **{**PRACTICE, **options})
    path.write_text('files = "walk.tum"\ngaps = "runs"\nbends = 0\n')
    assert merged(path, {}) == TrainSettings((str(tum),), gaps="runs", stride=-1)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("step = 3", r"unknown key 'step'. Did you mean 'steps'\?"),
        ("quux = 3", "unknown key 'quux'. Known are files, format,"),
        ('steps = "many"', "steps must be a whole number from 1 to 1,000,000,000, got 'many'"),
        ("steps = true", "steps must be a whole number from 1 to 1,000,000,000, got true"),
        ("model = 1", "model must be G or C or A or IPA, got 1"),
        ('copies = "yes"', "copies must be true or false, got 'yes'"),
        ("files = 3", "files must be a list of texts, got 3"),
        ("hide = 1.5", "hide must be a number from above 0 to below 1, got 1.5"),
        ("window = 2", "window must be a whole number from 3 to 1,000,000, got 2"),
        ('chart = "flat"', "unknown chart 'flat'; known are auto, principal, polar"),
        ('scale = "metre"', "scale must be auto or a number from 1e-12 to 1e.12, got 'metre'"),
        ("scale = inf", "scale must be auto or a number from 1e-12 to 1e.12, got inf"),
        ("rate = inf", "rate must be a number from above 0 to 1,000,000, got inf"),
        ("again = true", "has the key 'overwrite', which is for the command: --overwrite"),
        ('out = "x"', "has the key 'out', which is for the command: --out"),
        ("dim = 30", "dim must be a multiple of heads, got 30 and 4"),
        ("steps = [", "is no TOML"),
        ("steps = " + "[" * 100_000, "is no TOML: it is nested too deeply"),
        ("steps = " + "{a=" * 100_000, "is no TOML: it is nested too deeply"),
        ("steps" + ".a" * 100_000 + " = 1", "is no TOML: it is nested too deeply"),
        ('steps."a b"' + ' . "a b"' * 40 + " = 1", "is no TOML: it is nested too deeply"),
        ("steps = " + "9" * 5000, "is no TOML"),
        ("#" * 2_000_000, "is too long for a config"),
        ("layers = 1001", "layers must be a whole number from 1 to 1,000, got 1001"),
        ('group = "SE9"', "unknown group 'SE9'; known are"),
        ('chart = "' + "x" * 100_000 + '"', "unknown chart 'x{37}...'; known are"),
        (
            "dim = [" + "1," * 1000 + "]",
            r"dim must be a whole number from 1 to 100,000, got \[1, 1.{50,60}\.\.\.",
        ),
    ],
    ids=lambda text: text[:30],
)
def test_mistakes_in_a_config_are_told(text: str, message: str, tmp_path: Path) -> None:
    path = tmp_path / "c.toml"
    path.write_text(text + "\n")
    with pytest.raises(RunError, match=message):
        merged(path, {"files": ["x.tum"]})


def test_mistakes_on_the_command_line_are_told(tmp_path: Path) -> None:
    for arguments, message in (
        ([], "there is nothing to train on: give files of poses, or the name of a data set"),
        (["nothing.tum"], "nothing.tum: cannot be read.*Data sets that come along: headings"),
        (["headings", "bricks"], "sets of one group are needed.*--group takes poses as of another"),
        (["headings", "--model", "B"], "unknown model 'B'; known are G, C, A"),
        (["headings", "--config", "no.toml"], "cannot read no.toml: No such file or directory"),
    ):
        code, _, errors = command("train", *arguments)
        assert code == 2
        assert re.search(rf"^lieattn: .*{message}", errors), errors
    assert "scale must be auto or a number from" in command("train", "headings", "--scale", "x")[2]


def test_too_few_poses_are_told(tmp_path: Path) -> None:
    short = write_tum(tmp_path / "short.tum", n=8)
    code, _, errors = command("train", short, "--out", tmp_path / "run")
    assert code == 2
    assert "the valid part has no window of at least 3 poses: 8 in 1 set are too few" in errors


# ---- parts, windows, hidden tokens ---------------------------------------------------------------


def test_files_are_split_whole_and_a_trajectory_in_order(tmp_path: Path) -> None:
    files = [write_tum(tmp_path / f"{i}.tum", 60, phase=i) for i in range(5)]
    found = parts(TrainSettings(tuple(map(str, files)), window=10))
    sources = [{x.source for x in part} for part in (found.train, found.valid, found.test)]
    assert all(sources)
    assert not sources[0] & sources[1]
    assert not (sources[0] | sources[1]) & sources[2]
    assert found.how == "by file, 5 of them"
    one = parts(TrainSettings((str(files[0]),), window=10, gap=4))
    names = [set().union(*(x.names for x in part)) for part in (one.train, one.valid, one.test)]
    assert max(map(float, names[0])) + 0.4 < min(map(float, names[1]))
    assert max(map(float, names[1])) + 0.4 < min(map(float, names[2]))


def test_windows_are_dense_where_poses_are_few() -> None:
    dense = TrainSettings(stride=-1, window=32)
    assert dense.step_of_windows(100) == 1
    assert dense.step_of_windows(ENOUGH) == 1
    assert dense.step_of_windows(3 * ENOUGH) == 3
    assert dense.step_of_windows(1_000_000) == 8
    assert TrainSettings(window=32).step_of_windows(100) == 8
    assert TrainSettings(stride=5).step_of_windows(100) == 5


def test_gaps_of_any_length_are_hidden() -> None:
    mask = torch.arange(20) < torch.tensor([20, 9, 3])[:, None].repeat(2000, 1)
    hidden = hide_some(mask, 0.1, "any", torch.Generator().manual_seed(0))
    assert not (hidden & ~mask).any()
    counts = hidden.sum(-1).view(2000, 3)
    assert [set(x.tolist()) for x in counts.T] == [set(range(1, 11)), {1, 2, 3, 4}, {1}]
    # Half of the sets one by one, two tokens of twenty; the others evenly in the logarithm.
    assert (counts[:, 0] >= 4).double().mean().item() == pytest.approx(0.21, abs=0.04)


@pytest.mark.parametrize("gaps", ["tokens", "runs", "mixed"])
def test_hidden_tokens_are_some_of_those_there(gaps: str) -> None:
    mask = torch.arange(20) < torch.tensor([20, 7, 3, 1])[:, None].repeat(50, 1)
    hidden = hide_some(mask, 0.3, gaps, torch.Generator().manual_seed(0))
    assert not (hidden & ~mask).any()
    assert hidden.sum(-1).tolist() == [6, 2, 1, 0] * 50
    if gaps == "runs":
        starts = hidden & ~torch.nn.functional.pad(hidden, (1, 0))[:, :-1]
        assert (starts.sum(-1) <= 1).all()
        assert hidden[::4].any(0).all()  # anywhere, the ends included


def test_every_window_comes_once_an_epoch() -> None:
    windows = stack(data.windows(data.dataset("headings").valid, 32), 1.0)
    count = len(windows.mask)
    stream = Stream(windows, 8, 0.15, "mixed", seed=3)
    seen = torch.cat([stream.indices(step) for step in range(2 * count)])[: 8 * count]
    for epoch in seen.split(count):
        assert sorted(epoch.tolist()) == list(range(count))
    assert torch.equal(stream.batch(5)[1], Stream(windows, 8, 0.15, "mixed", 3).batch(5)[1])


# ---- what is said at the end ---------------------------------------------------------------------


@pytest.mark.parametrize(
    ("errors", "said"),
    [
        ((0.5, 2.0), "G beside geodesic: translation 50% smaller, rotation 100% larger."),
        ((1.0, 1.2), "rotation 20% larger. It is no better than interpolation here"),
        ((1.004, 1.0), "translation the same, rotation the same. It is no better"),
    ],
)
def test_the_table_says_whether_it_was_worth_it(errors: tuple[float, float], said: str) -> None:
    def row(*means: float) -> dict[str, Any]:
        blocks = zip(("translation", "rotation"), means, strict=True)
        own = {name: {"mean": x, "median": x} for name, x in blocks}
        return {"blocks": own, "mirrored": 0.0, "tokens": 9}

    rows = {"nearest": row(3, 3), "geodesic": row(1, 1), "G": row(*errors)}
    coverage = {"G": {"0.9": [0.8, 0.9]}}
    text = io.StringIO()
    result = {"group": "SE3", "windows": 3, "rows": rows, "coverage": coverage}
    print_errors(result, Console(file=text, width=80))
    told = " ".join(text.getvalue().split())
    assert said in told
    assert ("no better" in told) == ("no better" in said)
