"""Files that are wrong: the message names file, line and column, and nothing is executed."""

from __future__ import annotations

import gzip
import os
import pickle
import re
import subprocess
import sys
import time
import tracemalloc
from pathlib import Path

import numpy as np
import pytest
import torch
from real_files import BY_NAME

import lieattn as la
from lieattn import data

TUM = "0.0 1 2 3 0 0 0 1\n"
KITTI = "1 0 0 5 0 1 0 6 0 0 1 7\n"
SVG = '<svg xmlns="http://www.w3.org/2000/svg">\n{}\n</svg>\n'
ROBOT = '<robot name="r">\n<link name="a"/><link name="b"/>\n{}\n</robot>\n'
JOINT = '<joint name="j"><parent link="a"/><child link="b"/>{}</joint>'
ATOM = "ATOM      1  {:<3} ALA A   1    {:>8}{:>8}{:>8}  1.00  0.00"
RESIDUE = "\n".join(
    [ATOM.format("N", 1.0, 0.0, 0.0), ATOM.format("CA", 0.0, 0.0, 0.0), ATOM.format("C", 0.0, 1, 0)]
)
EUROC = "#timestamp, p_x, p_y, p_z, q_w, q_x, q_y, q_z\n"


@pytest.mark.parametrize(
    ("name", "text", "line", "column", "message"),
    [
        ("a.tum", TUM + "0.1 1 2 x 0 0 0 1\n", 2, 9, "'x' is no number; expected 8 numbers"),
        ("a.tum", TUM + "0.1 1 2,5 3 0 0 0 1\n", 2, 7, "Write decimals with a point"),
        ("a.tum", TUM + "0.1 1 2 3 0", 2, 12, "5 numbers, .* may have been cut short here"),
        ("a.tum", TUM + "0.1 1 2 3 0 0 0 1 9\n", 2, 19, "9 numbers, expected 8"),
        ("a.tum", TUM + "0.1 1 2 1_0 0 0 0 1\n", 2, 9, "'1_0' is no number"),
        ("a.tum", TUM + "0.1 1 2 3 0 0 0 0\n", 2, 1, "norm 0, expected 1. Normalise it"),
        ("a.tum", TUM + "0.1 1 2 3 0 0 0 9\n", 2, 1, "norm 9, expected 1"),
        ("a.tum", TUM + " 0.1 1 2 nan 0 0 0 1\n", 2, 2, "holds NaN or infinity. .*--bad mask"),
        ("a.tum", TUM + "0.1 1 2 3 0 0 inf 1\n", 2, 1, "NaN or infinity"),
        ("a.tum", TUM + "0.1 1 2 \0 0 0 0 1\n", 2, 9, "a zero byte: .* binary file"),
        ("a.tum", "# nothing\n", None, None, "holds no poses"),
        ("a.kitti", KITTI + KITTI[2:], 2, 22, "11 numbers, expected 12 numbers"),
        ("a.kitti", KITTI + KITTI.replace("1 7", "9 7"), 2, 1, r"not in SE\(3\).*not orthogonal"),
        ("a.kitti", KITTI + KITTI.replace("1 7", "-1 7"), 2, 1, "a reflection"),
        ("a.csv", EUROC + "1,0,0,0,1,0,0\n", 2, 14, "7 numbers, expected t, x, y, z, qw"),
        ("a.csv", EUROC + "1, 0, , 0,1,0,0,0\n", 2, 7, "'' is no number"),
        (
            "a.csv",
            EUROC.replace("q_w, q_x, q_y, q_z", "q_x, q_y, q_z, q_w") + "1,0,0,0,1,0,0,0\n",
            1,
            28,
            "the header has 'q_x' here, expected .*qw, qx",
        ),
        ("a.csv", "t,x,y,z,qx,qy,qz,qw\n0,1,2,3,0,0,0,1\n", 1, 9, "the header has 'qx' here"),
        ("a.csv", "#t,x,y,z,qx,qy,qz,qw\n0,1,2,3,0,0,0,1\n", 1, 10, "the header has 'qx' here"),
        ("a.csv", '# "s","x","y","z","qx","qy","qz","qw"\n0,1,2,3,0,0,0,1\n', 1, 20, "'qx' here"),
        ("a.csv", "# s x y z qx qy qz qw\n0,1,2,3,0,0,0,1\n", 1, 11, "the header has 'qx' here"),
        ("a.csv", "t,qx,qy,qz,qw,x,y,z\n0,0,0,0,1,1,2,3\n", 1, 3, "the header has 'qx' here"),
        ("a.tum", "# timestamp tx ty tz qw qx qy qz\n" + TUM, 1, 22, "'qw' here, .* z qx qy qz qw"),
        ("a.tum", "#t,x,y,z,qw,qx,qy,qz\n" + TUM, 1, 10, "the header has 'qw' here"),
        ("a.csv", "t,x,y,z,q_i,q_j,q_k,q_r\n0,1,2,3,0,0,0,1\n", 1, 9, "'q_i' here.*format 'tum'"),
        ("a.csv", "t,x,y,z,roll,pitch,yaw,v\n0,1,2,3,1,0,0,0\n", 1, 9, "has 'roll' here"),
        (
            "a.csv",
            ",t,x,y,z,qw,qx,qy,qz\n0,0,0,0,0,1,0,0,0\n",
            *(1, 2, "Drop the first column, an index without a name"),
        ),
        ("a.tum", "t,x,y,z,qw,qx,qy,qz\n0,1,2,3,1,0,0,0\n", 1, 9, "'qw' here.*format 'euroc'"),
        ("a.g2o", "VERTEX_SE2 0 0 0 0\nVERTEX_SE2 0 1 0 0\n", 2, 1, "'0' was given in line 1"),
        ("a.g2o", "VERTEX_SE2 0 0 0 0\n VERTEX_SE2 1 1 0\n", 2, 18, "VERTEX_SE2 id x y theta"),
        ("a.g2o", "VERTEX_SE2 0 0 0 0\nVERTEX_SE3:QUAT 1\n", 2, 1, "in a file of 2-D poses"),
        ("a.g2o", "VERTEX_SE2 0 0 0 0\n12 3\n", 2, 1, "'12' is no kind of line"),
        ("a.g2o", "EDGE_SE2 0 1 1 0 nan 1 1 1 1 1 1\n", 1, 1, "NaN or infinity"),
        ("a.g2o", "EDGE3 0 1 0 0 0 nan 0 0\n", 1, 1, "NaN or infinity"),
        ("a.g2o", "VERTEX3 0 0 0 0 inf 0 0\n", 1, 1, "NaN or infinity"),
        ("a.g2o", "FIX 0\n", None, None, "holds no poses"),
        ("a.pdb", RESIDUE.replace("1.0", "1,0", 1), 1, 36, "'     1,0' is no number"),
        ("a.pdb", RESIDUE[:-30], 3, 37, "ends before its coordinates.*cut short here"),
        ("a.pdb", RESIDUE.replace("     1.0", "     0.0"), 1, 31, "lie on a line or in one point"),
        ("a.pdb", RESIDUE.replace("     1.0", "     nan"), 1, 31, "NaN or infinity"),
        ("a.pdb", RESIDUE.split("\n")[1] + "\n", None, None, "no residue .* among 1 atoms"),
        ("a.cif", "data_x\n_a.b 'c\n", 2, 8, "is no mmCIF: unterminated 'string'"),
        ("a.cif", "data_x\n_a.b c\n", None, None, "has no table _atom_site"),
        ("a.svg", SVG.format('<g transform="rotate(x)"/>'), 2, 22, r"'x\)' where a number"),
        ("a.svg", SVG.format('<g\n id="1"\n transform="turn(3)"/>'), 4, 13, "'turn' is no tran"),
        (
            "a.svg",
            SVG.format('<g transform="scale(1 2 3)"/>'),
            2,
            15,
            "scale has 3 numbers, .*1 or",
        ),
        ("a.svg", SVG.format('<g transform="scale(1"/>'), 2, 22, "the end where a number or"),
        ("a.svg", SVG.format('<g><a transform="scale(0)"/></g>'), 2, 4, "linear part is singular"),
        (
            "a.svg",
            SVG.format('<g xmlns:i="i" i:transform="x" transform="x"/>'),
            2,
            43,
            "'x' is no transform",
        ),
        ("a.svg", SVG.format("<g>"), 3, 3, "no well-formed XML: mismatched tag"),
        ("a.svg", SVG.format("<g/>")[:46], 3, 1, "no element found. The file may have been cut"),
        ("a.svg", SVG.format("<g/>")[:50], 3, 1, "unclosed token. The file may have been cut"),
        ("a.svg", SVG.format("<g/>"), None, None, "no element has a transform"),
        ("a.svg", "<html><svg/></html>", 1, 1, "the first element is <html>, expected <svg>"),
        ("a.urdf", ROBOT.format(JOINT.format('<origin xyz="0 0 a"/>')), 3, 69, "'a' is no number"),
        ("a.urdf", ROBOT.format(JOINT.format('<origin rpy="0 0"/>')), 3, 65, "2 numbers in rpy"),
        ("a.urdf", ROBOT.format(JOINT.format('<origin xyz="${x} 0 0"/>')), 3, 65, "Expand xacro"),
        ("a.urdf", ROBOT.format(JOINT.replace('link="a"', 'link="c"')), 3, 1, "parent 'c' is no"),
        ("a.urdf", ROBOT.format(JOINT * 2), 3, 60, "'b' is the child of joint 'j' already"),
        ("a.urdf", ROBOT.format('<link name="a"/>'), 3, 1, "'a' was given in line 2 already"),
        ("a.urdf", ROBOT.format("<link/>"), 3, 1, "<link> has no name"),
        ("a.urdf", ROBOT.format("<xacro:macro/>"), 3, 1, "is of xacro. Expand it first"),
        ("a.dat", "0 Part\n1 16 0 0 0 1 0 0 0 1 0 0 0 1\n", 2, 29, "name of the file is missing"),
        ("a.dat", "0 Part\n1 16 0 0 0 1 0 0 0 1 0 0 0 x a.dat\n", 2, 28, "'x' is no number"),
        ("a.dat", "0 Part\n1 16 0 0 0 1 0 0 0 1 0 0 0 0 a.dat\n", 2, 1, "every part is flat"),
        ("a.dat", "0 Part\n7 16\n", 2, 1, "'7' is no kind of line"),
        ("a.dat", "0 Part\n", None, None, "no line of type 1"),
    ],
)
def test_the_place_is_named(
    name: str, text: str, line: int | None, column: int | None, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    path.write_text(text.replace("{}", ""))
    with pytest.raises(data.DataError, match=message) as caught:
        data.read(path)
    if line is not None:
        assert (caught.value.line, caught.value.column) == (line, column)
        place = f"{path}, line {line}, column {column}: "
        assert str(caught.value).startswith(place)
    assert "(Read as " in str(caught.value)
    for end in ("\r", "\r\n"):
        path.write_bytes(text.replace("{}", "").replace("\n", end).encode())
        with pytest.raises(data.DataError, match=message) as again:
            data.read(path)
        # expat waits for what follows the last CR of a file, and is still in the line before.
        assert str(again.value) == str(caught.value) or "no element found" in message
    assert pickle.loads(pickle.dumps(caught.value)).args == caught.value.args


def test_joints_in_a_ring_are_refused(tmp_path: Path) -> None:
    back = JOINT.replace('"j"', '"k"').replace('"a"', '"-"').replace('"b"', '"a"')
    text = ROBOT.format(JOINT.format("") + back.replace('"-"', '"b"').format(""))
    (tmp_path / "a.urdf").write_text(text)
    with pytest.raises(data.DataError, match=r"line 3, .*the joints form a ring"):
        data.read(tmp_path / "a.urdf")


def test_a_coordinate_in_mmcif_is_placed(tmp_path: Path) -> None:
    text = BY_NAME["3o21.cif"].read_text()
    (tmp_path / "a.cif").write_text(text.replace("-41.320", "-41.x20"))
    row = text.split("\n").index(next(x for x in text.split("\n") if "-41.320" in x))
    column = text.split("\n")[row].index("-41.320")
    with pytest.raises(
        data.DataError, match=r"'-41.x20' is no number; .*Cartn_y of row 2"
    ) as caught:
        data.read(tmp_path / "a.cif")
    assert (caught.value.line, caught.value.column) == (row + 1, column + 1)


def test_sets_without_a_pose_do_not_keep_the_others_from_being_read(tmp_path: Path) -> None:
    poses = np.tile(np.eye(3), (2, 4, 1, 1))
    poses[1] = np.nan
    np.savez(tmp_path / "a.npz", poses=poses, names=np.full((2, 4), "x"))
    sets = data.read(tmp_path / "a.npz", bad="mask", group="SE2")
    assert (len(sets), sets.left_out) == (1, ("set 1",))
    assert "set 'set 1' is left out: all of its poses are masked." in sets.notes
    gone = data.from_tensor(la.SE2, torch.eye(3).expand(2, 3, 3), torch.zeros(2, dtype=torch.bool))
    data.save(tmp_path / "b.npz", [sets[0], gone])
    assert len(data.read(tmp_path / "b.npz")) == 1


def test_an_error_about_a_pose_tells_how_to_read_the_others(tmp_path: Path) -> None:
    for row in ("0.1 nan 2 3 0 0 0 1", "0.1 1 2 3 0 0 0 0", "0.1 1e301 2 3 0 0 0 1"):
        (tmp_path / "a.tum").write_text(f"{TUM}{row}\n")
        with pytest.raises(data.DataError, match=r"line 2, column 1: .* \(--bad mask\) keeps"):
            data.read(tmp_path / "a.tum")


def test_quaternions_that_are_normalised_are_noted(tmp_path: Path) -> None:
    (tmp_path / "a.tum").write_text(f"{TUM}0.1 1 2 3 0 0 0 1.009\n0.2 1 2 3 0 0 0 1.0001\n")
    (note,) = data.read(tmp_path / "a.tum").notes
    assert (
        note == "1 quaternions of a had norms other than 1, by 0.009 at most, and are normalised."
    )


def test_poses_of_another_space_are_refused_by_name() -> None:
    with pytest.raises(data.DataError, match=r"holds poses of SE\(2\), not of SO\(3\)"):
        data.read(BY_NAME["w100.graph"], group="SO3")


def test_names_of_another_shape_are_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", poses=np.tile(np.eye(3), (2, 3, 1, 1)), names=np.full((3, 2), "x"))
    with pytest.raises(data.DataError, match=r"names are <U1 \[3, 2\], expected text \[2, 3\]"):
        data.read(tmp_path / "a.npz")


def test_a_file_that_could_not_be_read_again_is_not_written(tmp_path: Path) -> None:
    long = data.from_tensor(la.SE3, la.SE3.identity(20_000))
    with pytest.raises(ValueError, match=r"padded to 20,000 poses are .* MB, more than the 256 MB"):
        data.save(tmp_path / "a.npz", [long, *[data.from_tensor(la.SE3, la.SE3.identity(2))] * 110])
    assert not list(tmp_path.iterdir())


def test_poses_that_are_none_can_be_masked(tmp_path: Path) -> None:
    path = tmp_path / "a.tum"
    path.write_text(TUM + "0.1 nan 2 3 0 0 0 1\n0.2 1 2 3 0 0 0 0\n" + TUM)
    sets = data.read(path, bad="mask")
    assert sets[0].mask.tolist() == [True, False, False, True]
    la.SE3.check(sets[0].poses)
    (none,), (gaps,) = sets.notes, sets.gaps
    assert re.search("1 of 4 poses of a are masked, being no poses; the first: .*line 3", none)
    assert re.search("1 of 4 poses of a are masked; the first: .*line 2, column 1", gaps)
    path.write_text("0.1 nan 2 3 0 0 0 1\n")
    with pytest.raises(data.DataError, match="holds no pose: all are masked"):
        data.read(path, bad="mask")
    with pytest.raises(ValueError, match="'error', 'gaps', 'mask', got 'drop'"):
        data.read(path, bad="drop")


def test_rows_of_nan_are_gaps_and_other_invalid_poses_are_errors(tmp_path: Path) -> None:
    path = tmp_path / "a.tum"
    path.write_text("0.1 nan 2 3 0 0 0 1\n" + TUM)
    sets = data.read(path, bad="gaps")
    assert sets[0].mask.tolist() == [False, True]
    assert "1 of 2 poses of a are masked" in sets.gaps[0]
    assert not sets.notes
    path.write_text("0.1 nan 2 3 0 0 0 1\n0.2 1 2 3 0 0 0 0\n" + TUM)
    with pytest.raises(data.DataError, match=r"line 2, .*norm"):
        data.read(path, bad="gaps")


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tum", TUM + "0.1 nan nan nan nan nan nan nan\n"),
        ("a.kitti", KITTI + " ".join(["nan"] * 12) + "\n"),
        ("a.csv", EUROC + "1,0,0,0,1,0,0,0\n2,nan,nan,nan,nan,nan,nan,nan\n"),
        ("a.g2o", "VERTEX_SE2 0 0 0 0\nVERTEX_SE2 1 nan nan nan\n"),
        ("a.g2o", "VERTEX3 0 0 0 0 0 0 0\nVERTEX3 1 nan nan nan nan nan nan\n"),
        (
            "a.pdb",
            f"{RESIDUE}\n{RESIDUE.replace('A   1', 'A   2').replace('     1.0', '     nan')}",
        ),
        ("a.dat", "0 P\n1 1 0 0 0 1 0 0 0 1 0 0 0 1 a\n1 1" + " nan" * 12 + " a.dat\n"),
        ("a.urdf", ROBOT.format(JOINT.format('<origin xyz="nan nan nan"/>'))),
    ],
)
def test_every_format_that_can_write_nan_has_gaps(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    sets = data.read(tmp_path / name, bad="gaps")
    assert sets[0].mask.tolist() == [True, False]
    assert re.search("1 of 2 poses of .* are masked; the first: .*NaN", sets.gaps[0])


def test_a_set_of_one_pose_is_a_set(tmp_path: Path) -> None:
    (tmp_path / "a.tum").write_text(TUM)
    (one,) = data.read(tmp_path / "a.tum")
    assert len(one) == 1
    summary = data.describe([one])
    assert (summary.pairs, summary.distance) == (0, None)
    assert any("a single pose" in advice for advice in summary.advice())


def test_quaternions_of_any_size_are_measured_without_overflow(tmp_path: Path) -> None:
    for q in ("1e200 0 0 1e200", "1e-200 0 0 0"):
        (tmp_path / "a.tum").write_text(f"0 1 2 3 {q}\n")
        with pytest.raises(data.DataError, match=r"norm 1.*e[+-]200, expected 1"):
            data.read(tmp_path / "a.tum")


# ---- files as such ---------------------------------------------------------------------------


def test_files_that_are_not_there_or_no_files(tmp_path: Path) -> None:
    with pytest.raises(data.DataError, match="cannot be read: No such file"):
        data.read(tmp_path / "nothing.tum")
    with pytest.raises(data.DataError, match="is a folder; pass the files in it"):
        data.read(tmp_path)
    for content in (b"", b" \n\n", b"\0" * 100):
        (tmp_path / "a.tum").write_bytes(content)
        with pytest.raises(data.DataError, match="is empty"):
            data.read(tmp_path / "a.tum")
    with pytest.raises(ValueError, match="unknown format 'tmu'; known are npz, "):
        data.read(BY_NAME["sphere.kitti"], format="tmu")


@pytest.mark.skipif(sys.platform != "linux", reason="names are text")
def test_names_that_are_no_text_are_printed_all_the_same(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/\xff.tum"
    with open(path, "wb") as file:
        file.write(TUM.encode() * 2)
    sets = data.read(os.fsdecode(path))
    assert sets.path.encode("utf-8").endswith("/\N{REPLACEMENT CHARACTER}.tum".encode())
    assert len(sets[0]) == 2


def test_a_file_of_no_known_format_says_what_is_known(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("1 2 3\n4 5 6\n")
    with pytest.raises(data.DataError, match=r"none of the formats known: npz, .* 8 numbers \(tum"):
        data.read(tmp_path / "a.txt")


def test_what_powershell_writes_is_read(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text(TUM + TUM, encoding="utf-16")
    assert len(data.read(tmp_path / "a.txt")[0]) == 2


def test_large_files_are_refused_before_they_are_read(tmp_path: Path) -> None:
    path = tmp_path / "a.tum"
    with path.open("wb") as file:
        file.truncate(10**12)  # a hole: no disk is used
    with pytest.raises(data.DataError, match=r"is 1e\+03 GB; the limit is 256 MB. .*--limit MB"):
        data.read(path)
    path.write_text(TUM * 100)
    with pytest.raises(data.DataError, match=r"is 1.8 kB; the limit is 1 kB"):
        data.read(path, limit=1000)
    assert len(data.read(path, limit=10_000)[0]) == 100
    for limit in (0, float("inf"), float("nan")):
        with pytest.raises(ValueError, match=f"finite number of bytes, at least 1, got {limit}"):
            data.read(path, limit=limit)


@pytest.mark.skipif(not os.path.exists("/dev/zero"), reason="no endless file")
def test_endless_files_end_at_the_limit() -> None:
    with pytest.raises(data.DataError, match="more than 100 kB; the limit is 100 kB"):
        data.read("/dev/zero", limit=100_000)


def test_gzip_is_unpacked_no_further_than_the_limit(tmp_path: Path) -> None:
    path = tmp_path / "a.tum.gz"
    path.write_bytes(gzip.compress(b"\n" * 10**8) * 3)
    tracemalloc.start()
    with pytest.raises(data.DataError, match="more than 10 MB when unpacked"):
        data.read(path, limit=10**7)
    assert tracemalloc.get_traced_memory()[1] < 3e7
    tracemalloc.stop()
    packed = gzip.compress(TUM.encode())
    for wrong, message in (
        (packed[:-4], "cut short"),
        (packed[:15] + b"?" + packed[16:], "damaged"),
    ):
        path.write_bytes(wrong)
        with pytest.raises(data.DataError, match=message):
            data.read(path)
    path.write_bytes(packed + packed + bytes(512))
    assert len(data.read(path)[0]) == 2


def test_many_empty_members_of_gzip_take_little_time(tmp_path: Path) -> None:
    path = tmp_path / "a.tum.gz"
    path.write_bytes(gzip.compress(b"") * 200_000 + gzip.compress(TUM.encode()))
    start = time.process_time()
    assert len(data.read(path)[0]) == 1
    assert time.process_time() - start < 20  # one or two; minutes if each copies the rest


def test_a_missing_library_is_named_with_its_extra(tmp_path: Path) -> None:
    (tmp_path / "gemmi.py").write_text("raise ImportError")
    code = f"import lieattn as la; la.data.read({str(BY_NAME['3o21.cif'])!r})"
    env = {**os.environ, "PYTHONPATH": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, env=env)
    assert "mmCIF files need gemmi. Install it with: pip install 'lieattn[data]'" in done.stderr


def test_huge_numbers_do_not_spoil_a_summary(tmp_path: Path) -> None:
    (tmp_path / "a.tum").write_text(TUM + "1 1e18 2 3 0 0 0 1\n")
    summary = data.describe(data.read(tmp_path / "a.tum").sets)
    assert summary.distance == pytest.approx(1e18)
    assert torch.tensor(summary.offset).isfinite()


def test_numbers_whose_squares_overflow_are_named(tmp_path: Path) -> None:
    (tmp_path / "a.tum").write_text(TUM + "1 1e200 2 3 0 0 0 1\n")
    with pytest.raises(data.DataError, match=r"line \d, .* out of range.* 1e\+200"):
        data.read(tmp_path / "a.tum")


# ---- XML -------------------------------------------------------------------------------------

LAUGHS = "".join(f'<!ENTITY l{i} "{f"&l{i - 1};" * 10}">\n' for i in range(1, 30))


@pytest.mark.parametrize(
    "doctype",
    [
        f'<!ENTITY l0 "ha">\n{LAUGHS}',
        '<!ENTITY x SYSTEM "file:///etc/passwd">',
        '<!ENTITY x PUBLIC "x" "http://127.0.0.1:1/x">',
        '<!ENTITY % x SYSTEM "http://127.0.0.1:1/x.dtd"> %x;',
        f'<!ENTITY x "{"a" * 1000}">',
    ],
)
@pytest.mark.parametrize(("name", "body"), [("a.svg", SVG), ("a.urdf", ROBOT)])
def test_entities_that_read_files_or_fill_memory_are_refused(
    doctype: str, name: str, body: str, tmp_path: Path
) -> None:
    entity = "&l29;" if "l29" in doctype else "&x;"
    root = name.removeprefix("a.").replace("urdf", "robot")
    text = f"<!DOCTYPE {root} [\n{doctype}\n]>\n" + body.format(f'<g transform="{entity}"/>')
    (tmp_path / name).write_text(text)
    with pytest.raises(data.DataError, match=r"line [2-4], .*the entity '(l1|x)' is declared"):
        data.read(tmp_path / name)


def test_namespaces_of_illustrator_and_doctypes_are_allowed(tmp_path: Path) -> None:
    text = (
        '<?xml version="1.0" encoding="iso-8859-1"?>\n'
        '<!DOCTYPE svg PUBLIC "-//W3C//DTD SVG 1.1//EN" "http://127.0.0.1:1/svg11.dtd" [\n'
        '<!ENTITY ns_svg "http://www.w3.org/2000/svg">\n<!ENTITY two "scale(2)">\n]>\n'
        '<svg xmlns="&ns_svg;"><g id="Fl\xe4che" transform="&two;"/></svg>'
    )
    (tmp_path / "a.svg").write_text(text, encoding="latin-1")
    (drawing,) = data.read(tmp_path / "a.svg")
    assert drawing.names == ("g Fläche",)
    assert drawing.poses[0, 0, 0] == 2


def test_deep_nesting_is_no_recursion(tmp_path: Path) -> None:
    depth = 50_000
    text = SVG.format('<g transform="rotate(1)">' * depth + "</g>" * depth)
    (tmp_path / "a.svg").write_text(text)
    assert len(data.read(tmp_path / "a.svg")[0]) == depth
    links = "".join(f'<link name="{i}"/>' for i in range(3000))
    joints = "".join(
        f'<joint name="j{i}"><parent link="{i}"/><child link="{i + 1}"/></joint>'
        for i in range(2999)
    )
    (tmp_path / "a.urdf").write_text(f'<robot name="snake">{links}{joints}</robot>')
    assert len(data.read(tmp_path / "a.urdf")[0]) == 3000
