"""Drawings, robots and parts, against transforms made by hand."""

from __future__ import annotations

import math
import re
import xml.etree.ElementTree as ET
from pathlib import Path

import numpy as np
import pytest
import torch
from real_files import BY_NAME, close, rigid
from scipy.spatial.transform import Rotation
from torch import Tensor

import lieattn as la
from lieattn import data
from lieattn.data.formats.svg import parse_transform


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
