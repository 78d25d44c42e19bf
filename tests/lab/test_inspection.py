"""`lieattn data`: what it says, in 80 columns, as a picture, as JSON, and about mistakes."""

from __future__ import annotations

import io
import json
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import pytest
import torch
from rich.console import Console
from typer.testing import CliRunner

import lieattn as la
from lieattn import data
from lieattn.cli.app import app
from lieattn.workflows.inspection.findings import Request, find
from lieattn.workflows.inspection.run import run

FILES = sorted((Path(__file__).parents[1] / "data" / "files").iterdir())
BY_NAME = {path.name: path for path in FILES}


def said(*names: str) -> str:
    console = Console(record=True, width=80, file=io.StringIO())
    assert run(Request([BY_NAME[name] for name in names]), console) == []
    return console.export_text()


def command(*arguments: str) -> tuple[int, str, str]:
    done = CliRunner().invoke(app, ["data", *arguments], env={"COLUMNS": "80"})
    return done.exit_code, done.stdout, done.stderr


def test_one_file_is_told_in_full() -> None:
    text = said("nazar-amulet.svg")
    assert "SVG drawing, by its contents and its name (--format forces another)" in text
    assert re.search(r"Aff\(2\)\n +poses +10 ", text)
    assert re.search(r"pairs +90 ", text)
    assert re.search(r"off the chart +11% ", text)
    assert "use chart='polar'" in text
    assert max(len(line) for line in text.splitlines()) <= 80
    assert "…" not in text


def test_many_files_are_a_table_and_a_summary_for_each_group() -> None:
    text = said(*BY_NAME)
    for name in ("SE(2)", "SE(3)", "Aff(2)", "Aff(3)"):
        assert f"\n{name}\n" in re.sub(" +\n", "\n", text)
    for path in FILES:
        assert path.name in text.replace("\n", "")
    assert max(len(line) for line in text.splitlines()) <= 80


def test_long_lists_are_cut() -> None:
    text = said(*["sphere.kitti"] * 30)
    assert "... and 10 files more" in text
    assert "22 more (--json)" in text


@pytest.mark.parametrize("ending", ["png", "svg", "pdf"])
def test_pictures_are_drawn_of_every_group(ending: str, tmp_path: Path) -> None:
    sets = {
        group.name: data.from_tensor(group, group.random(9))
        for group in la.available_groups().values()
    }
    files = []
    for name, x in sets.items():
        files.append(tmp_path / f"{name}.npz")
        data.save(files[-1], [x])
    out = tmp_path / f"out.{ending}"
    code, _, errors = command(*map(str, files), "--plot", str(out))
    assert (code, errors) == (0, "")
    start = {"png": b"\x89PNG", "svg": b"<?xml", "pdf": b"%PDF"}[ending]
    assert out.read_bytes().startswith(start)
    if ending == "svg":
        text = "".join(ET.parse(out).getroot().itertext())
        assert all(str(x.group) in text for x in sets.values())


def test_a_picture_of_one_pose_or_of_equal_ones_is_drawn(tmp_path: Path) -> None:
    for n in (1, 3):
        for group in (la.SE2, la.SE3, la.SO3, la.Aff3):
            path = tmp_path / f"{group.name}.npz"
            data.save(path, [data.from_tensor(group, group.identity(n))])
            assert command(str(path), "--plot", str(tmp_path / "x.svg"))[0] == 0


def test_pictures_name_their_projection_and_drawings_have_y_downwards(tmp_path: Path) -> None:
    drawing = tmp_path / "x.svg"
    drawing.write_text('<svg><g transform="translate(1 2)"/><g transform="scale(2)"/></svg>')
    assert data.read(drawing)[0].y_down
    out = tmp_path / "out.svg"
    assert command(str(drawing), "backbones", "emoji", "--plot", str(out))[0] == 0
    text = "".join(ET.parse(out).getroot().itertext())
    assert text.count("y downwards") == 1  # all drawings are one panel
    assert text.count("oblique view on the plane of largest spread") == 1


