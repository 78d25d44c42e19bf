""".npz and .npy: what is read, and what is refused without being loaded."""

from __future__ import annotations

import io
import os
import pickle
import struct
import tracemalloc
import zipfile
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from real_files import BY_NAME

import lieattn as la
from lieattn import data

# ---- what is read ----------------------------------------------------------------------------


def test_npz_knows_the_group_or_guesses_it(group: la.Group, tmp_path: Path) -> None:
    path, g = tmp_path / "x.npz", group.random(2, 5, dtype=torch.float64)
    np.savez(path, poses=g.numpy(), group=np.array(group.name))
    assert data.read(path).group is group
    if {block.kind for block in group.blocks} == {"translation"}:
        return  # the next file may turn
    np.savez(path, poses=g.float().numpy())
    assert data.read(path).group is group
    np.savez(path, poses=g[0].numpy())
    (only,) = data.read(path)
    assert torch.equal(only.poses, g[0])
    np.save(tmp_path / "x.npy", g.numpy())
    assert len(data.read(tmp_path / "x.npy")) == 2


def test_turns_about_z_may_be_of_two_groups(tmp_path: Path) -> None:
    path, g = tmp_path / "x.npz", la.SO3.identity(4, dtype=torch.float64)
    np.savez(path, poses=g.numpy())
    (note,) = data.read(path).notes
    assert "group='SO3' (--group SO3)" in note
    assert data.read(path, group="SO3").group is la.SO3
    g[0, 0, 2] = 1.0  # a translation: of SE(2) alone
    np.savez(path, poses=g.numpy())
    assert data.read(path).notes == ()


def test_poses_that_do_not_turn_yet_are_of_a_group_that_turns(tmp_path: Path) -> None:
    path = tmp_path / "x.npz"
    for straight, guess in ((la.T2, la.SE2), (la.T3, la.SE3)):
        for count in (1, 5):
            np.savez(path, poses=straight.random(count, dtype=torch.float64).numpy())
            assert data.read(path).group is guess
            assert data.read(path, group=straight.name).group is straight


def test_small_turns_are_not_taken_for_rounding(tmp_path: Path) -> None:
    rows = torch.tensor([[0.0, 0, 0], [1, 0, 3e-4], [2, 0, 6e-4]], dtype=torch.float64)
    g = la.SE2.from_xy_theta(rows)
    np.savez(tmp_path / "x.npz", poses=g.numpy())
    (walk,) = data.read(tmp_path / "x.npz")
    assert (walk.group, torch.equal(walk.poses, g)) == (la.SE2, True)


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


# ---- what is refused -------------------------------------------------------------------------


