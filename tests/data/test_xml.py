"""SVG and URDF: origins, entities, overflows, quaternions and xacro that was not expanded."""

from __future__ import annotations

import codecs
from pathlib import Path

import pytest
import torch
from scipy.spatial.transform import Rotation
from test_drawings import by_hand

from lieattn import data

SVG = '<svg xmlns="http://www.w3.org/2000/svg">{}</svg>'
ROBOT = '<robot name="r"><link name="a"/><link name="b"/>{}</robot>'
JOINT = '<joint name="j"><parent link="a"/><child link="b"/><origin xyz="1 2 3" {}/></joint>'


def read(folder: Path, name: str, text: str) -> data.PoseSets:
    (folder / name).write_text(text)
    return data.read(folder / name)


# ---- drawings --------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "origin",
    [
        'transform-origin="50 20"',
        'transform-origin="50px 20px 0"',
        'transform-origin="9 9" style="fill:red; transform-origin: 50px 20px"',
    ],
)
def test_transforms_are_about_their_origin(origin: str, tmp_path: Path) -> None:
    body = f'<g transform="scale(3)"><g transform="rotate(90) skewX(10)" {origin}/></g>'
    sets = read(tmp_path, "a.svg", SVG.format(body))
    expected = "scale(3) translate(50 20) rotate(90) skewX(10) translate(-50 -20)"
    torch.testing.assert_close(sets[0].poses[1], torch.from_numpy(by_hand(expected)))
    assert sets.notes == ()


def test_gradients_are_about_their_origin(tmp_path: Path) -> None:
    body = '<pattern patternTransform="scale(2)" transform-origin="5 7"/>'
    (drawing,) = read(tmp_path, "a.svg", SVG.format(body))
    assert drawing.poses[0, :2, 2].tolist() == [-5, -7]


@pytest.mark.parametrize(
    ("body", "note"),
    [
        ('<g transform="scale(2)" transform-origin="50% 50%"/>', "transform-origins"),
        ('<g transform="scale(2)" transform-origin="center"/>', "transform-origins"),
        ('<g transform="scale(2)" transform-origin="1e400 0"/>', "transform-origins"),
        ('<g transform="scale(2)" style="transform-box: fill-box"/>', "transform-origins"),
        ('<g style="transform: rotate(9deg)"><g transform="scale(2)"/></g>', "transforms in style"),
        ('<svg x="9"><g transform="scale(2)"/></svg>', "<svg> in others"),
        ('<use x="9" href="#a"/><g transform="scale(2)"/>', "<use> with x or y"),
        (
            '<svg viewBox="0 0 1 1"><g transform="scale(2)"/></svg>',
            "<svg> in others with x, y or viewBox",
        ),
    ],
)
def test_what_is_not_taken_into_account_is_noted(body: str, note: str, tmp_path: Path) -> None:
    sets = read(tmp_path, "a.svg", SVG.format(body))
    torch.testing.assert_close(sets[0].poses[0], torch.from_numpy(by_hand("scale(2)")))
    assert len(sets.notes) == 1
    assert sets.notes[0].startswith(f"not taken into account, so frames may be off: {note}")
    assert sets.notes[0].endswith(" (1).")


def test_what_moves_nothing_is_not_noted(tmp_path: Path) -> None:
    body = (
        '<svg x="0" y="0px" width="5"><g transform="translate(2)" transform-origin="50% 50%"/>'
        '<g transform-origin="center" style="transform: none"/></svg><svg y="-1"/><use x="0"/>'
    )
    sets = read(tmp_path, "a.svg", SVG.format(body).replace("<svg ", '<svg viewBox="0 0 9 9" ', 1))
    assert len(sets.notes) == 1
    assert "<svg> in others with x, y or viewBox (1)." in sets.notes[0]


@pytest.mark.parametrize("text", ["rotate(1e400)", "scale(1 -1e400)", "skewX(1e400)"])
def test_numbers_that_overflow_are_named(text: str, tmp_path: Path) -> None:
    number = text.strip(")").rpartition(" ")[2].rpartition("(")[2]
    body = f'\n<g transform="{text}"/>'
    with pytest.raises(
        data.DataError, match=f"'{number}' is too large .*transform of <g>"
    ) as caught:
        read(tmp_path, "a.svg", SVG.format(body))
    assert (caught.value.line, caught.value.column) == (2, 15 + text.index(number))


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16"])
def test_few_entities_that_make_much_of_a_file_are_refused(encoding: str, tmp_path: Path) -> None:
    doctype = f'<!DOCTYPE svg [<!ENTITY a "{"x" * 256}">]>\n'
    text = doctype + SVG.format(f'<g id="{"&a;" * 40_000}" transform="scale(2)"/>')
    (tmp_path / "a.svg").write_text(text, encoding=encoding)
    with pytest.raises(data.DataError, match=r"line 1, .*the entity 'a' .* 40000 references"):
        data.read(tmp_path / "a.svg")


