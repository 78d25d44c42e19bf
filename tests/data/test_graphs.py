"""Pose graphs and LDraw: edges in any direction, tags of others, rows that only look like parts."""

from __future__ import annotations

import random
from pathlib import Path

import pytest
import torch

import lieattn as la
from lieattn import data

ROW = "{} 1 0 0 0 0 0 1\n"


def read(folder: Path, name: str, text: str) -> data.PoseSets:
    (folder / name).write_text(text)
    return data.read(folder / name)


# ---- g2o -------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "edge", ["EDGE_SE2 0 1 nan 0 0", "EDGE3 0 1 0 0 0 nan 0 0", "EDGE_SE3:QUAT 0 1 0 0 0 0 0 inf 1"]
)
@pytest.mark.parametrize("bad", ["error", "mask"])
def test_an_edge_that_is_none_is_to_be_dropped(edge: str, bad: str, tmp_path: Path) -> None:
    (tmp_path / "a.g2o").write_text(f"{edge}\n")
    with pytest.raises(data.DataError, match=r"line 1, .*NaN or infinity.*drop the line") as caught:
        data.read(tmp_path / "a.g2o", bad=bad)
    assert "--bad mask" not in str(caught.value)


def test_vertices_of_unknown_kinds_are_named(tmp_path: Path) -> None:
    message = "holds no poses: found VERTEX_SE3:EULER, FIX; expected lines VERTEX_SE2, .*EDGE3"
    with pytest.raises(data.DataError, match=message):
        read(tmp_path, "a.g2o", "VERTEX_SE3:EULER 0 0 0 0 0 0 0\nFIX 0\n")


@pytest.mark.parametrize("shuffled", [False, True])
def test_edges_in_any_direction_and_order_are_composed(shuffled: bool, tmp_path: Path) -> None:
    torch.manual_seed(0)
    expected = la.SE2.random(20, dtype=torch.float64)
    expected = la.SE2.inverse(expected[:1]) @ expected
    rng = random.Random(0)
    lines = []
    for i in range(19):
        a, b = rng.choice(((i, i + 1), (i + 1, i)))
        step = la.SE2.to_xy_theta(la.SE2.inverse(expected[a]) @ expected[b])
        lines.append(f"EDGE_SE2 {a} {b} " + " ".join(map(repr, step.tolist())))
    if shuffled:
        rng.shuffle(lines)
    sets = read(tmp_path, "a.g2o", "\n".join([*lines, ""]))
    order = [int(name) for name in sets[0].names]
    assert sorted(order) == list(range(20))
    torch.testing.assert_close(
        sets[0].poses, la.SE2.inverse(expected[order[:1]]) @ expected[order], atol=1e-9, rtol=0
    )
    assert len(sets.notes) == 1


def test_edges_that_are_not_connected_are_noted_and_most_of_them_refused(tmp_path: Path) -> None:
    edges = [f"EDGE_SE2 {i} {i + 1} 1 0 0" for i in (0, 1, 2, 10, 11, 20, 21)]
    sets = read(tmp_path, "a.g2o", "\n".join([*edges[:5], ""]))
    assert sets[0].names == ("0", "1", "2", "3")
    assert sets.notes[1] == "edges that are not connected with 0 are left out: 2."
    with pytest.raises(data.DataError, match="4 of 7 edges are not connected with vertex '0'"):
        read(tmp_path, "a.g2o", "\n".join([*edges, ""]))


def test_lines_of_other_kinds_among_vertices_hide_no_graph(tmp_path: Path) -> None:
    text = "VERTEX_SE2 0 0 0 0\nROBOTLASER1 0 1 2 3\nVERTEX_SE2 1 1 0 0.5\nFIX 0\n"
    sets = read(tmp_path, "a.txt", text)
    assert (sets.format, sets.why) == ("g2o", "by its contents")
    assert len(sets[0]) == 2


# ---- LDraw -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "text",
    [
        "0 1 0 0 0 0 0 1 lost\n" + "".join(ROW.format(i) for i in (1, 2, 3)),
        "0 1 0 0 0 0 0 1 # start\n" + ROW.format(1) + ROW.format(2),
        "0 1 0 0 0 0 0 1 # start\n" + ROW.format(2) + ROW.format(3),
        "0 1 0 0 0 0 0 1 # start\n" + ROW.format(2),
    ],
)
def test_rows_of_whole_seconds_are_no_parts(text: str, tmp_path: Path) -> None:
    try:
        found = read(tmp_path, "a.txt", text).format
    except data.DataError as error:
        found = "ldraw" if "Read as LDraw" in str(error) else "another"
    assert found != "ldraw"
