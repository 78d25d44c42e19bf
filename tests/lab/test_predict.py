"""`lieattn predict` and `lieattn evaluate`: answers, bounds, tables, and what cannot be done."""

from __future__ import annotations

import io
import json
import os
import re
import time
from pathlib import Path
from typing import Any

import pytest
import torch
from rich.console import Console
from walks import TINY, command, curve, of_format, write_tum

import lieattn as la
from held import as_earlier, unpack
from lieattn import data
from lieattn._core.errors import RunError
from lieattn._core.files import pack
from lieattn.workflows.answers import print_filled
from lieattn.workflows.filling import Unfillable, fill_set, gap_lengths, spans
from lieattn.workflows.picture import views
from lieattn.workflows.predict import parse_places
from lieattn.workflows.store import BEST, LAST, load_trained
from memory import LargestTensor

# ---- answers -------------------------------------------------------------------------------------


def test_rows_of_nan_are_filled_and_the_rest_is_kept(run: Path, tmp_path: Path) -> None:
    gaps = (5, 30, 31, 32)
    broken = write_tum(tmp_path / "broken.tum", 80, phase=0.5, missing=gaps)
    out = tmp_path / "whole.tum"
    code, text, errors = command("predict", run, broken, "--save", out)
    assert (code, errors) == (0, "")
    assert "broken: 4 poses found" in text
    assert "…" not in text  # nothing is cut off
    assert "hold for 90% of answers" in text
    assert max(map(len, text.splitlines()[:-1])) <= 80  # the last is the name of a file
    filled, truth = data.read(out)[0], curve(80, 0.5)
    off = (filled.poses - truth).abs().amax((-2, -1))
    known = torch.ones(80, dtype=torch.bool)
    known[list(gaps)] = False
    before = data.read(broken, bad="mask")[0].poses
    assert (filled.poses - before).abs()[known].max() < 1e-13
    assert off[~known].max() < 0.2  # steps are of about 0.2
    assert filled.names == tuple(f"{i / 10:.1f}" for i in range(80))


def test_sets_without_gaps_are_saved_too_and_time_stamps_are_asked_for(
    run: Path, tmp_path: Path
) -> None:
    both = [
        data.PoseSet(
            la.SE3,
            curve(20),
            torch.arange(20) != gap,
            tuple(f"part {i}" for i in range(20)),
            f"set {gap}",
            "file",
        )
        for gap in (7, -1)
    ]
    data.save(tmp_path / "two.npz", both)
    code, _, errors = command("predict", run, tmp_path / "two.npz", "--save", tmp_path / "x.npz")
    assert (code, errors) == (0, "")
    saved = data.read(tmp_path / "x.npz")
    assert [len(x) for x in saved] == [20, 20]
    assert all(x.mask.all() for x in saved)
    torch.testing.assert_close(saved[1].poses, both[1].poses)
    data.save(tmp_path / "one.npz", both[:1])
    code, _, errors = command("predict", run, tmp_path / "one.npz", "--save", tmp_path / "x.tum")
    assert code == 2
    assert "writes time stamps, and 'part 0' is none; .npz takes any names" in errors
    assert not (tmp_path / "x.tum").exists()


def test_a_trained_model_is_loaded_by_the_name_of_its_folder(run: Path) -> None:
    assert load_trained(str(run)).group is la.SE3


def test_json_has_poses_bounds_and_errors(run: Path) -> None:
    walk = run.parent / "walk.tum"
    code, text, _ = command("predict", run, walk, "--hide", "7,20-22", "--json", "--level", 0.5)
    assert code == 0
    found = json.loads(text)
    assert (found["group"], found["level"]) == ("SE3", 0.5)
    (only,) = found["sets"]
    assert [x["index"] for x in only["found"]] == [7, 20, 21, 22]
    first = only["found"][0]
    assert set(first["within"]) == set(first["error"]) == {"translation", "rotation"}
    truth = curve(400)[7]
    position = torch.tensor(first["pose"])[:3, 3] - truth[:3, 3]
    assert position.norm().item() == pytest.approx(first["error"]["translation"], rel=0.05)
    assert any("were trained on" in x for x in found["remarks"])


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_are_drawn(ending: str, run: Path, tmp_path: Path) -> None:
    out = tmp_path / f"x.{ending}"
    code, _, errors = command(
        "predict", run, run.parent / "walk.tum", "--hide", "10%", "--plot", out
    )
    assert (code, errors) == (0, "")
    assert out.stat().st_size > 1000


