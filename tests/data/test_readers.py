"""Every reader on real files, against a reading of its own; every format joins by itself."""

from __future__ import annotations

import gzip
import json
import math
import re
import subprocess
import sys
import xml.etree.ElementTree as ET
from pathlib import Path

import gemmi
import numpy as np
import pytest
import torch
from scipy.spatial.transform import Rotation
from torch import Tensor

import lieattn as la
from lieattn import data
from lieattn.data.svg import parse_transform

FILES = sorted(path for path in (Path(__file__).parent / "files").iterdir())
BY_NAME = {path.name: path for path in FILES}


def rigid(rotation: Rotation, t: np.ndarray) -> Tensor:
    g = np.tile(np.eye(4), (len(t), 1, 1))
    g[:, :3, :3], g[:, :3, 3] = rotation.as_matrix(), t
    return torch.from_numpy(g)


def close(a: Tensor, b: Tensor, atol: float = 1e-12) -> None:
    torch.testing.assert_close(a, b, atol=atol, rtol=1e-12)


# ---- what holds for every format -------------------------------------------------------------


def test_every_format_has_a_real_file() -> None:
    found = {data.read(path).format for path in FILES}
    missing = set(data.formats()) - found
    assert not missing, f"put a small file of {missing} into tests/data/files"


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_a_file_gives_poses_names_mask_group_and_source(path: Path) -> None:
    sets = data.read(path)
    assert len(sets) == len(list(sets)) >= 1
    assert sets.path == str(path)
    for x in sets:
        assert x.poses.dtype == torch.float64
        assert x.poses.shape == (len(x), x.group.matrix_size, x.group.matrix_size)
        assert x.mask.shape == (len(x),)
        assert len(x.names) == len(x)
        assert x.group is sets.group
        assert x.name
        assert x.source == str(path)
        x.group.check(x.poses)
    assert sets.format in repr(sets)
    again = data.read(path, format=sets.format)
    assert again.why == "as asked"
    assert all(torch.equal(a.poses, b.poses) for a, b in zip(sets, again, strict=True))


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_contents_alone_tell_the_format(path: Path, tmp_path: Path) -> None:
    expected = data.read(path).format
    for name in ("file", "file.txt", "file.gz"):
        copy = tmp_path / name
        raw = path.read_bytes()
        copy.write_bytes(gzip.compress(raw) if name.endswith(".gz") else raw)
        sets = data.read(copy)
        assert (sets.format, sets.why) == (expected, "by its contents")


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_saving_keeps_every_bit(path: Path, tmp_path: Path) -> None:
    sets = data.read(path)
    data.save(tmp_path / "sets.npz", sets)
    again = data.read(tmp_path / "sets.npz")
    assert again.group is sets.group
    assert [x.name for x in again] == [x.name for x in sets]
    assert [x.source for x in again] == [x.source for x in sets]  # what a split goes by
    for a, b in zip(sets, again, strict=True):
        assert torch.equal(a.poses, b.poses)
        assert torch.equal(a.mask, b.mask)
        assert a.names == b.names
    assert [x.name for x in tmp_path.iterdir()] == ["sets.npz"]


@pytest.mark.parametrize("path", FILES, ids=lambda path: path.name)
def test_line_ends_and_byte_order_marks_make_no_difference(path: Path, tmp_path: Path) -> None:
    sets = data.read(path)
    if sets.format == "npz":
        pytest.skip("no text")
    text = path.read_bytes().replace(b"\r\n", b"\n")
    copy = tmp_path / path.name
    for other in (
        text.replace(b"\n", b"\r\n"),
        text.replace(b"\n", b"\r"),
        b"\xef\xbb\xbf" + text,
    ):
        copy.write_bytes(other)
        for a, b in zip(sets, data.read(copy), strict=True):
            assert torch.equal(a.poses, b.poses)
            assert a.names == b.names


# ---- trajectories ----------------------------------------------------------------------------


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


# ---- proteins --------------------------------------------------------------------------------


