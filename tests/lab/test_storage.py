"""What is on disk: whole or not at all, and never another run's."""

from __future__ import annotations

import errno
import json
import math
import os
import random
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from held import as_earlier, unpack
from lieattn._core import files
from lieattn._core.errors import RunError
from lieattn._core.folders import write_bytes
from lieattn.lab.paper import storage
from lieattn.lab.paper.protocols import Settings
from lieattn.lab.paper.stacked import ParameterStack
from lieattn.lab.paper.storage import RunFolder, claim
from lieattn.lab.paper.training import HISTORY, State, Trainer

SETTINGS = Settings(
    "SE2",
    "G",
    "paper",
    seeds=(0,),
    epochs=4,
    train=64,
    validation=10,
    test=10,
    compiled=False,
)
VERSIONS = {"torch": "1"}


@pytest.fixture
def folder(tmp_path: Path) -> RunFolder:
    folder = RunFolder(tmp_path, SETTINGS)
    folder.make()
    return folder


def state(epoch: int) -> State:
    x = torch.full((1, sum(ParameterStack(SETTINGS.build()).sizes)), float(epoch))
    history = [[{**dict.fromkeys(HISTORY, 0.5), "epoch": k + 1} for k in range(epoch)]]
    return State(x, x + 1, x + 2, x + 3, [0.1], [epoch], epoch, history)


def warnings_of(folder: RunFolder) -> tuple[State | None, list[str]]:
    heard: list[str] = []
    return folder.load(heard.append), heard


def test_a_state_comes_back_bit_for_bit(folder: RunFolder) -> None:
    trainer = Trainer(SETTINGS)
    trainer.epoch()
    folder.save(trainer.state)
    back, heard = warnings_of(folder)
    assert back is not None
    assert not heard
    for name in ("parameters", "mean", "square", "best"):
        assert torch.equal(getattr(back, name), getattr(trainer.state, name))
    assert back.history == trainer.state.history
    assert back.best_error == trainer.state.best_error


def test_a_restored_trainer_goes_on_as_if_nothing_had_happened(folder: RunFolder) -> None:
    whole = Trainer(SETTINGS)
    for _ in range(4):
        whole.epoch()
    first = Trainer(SETTINGS)
    first.epoch()
    folder.save(first.state)
    second = Trainer(SETTINGS)
    back, _ = warnings_of(folder)
    assert back is not None
    second.restore(back)
    while not second.finished:
        second.epoch()
    assert torch.equal(second.state.parameters, whole.state.parameters)
    assert torch.equal(second.state.best, whole.state.best)
    assert second.state.history == whole.state.history


def test_a_run_that_diverges_keeps_its_numbers(folder: RunFolder) -> None:
    """JSON has no infinity: what was never reached and what is none come back all the same."""
    one = state(2)
    one.best_error, one.history[0][1]["train_loss"] = [math.inf], math.nan
    one.history[0][0]["validation_loss"] = math.inf
    folder.save(one)
    back, heard = warnings_of(folder)
    assert back is not None
    assert not heard
    assert back.best_error == [math.inf]
    assert not math.isfinite(back.history[0][0]["validation_loss"])
    assert math.isnan(back.history[0][1]["train_loss"])
    assert back.history[0][1]["rate"] == 0.5


def test_a_run_goes_on_from_a_checkpoint_of_an_earlier_version(folder: RunFolder) -> None:
    one = state(2)
    tensors = {name: getattr(one, name) for name in ("parameters", "mean", "square", "best")}
    about = {"epoch": 2, "best_error": [math.inf], "best_epoch": [2], "history": one.history}
    path = folder.path / storage.CHECKPOINT
    path.write_bytes(as_earlier(tensors, about))
    back, heard = warnings_of(folder)
    assert back is not None
    assert (back.epoch, back.best_error, heard) == (2, [math.inf], [])
    assert torch.equal(back.best, one.best)
    content = path.read_bytes()
    path.write_bytes(content[:-5] + bytes([content[-5] ^ 1]) + content[-4:])
    assert "its checksum does not match" in warnings_of(folder)[1][0]


@pytest.mark.parametrize(
    "change",
    [
        {"epoch": -1},
        {"epoch": 5},
        {"epoch": True},
        {"best_error": 3},
        {"best_error": ["x"]},
        {"best_epoch": [None]},
        {"history": [[]]},
        {"history": [[{}, {}]]},
        {"history": [[3, 4]]},
        {"more": 1},
        {"format": 1},
        {"format": None},
    ],
    ids=str,
)
def test_a_checkpoint_that_fits_nothing_is_set_aside(
    folder: RunFolder, change: dict[str, Any]
) -> None:
    folder.save(state(1))
    folder.save(state(2))
    path = folder.path / storage.CHECKPOINT
    tensors, about = unpack(path)
    path.write_bytes(files.pack(tensors, {**about, **change}))
    back, (heard,) = warnings_of(folder)
    assert "it holds no state of this run" in heard
    assert back is not None
    assert back.epoch == 1