def test_known_poses_far_from_the_origin_keep_their_digits(run: Path) -> None:
    trained = load_trained(run)
    poses = curve(60)
    poses[:, :3, 3] += 1e6
    x = data.from_tensor(la.SE3, poses)
    hidden = torch.arange(60) == 30
    done = fill_set(trained, x, hidden, 0.9)
    assert torch.equal(done.poses[~hidden], x.poses[~hidden])
    near = fill_set(trained, data.from_tensor(la.SE3, curve(60)), hidden, 0.9)
    moved = done.poses[hidden][:, :3, 3] - near.poses[hidden][:, :3, 3]
    torch.testing.assert_close(moved, torch.full_like(moved, 1e6), rtol=0, atol=1e-4)


def test_gaps_longer_than_those_of_training_are_interpolated_and_said(
    run: Path, tmp_path: Path
) -> None:
    gap = tuple(range(20, 70))
    broken = write_tum(tmp_path / "long.tum", 120, missing=(5, *gap))
    code, text, _ = command("predict", run, broken)
    assert code == 0
    assert "longest gap is of 50 poses, and training hid up to 16 in a row" in " ".join(
        text.split()
    )
    code, text, _ = command("predict", run, broken, "--json")
    found = json.loads(text)["sets"][0]["found"]
    assert found[0]["within"]["translation"] > 0
    assert all(set(x["within"].values()) == {None} for x in found[1:])
    x = data.read(broken, bad="mask")[0]
    between = la.interpolate(la.SE3, x.poses, x.mask)
    torch.testing.assert_close(
        torch.tensor(found[7]["pose"]).double(), between[26], rtol=1e-5, atol=1e-5
    )
    assert not torch.allclose(torch.tensor(found[0]["pose"]).double(), between[5], atol=1e-5)


def test_files_of_long_gaps_alone_are_interpolated_and_no_bound_is_said_to_hold(
    run: Path, tmp_path: Path
) -> None:
    broken = write_tum(tmp_path / "long.tum", 120, missing=tuple(range(20, 70)))
    code, text, errors = command("predict", run, broken)
    assert (code, errors) == (0, "")
    assert "longer gaps are interpolated" in " ".join(text.split())
    whole = write_tum(tmp_path / "whole.tum", 120)
    text = " ".join(command("predict", run, whole, "--hide", "20-69")[1].split())
    assert "errors of 50 poses that were there; there are no bounds" in text
    text = " ".join(command("predict", run, whole, "--hide", "5,20-69")[1].split())
    assert re.search(r"errors of 51 poses that were there; [\d%, ]+ are .* \(50 have none\)", text)


def test_rows_that_are_no_poses_are_filled_and_that_is_said(run: Path, tmp_path: Path) -> None:
    path = write_tum(tmp_path / "a.tum", 80, missing=(5,))
    lines = path.read_text().splitlines()
    lines[30] = "3.0 1 2 3 0 0 0 0"
    path.write_text("\n".join(lines) + "\n")
    _, text, _ = command("predict", run, path)
    assert "1 of 80 poses of a are masked, being no poses; the first" in " ".join(text.split())
    found = json.loads(command("predict", run, path, "--json")[1])
    (note,) = found["notes"]
    assert "line 31, column 1: the quaternion has norm 0" in note


def test_json_tells_what_could_not_be_done_at_all(run: Path, tmp_path: Path) -> None:
    code, text, errors = command("predict", run, tmp_path / "no.tum", "--json")
    found = json.loads(text)
    assert (code, found["sets"]) == (2, [])
    assert "no.tum: cannot be read" in found["problems"][0]
    assert "Traceback" not in errors


def test_windows_around_gaps_have_two_poses_to_see() -> None:
    generator = torch.Generator().manual_seed(0)
    for n in (3, 10, 50):
        for _ in range(50):
            visible = torch.rand(n, generator=generator) < torch.rand(1, generator=generator)
            visible[torch.randperm(n, generator=generator)[:2]] = True
            targets = (~visible).nonzero()[:, 0]
            lengths = gap_lengths(visible, targets)
            for i, start, stop, gap in zip(
                targets, *spans(visible, targets, 8), lengths, strict=True
            ):
                assert 0 <= start <= i < stop <= n
                assert stop - start >= min(8, n)
                assert visible[start:stop].sum() >= 2
                assert visible[start:i].any() == visible[:i].any()
                assert visible[i:stop].any() == visible[i:].any()
                left = next((k for k in range(i, -1, -1) if visible[k]), -1)
                right = next((k for k in range(i, n) if visible[k]), n)
                assert gap == right - left - 1


