"""Files that are written whole and read with care."""

from __future__ import annotations

import json
import os
import random
import time
from pathlib import Path
from typing import Any

import pytest
import torch

from held import as_earlier, opened, signed
from lieattn._core import files
from lieattn._core.files import BLANK, Damaged, Kind, pack, parse_json, read_header, write_whole

TENSORS = {
    "a": torch.arange(6.0).view(2, 3),
    "b": torch.tensor(1.5, dtype=torch.float64),
    "none": torch.zeros(0, 4),
    "half": torch.ones(3, dtype=torch.bfloat16),
    BLANK: torch.tensor([True, False]),  # a name like a checksum that is not filled in yet
}
KINDS = {name: Kind(x.dtype, tuple(x.shape)) for name, x in TENSORS.items()}
ABOUT = {"kind": "test", "blank": BLANK, "text": 'é "quoted" \ud800', "numbers": [1, 2.5, None]}


@pytest.fixture
def path(tmp_path: Path) -> Path:
    file = tmp_path / "x.safetensors"
    file.write_bytes(pack(TENSORS, ABOUT))
    return file


def test_tensors_and_json_come_back(path: Path) -> None:
    held = read_header(path)
    assert (held.about, held.kinds, held.format) == (ABOUT, KINDS, files.FORMAT)
    found = held.tensors(KINDS)
    assert found.keys() == TENSORS.keys()
    for name, x in TENSORS.items():
        assert found[name].dtype == x.dtype
        assert torch.equal(found[name], x)


def test_equal_values_are_equal_bytes_in_the_layout_that_is_described(path: Path) -> None:
    content = path.read_bytes()
    assert pack({k: x.clone() for k, x in reversed(TENSORS.items())}, ABOUT) == content
    entries, about, data = opened(content)
    path.write_bytes(signed(entries, json.dumps(about), data))
    assert read_header(path).tensors(KINDS).keys() == TENSORS.keys()


def test_single_flipped_bits_are_noticed_everywhere(path: Path) -> None:
    content = path.read_bytes()
    for place in (*range(8), *range(8, len(content), 3)):
        damaged = bytearray(content)
        damaged[place] ^= 1 << place % 8
        path.write_bytes(damaged)
        with pytest.raises(Damaged):
            read_header(path).tensors(KINDS)


def test_cut_and_longer_files_are_noticed(path: Path) -> None:
    content = path.read_bytes()
    for other in (b"", content[:7], content[:8], content[:100], content[:-1], content + b"\0"):
        path.write_bytes(other)
        with pytest.raises(Damaged, match=r"cut short|bytes, expected"):
            read_header(path)


@pytest.mark.parametrize(
    "change",
    [
        {"a": Kind(torch.float32, (3, 2))},
        {"a": Kind(torch.float64, (2, 3))},
        {"more": Kind(torch.float32, (1,))},
        {"a": None},
    ],
    ids=str,
)
def test_others_than_expected_are_named_before_they_are_read(
    path: Path, change: dict[str, Kind | None], monkeypatch: pytest.MonkeyPatch
) -> None:
    held = read_header(path)
    expected = {name: kind for name, kind in {**KINDS, **change}.items() if kind is not None}
    monkeypatch.setattr(files, "load", pytest.fail)
    with pytest.raises(Damaged, match=rf"its tensor '{next(iter(change))}' is .*, expected"):
        held.tensors(expected)


def test_a_file_that_changes_between_header_and_data_is_noticed(path: Path) -> None:
    held = read_header(path)
    path.write_bytes(pack({**TENSORS, "b": torch.tensor(2.5, dtype=torch.float64)}, ABOUT))
    with pytest.raises(Damaged, match="changed while it was read"):
        held.tensors(KINDS)


def test_forty_gigabytes_that_are_not_on_the_disk_are_refused_at_once(path: Path) -> None:
    entry = {"dtype": "F32", "shape": [10**10], "data_offsets": [0, 4 * 10**10]}
    path.write_bytes(signed({"a": entry}, "{}", b""))
    start = path.stat().st_size
    began = time.monotonic()
    os.truncate(path, start + 4 * 10**10)
    with pytest.raises(Damaged, match=r"'a' is \[10000000000\] of float32, expected \[2, 3\]"):
        read_header(path).tensors({"a": KINDS["a"]})
    os.truncate(path, start + 10**10)
    with pytest.raises(Damaged, match=r"bytes, expected 40,000,000,"):
        read_header(path)
    assert time.monotonic() - began < 1


