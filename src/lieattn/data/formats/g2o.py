"""Pose graphs: g2o, and TORO's older names for the same lines.

Poses are those of the vertices. A file of edges alone, such as plain odometry, is composed from
its first vertex on, in the order of its lines; edges that lead to what is known are inverted.
"""

from __future__ import annotations

import re
from array import array

import torch
from torch import Tensor

from ..._core.text import listed, printable, quoted
from ...groups import SE2, SE3
from .._draft import NOT_FINITE, Draft, Place, note_not_finite, roll_pitch_yaw, table
from .._numbers import fields, row, whole_lines
from .._source import Source, stem
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
_KNOWN = re.compile(r"(VERTEX|EDGE|FIX|PARAMS|ODOMETRY|LANDMARK|EQUIV)[A-Z0-9_:]*")


def _sniff(head: bytes, text: str) -> bool:
    first = [x.split()[0] for x in whole_lines(text)[:20]]
    # Scans of lasers and lines of others' kinds may stand between those that are known.
    return all(_TAG.fullmatch(x) for x in first) and any(_KNOWN.fullmatch(x) for x in first)


class _Lines:
    """Poses of one kind of line: ids, how they are written, numbers, places."""

    def __init__(self) -> None:
        self.kind = ""
        self.ids: list[tuple[str, ...]] = []
        self.rows = array("d")
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
        self.rows.extend(row(source, line, text, count, expects, skip=1 + ids, more=ids == 2))
        self.ids.append(tuple(names))
        self.places.append((line, column))

    def draft(self, name: str) -> Draft:
        names = [ids[-1] for ids in self.ids]
        if self.kind == _PLANE:
            return Draft.from_xy_theta(self.rows, names, self.places, name)
        if self.kind == _ANGLES:
            x = table(self.rows, 6)
            g = SE3.from_parts(roll_pitch_yaw(x[:, 3:]), x[:, :3])
            draft = Draft(SE3, g, names, self.places, name)
            note_not_finite(draft.problems, x)
            return draft
        return Draft.from_quaternions(self.rows, names, self.places, name)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    vertices, edges, others = _Lines(), _Lines(), dict[str, int]()
    seen: dict[str, int] = {}
    for line, text in source.lines():
        if text.lstrip().startswith("#"):
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
        some = listed([f"{count} {tag}" for tag, count in others.items()])
        notes.append(f"left out lines that hold no pose: {some}.")
    if vertices.rows:
        return [vertices.draft(stem(source.path))]
    if edges.rows:
        return [_composed(source, edges, notes)]
    if others:
        known = ", ".join((*_VERTICES, *_EDGES))
        raise source.error(f"holds no poses: found {listed(list(others))}; expected lines {known}.")
    return []


def _composed(source: Source, edges: _Lines, notes: list[str]) -> Draft:
    """Poses along the edges, from the first vertex on."""
    steps = edges.draft(stem(source.path))
    if steps.problems:
        index, problem = min(steps.problems.items())
        if problem == NOT_FINITE:
            problem = (
                "the edge holds NaN or infinity. Poses are composed from edges, as there are no "
                "vertices, so that it cannot be masked: drop the line."
            )
        raise source.error(problem, *edges.places[index])
    group = SE2 if edges.kind == _PLANE else SE3
    rows, g, places = _walk(edges, steps.matrices, group.inverse(steps.matrices))
    lost = [i for i, ids in enumerate(edges.ids) if ids[0] not in rows]
    start = edges.ids[0][0]
    if 2 * len(lost) > len(edges.ids):
        problem = (
            f"{len(lost)} of {len(edges.ids)} edges are not connected with vertex {quoted(start)}, "
            "from which poses are composed. Split the file into its connected parts, or add the "
            "vertices."
        )
        raise source.error(problem, *edges.places[lost[0]])
    # Thousands of products drift; the group's own projection takes that off.
    g = group.project(g)
    first = printable(start, 24)
    notes.append(f"has no vertices: {len(g)} poses are composed from edges, from {first} on.")
    if lost:
        notes.append(f"edges that are not connected with {first} are left out: {len(lost)}.")
    return Draft(group, g, list(rows), places, steps.name)


def _walk(
    edges: _Lines, steps: Tensor, inverses: Tensor
) -> tuple[dict[str, int], Tensor, list[Place]]:
    """Rows of the vertices that are connected with the first, their poses `[V, m, m]`, and the
    places of the edges that lead there.

    Edges of two unknown vertices wait until one is known, so that time is linear.
    """
    rows = {edges.ids[0][0]: 0}
    poses = steps.new_empty(len(steps) + 1, *steps.shape[1:])  # an edge leads to one at most
    poses[0] = torch.eye(steps.shape[-1], dtype=steps.dtype)
    places = [edges.places[0]]
    waiting: dict[str, list[int]] = {}
    for edge in range(len(edges.ids)):
        todo = [edge]
        while todo:
            i = todo.pop()
            a, b = edges.ids[i]
            if (a in rows) == (b in rows):
                if a not in rows:
                    waiting.setdefault(a, []).append(i)
                    waiting.setdefault(b, []).append(i)
                continue
            known, new, step = (a, b, steps[i]) if a in rows else (b, a, inverses[i])
            poses[len(rows)] = poses[rows[known]] @ step
            rows[new] = len(rows)
            places.append(edges.places[i])
            todo.extend(reversed(waiting.pop(new, [])))
    return rows, poses[: len(rows)], places


FORMAT = Format(
    "g2o",
    "g2o pose graph",
    (".g2o", ".graph"),
    "SE(2) or SE(3), the vertices as one set",
    _sniff,
    _read,
)