def test_the_longest_gaps_are_drawn(run: Path) -> None:
    x = data.from_tensor(la.SE3, curve(400))
    places = [50, *range(100, 106), 200, 201, 202, 300, 350]
    hidden = torch.isin(torch.arange(400), torch.tensor(places))
    done = fill_set(load_trained(run), x, hidden, 0.9)
    shown = [(view.start, view.stop) for view in views([done])]
    assert (90, 116) in shown
    assert (190, 213) in shown
    assert len(shown) == 4
    assert shown == sorted(shown)
    short = fill_set(load_trained(run), data.from_tensor(la.SE3, curve(20)), hidden[95:115], 0.9)
    assert [(v.start, v.stop) for v in views([short])] == [(0, 20)]


def test_narrow_terminals_show_fewer_columns_and_cut_no_number(run: Path, tmp_path: Path) -> None:
    poses = curve(60)
    poses[:, :3, 3] += 1e5
    names = [f"{1300000000 + i}.5" for i in range(60)]
    far = data.from_tensor(la.SE3, poses)
    far = data.PoseSet(far.group, far.poses, far.mask, tuple(names), "far", "far")
    hidden = torch.arange(60) == 30
    trained = load_trained(run)
    done = fill_set(trained, far, hidden, 0.9)
    heads = {}
    for width in (60, 80, 140):
        text = io.StringIO()
        print_filled(trained, [done], 0.9, Console(file=text, width=width))
        assert "…" not in text.getvalue()
        heads[width] = text.getvalue().splitlines()[2].split()
    assert heads[140][:2] == ["name", "x"]
    assert "rz" in heads[140]
    assert heads[80][:3] == ["x", "y", "z"]
    assert "rz" not in heads[80]
    assert heads[60][0] == "±pos"


def test_ends_can_be_filled(run: Path) -> None:
    x = data.from_tensor(la.SE3, curve(40))
    hidden = (torch.arange(40) < 2) | (torch.arange(40) > 36)
    assert torch.isfinite(fill_set(load_trained(run), x, hidden, 0.9).poses).all()


# ---- what cannot be done -------------------------------------------------------------------------


def test_sets_with_nothing_to_see_are_told_and_the_others_filled(run: Path, tmp_path: Path) -> None:
    one = write_tum(tmp_path / "one.tum", 1)
    alone = write_tum(tmp_path / "alone.tum", 3, missing=(0, 2))
    none = write_tum(tmp_path / "none.tum", 3, missing=(0, 1, 2))
    good = write_tum(tmp_path / "good.tum", 40, missing=(7,))
    empty = tmp_path / "empty.tum"
    empty.write_text("")
    code, text, errors = command("predict", run, one, alone, none, empty, good)
    assert code == 2
    assert "good: 1 pose found" in text
    assert "'alone' has one pose to see of 3: a gap is filled from at least two." in errors
    assert "'none' has no pose to see of 3" in errors or "none.tum" in errors
    assert "empty.tum: is empty" in errors
    assert "Traceback" not in errors + text
    code, _, errors = command("predict", run, one, "--hide", "10%")
    assert code == 2
    assert "'one' has fewer than 3 poses: too few to hide any" in errors
    with pytest.raises(Unfillable, match="no pose to see of 1"):
        fill_set(load_trained(run), data.read(one)[0], torch.tensor([True]), 0.9)


def test_a_model_of_another_group_is_refused(run: Path) -> None:
    code, _, errors = command("predict", run, "victoria_park", "--hide", "10%")
    assert code == 2
    assert "is a model of SE(3), and victoria_park holds poses of SE(2)" in errors


@pytest.mark.parametrize("cut", [0, 10, -50])
def test_a_truncated_checkpoint_is_told(run: Path, tmp_path: Path, cut: int) -> None:
    bad = tmp_path / BEST
    bad.write_bytes((run / BEST).read_bytes()[: cut or None] if cut else b"")
    code, out, errors = command("predict", bad, run.parent / "walk.tum")
    assert code == 2
    assert "is no whole checkpoint of lieattn train" in errors
    assert "Traceback" not in out + errors


