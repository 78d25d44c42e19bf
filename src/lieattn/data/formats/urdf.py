"""URDF robots: the frame of every link, with all joints at zero."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass, field

import torch

from ..._core.text import printable, quoted
from ...groups import SE3
from .._draft import ROUNDING, Draft, Place, roll_pitch_yaw
from .._numbers import number
from .._source import SET_SIZE, Source, stem
from .._xml import Element, attribute_place, walk
from .format import Format

_XACRO = "is of xacro. Expand it first: xacro file > robot.urdf"
_OF_XACRO = ("include", "property", "macro", "arg", "if", "unless")


@dataclass
class _Joint:
    name: str
    place: Place
    ends: dict[str, str] = field(default_factory=lambda: {"parent": "", "child": ""})
    xyz: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    rpy: list[float] = field(default_factory=lambda: [0.0, 0.0, 0.0])
    quaternion: list[float] | None = None  # x y z w, instead of rpy


class _Robot:
    """Links and joints: children of <robot>, as gazebo and transmissions have joints too."""

    def __init__(self, source: Source) -> None:
        self.source = source
        self.path: list[str] = []
        self.links: dict[str, Place] = {}
        self.joints: list[_Joint] = []

    def start(self, element: Element) -> None:
        name, place = element.name, (element.line, element.column)
        if not self.path and name != "robot":
            problem = f"the first element is <{name[:24]}>, expected <robot>."
            raise self.source.error(problem, *place)
        self.path.append(name)
        if element.prefix == "xacro":
            raise self.source.error(f"<xacro:{name[:24]}> {_XACRO}", *place)
        if len(self.path) == 2:
            if name == "link":
                self._add_link(self._attribute(element, "name"), place)
            elif name == "joint":
                self.joints.append(_Joint(self._attribute(element, "name"), place))
            elif name in _OF_XACRO:
                raise self.source.error(f"<{name}> {_XACRO}", *place)
        elif len(self.path) == 3 and self.path[1] == "joint":
            if name in ("parent", "child"):
                self.joints[-1].ends[name] = self._attribute(element, "link")
            elif name == "origin":
                self._origin(element, self.joints[-1])

    def end(self, name: str) -> None:
        self.path.pop()

    def _add_link(self, name: str, place: Place) -> None:
        if name in self.links:
            line = self.links[name][0]
            problem = f"link {quoted(name)} was given in line {line} already. Rename one."
            raise self.source.error(problem, *place)
        self.links[name] = place

    def _origin(self, element: Element, joint: _Joint) -> None:
        for name in element.attributes:
            if name not in ("xyz", "rpy", "quat_xyzw"):
                problem = (
                    f"<origin> has {quoted(name)}, which is not read; expected xyz and rpy, or "
                    "quat_xyzw instead of rpy."
                )
                raise self.source.error(problem, *attribute_place(self.source, element, name))
        joint.xyz = self._vector(element, "xyz")
        joint.rpy = self._vector(element, "rpy")
        if "quat_xyzw" not in element.attributes:
            return
        place = attribute_place(self.source, element, "quat_xyzw")
        if "rpy" in element.attributes:
            raise self.source.error("<origin> has both rpy and quat_xyzw. Drop one.", *place)
        values = self._vector(element, "quat_xyzw", 4)
        norm = math.hypot(*values)
        if not abs(norm - 1) <= 10 * ROUNDING:
            problem = f"the quaternion has norm {norm:.3g}, expected 1. Normalise it."
            raise self.source.error(problem, *place)
        joint.quaternion = [x / norm for x in values]

    def _attribute(self, element: Element, name: str) -> str:
        if name not in element.attributes:
            problem = f"<{element.name}> has no {name}."
            raise self.source.error(problem, element.line, element.column)
        value = element.attributes[name]
        if "${" in value or "$(" in value:
            place = attribute_place(self.source, element, name)
            raise self.source.error(f"{quoted(value)} {_XACRO}", *place)
        return value

    def _vector(self, element: Element, name: str, count: int = 3) -> list[float]:
        text = element.attributes.get(name, "0 0 0")
        values = []
        for piece in re.finditer(r"\S+", text):
            value = number(piece[0])
            if value is None:
                place = attribute_place(self.source, element, name, piece.start())
                xacro = " Expand xacro first: xacro file > robot.urdf" if "${" in text else ""
                problem = f"{quoted(piece[0])} is no number; expected {count} in {name}.{xacro}"
                raise self.source.error(problem, *place)
            values.append(value)
            if len(values) > 10 * count:  # that many are not counted
                break
        if len(values) != count:
            place = attribute_place(self.source, element, name)
            raise self.source.error(f"{len(values)} numbers in {name}, expected {count}.", *place)
        return values


_Links = list[tuple[str, _Joint | None]]  # parents first; each with the joint that leads to it


def _sniff(head: bytes, text: str) -> bool:
    return re.search(r"<robot[\s>]", text) is not None


def _read(source: Source, notes: list[str]) -> list[Draft]:
    robot = _Robot(source)
    walk(source, robot.start, robot.end)
    if not robot.links:
        raise source.error("<robot> has no <link>, so there are no frames.")
    trees = _trees(robot)
    source.require_few(len(trees), "links without a joint to others", SET_SIZE)
    return _drafts(robot, trees)


def _trees(robot: _Robot) -> dict[str, _Links]:
    """The links of every tree, by the name of its root."""
    leads: dict[str, _Joint] = {}
    for joint in robot.joints:
        for end, link in joint.ends.items():
            if link not in robot.links:
                mend = f"Give it a <{end} link=...>."
                if link:
                    mend = f'Mend the name, or add <link name="{printable(link, 24)}"/>.'
                problem = f"joint {quoted(joint.name)}: its {end} {quoted(link)} is no link. {mend}"
                raise robot.source.error(problem, *joint.place)
        child = joint.ends["child"]
        if child in leads:
            other = quoted(leads[child].name)
            problem = f"link {quoted(child)} is the child of joint {other} already."
            raise robot.source.error(problem, *joint.place)
        leads[child] = joint
    roots: dict[str, str] = {}  # link -> root
    trees: dict[str, _Links] = {}
    for link in robot.links:
        path = [link]
        while path[-1] not in roots and path[-1] in leads:
            path.append(leads[path[-1]].ends["parent"])
            if len(path) > len(robot.links):
                problem = "the joints form a ring, so that no link is the root. Remove one joint."
                raise robot.source.error(problem, *leads[link].place)
        root = roots.get(path[-1], path[-1])
        for name in reversed(path):
            if name not in roots:
                roots[name] = root
                trees.setdefault(root, []).append((name, leads.get(name)))
    return trees


def _drafts(robot: _Robot, trees: dict[str, _Links]) -> list[Draft]:
    """A set a tree: the frames of its links, computed for all trees together."""
    links = [link for tree in trees.values() for link in tree]
    x = torch.tensor(
        [[0.0] * 6 if joint is None else joint.xyz + joint.rpy for _, joint in links],
        dtype=torch.float64,
    )
    g = SE3.from_parts(roll_pitch_yaw(x[:, 3:]), x[:, :3])
    rows = {name: i for i, (name, _) in enumerate(links)}
    for i, (_, joint) in enumerate(links):
        if joint is not None:
            if joint.quaternion is not None:
                q = torch.tensor(joint.quaternion, dtype=torch.float64)
                g[i] = SE3.from_quaternion_xyzw(q, x[i, :3])
            g[i] = g[rows[joint.ends["parent"]]] @ g[i]  # parents come first
    finite = g.isfinite().flatten(1).all(-1)
    g[finite] = SE3.project(g[finite])  # products of many joints drift
    title, sizes = stem(robot.source.path), [len(tree) for tree in trees.values()]
    drafts = []
    for (root, tree), own in zip(trees.items(), g.split(sizes), strict=True):
        places = [robot.links[name] if joint is None else joint.place for name, joint in tree]
        name = title if len(trees) == 1 else f"{title} {root}"
        drafts.append(Draft(SE3, own, [link for link, _ in tree], places, name))
    return drafts


_HOLDS = "SE(3), frames of the links, joints at zero"
FORMAT = Format("urdf", "URDF robot", (".urdf",), _HOLDS, _sniff, _read)