def frames(structure: gemmi.Structure) -> dict[str, Tensor]:
    """Frames by hand: Gram-Schmidt on C - CA and N - CA, the first of alternatives."""
    chains: dict[str, list[np.ndarray]] = {}
    for chain in structure[0]:
        for residue in chain:
            if not all(residue.find_atom(name, "*") for name in ("N", "CA", "C")):
                continue
            n, ca, c = (
                np.array(residue.find_atom(name, "*").pos.tolist()) for name in ("N", "CA", "C")
            )
            g = np.eye(4)
            g[:3, 0] = (c - ca) / np.linalg.norm(c - ca)
            y = (n - ca) - g[:3, 0] * (g[:3, 0] @ (n - ca))
            g[:3, 1] = y / np.linalg.norm(y)
            g[:3, 2] = np.cross(g[:3, 0], g[:3, 1])
            g[:3, 3] = ca
            chains.setdefault(chain.name, []).append(g)
    return {name: torch.from_numpy(np.stack(g)) for name, g in chains.items()}


@pytest.mark.parametrize("name", ["1ejg.pdb", "7pbl.pdb", "3o21.cif"])
def test_backbones_are_those_that_gemmi_reads(name: str) -> None:
    structure = gemmi.read_structure(str(BY_NAME[name]))
    structure.setup_entities()
    expected = frames(structure)
    sets = data.read(BY_NAME[name])
    assert [x.name for x in sets] == list(expected)
    for x in sets:
        close(x.poses, expected[x.name], 1e-9)


def test_residues_are_named_and_alternatives_chosen_by_occupancy() -> None:
    (chain,) = data.read(BY_NAME["1ejg.pdb"])
    assert chain.names[:3] == ("GLY 20", "THR 21", "PRO 22")  # of PRO 0.6, SER and SER


def test_the_alternative_that_is_most_occupied_is_taken(tmp_path: Path) -> None:
    text = BY_NAME["1ejg.pdb"].read_text()
    lines = [
        x[:54] + "  0.90" + x[60:] if x.startswith("ATOM") and x[16] == "C" else x
        for x in text.splitlines()
    ]
    (tmp_path / "x.pdb").write_text("\n".join([*lines, ""]))
    (chain,) = data.read(tmp_path / "x.pdb")
    assert chain.names[2] == "SER 22"
    ca = next(x for x in lines if x[12:17] == " CA C")
    assert chain.poses[2, :3, 3].tolist() == [float(ca[i : i + 8]) for i in (30, 38, 46)]


def test_a_ligand_in_mmcif_is_no_residue(tmp_path: Path) -> None:
    text = BY_NAME["3o21.cif"].read_text()
    rows = [x for x in text.splitlines() if x.startswith("ATOM") and " PHE A 1 2 " in x]
    ligand = [x.replace("ATOM  ", "HETATM").replace(" PHE A 1 2 ", " PHE Z 9 . ") for x in rows]
    (tmp_path / "x.cif").write_text(text.rstrip("#\n") + "\n" + "\n".join([*ligand, "#", ""]))
    assert [x.name for x in data.read(tmp_path / "x.cif")] == ["A", "B", "C"]


def test_a_ligand_after_the_chain_is_no_residue(tmp_path: Path) -> None:
    lines = BY_NAME["7pbl.pdb"].read_text().splitlines()
    atoms = [x for x in lines if x.startswith("ATOM") and x[21] == "A"]
    ligand = ["HETATM" + x[6:22] + " 900" + x[26:] for x in atoms[:7]]
    (tmp_path / "x.pdb").write_text("\n".join([*atoms, "TER", *ligand, ""]))
    assert len(data.read(tmp_path / "x.pdb")[0]) == len(data.read(BY_NAME["7pbl.pdb"])[0])


def test_the_first_of_several_models_is_read(tmp_path: Path) -> None:
    lines = [x for x in BY_NAME["7pbl.pdb"].read_text().splitlines() if x.startswith(("A", "T"))]
    models = [x for i in (1, 2) for x in (f"MODEL        {i}", *lines, "ENDMDL")]
    (tmp_path / "x.pdb").write_text("\n".join([*models, ""]))
    sets = data.read(tmp_path / "x.pdb")
    assert [x.name for x in sets] == ["A", "B"]
    assert "has 2 models" in sets.notes[0]