def craft(run: Path, path: Path, **changes: Any) -> Path:
    """The best checkpoint of a run with other fields of its JSON, and valid checksums."""
    tensors, about = unpack(run / BEST)
    for name, value in changes.items():
        part = about if name in about else about["progress" if name == "step" else "preprocessing"]
        part[name] = value
    path.write_bytes(pack(tensors, about))
    return path


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"config": {"layers": 10**5}}, "layers=100000 has more than"),
        ({"config": {"layers": 10**30}}, "has more than"),
        ({"config": {"dim": 20_000}}, "dim=20000, layers=3 has more than"),
        ({"config": []}, r"config must be an object, got \[\]"),
        ({"scale": 0}, "scale must be a number from 1e-30 to 1e.30, got 0"),
        ({"scale": -1}, "scale must be a number .*, got -1"),
        ({"scale": "metre"}, "scale must be a number .*, got 'metre'"),
        ({"scale": 10**400}, "scale must be a number .*, got 1000"),
        ({"normalise": 1}, "normalise must be true or false, got 1"),
        ({"chart": "flat"}, "unknown chart 'flat'; known are principal, polar"),
        ({"kinds": [1]}, "kinds must be a list of texts"),
        ({"kinds": ["a"] * 1000}, "its tensor .*embed.weight' is"),
        ({"longest": -1}, "longest must be .*, got -1"),
        ({"longest": True}, "longest must be a whole number .*, got true"),
        ({"longest": 10**7}, "longest must be a whole number from 0 to 1,000,000, got 10000000"),
        ({"step": 0.5}, "step must be a whole number .*, got 0.5"),
        ({"progress": 3}, "progress must be an object, got 3"),
        ({"settings": [1]}, r"settings must be an object, got \[1\]"),
        ({"settings": {"second_differences": 10**6}}, "its tensor .*embed.weight' is"),
        ({"settings": {"window": 0}}, "window must be a whole number from 3 to 1,000,000, got 0"),
        ({"group": 3}, "group must be text in quotes, got 3"),
        ({"group": "SE9"}, "unknown group 'SE9'"),
        ({"learned": [[]]}, "learned must be a list of texts"),
        ({"data": None}, "data must be text in quotes, got None"),
        ({"kind": "x"}, "kind 'x', format 5; this lieattn, .*, reads formats 3 to 5"),
        ({"format": 3}, "kind 'lieattn infill', format 3; this"),
        ({"format": True}, "format True"),
    ],
    ids=str,
)
def test_crafted_checkpoints_are_refused_in_a_line(
    run: Path, tmp_path: Path, changes: dict[str, Any], message: str
) -> None:
    bad = craft(run, tmp_path / BEST, **changes)
    began = time.monotonic()
    with LargestTensor() as allocated, pytest.raises(RunError, match=message) as told:
        load_trained(bad)
    assert allocated.elements < 10**6
    assert time.monotonic() - began < 5
    assert len(str(told.value)) < 1000


@pytest.mark.parametrize("where", ["settings", "group", "kind", "chart", "data", "config"])
def test_text_of_a_checkpoint_is_shown_short_and_escaped(
    where: str, run: Path, tmp_path: Path
) -> None:
    evil = "\x1b]0;owned\x07" + "x" * 2_000_000
    value = {"settings": {evil: 1}, "config": {evil: 1}, "data": {evil: evil}}.get(where, evil)
    code, out, errors = command(
        "predict", craft(run, tmp_path / BEST, **{where: value}), run.parent / "walk.tum"
    )
    assert (code, out) == (2, "")
    assert errors.strip().isprintable()
    assert len(errors) < 1000


@pytest.mark.parametrize("value", [torch.nan, torch.inf])
def test_weights_that_are_no_numbers_are_named(value: float, run: Path, tmp_path: Path) -> None:
    tensors, about = unpack(run / BEST)
    tensors["model.transformer.norm.weight"][3] = value
    (tmp_path / BEST).write_bytes(pack(tensors, about))
    code, _, errors = command("predict", tmp_path, run.parent / "walk.tum", "--hide", "5")
    assert code == 2
    assert "transformer.norm.weight holds NaN or infinity" in errors