@pytest.mark.parametrize(
    ("entries", "text", "message"),
    [
        ({"a": 3}, "{}", "'a' has no known type and shape"),
        ({"a": {"dtype": "F7", "shape": [], "data_offsets": [0, 0]}}, "{}", "no known type"),
        ({"a": {"dtype": ["F32"], "shape": [0], "data_offsets": [0, 0]}}, "{}", "no known type"),
        ({"a": {"dtype": "F32", "shape": [-1], "data_offsets": [0, 0]}}, "{}", "has no shape"),
        ({"a": {"dtype": "F32", "shape": [True], "data_offsets": [0, 4]}}, "{}", "has no shape"),
        ({"a": {"dtype": "F32", "shape": [10**50], "data_offsets": [0, 0]}}, "{}", "has no shape"),
        ({"a": {"dtype": "F32", "shape": [1] * 9, "data_offsets": [0, 4]}}, "{}", "no known type"),
        ({}, "[]", "its JSON is not an object"),
        ({}, "[" * 100_000, "nested too deeply"),
        ({}, '{"a": NaN}', "holds 'NaN'"),
        ({}, "9" * 5000, "digits"),
        ({}, "no", "Expecting value"),
    ],
)
def test_headers_with_valid_checksums_are_not_believed(
    path: Path, entries: dict[str, Any], text: str, message: str
) -> None:
    path.write_bytes(signed(entries, text, b""))
    with pytest.raises(Damaged, match=message):
        read_header(path)


def test_offsets_that_do_not_fit_are_refused(path: Path) -> None:
    for place in ([0, 0], [4, 8], [8, 4], "x", None, [0, 10**15]):
        entry = {"dtype": "F32", "shape": [1], "data_offsets": place}
        path.write_bytes(signed({"a": entry}, "{}", bytes(4)))
        with pytest.raises(Damaged):
            read_header(path).tensors({"a": Kind(torch.float32, (1,))})


def test_long_headers_are_not_read(path: Path) -> None:
    path.write_bytes(pack({}, {"a": "x" * 1000}))
    with pytest.raises(Damaged, match=r"header has 1,\d+ bytes, at most 500 are read"):
        read_header(path, longest=500)
    path.write_bytes((2**62).to_bytes(8, "little"))
    with pytest.raises(Damaged, match="cut short"):
        read_header(path)


def test_foreign_names_are_shown_escaped_and_cut(path: Path) -> None:
    evil = "\x1b]0;owned\x07" + "x" * 10**6
    path.write_bytes(pack({evil: torch.zeros(1)}, {}))
    with pytest.raises(Damaged) as told:
        read_header(path).tensors(KINDS)
    assert str(told.value).isprintable()
    assert len(str(told.value)) < 300


def test_other_formats_are_named(path: Path) -> None:
    content = path.read_bytes()
    path.write_bytes(content.replace(b'"lieattn":"2 ', b'"lieattn":"3 '))
    with pytest.raises(Damaged, match="format is '3', this lieattn reads 2"):
        read_header(path)


def test_earlier_files_are_read_and_their_own_checksum_is_compared(path: Path) -> None:
    tensors = {"a": TENSORS["a"]}
    kinds = {"a": KINDS["a"]}
    path.write_bytes(as_earlier(tensors, {"loss": float("inf")}))
    held = read_header(path)
    assert (held.format, held.about) == (files.EARLIER, {"loss": float("inf")})
    assert torch.equal(held.tensors(kinds)["a"], tensors["a"])
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    with pytest.raises(Damaged, match="checksum does not match"):
        read_header(path).tensors(kinds)


# ---- JSON ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("NaN", "'NaN', which is not a finite number"),
        ("-Infinity", "'-Infinity', which is not a finite number"),
        ("1e999", "'1e999', which is not a finite number"),
        ("[" * 40 + "]" * 40, "nested too deeply"),
        ('{"a":' * 100_000, "nested too deeply"),
        ("[" + "[]," * 1_000_001, "more than 1,000,000 lists"),
        ("9" * 5000, "digits"),
        ("{", "Expecting"),
    ],
    ids=lambda x: x[:20],
)
def test_json_that_is_none_or_would_exhaust_memory(text: str, message: str) -> None:
    with pytest.raises(ValueError, match=message):
        parse_json(text)


def test_json_of_every_kind_comes_back() -> None:
    draw = random.Random(0)
    for _ in range(100):
        value = [draw.choice([None, True, 0, -1.5, "é", {}, {"a": [1e-300]}]) for _ in range(5)]
        assert parse_json(json.dumps(value)) == value
    assert parse_json("[" * 30 + "]" * 30)


def test_json_files_are_not_read_beyond_a_length(tmp_path: Path) -> None:
    path = tmp_path / "x.json"
    path.write_bytes(b"\xef\xbb\xbf" + files.json_bytes({"a": 1}))
    assert files.read_json(path) == {"a": 1}
    os.truncate(path, 40 * 2**30)
    with pytest.raises(ValueError, match="more than 1,000 bytes"):
        files.read_json(path, most=1000)


# ---- writing -------------------------------------------------------------------------------------


def test_several_files_are_all_written_before_one_is_replaced(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, two, kept = (tmp_path / name for name in ("one", "two", "kept"))
    write_whole({one: b"1", two: b"2"})
    calls = iter((None, OSError(28, "No space left on device")))

    def full(descriptor: int) -> None:
        error = next(calls)
        if error is not None:
            raise error

    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="No space"):
            write_whole({one: b"3", two: b"4"})
    assert {path.name: path.read_bytes() for path in tmp_path.iterdir()} == {
        "one": b"1",
        "two": b"2",
    }
    write_whole({one: b"5"}, keep=kept)
    assert (one.read_bytes(), kept.read_bytes()) == (b"5", b"1")
