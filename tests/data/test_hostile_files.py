"""Files that were made to harm: they take neither time nor memory, and show nothing raw."""

from __future__ import annotations

import gzip
import io
import re
import struct
import subprocess
import sys
import time
import zipfile
from pathlib import Path

import numpy as np
import pytest
import torch
from rich.console import Console

import lieattn as la
from lieattn import data
from lieattn._core.text import listed, printable, quoted
from lieattn.data.formats.mmcif import _chain_name
from lieattn.workflows.inspection.findings import Request
from lieattn.workflows.inspection.run import run

MANY = 10**6
TUM = "0 1 2 3 0 0 0 1\n"
PART = "1 16 0 0 0 1 0 0 0 1 0 0 0 1 a.dat\n"
# A title, a screen that is cleared, a line that is overwritten, text from right to left, markup.
ESCAPES = "\x1b]0;x\x07\x1b[2J\x9b1m\r\u202e\u2066\u200b\x00[red]\n[/]".replace("\x00", "\x7f")


def seconds(path: Path, **options: str) -> tuple[float, str]:
    """How long it takes to read a file, and the error if there is one."""
    start, message = time.process_time(), ""
    try:
        data.read(path, **options)
    except data.DataError as error:
        message = str(error)
    return time.process_time() - start, message


def require_printable(text: str) -> None:
    assert text.replace("\n", "").isprintable(), ascii(text)


# ---- time ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("a.tum", "# " + "(" * MANY + "\n" + TUM),
        ("a.tum", "# " + "(a [b " * (MANY // 6) + "\n" + TUM),
        ("a.csv", "#" + "[" * MANY + "\n0,1,2,3,1,0,0,0,0\n"),
        ("a.ldr", "0 FILE" + " " * MANY + "\n" + PART),
        ("a.tum", "1" * MANY + "x 1 2 3 0 0 0 1\n"),
        ("a.kitti", "1" * 60_000 + "x 0 0 0\n"),
        ("a.g2o", "VERTEX_SE2 0 0 0 " + "1" * MANY + "x\n"),
        ("a.svg", "<svg><g transform-origin='" + "1" * MANY + "x 1' transform='scale(2)'/></svg>"),
    ],
)
def test_long_lines_take_no_time(name: str, text: str, tmp_path: Path) -> None:
    (tmp_path / name).write_text(text)
    assert seconds(tmp_path / name)[0] < 1