@pytest.mark.parametrize(
    ("before", "after"), [("MODEL        1", "ENDMDL"), ("MODEL        1", None), (None, "END")]
)
def test_models_end_where_files_say_so(
    before: str | None, after: str | None, tmp_path: Path
) -> None:
    atoms = [x for x in BY_NAME["7pbl.pdb"].read_text().splitlines() if x.startswith("ATOM")]
    lines = [x for x in (before, *atoms, after) if x] * 3
    (tmp_path / "x.pdb").write_text("\n".join([*lines, "END", ""]))
    sets = data.read(tmp_path / "x.pdb")
    expected = data.read(BY_NAME["7pbl.pdb"])
    assert [x.names for x in sets] == [x.names for x in expected]
    assert sets.notes == ("has 3 models, one after the other; the first is read.",)


def test_alternatives_in_a_block_of_their_own_are_of_the_same_residues(tmp_path: Path) -> None:
    lines = BY_NAME["7pbl.pdb"].read_text().splitlines()
    atoms = [x for x in lines if x.startswith("ATOM") and x[21] == "A"]
    seen = [
        x[:16] + letter + x[17:54] + f"{share:6.2f}" + x[60:]
        for letter, share in (("A", 0.4), ("B", 0.6))
        for x in atoms
    ]
    (tmp_path / "x.pdb").write_text("\n".join([*seen, ""]))
    (chain,) = data.read(tmp_path / "x.pdb")
    expected = data.read(BY_NAME["7pbl.pdb"])[0]
    assert chain.names == expected.names
    assert torch.equal(chain.poses, expected.poses)


def test_residues_whose_numbers_start_anew_are_others(tmp_path: Path) -> None:
    lines = BY_NAME["7pbl.pdb"].read_text().splitlines()
    atoms = [x for x in lines if x.startswith("ATOM") and x[21] == "A"]
    (tmp_path / "x.pdb").write_text("\n".join([*atoms, *atoms, ""]))
    assert len(data.read(tmp_path / "x.pdb")[0]) == 2 * len(data.read(BY_NAME["7pbl.pdb"])[0])


# ---- drawings, robots, parts -----------------------------------------------------------------


def by_hand(transform: str) -> np.ndarray:
    """A transform from its definition in the standard, one function after the other."""
    g = np.eye(3)
    for name, text in re.findall(r"(\w+)\s*\(([^)]*)\)", transform):
        x = [float(v) for v in re.findall(r"[-+]?(?:\d+\.?\d*|\.\d+)(?:e[-+]?\d+)?", text)]
        step = np.eye(3)
        if name == "matrix":
            step[:2] = np.array(x).reshape(3, 2).T
        elif name == "translate":
            step[:2, 2] = [*x, 0][:2]
        elif name == "scale":
            step[0, 0], step[1, 1] = x[0], x[-1]
        elif name == "rotate":
            step[:2, :2] = Rotation.from_euler("z", x[0], degrees=True).as_matrix()[:2, :2]
            centre = np.eye(3)
            centre[:2, 2] = x[1:] or 0
            step = centre @ step @ np.linalg.inv(centre)
        elif name == "skewX":
            step[0, 1] = math.tan(math.radians(x[0]))
        elif name == "skewY":
            step[1, 0] = math.tan(math.radians(x[0]))
        g = g @ step
    return g


def tree_walk(path: Path) -> Tensor:
    found: list[np.ndarray] = []

    def visit(element: ET.Element, frame: np.ndarray) -> None:
        if element.get("transform"):
            frame = frame @ by_hand(element.get("transform", ""))
            found.append(frame)
        paint = element.get("gradientTransform")
        if paint and element.get("gradientUnits") == "userSpaceOnUse":
            found.append(by_hand(paint))
        for child in element:
            visit(child, frame)

    visit(ET.parse(path).getroot(), np.eye(3))
    return torch.from_numpy(np.stack(found))