class Bomb:
    """Unpickled, it makes a file."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def __reduce__(self) -> Any:
        return os.mkdir, (str(self.path),)


def test_pickled_objects_are_never_loaded(tmp_path: Path) -> None:
    objects = np.array([Bomb(tmp_path / "boom")], dtype=object)
    for arrays in ({"poses": objects}, {"poses": np.eye(3)[None], "names": objects}):
        np.savez(tmp_path / "a.npz", **arrays)
        with pytest.raises(data.DataError, match="holds pickled Python objects, which are never"):
            data.read(tmp_path / "a.npz")
    assert not (tmp_path / "boom").exists()
    with (tmp_path / "b.npz").open("wb") as file:
        pickle.dump(Bomb(tmp_path / "boom"), file)
    with pytest.raises(data.DataError):
        data.read(tmp_path / "b.npz")
    assert not (tmp_path / "boom").exists()


def test_objects_beside_the_poses_are_passed_over(tmp_path: Path) -> None:
    objects = np.array([Bomb(tmp_path / "boom")], dtype=object)
    np.savez(tmp_path / "a.npz", poses=np.eye(3)[None], settings=objects)
    assert data.read(tmp_path / "a.npz").notes[0] == "left out arrays of other names: settings."
    assert not (tmp_path / "boom").exists()


def test_zip_bombs_are_refused_by_what_they_claim(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    header = io.BytesIO()
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": (10**6, 4, 4)}
    )
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr("poses.npy", header.getvalue() + bytes(8 * 16 * 10**6))
    assert path.stat().st_size < 10**6
    tracemalloc.start()
    with pytest.raises(data.DataError, match="is 128 MB when unpacked; the limit is 50 MB"):
        data.read(path, limit=50_000_000)
    assert tracemalloc.get_traced_memory()[1] < 3e7
    tracemalloc.stop()


def test_archives_that_lie_about_sizes_are_damaged(tmp_path: Path) -> None:
    path = tmp_path / "a.npz"
    np.savez_compressed(path, poses=np.zeros((10**5, 4, 4)))
    raw = path.read_bytes()
    size = struct.pack("<I", 12_800_128)
    assert size in raw
    path.write_bytes(raw.replace(size, struct.pack("<I", 200)))
    with pytest.raises(data.DataError, match="damaged"):
        data.read(path)


@pytest.mark.parametrize(
    ("arrays", "message"),
    [
        ({"points": np.eye(3)[None]}, r"has no array 'poses' .*; it holds points"),
        ({"poses": np.zeros((5, 7))}, r"poses are \[5, 7\], expected .*TUM"),
        ({"poses": np.zeros((0, 4, 4))}, r"poses are \[0, 4, 4\]: there are none"),
        ({"poses": np.zeros((2, 0, 4, 4))}, "there are none"),
        ({"poses": np.array([["a"]])}, "poses are of dtype <U1, expected float64"),
        ({"poses": np.eye(4)[None].astype(complex)}, "of dtype complex128"),
        ({"poses": np.eye(5)[None]}, "matrices are 5 x 5; .* 2, 3 or 4"),
        ({"poses": np.eye(3)[None], "group": np.array("SE9")}, "its group is 'SE9': unknown"),
        ({"poses": np.eye(3)[None], "group": np.array("SE3")}, r"\[..., 3, 3\], those of its SE"),
        ({"poses": np.eye(3)[None], "mask": np.ones(1)}, r"mask is float64 \[1\], expected bool"),
        ({"poses": np.eye(3)[None], "mask": np.zeros(1, bool)}, "all are masked"),
        ({"poses": np.eye(3)[None], "names": np.array(["a", "b"])}, r"names are <U1 \[2\], exp"),
        ({"poses": np.eye(3)[None] * np.nan}, "a, pose 0: the pose holds NaN"),
        ({"poses": np.zeros((2, 1, 4, 4)) + np.diag([0, 1, 1, 1])}, "set 0, pose 0: .*singular"),
    ],
)
def test_arrays_that_are_no_poses(
    arrays: dict[str, np.ndarray], message: str, tmp_path: Path
) -> None:
    np.savez(tmp_path / "a.npz", **arrays)
    with pytest.raises(data.DataError, match=message):
        data.read(tmp_path / "a.npz")


def test_headers_that_ask_for_terabytes_are_refused(tmp_path: Path) -> None:
    header = io.BytesIO()
    shape = (10**12, 4, 4)
    np.lib.format.write_array_header_1_0(
        header, {"descr": "<f8", "fortran_order": False, "shape": shape}
    )
    (tmp_path / "a.npy").write_bytes(header.getvalue() + b"\0" * 64)
    with pytest.raises(data.DataError, match=r"should be \[1000000000000, 4, 4\] of float64, but"):
        data.read(tmp_path / "a.npy")


@pytest.mark.parametrize(
    ("dtype", "shape", "message"),
    [
        ("<U0", f"({10**15},)", "of no possible size"),
        ("<f8", "(True, 4, 4)", "of no possible size"),
        ("<f8", "(-1, 4, 4)", "of no possible size"),
        ("<f8", f"(0, {2**70})", "of no possible size"),
        ("<f8", f"(0, 0x{'f' * 5000})", "of no possible size"),
        ("<f8", f"(0, {2**62}, {2**62})", "too big"),
        ("<f8", f"({'0, ' * 70})", "maximum supported dimension"),
    ],
)
@pytest.mark.parametrize("entry", ["poses", "names"])
def test_headers_of_no_possible_size_are_refused(
    dtype: str, shape: str, message: str, entry: str, tmp_path: Path
) -> None:
    header = f"{{'descr': '{dtype}', 'fortran_order': False, 'shape': {shape}}}\n".encode()
    array = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(header)) + header
    array += bytes(8 * 16 if "True" in shape else 0)
    path = tmp_path / "a.npy"
    path.write_bytes(array)
    if entry != "poses":
        path = tmp_path / "a.npz"
        np.savez(path, poses=np.eye(3)[None])
        with zipfile.ZipFile(path, "a") as archive:
            archive.writestr(f"{entry}.npy", array)
    with pytest.raises(data.DataError, match=message) as caught:
        data.read(path)
    assert "is damaged" in str(caught.value)


def test_an_interrupted_save_leaves_what_was_there(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    sets = data.read(BY_NAME["klaus3.g2o"])
    data.save(tmp_path / "a.npz", sets)
    before = (tmp_path / "a.npz").read_bytes()

    def fail(file: Any, **arrays: Any) -> None:
        file.write(b"half")
        raise KeyboardInterrupt

    monkeypatch.setattr(np, "savez_compressed", fail)
    with pytest.raises(KeyboardInterrupt):
        data.save(tmp_path / "a.npz", sets)
    assert [x.name for x in tmp_path.iterdir()] == ["a.npz"]
    assert (tmp_path / "a.npz").read_bytes() == before