def test_json_holds_everything(tmp_path: Path) -> None:
    (tmp_path / "bad.tum").write_text("1 2 3\n")
    code, out, errors = command(
        *(str(BY_NAME[name]) for name in ("7pbl.pdb", "u587p01.dat")),
        str(tmp_path / "bad.tum"),
        "--json",
    )
    assert code == 2
    found = json.loads(out)
    assert [x["format"] for x in found["files"]] == ["pdb", "ldraw"]
    assert found["files"][0]["sets"] == [{"name": "A", "poses": 2}, {"name": "B", "poses": 2}]
    assert [x["group"] for x in found["groups"]] == ["SE3", "Aff3"]
    assert found["groups"][1]["mirrored"] == 0.5
    assert found["groups"][1]["advice"]
    assert found["errors"][0] in errors.replace("lieattn: ", "")


def test_poses_can_be_saved_from_any_format(tmp_path: Path) -> None:
    out = tmp_path / "all.npz"
    files = (str(BY_NAME["7pbl.pdb"]), str(BY_NAME["3o21.cif"]))
    assert command(*files, "--save", str(out))[0] == 0
    sets = data.read(out)
    assert len(sets) == 5
    assert torch.equal(sets[0].poses[:2], data.read(files[0])[0].poses)
    code, _, errors = command(files[0], str(BY_NAME["u587p01.dat"]), "--save", str(out))
    assert (code, errors) == (2, "lieattn: --save takes poses of one group, found SE3, Aff3.\n")


def test_options_reach_the_reader(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_text("0 1 2 3 0 0 0 1\n1 nan 2 3 0 0 0 1\n")
    assert command(str(path), "--bad", "error")[0] == 2
    code, out, _ = command(str(path), "--bad", "mask", "--group", "SO3", "--format", "tum")
    assert code == 0
    assert re.search(r"SO\(3\)\n +poses +1 +1 more are masked", out)
    code, _, errors = command(str(path), "--limit", "0.00002")
    assert code == 2
    assert "Invalid value for '--limit'" in errors
    for option, value in (("--limit", "inf"), ("--seed", "99999999999999999999999")):
        code, _, errors = command(str(path), option, value)
        assert code == 2
        assert f"Invalid value for '{option}'" in errors
    path.write_text("0 1 2 3 0 0 0 1\n" * 100)
    assert "the limit is 1 kB" in command(str(path), "--limit", "0.001")[2]


def test_mistakes_are_met_with_a_line(tmp_path: Path) -> None:
    good = str(BY_NAME["w100.graph"])
    for arguments, message in (
        (["nothing.tum"], "nothing.tum: cannot be read: No such file or directory"),
        ([good, "--format", "tmu"], "unknown format 'tmu'; known are npz, .*"),
        ([good, "--group", "SE9"], "unknown group 'SE9'; known are .*"),
        ([good, "--bad", "drop"], "bad must be one of 'error', 'gaps', 'mask', got 'drop'"),
        ([good, "--plot", "x.gif"], "--plot writes .png, .svg, .pdf, got 'x.gif'"),
        (
            [good, "--plot", str(tmp_path / "no" / "x.png")],
            "cannot write .*: there is no folder .*",
        ),
        (
            ["backbones", "--group", "SO3"],
            r"backbones comes with the library, poses of SE\(3\); --group is for files",
        ),
        (
            [good, "--save", str(tmp_path / "no" / "x.npz")],
            "cannot write .*: there is no folder .*",
        ),
    ):
        code, _, errors = command(*arguments)
        assert code == 2
        assert re.fullmatch(rf"lieattn: {message}[.?]\n", errors), errors


def test_a_bad_file_does_not_keep_the_others_from_being_read() -> None:
    found = find(Request([Path("nothing.tum"), BY_NAME["w100.graph"]]))
    assert len(found.errors) == len(found.files) == 1


def test_names_of_files_are_no_markup(tmp_path: Path) -> None:
    path = tmp_path / "[red]a.graph"
    path.write_bytes(BY_NAME["w100.graph"].read_bytes())
    code, out, _ = command(str(path))
    assert code == 0
    assert "[red]a.graph" in out.replace("\n", "")


def test_data_sets_that_come_along_are_known_by_name() -> None:
    code, out, _ = command("headings")
    assert code == 0
    assert "which comes with the library" in " ".join(out.split())
    assert re.search(r"SO\(2\)\n +poses +6,769 ", out)
