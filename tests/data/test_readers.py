"""Every reader on real files; every format joins by itself."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
from pathlib import Path

import pytest
import torch
from real_files import BY_NAME, FILES

import lieattn as la
from lieattn import data

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
    data.register(mine)  # the same object again
    try:
        (tmp_path / "x.json").write_text("[0.5, 1.5]")
        sets = data.read(tmp_path / "x.json")
        assert (sets.format, sets.why, len(sets[0])) == ("angles", "by its name alone", 2)
    finally:
        del data.reading._FORMATS["angles"]


def test_a_format_does_not_replace_another() -> None:
    known = data.formats()["tum"]
    mine = data.Format("tum", "mine", (".x",), "SO(2)", lambda head, text: False, known.read)
    try:
        with pytest.raises(ValueError, match=r"'tum' is taken by TUM.*name, such as 'my-tum'"):
            data.register(mine)
        assert data.formats()["tum"] is known
    finally:
        data.reading._FORMATS["tum"] = known


def test_reading_text_loads_no_library() -> None:
    code = (
        "import sys, torch; before = set(sys.modules); import lieattn as la; "
        f"[la.data.read(x) for x in {[str(x) for x in FILES if x.suffix not in ('.npz', '.cif')]}];"
        "print([m for m in ('numpy', 'gemmi') if m in set(sys.modules) - before])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)
    assert done.stdout.strip() == "[]", done.stderr