def test_tensors_of_another_run_are_refused(folder: RunFolder) -> None:
    folder.save(state(1))
    path = folder.path / storage.CHECKPOINT
    tensors, about = unpack(path)
    for change in ({"best": torch.zeros(1, 3)}, {"best": tensors["best"].double()}):
        path.write_bytes(files.pack({**tensors, **change}, about))
        assert "its tensor 'best' is" in warnings_of(folder)[1][0]


def test_single_flipped_bits_of_a_checkpoint_are_noticed(folder: RunFolder) -> None:
    folder.save(state(1))
    path = folder.path / storage.CHECKPOINT
    content = path.read_bytes()
    start, draw = 8 + int.from_bytes(content[:8], "little"), random.Random(0)
    for last in (8, start, len(content)):
        for _ in range(20):
            damaged = bytearray(content)
            damaged[draw.randrange(last)] ^= 1 << draw.randrange(8)
            path.write_bytes(damaged)
            assert warnings_of(folder)[0] is None


def test_no_checkpoint_is_no_state(folder: RunFolder) -> None:
    assert warnings_of(folder) == (None, [])


@pytest.mark.parametrize("damage", ["cut", "flip", "empty", "text"])
def test_a_damaged_checkpoint_is_named_and_the_previous_one_used(
    folder: RunFolder, damage: str
) -> None:
    folder.save(state(1))
    folder.save(state(2))
    path = folder.path / storage.CHECKPOINT
    content = path.read_bytes()
    flipped = content[:-5] + bytes([content[-5] ^ 1]) + content[-4:]
    path.write_bytes(
        {"cut": content[:-20], "flip": flipped, "empty": b"", "text": b"hello"}[damage]
    )
    back, heard = warnings_of(folder)
    assert back is not None
    assert back.epoch == 1
    assert len(heard) == 1
    assert str(path) in heard[0]
    assert "the one before it" in heard[0]


def test_two_damaged_checkpoints_start_anew(folder: RunFolder) -> None:
    folder.save(state(1))
    folder.save(state(2))
    for name in (storage.CHECKPOINT, storage.PREVIOUS):
        (folder.path / name).write_bytes(b"no")
    back, heard = warnings_of(folder)
    assert back is None
    assert "starting anew" in heard[1]


def test_a_damaged_checkpoint_never_replaces_a_good_one(folder: RunFolder) -> None:
    folder.save(state(1))
    folder.save(state(2))
    (folder.path / storage.CHECKPOINT).write_bytes(b"no")
    warnings_of(folder)
    folder.save(state(3))
    assert not (folder.path / storage.PREVIOUS).exists() or warnings_of(folder)[1] == []
    (folder.path / storage.CHECKPOINT).unlink()
    back, heard = warnings_of(folder)
    assert back is not None
    assert back.epoch == 1
    assert not heard


def claims(out: Path, *models: str, overwrite: bool = False, **changes: object) -> None:
    plan = [replace(SETTINGS, model=model, **changes) for model in models]  # type: ignore[arg-type]
    claim(out, plan, VERSIONS, overwrite)