@pytest.mark.parametrize("name", ["emblem-important.svg", "nazar-amulet.svg"])
def test_drawings_are_what_a_walk_over_the_tree_gives(name: str) -> None:
    (drawing,) = data.read(BY_NAME[name])
    assert drawing.group is la.Aff2
    close(drawing.poses, tree_walk(BY_NAME[name]), 1e-9)


def test_ancestors_are_composed_and_gradients_stand_alone(tmp_path: Path) -> None:
    path = tmp_path / "a.svg"
    path.write_text(
        '<svg xmlns="http://www.w3.org/2000/svg"><g transform="translate(3 4)">'
        '<g><path id="p" transform="rotate(30) scale(2 3)"/></g><rect transform="skewX(9)"/>'
        '<radialGradient gradientTransform="scale(5)" gradientUnits="userSpaceOnUse"/>'
        '<radialGradient gradientTransform="scale(7)"/>'
        '</g><rect transform="scale(-1)"/></svg>'
    )
    sets = data.read(path)
    assert sets[0].names == ("g", "path p", "rect", "radialGradient", "rect")
    close(sets[0].poses, tree_walk(path))
    assert sets.notes == ("1 gradients in units of bounding boxes are left out.",)


def test_gradients_inherit_units_and_transforms(tmp_path: Path) -> None:
    gradient = '<linearGradient id="{}" xlink:href="#{}" {}/>'
    chain = (
        ("own", "later", 'gradientTransform="scale(2)"'),
        ("all", "own", ""),
        ("ring", "ring", 'gradientTransform="scale(4)"'),
        ("box", "later", 'gradientTransform="scale(5)" gradientUnits="objectBoundingBox"'),
        ("lost", "nothing", ""),
        ("later", "", 'gradientUnits="userSpaceOnUse"'),
    )
    body = "".join(gradient.format(*x) for x in chain)
    (tmp_path / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:xlink="http://www.w3.org/1999/xlink">'
        f'{body}<pattern id="p" patternTransform="scale(7)"/><pattern href="#p"/></svg>'
    )
    sets = data.read(tmp_path / "a.svg")
    assert sets[0].names == ("linearGradient own", "linearGradient all", "pattern p", "pattern")
    assert sets[0].poses[:, 0, 0].tolist() == [2, 2, 7, 7]
    assert sets.notes == ("2 gradients in units of bounding boxes are left out.",)


def test_attributes_of_other_programs_are_no_transforms(tmp_path: Path) -> None:
    (tmp_path / "a.svg").write_text(
        '<svg xmlns="http://www.w3.org/2000/svg" xmlns:inkscape="http://inkscape.org">'
        '<g transform="scale(2)" inkscape:transform="scale(3)"/><g inkscape:transform="x"/></svg>'
    )
    (drawing,) = data.read(tmp_path / "a.svg")
    assert drawing.poses[:, 0, 0].tolist() == [2]


@pytest.mark.parametrize(
    "text",
    [
        "rotate(30)",
        "rotate(-45.5, 10 20)",
        "translate(3)",
        "skewX(10) skewY(-5)",
        "scale(-1,2)translate(1e1-.5)",
        " matrix(1 2 3 4 5 6) , rotate(90) ",
        "",
    ],
)
def test_transforms_of_every_kind(text: str) -> None:
    a, b, c, d, e, f = parse_transform(text)
    np.testing.assert_allclose([[a, c, e], [b, d, f], [0, 0, 1]], by_hand(text), atol=1e-12)


@pytest.mark.parametrize("name", ["double_pendulum.urdf", "hextilt.urdf"])
def test_robots_are_what_their_joints_say(name: str) -> None:
    root = ET.parse(BY_NAME[name]).getroot()
    joints = {}
    for joint in root.findall("joint"):
        origin = joint.find("origin")
        xyz, rpy = ([float(v) for v in origin.get(k, "0 0 0").split()] for k in ("xyz", "rpy"))
        step = rigid(Rotation.from_euler("xyz", [rpy]), np.array([xyz]))[0]
        joints[joint.find("child").get("link")] = (joint.find("parent").get("link"), step)

    def pose(link: str) -> Tensor:
        if link not in joints:
            return torch.eye(4, dtype=torch.float64)
        parent, step = joints[link]
        return pose(parent) @ step

    (robot,) = data.read(BY_NAME[name])
    assert set(robot.names) == {link.get("name") for link in root.findall("link")}
    close(robot.poses, torch.stack([pose(name) for name in robot.names]))


