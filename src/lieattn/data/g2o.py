"""Pose graphs: g2o, and TORO's older names for the same lines.

Poses are those of the vertices. A file of edges alone, such as plain odometry, is composed from
its first vertex on, in the order of its lines.
"""

from __future__ import annotations

import re

import torch

from ..groups import SE2, SE3
from ._draft import Draft, Place, note_not_finite, roll_pitch_yaw
from ._numbers import fields, row, whole_lines
from ._source import Source, stem
from .errors import quoted
from .format import Format

# How a pose is written, and the lines that hold one after an id, or between two ids.
_PLANE, _QUATERNION, _ANGLES = "x y theta", "x y z qx qy qz qw", "x y z roll pitch yaw"
_VERTICES = {
    "VERTEX_SE2": _PLANE,
    "VERTEX2": _PLANE,
    "VERTEX_SE3:QUAT": _QUATERNION,
    "VERTEX3": _ANGLES,
}
_EDGES = {
    "EDGE_SE2": _PLANE,
    "EDGE2": _PLANE,
    "ODOMETRY": _PLANE,
    "EDGE_SE3:QUAT": _QUATERNION,
    "EDGE3": _ANGLES,
}
_TAG = re.compile(r"[A-Z][A-Z0-9_:]*")


def _sniff(head: bytes, text: str) -> bool:
    first = [x.split()[0] for x in whole_lines(text)[:20]]
    known = re.compile(r"(VERTEX|EDGE|FIX|PARAMS|ODOMETRY|LANDMARK|EQUIV)[A-Z0-9_:]*")
    return bool(first) and all(known.fullmatch(x) for x in first)


class _Lines:
    """Poses of one kind of line: ids, how they are written, numbers, places."""

    def __init__(self) -> None:
        self.kind = ""
        self.ids: list[tuple[str, ...]] = []
        self.rows: list[list[float]] = []
        self.places: list[Place] = []

    def add(self, source: Source, line: int, text: str, kind: str, ids: int) -> None:
        tag, *names = text.split(maxsplit=ids + 1)[: ids + 1]
        column = len(text) - len(text.lstrip()) + 1
        if self.kind and (self.kind == _PLANE) != (kind == _PLANE):
            problem = f"{tag} in a file of {'2-D' if self.kind == _PLANE else '3-D'} poses."
            raise source.error(f"{problem} Split the file in two.", line, column)
        if self.kind and self.kind != kind:
            problem = f"{tag} in a file of poses {self.kind}: expected one notation."
            raise source.error(problem, line, column)
        self.kind = kind
        expects = f"{tag} {'id' if ids == 1 else 'id id'} {kind}"
        count = len(kind.split())
        self.rows.append(row(source, line, text, count, expects, skip=1 + ids, more=ids == 2))
        self.ids.append(tuple(names))
        self.places.append((line, column))

    def draft(self, name: str) -> Draft:
        names = [ids[-1] for ids in self.ids]
        if self.kind == _PLANE:
            return Draft.from_xy_theta(self.rows, names, self.places, name)
        if self.kind == _ANGLES:
            x = torch.tensor(self.rows, dtype=torch.float64)
            g = SE3.from_parts(roll_pitch_yaw(x[:, 3:]), x[:, :3])
            draft = Draft(SE3, g, names, self.places, name)
            note_not_finite(draft.problems, x)
            return draft
        return Draft.from_quaternions(self.rows, names, self.places, name)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    vertices, edges, others = _Lines(), _Lines(), dict[str, int]()
    seen: dict[str, int] = {}
    for line, text in source.lines():
        if not text.strip() or text.lstrip().startswith("#"):
            continue
        column, tag = fields(text)[0] if text[0].isspace() else (1, text.split(maxsplit=1)[0])
        if tag in _VERTICES:
            vertices.add(source, line, text, _VERTICES[tag], 1)
            name = vertices.ids[-1][0]
            if name in seen:
                problem = f"vertex {quoted(name)} was given in line {seen[name]} already. Drop one."
                raise source.error(problem, line, column)
            seen[name] = line
        elif tag in _EDGES:
            edges.add(source, line, text, _EDGES[tag], 2)
        elif _TAG.fullmatch(tag):
            others[tag] = others.get(tag, 0) + 1
        else:
            problem = f"{quoted(tag)} is no kind of line; expected VERTEX_SE2, VERTEX_SE3:QUAT, ..."
            raise source.error(problem, line, column)
    if others:
        listed = ", ".join(f"{count} {tag}" for tag, count in others.items())
        notes.append(f"left out lines that hold no pose: {listed}.")
    if vertices.rows:
        return [vertices.draft(stem(source.path))]
    if edges.rows:
        return [_composed(source, edges, notes)]
    return []


def _composed(source: Source, edges: _Lines, notes: list[str]) -> Draft:
    """Poses along the edges, from the first vertex on."""
    steps = edges.draft(stem(source.path))
    if steps.problems:
        index, problem = min(steps.problems.items())
        raise source.error(problem, *edges.places[index])
    start = edges.ids[0][0]
    poses, places = {start: steps.group.identity(dtype=torch.float64)}, {start: edges.places[0]}
    unreached = 0
    for (a, b), step, place in zip(edges.ids, steps.matrices, edges.places, strict=True):
        if a in poses and b not in poses:
            poses[b], places[b] = poses[a] @ step, place
        elif a not in poses:
            unreached += 1
    # Thousands of products drift; the group's own projection takes that off.
    group = SE2 if edges.kind == _PLANE else SE3
    g = group.project(torch.stack(list(poses.values())))
    notes.append(f"has no vertices: {len(poses)} poses are composed from edges, from {start} on.")
    if unreached:
        notes.append(f"{unreached} edges start at vertices that no edge before them leads to.")
    return Draft(group, g, list(poses), list(places.values()), steps.name)


FORMAT = Format(
    "g2o",
    "g2o pose graph",
    (".g2o", ".graph"),
    "SE(2) or SE(3), the vertices as one set",
    _sniff,
    _read,
)