@pytest.mark.parametrize("value", [1e38, -3e38])
def test_weights_beyond_reason_give_no_answer_and_that_is_said(
    value: float, run: Path, tmp_path: Path
) -> None:
    tensors, about = unpack(run / BEST)
    tensors = {k: torch.full_like(x, value) for k, x in tensors.items()}
    (tmp_path / BEST).write_bytes(pack(tensors, about))
    code, _, errors = command("predict", tmp_path, run.parent / "walk.tum", "--hide", "5")
    assert code == 2
    assert re.search(r"^lieattn: .*gives no finite answer for 'walk'", errors)
    assert len(errors.splitlines()) == 1
    code, _, errors = command("evaluate", tmp_path)
    assert code == 2
    assert re.search(r"^lieattn: the model G gives no finite answer", errors)


def test_a_checkpoint_of_an_earlier_version_is_used_with_a_note(run: Path, tmp_path: Path) -> None:
    tensors, about = unpack(run / BEST)
    (tmp_path / BEST).write_bytes(as_earlier(tensors, of_format(3, about)))
    walk = run.parent / "walk.tum"
    code, text, errors = command("predict", tmp_path, walk, "--hide", "5", "--json")
    assert (code, errors) == (0, "")
    found = json.loads(text)
    assert ["was written by an earlier lieattn" in note for note in found["notes"]] == [True]
    _, text, _ = command("predict", run, walk, "--hide", "5", "--json")
    assert json.loads(text)["sets"] == found["sets"]
    code, text, _ = command("evaluate", tmp_path)
    assert code == 0
    assert text.count("was written by an earlier lieattn") == 1
    # Of this format without its checksum, or with a number that the file does not agree to.
    for content in (as_earlier(tensors, about), pack(tensors, {**about, "format": 3})):
        (tmp_path / BEST).write_bytes(content)
        code, _, errors = command("predict", tmp_path, walk, "--hide", "5")
        assert code == 2
        assert "is no whole checkpoint of lieattn train (kind 'lieattn infill', format" in errors