def test_joints_of_transmissions_and_of_gazebo_are_none(tmp_path: Path) -> None:
    (tmp_path / "a.urdf").write_text(
        '<robot name="r"><link name="b"/><joint name="j"><origin xyz="1 2 3"/><parent link="a"/>'
        '<child link="b"/></joint><link name="a"/><transmission name="t"><joint name="j">'
        '<origin xyz="9 9 9"/></joint></transmission><gazebo><plugin><joint name="k"><origin/>'
        "</joint></plugin></gazebo></robot>"
    )
    (robot,) = data.read(tmp_path / "a.urdf")
    poses = dict(zip(robot.names, robot.poses[:, :3, 3].tolist(), strict=True))
    assert poses == {"a": [0, 0, 0], "b": [1, 2, 3]}


def test_two_trees_are_two_sets(tmp_path: Path) -> None:
    (tmp_path / "a.urdf").write_text('<robot name="r"><link name="x"/><link name="y"/></robot>')
    assert [x.name for x in data.read(tmp_path / "a.urdf")] == ["a x", "a y"]


def test_parts_hold_their_sub_files() -> None:
    (part,) = data.read(BY_NAME["u587p01.dat"])
    rows = [
        x.split() for x in BY_NAME["u587p01.dat"].read_text().splitlines() if x.startswith("1 ")
    ]
    for g, row in zip(part.poses, rows, strict=True):
        x = np.array(row[2:14], dtype=float)
        assert (g[:3, 3].numpy() == x[:3]).all()
        assert (g[:3, :3].numpy() == x[3:].reshape(3, 3)).all()
    assert part.names[6] == "4-4cylo.dat"
    assert data.describe([part]).mirrored == 5 / 10


def test_matrices_of_parts_are_read_by_rows(tmp_path: Path) -> None:
    (tmp_path / "a.dat").write_text("0 A part\n1 16 1 2 3 0 4 0 5 0 6 0 0 7 a b.dat\n")
    (part,) = data.read(tmp_path / "a.dat")
    assert part.poses[0].tolist() == [[0, 4, 0, 1], [5, 0, 6, 2], [0, 0, 7, 3], [0, 0, 0, 1]]
    assert part.names == ("a b.dat",)


def test_models_of_several_files_give_a_set_each(tmp_path: Path) -> None:
    part = BY_NAME["u587p01.dat"].read_text()
    (tmp_path / "x.mpd").write_text(f"0 FILE a b.ldr\n{part}0 FILE c.ldr\n{part}")
    sets = data.read(tmp_path / "x.mpd")
    assert [(x.name, len(x)) for x in sets] == [("a b.ldr", 10), ("c.ldr", 10)]


# ---- npz -------------------------------------------------------------------------------------


def test_npz_knows_the_group_or_guesses_it(group: la.Group, tmp_path: Path) -> None:
    path, g = tmp_path / "x.npz", group.random(2, 5, dtype=torch.float64)
    np.savez(path, poses=g.numpy(), group=np.array(group.name))
    assert data.read(path).group is group
    np.savez(path, poses=g.float().numpy())
    assert data.read(path).group is group
    np.savez(path, poses=g[0].numpy())
    (only,) = data.read(path)
    assert torch.equal(only.poses, g[0])
    np.save(tmp_path / "x.npy", g.numpy())
    assert len(data.read(tmp_path / "x.npy")) == 2


def test_npz_takes_a_mask_names_and_columns_first(tmp_path: Path) -> None:
    g = la.SE3.random(2, 3, dtype=torch.float64)
    g[1, 1] = torch.nan
    names = np.array([["a", "b", "c"], ["d", "", "e"]])
    mask = np.array([[True] * 3, [True, False, True]])
    poses = np.asfortranarray(g.numpy())
    np.savez(tmp_path / "x.npz", poses=poses, mask=mask, names=names, colour=names)
    sets = data.read(tmp_path / "x.npz")
    assert torch.equal(sets[0].poses, g[0])
    assert sets[1].mask.tolist() == [True, False, True]
    assert sets[1].names == ("d", "", "e")
    assert torch.equal(sets[1].poses[1], torch.eye(4, dtype=torch.float64))
    assert "colour" in sets.notes[0]


