"""What is not said without ground: bounds, errors where parts overlap. And no file is lost."""

from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
import torch
from walks import TINY, command, curve, write_tum

import lieattn as la
from lieattn import data
from lieattn.workflows.filling import fill_set
from lieattn.workflows.settings import TrainSettings
from lieattn.workflows.sources import parts
from lieattn.workflows.store import BEST, load_trained


@pytest.fixture(scope="module")
def short(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same on so few poses that validation is a window of four."""
    folder = tmp_path_factory.mktemp("short")
    walk = write_tum(folder / "walk.tum", 45)
    assert command("train", walk, *TINY, "--out", folder / "run")[0] == 0
    return folder / "run"


# ---- bounds ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("count", "bounded"), [(8, [1, 1, 0, 0]), (9, [1, 1, 1, 0]), (19, [1] * 4)]
)
def test_bounds_need_as_many_poses_as_their_level(count: int, bounded: list[int]) -> None:
    model = la.InfillModel(la.SE3)
    model.calibrate(torch.rand(100, 2), torch.zeros(100, 2), count)
    assert model.factors.isfinite().int().tolist() == [bounded] * 2
    model.calibrate(torch.rand(count, 2), torch.zeros(count, 2))
    assert model.factors.isfinite().int().tolist() == [bounded] * 2


def test_a_model_that_was_hardly_validated_has_no_bounds_and_says_so(short: Path) -> None:
    walk = short.parent / "walk.tum"
    code, text, errors = command("predict", short, walk, "--hide", "5", "--json")
    assert (code, errors) == (0, "")
    found = json.loads(text)
    assert found["sets"][0]["found"][0]["within"] == {"translation": None, "rotation": None}
    assert "no bounds for 90% of answers: validation had too few poses" in found["remarks"][0]
    _, text, _ = command("evaluate", short)
    assert "G has no 90% bounds: the validation part has too few poses." in " ".join(text.split())


def test_gaps_longer_than_those_of_short_sets_have_no_answer_of_the_model(
    run: Path, short: Path
) -> None:
    assert load_trained(run).longest == 16  # half of a window
    assert load_trained(short).longest == 2  # half of the validation part, though windows are of 32
    other = write_tum(short.parent / "other.tum", 60, phase=1.0)
    _, text, _ = command("predict", short, other, "--hide", "20-24")
    assert "The longest gap is of 5 poses, and training hid up to 2 in a row" in text


def test_a_second_pose_far_away_makes_no_window_of_thousands(run: Path) -> None:
    """Tracking that is lost right after the start."""
    trained = load_trained(run)
    n = 20_000
    walk = data.from_tensor(la.SE3, curve(n))
    seen = torch.zeros(n, dtype=torch.bool)
    seen[1], seen[-100:] = True, True
    began = time.monotonic()
    done = fill_set(trained, replace(walk, mask=seen), ~seen, 0.9)
    assert time.monotonic() - began < 60
    assert done.within.isinf().all()
    assert done.poses.isfinite().all()


# ---- what was trained on ---------------------------------------------------------------------


def test_sets_that_overlap_are_noted(tmp_path: Path) -> None:
    walk = data.from_tensor(la.SE3, curve(600))
    data.save(tmp_path / "cut.npz", data.windows([walk], 32, stride=8))
    data.save(tmp_path / "whole.npz", [walk])
    notes = [
        parts(TrainSettings(files=(str(tmp_path / name),))).notes
        for name in ("cut.npz", "whole.npz")
    ]
    assert len(notes[0]) == 2
    assert all("is in the training part too" in note for note in notes[0])
    assert notes[1] == ()


def test_what_stands_still_is_no_overlap(tmp_path: Path) -> None:
    data.save(tmp_path / "a.npz", [data.from_tensor(la.SE3, la.SE3.identity(400))])
    assert parts(TrainSettings(files=(str(tmp_path / "a.npz"),))).notes == ()


def test_copies_of_a_file_are_noted(tmp_path: Path) -> None:
    names = [
        write_tum(tmp_path / f"{name}.tum", 100, phase)
        for name, phase in (("a", 0.0), ("copy", 0.0), ("b", 9.0))
    ]
    told = [
        bool(parts(TrainSettings(files=tuple(map(str, names)), seed=seed)).notes)
        for seed in range(6)
    ]
    assert any(told)


def test_one_file_of_several_that_were_trained_on_is_not_evaluated(tmp_path: Path) -> None:
    names = [write_tum(tmp_path / f"{x}.tum", 60, phase=3.0 * x) for x in range(4)]
    folder = tmp_path / "run"
    assert command("train", *names, *TINY, "--out", folder)[0] == 0
    learned = load_trained(folder).learned
    assert len(learned) == 3
    refused = [command("evaluate", folder, "--on", name)[0] for name in names]
    assert sorted(refused) == [0, 2, 2, 2]  # the one of the test part may be
    for name, code in zip(names, refused, strict=True):
        _, text, _ = command("predict", folder, name, "--hide", "10%")
        assert ("were trained on" in text) is (code == 2)


def test_a_file_by_two_names_counts_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name, phase in (("a", 0.0), ("b", 9.0)):
        write_tum(tmp_path / f"{name}.tum", 100, phase)
    found = parts(TrainSettings(files=("a.tum", "./a.tum", "b.tum")))
    assert found.how.startswith("in order")


# ---- what readers note -----------------------------------------------------------------------


def test_predict_and_evaluate_say_what_the_reader_noted(run: Path, tmp_path: Path) -> None:
    rows = [
        line.split() for line in write_tum(tmp_path / "x.tum", 60, 2.0).read_text().splitlines()
    ]
    plain = tmp_path / "plain.csv"  # without a header: which quaternion is it?
    plain.write_text("".join(",".join(row) + "\n" for row in rows))
    notes = data.read(plain).notes
    assert notes
    for arguments in (("predict", run, plain, "--hide", "3"), ("evaluate", run, "--on", plain)):
        _, text, _ = command(*arguments)
        assert " ".join(notes[0].split()) in " ".join(text.split())
        _, text, _ = command(*arguments, "--json")
        assert notes[0] in json.loads(text)["notes"][0]


# ---- files that would be lost ----------------------------------------------------------------


def test_files_that_are_read_are_not_written_over(run: Path, tmp_path: Path) -> None:
    walk = write_tum(tmp_path / "walk.tum", 40, missing=(7,))
    np.savez(tmp_path / "walk.npz", poses=curve(40).numpy())
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    for arguments, message in (
        (("data", walk, "--bad", "mask", "--save", walk), "--save writes .npz, got 'walk.tum'"),
        (("data", tmp_path / "walk.npz", "--save", tmp_path / "walk.npz"), "is an input"),
        (("predict", run, walk, "--save", walk), "is an input and would be lost"),
    ):
        code, _, errors = command(*arguments)
        assert code == 2
        assert message in errors
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


def test_nanoseconds_are_saved_as_seconds(run: Path, tmp_path: Path) -> None:
    rows = write_tum(tmp_path / "x.tum", 40, 2.0).read_text().splitlines()
    lines = ["#timestamp, p_x, p_y, p_z, q_w, q_x, q_y, q_z"]
    for i, row in enumerate(rows):
        x = row.split()
        lines.append(", ".join([str(1403636580838555648 + 10**8 * i), *x[1:4], x[7], *x[4:7]]))
    (tmp_path / "x.csv").write_text("\n".join(lines) + "\n")
    out = tmp_path / "whole.tum"
    code, _, errors = command("predict", run, tmp_path / "x.csv", "--hide", "5", "--save", out)
    assert (code, errors) == (0, "")
    assert data.read(out)[0].names[:2] == ("1403636580.838555648", "1403636580.938555648")


def test_what_is_saved_can_be_read_names_and_all(tmp_path: Path) -> None:
    walk = data.from_tensor(la.SE2, la.SE2.identity(700), names=["x" * 200] * 700)
    with pytest.raises(ValueError, match="more than the 256 MB that read takes"):
        data.save(tmp_path / "x.npz", [walk] * 700)


def test_a_run_is_not_emptied_for_one_that_cannot_begin(run: Path, tmp_path: Path) -> None:
    folder, walk = tmp_path / "run", run.parent / "walk.tum"
    assert command("train", walk, *TINY, "--out", folder)[0] == 0
    best = (folder / BEST).read_bytes()
    flat = tmp_path / "flat.npz"
    np.savez(flat, poses=la.SE2.random(300).numpy(), group=np.array("SE2"))
    code, _, errors = command(
        "train", flat, *TINY, "--out", folder, "--model", "IPA", "--overwrite"
    )
    assert code == 2
    assert errors
    assert (folder / BEST).read_bytes() == best


# ---- what is printed can be used -------------------------------------------------------------


def test_the_next_command_is_quoted(tmp_path: Path) -> None:
    walk = write_tum(tmp_path / "a walk.tum", 60)
    _, text, _ = command("train", walk, *TINY, "--out", tmp_path / "a run")
    assert f"lieattn predict '{tmp_path / 'a run'}' '{walk}' --hide 10%" in text


def test_sizes_as_far_apart_as_numbers_can_be_are_json(tmp_path: Path) -> None:
    names = [tmp_path / "small.tum", tmp_path / "large.tum"]
    for path, size in zip(names, ("1e-300", "1e17"), strict=True):
        path.write_text("".join(f"{i} {i}{size[1:]} 0 0 0 0 0 1\n" for i in range(1, 4)))
    code, text, _ = command("data", *names, "--json")
    assert code == 0
    assert not {"Infinity", "NaN"} & set(text.replace(",", " ").split())


def test_data_sets_that_come_along_take_no_group(run: Path) -> None:
    code, _, errors = command("predict", run, "victoria_park", "--group", "SE3")
    assert code == 2
    assert "victoria_park comes with the library" in errors


# ---- numbers out of range --------------------------------------------------------------------


@pytest.mark.parametrize(
    ("option", "value", "message"),
    [
        ("--seed", 10**22, "seed must be a whole number from 0 to 9,223,372,036,854,775,807"),
        ("--window", 10**19, "window must be a whole number from 3 to 1,000,000"),
        ("--scale", "1e300", "scale must be auto or a number from 1e-12 to 1e+12, got 1e+300"),
        ("--scale", "1e-30", "scale must be auto or a number from 1e-12 to 1e+12"),
    ],
)
def test_numbers_that_are_too_large_are_refused(
    option: str, value: object, message: str, run: Path
) -> None:
    walk = run.parent / "walk.tum"
    code, _, errors = command("train", walk, *TINY, option, value, "--out", run.parent / "none")
    assert code == 2
    assert message in errors