def test_what_to_do_about_a_file_that_cannot_be_written_fits_the_command(
    run: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(descriptor: int) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(os, "fsync", full)
    for option, name in (("--save", "x.tum"), ("--plot", "x.png")):
        walk = run.parent / "walk.tum"
        out = tmp_path / name
        code, _, errors = command("predict", run, walk, "--hide", "5", option, out)
        assert code == 2
        assert f"Free some space, or name another file with {option}." in errors
        assert "--out" not in errors
        assert "--overwrite" not in errors
    code, _, errors = command("evaluate", run, "--out", tmp_path / "x.json")
    assert code == 2
    assert "Free some space, or name another file with --out." in errors
    assert list(tmp_path.iterdir()) == []


def test_mistakes_are_met_with_a_line(run: Path, tmp_path: Path) -> None:
    walk = run.parent / "walk.tum"
    model = tmp_path / "pretrained"
    la.LieTransformer(la.SE3).save_pretrained(model)
    for arguments, message in (
        ([tmp_path / "no", walk], "there is no checkpoint at '.*no'. Give the folder that"),
        ([model, walk], "there is no checkpoint at"),
        ([model / "model.safetensors", walk], "no whole checkpoint of lieattn train"),
        ([run, walk], "nothing is missing in .*: every row has a pose. Write nan"),
        ([run, walk, "--hide", "x"], "--hide takes a share such as 10%, or places"),
        ([run, walk, "--hide", "200%"], "--hide takes a share such as 10%, got '200%'"),
        ([run, walk, "--hide", "9-3"], "'9-3' is no range of places"),
        ([run, walk, "--hide", "400"], "'walk' has 400 poses, 0 to 399: there is no 400 to hide"),
        ([run, walk, "--level", "0.7"], "--level is one of 0.5, 0.8, 0.9, 0.95, got 0.7"),
        ([run, walk, "--save", "x.g2o"], "--save writes .npz, .tum or .csv, got 'x.g2o'"),
        ([run, walk, "--save", "no/x.tum"], "cannot write no/x.tum: there is no folder .*no"),
        ([run, walk, "--plot", "x.gif"], "--plot writes .png, .svg, .pdf, got 'x.gif'"),
        ([run, walk, walk, "--save", "x.tum"], "--save x.tum takes one trajectory of SE"),
        ([run, walk, "--save", tmp_path], "--save writes .npz, .tum or .csv"),
        ([run, "no.tum"], "no.tum: cannot be read"),
    ):
        code, out, errors = command("predict", *arguments)
        assert code == 2, arguments
        assert re.search(rf"^lieattn: .*{message}", errors), errors
        assert "Traceback" not in out + errors


def test_places_are_parsed() -> None:
    assert parse_places("1") == [1]
    assert parse_places("1-3,9") == [1, 2, 3, 9]
    with pytest.raises(RunError):
        parse_places("1,,2")


def test_quaternions_are_those_of_the_reader() -> None:
    rotations = la.SO3.random(50, dtype=torch.float64)
    q = la.SO3.to_quaternion_xyzw(rotations)
    torch.testing.assert_close(la.SO3.from_quaternion_xyzw(q), rotations)
    assert (q[:, 3] >= 0).all()


# ---- evaluate ------------------------------------------------------------------------------------


def test_evaluate_gives_the_table_of_training(run: Path, tmp_path: Path) -> None:
    out = tmp_path / "e.json"
    code, text, errors = command("evaluate", run, "--out", out)
    assert (code, errors) == (0, "")
    assert "test windows" in text
    result = json.loads((run / "result.json").read_text())
    assert json.loads(out.read_text())["rows"] == result["rows"]
    rows = result["rows"]
    assert set(rows) == {"nearest", "geodesic", "G"}
    means = {name: row["blocks"]["translation"]["mean"] for name, row in rows.items()}
    assert means["geodesic"] < means["nearest"]
    assert len(result["coverage"]["G"]["0.9"]) == 2


def test_models_of_one_folder_are_told_apart_and_none_is_taken_twice(run: Path) -> None:
    code, text, _ = command("evaluate", run / BEST, run / LAST, "--json")
    assert code == 0
    assert len([name for name in json.loads(text)["rows"] if name.startswith("G ")]) == 2
    code, _, errors = command("evaluate", run, run / BEST)
    assert code == 2
    assert "is given twice" in errors
    code, _, errors = command("evaluate", run, "--out", run)
    assert code == 2
    assert "it is a folder. Name a file in it" in errors


def test_rivals_are_what_they_say(run: Path) -> None:
    """The error of a copy, by hand: hidden poses against the nearest visible ones."""
    from lieattn.workflows.metrics import errors_of, rivals

    poses = curve(9)[None].float()
    hidden = (torch.arange(9) == 4)[None]
    from lieattn.workflows.tensors import Stack

    exam = [(Stack(poses, torch.ones(1, 9, dtype=torch.bool)), hidden)]
    copied, _, _ = errors_of(la.SE3, rivals(la.SE3)["nearest"], exam)
    w = la.SE3.to_physical(la.SE3.log_relative(curve(9)[3], curve(9)[4]))
    torch.testing.assert_close(
        copied[0], torch.stack([w[:3].norm(), w[3:].norm()]), rtol=1e-3, atol=0
    )


def test_models_are_compared_and_other_files_taken(run: Path, tmp_path: Path) -> None:
    other = write_tum(tmp_path / "other.tum", 150, phase=3.0)
    code, text, _ = command("evaluate", run, "--on", other, "--json")
    assert code == 0
    assert json.loads(text)["data"] == str(other)
    walk = run.parent / "walk.tum"
    again = tmp_path / "A"
    assert command("train", walk, *TINY, "--model", "A", "--out", again)[0] == 0
    code, text, _ = command("evaluate", run, again, "--json")
    assert code == 0
    assert set(json.loads(text)["rows"]) == {"nearest", "geodesic", "G", "A"}
    code, _, errors = command("evaluate", run, "--on", walk)
    assert code == 2
    assert "these files were trained on" in errors
    code, _, errors = command("evaluate", run, "--on", "bricks")
    assert code == 2
    assert "is a model of SE(3), the files hold poses of Aff(3)" in errors


def test_data_that_changed_are_not_evaluated(tmp_path: Path) -> None:
    walk = write_tum(tmp_path / "walk.tum", 200)
    run = tmp_path / "run"
    assert command("train", walk, *TINY, "--out", run)[0] == 0
    write_tum(walk, 210)
    code, _, errors = command("evaluate", run)
    assert code == 2
    assert "is not what" in errors
    walk.unlink()
    code, _, errors = command("evaluate", run)
    assert code == 2
    assert "cannot be read" in errors


def test_last_is_taken_where_there_is_no_best(run: Path, tmp_path: Path) -> None:
    (tmp_path / LAST).write_bytes((run / LAST).read_bytes())
    assert load_trained(tmp_path).path.name == LAST
