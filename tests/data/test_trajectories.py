"""Trajectories and pose graphs, against numpy and scipy."""

from __future__ import annotations

import math
import re
from pathlib import Path

import numpy as np
import pytest
import torch
from real_files import BY_NAME, close, rigid
from scipy.spatial.transform import Rotation

import lieattn as la
from lieattn import data


def test_tum_is_what_scipy_makes_of_it() -> None:
    x = np.loadtxt(BY_NAME["freiburg1_xyz.tum"])
    (walk,) = data.read(BY_NAME["freiburg1_xyz.tum"])
    close(walk.poses, rigid(Rotation.from_quat(x[:, 4:]), x[:, 1:4]))
    assert walk.names[0] == "1305031098.6659"


def test_one_trajectory_in_five_formats_is_the_same() -> None:
    x = np.array(
        [line.split()[2:] for line in BY_NAME["sphere.graph"].read_text().splitlines()], dtype=float
    )
    expected = rigid(Rotation.from_euler("xyz", x[:, 3:]), x[:, :3])
    digits = {"graph": 1e-12, "npz": 1e-12, "csv": 1e-7, "kitti": 1e-5}
    for ending, atol in digits.items():
        sets = data.read(BY_NAME[f"sphere.{ending}"])
        assert sets.group is la.SE3
        close(sets[0].poses, expected, atol)


def test_a_header_without_a_mark_is_a_header(tmp_path: Path) -> None:
    text = BY_NAME["sphere.csv"].read_text()
    (tmp_path / "a.csv").write_text(text.removeprefix("#"))
    assert torch.equal(
        data.read(tmp_path / "a.csv")[0].poses, data.read(BY_NAME["sphere.csv"])[0].poses
    )
    (tmp_path / "a.csv").write_text(text.removeprefix("#").replace("q_RS_w", "q_RS_x", 1))
    with pytest.raises(data.DataError, match="line 1, column 54: the header has 'q_RS_x' here"):
        data.read(tmp_path / "a.csv")


@pytest.mark.parametrize(
    "header",
    [
        "t,x,y,z,qw,qx,qy,qz",
        "# stamp [s], x (m), y (m), z (m), qw, qx, qy, qz, vx, vy, vz",
        "# time is told by the clock that all cameras share",
        "# one, two, three, four, five, six, seven, eight",
        "# timestamps are in ns, x is ahead, y to the left, z up, made by x, y, z, and w",
        "#timestamp [ns], p (x,y,z) [m], q (w,x,y,z) [], v, b",
        "#time (x,y,z,w,x,y,z,a)",
        "#(,,,,,,,)",
        "time,px,py,pz,q0,q1,q2,q3",
        "t,x,y,z,q_r,q_i,q_j,q_k",
    ],
)
def test_headers_in_order_and_comments_are_passed_over(header: str, tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"{header}\n0,1,2,3,1,0,0,0\n")
    (only,) = data.read(tmp_path / "a.csv")
    assert torch.equal(only.poses[0, :3, :3], torch.eye(3, dtype=torch.float64))


YAW = "1, 2, 3, 0, 0, 0.70710678, 0.70710678"


def test_commas_in_a_tum_file_change_nothing(tmp_path: Path) -> None:
    rows = f"0.1, {YAW}\n0.2, {YAW}\n"
    expected = torch.tensor([[0.0, -1, 0], [1, 0, 0], [0, 0, 1]], dtype=torch.float64)
    for name, header in (("a.tum", ""), ("b.tum", "t, x, y, z, qx, qy, qz, qw\n")):
        (tmp_path / name).write_text(header + rows)
        sets = data.read(tmp_path / name)
        assert (sets.format, sets[0].names) == ("tum", ("0.1", "0.2"))
        close(sets[0].poses[0, :3, :3], expected, 1e-7)