@pytest.mark.parametrize("line", [b"\n", b"0 \n"])
def test_millions_of_lines_are_refused_before_they_are_read(line: bytes, tmp_path: Path) -> None:
    path = tmp_path / "a.ldr.gz"
    block = gzip.compress(line * (MANY // len(line)))
    path.write_bytes(gzip.compress(PART.encode()) + block * 250 + gzip.compress(PART.encode()))
    took, message = seconds(path)
    assert took < 8
    assert re.search(r"lines, more than 1,280,000; the limit is 256 MB. .*--limit MB", message)


def test_a_line_of_many_megabytes_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.tum").write_text(TUM + "1 " * (2 * MANY))
    took, message = seconds(tmp_path / "a.tum")
    assert took < 1
    assert "line 2: a line of 4 MB, the longest that is read has 1.05 MB" in message


@pytest.mark.parametrize("bad", ["error", "mask"])
def test_many_sets_are_checked_together(bad: str, tmp_path: Path) -> None:
    g = np.tile(np.eye(4), (50_000, 2, 1, 1))
    g[:, 1, 0, 0] = np.nan if bad == "mask" else 1
    np.savez(tmp_path / "a.npz", poses=g, names=np.full((50_000, 2), "x"))
    start = time.process_time()
    sets = data.read(tmp_path / "a.npz", bad=bad)
    assert time.process_time() - start < 5  # one by one they take twelve and more
    assert len(sets) == 50_000
    assert sets[0].mask.tolist() == sets[-1].mask.tolist() == [True, bad == "error"]
    if bad == "mask":
        assert sets.gaps[0].startswith("1 of 2 poses of set 0 are masked; the first: ")
        assert sets.notes[-1] == "there are notes about 49,000 sets more."


def test_chains_get_names_in_linear_time() -> None:
    names, taken = dict[tuple[str, str], str](), set[str]()
    start = time.process_time()
    found = [_chain_name(names, taken, str(i // 2), str(i % 2)) for i in range(60_000)]
    assert time.process_time() - start < 2
    assert found[:4] == ["0", "0 (1)", "1", "1 (1)"]


@pytest.mark.parametrize(
    ("name", "text", "message"),
    [
        ("a.svg", "<svg>" + "<g/>" * 1_300_000 + "</svg>", "elements, more than 1,280,000"),
        ("a.svg", "<svg " + "a=''" * 1_300_000 + "/>", "attributes, more than 1,280,000"),
        ("a.svg", "<svg>" + "scale(" * 1_300_000 + "</svg>", "transforms, more than 1,280,000"),
        ("a.cif", "data_x\n" + "a " * 11_000_000, "values, more than 10,666,666"),
        ("a.npy", np.zeros((2_100_000, 4, 4), np.int8), "is 269 MB as float64; the limit is 256"),
        ("a.npy", np.zeros((300_000, 1, 2, 2)), "is 300,000 sets, more than 250,000"),
        ("a.urdf", "<robot>" + "<link name='{}'/>" * 251_000 + "</robot>", "links without a joint"),
    ],
)
def test_small_things_in_great_numbers_are_refused(
    name: str, text: str | np.ndarray, message: str, tmp_path: Path
) -> None:
    path = tmp_path / name
    if isinstance(text, str):
        path.write_text(text.format(*range(251_000)) if "{}" in text else text)
    else:
        np.save(path, text)
    took, found = seconds(path)
    assert took < 8
    assert message in found


def test_entities_are_counted_in_any_encoding(tmp_path: Path) -> None:
    head = b"<?xml version='1.0' encoding='cp037'?>"
    text = f"<!DOCTYPE svg [<!ENTITY a '{'x' * 250}'>]><svg><g transform='{'&a;' * 9999}'/></svg>"
    (tmp_path / "a.svg").write_bytes(head + text.encode("cp037"))
    with pytest.raises(data.DataError, match=r"its encoding 'cp037' is not read. Save .* as UTF-8"):
        data.read(tmp_path / "a.svg")


# ---- npz -------------------------------------------------------------------------------------


def archive(method: int = zipfile.ZIP_DEFLATED, content: bytes | None = None) -> bytes:
    """An .npz of two poses."""
    array, raw = io.BytesIO(), io.BytesIO()
    np.save(array, np.tile(np.eye(4), (2, 1, 1)))
    with zipfile.ZipFile(raw, "w", method) as file:
        file.writestr("poses.npy", array.getvalue() if content is None else content)
    return raw.getvalue()


def header(text: str) -> bytes:
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text.encode("latin-1") + bytes(256)


NO_ARRAY = "'poses' is no array of numpy that can be read"
DIRECTORY = b"PK\x01\x02"


def patched(raw: bytes, local: int, central: int, value: bytes) -> bytes:
    """An archive with other bytes in the header of its only member and in the directory."""
    at = raw.index(DIRECTORY) + central
    out = raw[:at] + value + raw[at + len(value) :]
    return out[:local] + value + out[local + len(value) :]


@pytest.mark.parametrize(
    ("name", "raw", "message"),
    [
        ("a.npy", header("{'descr': '<f8', 'fortran_order': False, 'shape': (2,4,4\n"), NO_ARRAY),
        ("a.npy", header("{'descr': '''\n"), NO_ARRAY),
        ("a.npy", header("(" * 9000), NO_ARRAY),
        ("a.npy", header("-" * 9000), NO_ARRAY),
        (
            "a.npy",
            header("{'descr': [('a', '|O')], 'fortran_order': False, 'shape': (2,)}"),
            "never",
        ),
        ("a.npy", header("{'descr': 'a5', 'fortran_order': False, 'shape': (2,)}"), "of |S5, but"),
        ("a.npy", header("{'descr': '<f3', 'fortran_order': False, 'shape': (2,)}"), NO_ARRAY),
        (
            "a.npy",
            header("{'descr': '<U99999999999', 'fortran_order': False, 'shape': (2,)}"),
            NO_ARRAY,
        ),
        ("a.npy", header(f"{' ' * 20_000}"), NO_ARRAY),
        ("a.npy", b"\x93NUMPY\x02\x00\xff\xff\xff\xff{}", NO_ARRAY),
        ("a.npy", b"\x93NUMPY\x09\x00\x00\x00", NO_ARRAY),
        ("a.npz", archive(zipfile.ZIP_LZMA), "is packed by method 14 of zip, expected what numpy"),
        ("a.npz", archive(zipfile.ZIP_BZIP2), "is packed by method 12"),
        ("a.npz", archive().replace(b"poses.npy", b"p\x1b[2J.npy"), r"it holds p\x1b[2J."),
        ("a.npz", patched(archive(), 6, 8, b"\1\0"), "is encrypted"),
        ("a.npz", patched(archive(), 8, 10, b"\x63\0"), "is packed by method 99"),
        ("a.npz", archive().replace(DIRECTORY, DIRECTORY * 2000), "holds 2,000 arrays, more than"),
    ],
)
def test_arrays_and_archives_that_lie(name: str, raw: bytes, message: str, tmp_path: Path) -> None:
    (tmp_path / name).write_bytes(raw)
    with pytest.raises(data.DataError) as caught:
        data.read(tmp_path / name)
    assert message in str(caught.value)
    require_printable(str(caught.value))


def test_damaged_members_of_other_methods_are_refused(tmp_path: Path) -> None:
    raw = bytearray(archive(zipfile.ZIP_LZMA, np.random.default_rng(0).bytes(5000)))
    raw[2000:2010] = b"x" * 10
    (tmp_path / "a.npz").write_bytes(raw)
    with pytest.raises(data.DataError, match="is packed by method 14"):
        data.read(tmp_path / "a.npz")


def test_an_array_that_comes_twice_is_refused(tmp_path: Path) -> None:
    np.savez(tmp_path / "a.npz", poses=np.eye(4)[None])
    with zipfile.ZipFile(tmp_path / "a.npz", "a") as file:
        file.writestr("poses", b"")
    with pytest.raises(data.DataError, match="holds 'poses' twice"):
        data.read(tmp_path / "a.npz")


def test_headers_of_other_writers_are_read(tmp_path: Path) -> None:
    g = np.tile(np.eye(4), (2, 1, 1))
    for text in (
        "{'shape': (2L, 4L, 4L), 'fortran_order': False, 'descr': '<f8'}",
        "{'descr':'<f8','fortran_order':False,'shape':(2,4,4,),}   \n",
    ):
        (tmp_path / "a.npy").write_bytes(header(text)[:-256] + g.tobytes())
        assert data.read(tmp_path / "a.npy")[0].poses.shape == (2, 4, 4)


PEAK = """
import sys
from lieattn import data

def peak():  # of this process; getrusage has that of the parent too
    text = open("/proc/self/status").read()
    return int(text.split("VmHWM:")[1].split()[0]) // 1024

before = peak()
try:
    data.read(sys.argv[1])
except data.DataError as error:
    print(error)
print(peak() - before)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="reads /proc")
def test_a_directory_that_lies_about_sizes_takes_no_memory(tmp_path: Path) -> None:
    size = 300_000_000
    raw = archive(content=bytes(size)).replace(struct.pack("<I", size), struct.pack("<I", 200))
    (tmp_path / "a.npz").write_bytes(raw)
    command = [sys.executable, "-c", PEAK, str(tmp_path / "a.npz")]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    message, peak = done.stdout.splitlines()
    assert "is damaged" in message
    assert int(peak) < 100  # MB


# ---- what is shown ---------------------------------------------------------------------------


def test_foreign_text_is_escaped_and_cut() -> None:
    shown = printable(ESCAPES)
    require_printable(shown)
    assert "\n" not in shown
    assert shown.startswith(r"\x1b]0;x\x07\x1b[2J\x9b1m\r\u202e\u2066\u200b")
    assert printable(shown) == shown
    assert len(printable("\x1b" * MANY)) == 120
    assert len(quoted("a" * MANY)) == 26
    assert listed([ESCAPES] * MANY, 1).endswith(" and 999,999 more")
    require_printable(listed([ESCAPES] * MANY))


def shown_by(path: Path, plot: Path | None = None) -> str:
    """What `lieattn data` prints of a file, masked or not, with a picture."""
    out = io.StringIO()
    console = Console(file=out, width=100)
    for bad in ("error", "mask"):
        errors = run(Request([path, path], bad=bad), console, plot=plot)
        errors += run(Request([path], bad=bad), console)
        out.write("".join(errors))
    run(Request([path]), console, as_json=True)
    for x in (lambda: repr(data.read(path)), lambda: repr(data.read(path)[0])):
        try:
            out.write(x())
        except data.DataError as error:
            out.write(f"{error} {error.problem}")
    return out.getvalue()


def hostile_npz(path: Path, text: str) -> None:
    g = np.tile(np.eye(4), (3, 2, 1, 1))
    g[0, 1, 0, 3] = np.nan
    g[1, 1, 0, 0] = 3
    g[2] = np.nan
    names = np.full((3, 2), text)
    np.savez(path, poses=g, names=names, set_names=names[:, 0], sources=names[:, 0], group="SE3")
    with zipfile.ZipFile(path, "a") as file:
        file.writestr(text.replace("\x00", ""), b"")


@pytest.mark.parametrize("kind", ["npz", "group", "ldr", "g2o", "tags", "cif", "svg", "urdf"])
def test_no_string_of_a_file_is_shown_raw(kind: str, tmp_path: Path) -> None:
    path = tmp_path / f"a\x1b[2J\u202e.{kind}"
    bare = "".join(c for c in ESCAPES if not c.isspace())
    bad = PART.replace("1 0 0 0 1 0 0 0 1", "nan 0 0 0 1 0 0 0 1")
    if kind == "npz":
        hostile_npz(path, ESCAPES)
    elif kind == "group":
        np.savez(path, poses=np.eye(4)[None], group=ESCAPES)
    elif kind == "ldr":
        path.write_text(f"0 FILE {bare}\n{PART}{bad.replace('a.dat', bare)}")
    elif kind == "g2o":
        edge = "EDGE_SE2 {} {} 1 0 0\n"
        path.write_text(edge.format(bare, "b") * 2 + edge.format("c", "d") + f"EDGE2 {bare} 1 0\n")
    elif kind == "tags":
        path.write_text("VERTEX_SE2 0 1 2 3\n" + "".join(f"TAG_{i} 1\n" for i in range(5000)))
    elif kind == "cif":
        pytest.importorskip("gemmi")
        tags = "label_atom_id label_comp_id Cartn_x Cartn_y Cartn_z auth_asym_id auth_seq_id"
        head = "".join(f"_atom_site.{tag}\n" for tag in tags.split())
        row = f"{{}} '\u202e' {{}} {{}} 1 '\u202e{'x' * 5000}' {{}}\n"
        rows = [row.format(a, x, y, 1) for a, x, y in (("N", 1, 0), ("CA", 0, 0), ("C", 0, 1))]
        more = [row.format(a, 1, 2, 2) for a in ("N", "CA")]
        path.write_text("data_\u202e\nloop_\n" + head + "".join(rows + more))
    elif kind == "svg":
        path.write_text(f"<svg><g id='\u202e' transform='\u202e{'a' * 9999}'/></svg>")
    else:
        path.write_text(f"<robot><link name='\u202e{'a' * 9999}'/><joint name='\u202e'/></robot>")
    shown = shown_by(path)
    require_printable(shown)
    assert len(max(shown.split("\n"), key=len)) < 10_000
    assert shown


def test_notes_and_errors_are_cut(tmp_path: Path) -> None:
    hostile_npz(tmp_path / "a.npz", "\x1b" * 20_000)
    for note in data.read(tmp_path / "a.npz", bad="mask").notes:
        require_printable(note)
        assert len(note) <= 2000
    with pytest.raises(data.DataError) as caught:
        data.read(tmp_path / "a.npz")
    assert len(str(caught.value)) < 2000


def test_a_name_is_no_formula_of_a_picture(tmp_path: Path) -> None:
    g = np.tile(np.eye(4), (1, 2, 1, 1))
    np.savez(tmp_path / "a.npz", poses=g, set_names=np.array([r"$\frac{$"]))
    run(Request([tmp_path / "a.npz"]), Console(file=io.StringIO()), plot=tmp_path / "a.svg")
    assert (tmp_path / "a.svg").exists()


def test_the_command_prints_no_escapes(tmp_path: Path) -> None:
    hostile_npz(tmp_path / "a.npz", ESCAPES)
    command = [sys.executable, "-m", "lieattn.cli", "data", str(tmp_path / "a.npz")]
    done = subprocess.run([*command, "--bad", "mask"], capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    assert b"are masked" in done.stdout
    assert b"\x1b" not in done.stdout


# ---- LDraw -----------------------------------------------------------------------------------


def test_flat_parts_of_ldraw_are_masked_and_counted(tmp_path: Path) -> None:
    flat = PART.replace("1 0 0 0 1 0 0 0 1", "1 0 0 0 0 0 0 0 1")
    path = tmp_path / "a.mpd"
    path.write_text(f"0 FILE one\n{PART}{flat}{PART}0 FILE two\n{flat}0 FILE three\n{PART}")
    sets = data.read(path)
    assert [x.name for x in sets] == ["one", "three"]
    assert sets[0].mask.tolist() == [True, False, True]
    assert torch.equal(sets[0].poses[1], torch.eye(4, dtype=torch.float64))
    assert sets.left_out == ("two",)
    assert sets.notes[0].startswith("2 parts are flat and masked: a singular matrix")
    la.Aff3.check(sets[0].poses)
    path.write_text(flat)
    with pytest.raises(data.DataError, match="line 1, column 1: every part is flat"):
        data.read(path, bad="mask")
    path.write_text(PART + PART.replace("1 0 0 0 1 0 0 0 1", "nan 0 0 0 0 0 0 0 1"))
    with pytest.raises(data.DataError, match=r"line 2, .* holds NaN or infinity"):
        data.read(path)