def test_names_of_long_ids_are_cut(tmp_path: Path) -> None:
    body = f'<g id="{"x" * 100_000}" transform="scale(2)"/>'
    (drawing,) = read(tmp_path, "a.svg", SVG.format(body))
    assert drawing.names == ("g " + "x" * 118,)


@pytest.mark.parametrize("encoding", ["utf-8", "utf-16-le", "utf-16-be"])
def test_a_byte_order_mark_is_no_column(encoding: str, tmp_path: Path) -> None:
    text = '<svg><g/><g transform="turn(3)"/></svg>'
    (tmp_path / "a.svg").write_bytes(f"\ufeff{text}".encode(encoding))
    with pytest.raises(data.DataError, match="'turn' is no transform") as caught:
        data.read(tmp_path / "a.svg")
    # Attributes of UTF-16 are not looked for: the element is named instead.
    column = text.index("turn") if encoding == "utf-8" else text.index("<g transform")
    assert (caught.value.line, caught.value.column) == (1, column + 1)
    (tmp_path / "a.svg").write_bytes(codecs.BOM_UTF8 + b'<svg><g transform=""></svg>')
    with pytest.raises(data.DataError, match=r"line 1, column 24: .*mismatched tag"):
        data.read(tmp_path / "a.svg")


# ---- robots ----------------------------------------------------------------------------------


def test_an_origin_may_have_a_quaternion(tmp_path: Path) -> None:
    q = (0.1, -0.5, 0.7, 0.5)
    text = ROBOT.format(JOINT.format('quat_xyzw="{} {} {} {}"'.format(*q)))
    (robot,) = read(tmp_path, "a.urdf", text)
    expected = torch.from_numpy(Rotation.from_quat(q).as_matrix())
    torch.testing.assert_close(robot.poses[1, :3, :3], expected)
    assert robot.poses[1, :3, 3].tolist() == [1, 2, 3]


@pytest.mark.parametrize(
    ("attribute", "message"),
    [
        (
            'quat_wxyz="1 0 0 0"',
            "<origin> has 'quat_wxyz', which is not read; expected xyz and rpy",
        ),
        ('axis="1 0 0"', "<origin> has 'axis', which is not read"),
        ('quat_xyzw="0 0 0"', "3 numbers in quat_xyzw, expected 4"),
        ('quat_xyzw="0 0 0 2"', "the quaternion has norm 2, expected 1"),
        ('quat_xyzw="nan 0 0 1"', "the quaternion has norm nan, expected 1"),
        ('quat_xyzw="0 0 0 1" rpy="0 0 0"', "has both rpy and quat_xyzw. Drop one"),
    ],
)
def test_other_rotations_are_refused(attribute: str, message: str, tmp_path: Path) -> None:
    text = ROBOT.format(JOINT.format(attribute))
    with pytest.raises(data.DataError, match=message) as caught:
        read(tmp_path, "a.urdf", text)
    value = text.index('"', text.index(attribute)) + 1
    assert (caught.value.line, caught.value.column) == (1, value + 1)


@pytest.mark.parametrize(
    ("body", "word"),
    [
        ('<xacro:arm prefix="l"/>', "<xacro:arm>"),
        ('<link name="c"><xacro:insert_block name="x"/></link>', "<xacro:insert_block>"),
        ('<link name="${prefix}c"/>', r"'\${prefix}c'"),
        ('<link name="$(arg c)"/>', r"'\$\(arg c\)'"),
        ('<joint name="j"><parent link="${a}"/></joint>', r"'\${a}'"),
        ('<joint name="j"><child link="${a}"/></joint>', r"'\${a}'"),
    ],
)
def test_xacro_must_be_expanded_first(body: str, word: str, tmp_path: Path) -> None:
    message = rf"line 1, column \d+: {word} is of xacro. Expand it first: xacro file > robot.urdf"
    with pytest.raises(data.DataError, match=message):
        read(tmp_path, "a.urdf", ROBOT.format(body))


def test_a_link_that_is_missing_can_be_added(tmp_path: Path) -> None:
    text = ROBOT.format(JOINT.format("").replace('"a"', '"world"'))
    with pytest.raises(data.DataError, match=r'is no link. Mend .* or add <link name="world"/>'):
        read(tmp_path, "a.urdf", text)
    assert len(read(tmp_path, "a.urdf", text.replace('="a"', '="world"'))[0]) == 2