def test_rows_at_the_end_of_a_single_array_are_gaps(tmp_path: Path) -> None:
    g = la.SE3.random(4, dtype=torch.float64)
    mask = np.array([True, True, True, False])
    np.savez(tmp_path / "x.npz", poses=g.numpy(), mask=mask)
    assert data.read(tmp_path / "x.npz")[0].mask.tolist() == mask.tolist()
    g[3] = torch.nan
    np.savez(tmp_path / "x.npz", poses=g.numpy())
    assert data.read(tmp_path / "x.npz", bad="mask")[0].mask.tolist() == mask.tolist()


def test_padding_is_cut_off_and_gaps_with_a_name_are_kept(tmp_path: Path) -> None:
    g = la.SE3.random(2, 4, dtype=torch.float64)
    mask = np.array([[True] * 4, [True, False, False, False]])
    np.savez(tmp_path / "x.npz", poses=g.numpy(), mask=mask)
    assert [len(x) for x in data.read(tmp_path / "x.npz")] == [4, 1]
    names = np.array([["a"] * 4, ["a", "b", "c", ""]])
    np.savez(tmp_path / "x.npz", poses=g.numpy(), mask=mask, names=names)
    assert data.read(tmp_path / "x.npz")[1].mask.tolist() == [True, False, False]
    g[1, 2:] = torch.nan
    np.savez(tmp_path / "x.npz", poses=g.numpy())
    assert [len(x) for x in data.read(tmp_path / "x.npz")] == [4, 2]


def test_saved_sets_keep_the_gaps_at_their_ends(tmp_path: Path) -> None:
    mask = torch.tensor([True, True, False])
    sets = [data.from_tensor(la.SE3, la.SE3.random(n), mask[:n]) for n in (2, 3)]
    data.save(tmp_path / "x.npz", [*sets, data.from_tensor(la.SE3, la.SE3.random(7))])
    assert [x.mask.tolist() for x in data.read(tmp_path / "x.npz")][:2] == [
        x.mask.tolist() for x in sets
    ]


# ---- choices of the caller -------------------------------------------------------------------


def test_poses_can_be_taken_as_of_another_group() -> None:
    path = BY_NAME["klaus3.g2o"]
    rotations = data.read(path, group="SO3")
    assert torch.equal(rotations[0].poses, data.read(path)[0].poses[:, :3, :3])
    assert data.read(path, group=la.Aff3).group is la.Aff3
    assert data.read(BY_NAME["w100.graph"], group="SO2").group is la.SO2
    with pytest.raises(data.DataError, match=r"4 x 4 matrices of SE\(3\), not poses of SE\(2\)"):
        data.read(path, group="SE2")
    with pytest.raises(data.DataError, match="not in SE"):
        data.read(BY_NAME["u587p01.dat"], group="SE3")


def test_a_format_of_your_own_is_one_object(tmp_path: Path) -> None:
    def read_it(source, notes):
        x = torch.tensor(json.loads(source.text), dtype=torch.float64)
        return [data.reading.Draft(la.SO2, la.SO2.from_angle(x), [str(i) for i in range(len(x))])]

    mine = data.Format(
        "angles", "JSON of angles", (".json",), "SO(2)", lambda head, text: False, read_it
    )
    data.register(mine)
    try:
        (tmp_path / "x.json").write_text("[0.5, 1.5]")
        sets = data.read(tmp_path / "x.json")
        assert (sets.format, sets.why, len(sets[0])) == ("angles", "by its name alone", 2)
    finally:
        del data.reading._FORMATS["angles"]


def test_reading_text_loads_no_library() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import lieattn as la; "
        f"[la.data.read(x) for x in {[str(x) for x in FILES if x.suffix not in ('.npz', '.cif')]}];"
        "print([m for m in ('numpy', 'gemmi') if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