def test_other_settings_are_refused_and_nothing_is_touched(tmp_path: Path) -> None:
    claims(tmp_path, "G")
    folder = RunFolder(tmp_path, SETTINGS)
    folder.save(state(1))
    before = {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    with pytest.raises(RunError, match=r"epochs 4 there, 7 asked for.*--out.*--overwrite"):
        claims(tmp_path, "C", "G", epochs=7)
    assert before == {p: p.read_bytes() for p in tmp_path.rglob("*") if p.is_file()}
    claims(tmp_path, "C", "G")  # and the right ones are welcome still


def test_models_of_one_table_have_the_same_settings(tmp_path: Path) -> None:
    claims(tmp_path, "G")
    RunFolder(tmp_path, SETTINGS).save(state(1))
    with pytest.raises(RunError, match="seeds"):
        claims(tmp_path, "A", seeds=(0, 1))
    with pytest.raises(RunError, match="epochs"):
        claims(tmp_path, "A", epochs=7, overwrite=True)  # G would be left with another number


def test_where_nothing_was_computed_settings_may_change(tmp_path: Path) -> None:
    claims(tmp_path, "G")
    claims(tmp_path, "G", epochs=7)
    path = tmp_path / "paper" / storage.SETTINGS
    assert json.loads(path.read_text(encoding="utf-8"))["epochs"] == 7


def test_finished_runs_may_be_read_with_another_torch_and_no_compiler(tmp_path: Path) -> None:
    claims(tmp_path, "G")
    folder = RunFolder(tmp_path, SETTINGS)
    folder.save(state(4))
    plan = [replace(SETTINGS, compiled=True)]
    with pytest.raises(RunError, match=r"compiled False there.*torch '1' there, '2' asked for"):
        claim(tmp_path, plan, {"torch": "2"}, overwrite=False)
    storage.write_json(folder.path / storage.RESULT, {})
    claim(tmp_path, plan, {"torch": "2"}, overwrite=False)


def test_without_its_settings_a_run_is_not_taken_for_another(tmp_path: Path) -> None:
    claims(tmp_path, "G")
    RunFolder(tmp_path, SETTINGS).save(state(1))
    path = tmp_path / "paper" / storage.SETTINGS
    for content in ("{", "[]", "{}"):
        path.write_text(content, encoding="utf-8")
        with pytest.raises(RunError, match="--overwrite"):
            claims(tmp_path, "G", epochs=9)
    path.unlink()
    with pytest.raises(RunError, match=r"settings\.json cannot be read"):
        claims(tmp_path, "G", epochs=9)
    claims(tmp_path, "G", epochs=9, overwrite=True)
    assert warnings_of(RunFolder(tmp_path, SETTINGS)) == (None, [])


def test_again_empties_the_folder(folder: RunFolder) -> None:
    folder.save(state(1))
    folder.save(state(2))
    folder.write_logs(state(1))
    storage.write_json(folder.path / storage.RESULT, {})
    (folder.path / "seed-0-best").mkdir()
    (folder.path / "seed-0-best" / "config.json").touch()
    folder.make(empty=True)
    assert not list(folder.path.iterdir())


def test_a_full_disk_is_said_and_loses_nothing(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder.save(state(1))

    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(RunError, match=r"No space left.*--out"):
        folder.save(state(2))
    monkeypatch.undo()
    back, heard = warnings_of(folder)
    assert back is not None
    assert back.epoch == 1
    assert not heard
    assert not list(folder.path.glob("*.part"))


def test_a_log_that_cannot_be_written_is_said(folder: RunFolder) -> None:
    (folder.path / "seed-0.jsonl").mkdir()
    with pytest.raises(RunError, match=r"cannot write .*seed-0\.jsonl"):
        folder.write_logs(state(1))


def test_a_folder_that_became_read_only_is_said(
    folder: RunFolder, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(*arguments: object, **options: object) -> None:
        raise OSError(errno.EROFS, os.strerror(errno.EROFS))

    monkeypatch.setattr(files, "open", refuse, raising=False)
    monkeypatch.setattr(Path, "unlink", refuse)
    with pytest.raises(RunError, match="Read-only file system") as told:
        folder.save(state(1))
    assert "Allow writing there, or choose another folder with --out" in str(told.value)
    assert "space" not in str(told.value)


def test_what_to_do_fits_what_went_wrong_and_the_command(tmp_path: Path) -> None:
    (tmp_path / "file").touch()
    (tmp_path / "folder").mkdir()
    for path, option, told in (
        (tmp_path / "file" / "x", "", r"file where a folder is expected.*folder with --out"),
        (tmp_path / "file" / "x", "--save", r"file where a folder is expected.*file with --save"),
        (tmp_path / "folder", "--plot", r"folder where a file is expected.*file with --plot"),
    ):
        with pytest.raises(RunError, match=told) as error:
            write_bytes(path, b"", option=option)
        assert "space" not in str(error.value)
        assert "--overwrite" not in str(error.value)
        assert ("--out" in str(error.value)) == (not option)
    assert [path.name for path in tmp_path.rglob("*.part")] == []


def test_a_full_disk_is_said_for_files_outside_of_runs_too(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(files.os, "fsync", full)
    with pytest.raises(RunError, match=r"Free some space, or name another file with --save") as e:
        write_bytes(tmp_path / "x.tum", b"x", option="--save")
    assert "--overwrite" not in str(e.value)


def test_a_file_is_replaced_whole(tmp_path: Path) -> None:
    path, kept = tmp_path / "a", tmp_path / "b"
    write_bytes(path, b"one", keep=kept)
    write_bytes(path, b"two", keep=kept)
    assert (path.read_bytes(), kept.read_bytes()) == (b"two", b"one")


def test_logs_are_one_json_object_an_epoch(folder: RunFolder) -> None:
    folder.write_logs(state(2))
    folder.write_logs(state(3), start=2)
    lines = (folder.path / "seed-0.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line)["epoch"] for line in lines] == [1, 2, 3]