def test_an_order_that_is_guessed_is_noted(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(f"0.1, {YAW}\n")
    sets = data.read(tmp_path / "a.csv")
    assert sets.format == "euroc"
    assert re.search("taken for qw, qx, qy, qz, .*--format tum", sets.notes[0])
    (tmp_path / "b.csv").write_text(f"t,x,y,z,qw,qx,qy,qz\n0.1, {YAW}\n")
    assert not data.read(tmp_path / "b.csv").notes


def test_poses_rounded_by_printing_are_projected_and_that_is_noted() -> None:
    sets = data.read(BY_NAME["sphere.kitti"])
    assert re.search(r"19 poses .* off SE\(3\) by rounding, 5e-08 at most", sets.notes[0])
    la.SE3.check(sets[0].poses)  # to 1e-8, where the file has 7 digits


def test_what_is_no_pose_is_not_noted_as_rounded(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><g transform="scale(0)"/>'
        '<g transform="scale(2)"/></svg>'
    )
    sets = data.read(tmp_path / "a.svg", bad="mask")
    assert sets[0].mask.tolist() == [False, True]
    assert len(sets.notes) == 1
    assert "1 of 2 poses of a are masked" in sets.notes[0]


def test_g2o_in_three_dimensions_has_the_scalar_part_last() -> None:
    rows = [
        x.split() for x in BY_NAME["klaus3.g2o"].read_text().splitlines() if x.startswith("VERTEX")
    ]
    x = np.array([row[2:] for row in rows], dtype=float)
    (graph,) = data.read(BY_NAME["klaus3.g2o"])
    close(graph.poses, rigid(Rotation.from_quat(x[:, 3:]), x[:, :3]))
    assert graph.names == ("0", "1", "2")


def test_g2o_in_the_plane() -> None:
    sets = data.read(BY_NAME["w100.graph"])
    rows = [
        x.split() for x in BY_NAME["w100.graph"].read_text().splitlines() if x.startswith("VERTEX2")
    ]
    for g, row in zip(sets[0].poses, rows, strict=True):
        x, y, theta = map(float, row[2:])
        c, s = math.cos(theta), math.sin(theta)
        close(g, torch.tensor([[c, -s, x], [s, c, y], [0, 0, 1]], dtype=torch.float64))
    assert sets.notes == ("left out lines that hold no pose: 2 EQUIV.",)


def test_g2o_of_edges_alone_is_composed() -> None:
    sets = data.read(BY_NAME["victoria.g2o"])
    x, y, heading = 0.0, 0.0, 0.0
    for i, line in enumerate(
        line for line in BY_NAME["victoria.g2o"].read_text().splitlines() if "EDGE" in line
    ):
        dx, dy, turn = map(float, line.split()[3:6])
        x += math.cos(heading) * dx - math.sin(heading) * dy
        y += math.sin(heading) * dx + math.cos(heading) * dy
        heading += turn
        row = torch.tensor([x, y, heading], dtype=torch.float64)
        close(la.SE2.to_xy_theta(sets[0].poses[i + 1]), row)
    assert "41 poses are composed from edges" in " ".join(sets.notes)


def test_a_saved_trajectory_is_the_same(tmp_path: Path) -> None:
    (walk,) = data.read(BY_NAME["freiburg1_xyz.tum"])
    mask = walk.mask.clone()
    mask[3] = False
    gaps = data.from_tensor(walk.group, walk.poses, mask, walk.names)
    data.save(tmp_path / "a.tum", [gaps])
    (again,) = data.read(tmp_path / "a.tum", bad="gaps")
    assert (again.names, again.mask.tolist()) == (gaps.names, mask.tolist())
    close(again.poses, gaps.poses, 1e-14)
    data.save(tmp_path / "a.tum", data.read(BY_NAME["sphere.csv"]), nanoseconds=True)
    assert data.read(tmp_path / "a.tum")[0].names[0] == "1403636580.838555648"
    with pytest.raises(ValueError, match=r"takes one trajectory of SE\(3\); .npz takes any"):
        data.save(tmp_path / "a.tum", [walk, walk])


def test_a_trajectory_is_saved_as_csv_with_its_time_stamps(tmp_path: Path) -> None:
    (walk,) = data.read(BY_NAME["freiburg1_xyz.tum"])
    mask = walk.mask.clone()
    mask[3] = False
    gaps = data.from_tensor(walk.group, walk.poses, mask, walk.names)
    data.save(tmp_path / "a.csv", [gaps])
    again = data.read(tmp_path / "a.csv", bad="gaps")
    assert (again.format, again.notes, again.nanoseconds) == ("euroc", (), False)
    assert (again[0].names, again[0].mask.tolist()) == (gaps.names, mask.tolist())
    close(again[0].poses, gaps.poses, 1e-14)


def test_only_whole_numbers_far_apart_are_nanoseconds(tmp_path: Path) -> None:
    assert data.read(BY_NAME["sphere.csv"]).nanoseconds
    for i, step in enumerate((0.05, 1)):
        rows = [f"{k * step},{k},2,3,1,0,0,0\n" for k in range(9)]
        (tmp_path / f"{i}.csv").write_text("time,x,y,z,qw,qx,qy,qz\n" + "".join(rows))
        assert not data.read(tmp_path / f"{i}.csv").nanoseconds


def test_empty_cells_are_a_gap(tmp_path: Path) -> None:
    rows = "time,x,y,z,qw,qx,qy,qz\n0.0,1,2,3,1,0,0,0\n0.1,,,,,,,\n0.2,1,2,3,1,0,0,0\n"
    (tmp_path / "a.csv").write_text(rows)
    (walk,) = data.read(tmp_path / "a.csv", bad="gaps")
    assert walk.mask.tolist() == [True, False, True]
    assert walk.names == ("0.0", "0.1", "0.2")
    (tmp_path / "a.csv").write_text(rows.replace("0.1,,", "0.1,1,"))
    with pytest.raises(data.DataError, match="line 3, column 7: '' is no number"):
        data.read(tmp_path / "a.csv", bad="gaps")
