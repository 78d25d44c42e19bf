"""PDB and mmCIF, against gemmi."""

from __future__ import annotations

from pathlib import Path

import gemmi
import numpy as np
import pytest
import torch
from real_files import BY_NAME, close
from torch import Tensor

from lieattn import data


def frames(structure: gemmi.Structure) -> dict[str, Tensor]:
    """Frames by hand: Gram-Schmidt on C - CA and N - CA, the first of alternatives."""
    chains: dict[str, list[np.ndarray]] = {}
    for chain in structure[0]:
        for residue in chain:
            if not all(residue.find_atom(name, "*") for name in ("N", "CA", "C")):
                continue
            n, ca, c = (
                np.array(residue.find_atom(name, "*").pos.tolist()) for name in ("N", "CA", "C")
            )
            g = np.eye(4)
            g[:3, 0] = (c - ca) / np.linalg.norm(c - ca)
            y = (n - ca) - g[:3, 0] * (g[:3, 0] @ (n - ca))
            g[:3, 1] = y / np.linalg.norm(y)
            g[:3, 2] = np.cross(g[:3, 0], g[:3, 1])
            g[:3, 3] = ca
            chains.setdefault(chain.name, []).append(g)
    return {name: torch.from_numpy(np.stack(g)) for name, g in chains.items()}


@pytest.mark.parametrize("name", ["1ejg.pdb", "7pbl.pdb", "3o21.cif"])
def test_backbones_are_those_that_gemmi_reads(name: str) -> None:
    structure = gemmi.read_structure(str(BY_NAME[name]))
    structure.setup_entities()
    expected = frames(structure)
    sets = data.read(BY_NAME[name])
    assert [x.name for x in sets] == list(expected)
    for x in sets:
        close(x.poses, expected[x.name], 1e-9)


def test_residues_are_named_and_alternatives_chosen_by_occupancy() -> None:
    (chain,) = data.read(BY_NAME["1ejg.pdb"])
    assert chain.names[:3] == ("GLY 20", "THR 21", "PRO 22")  # of PRO 0.6, SER and SER


def test_the_alternative_that_is_most_occupied_is_taken(tmp_path: Path) -> None:
    text = BY_NAME["1ejg.pdb"].read_text()
    lines = [
        x[:54] + "  0.90" + x[60:] if x.startswith("ATOM") and x[16] == "C" else x
        for x in text.splitlines()
    ]
    (tmp_path / "x.pdb").write_text("\n".join([*lines, ""]))
    (chain,) = data.read(tmp_path / "x.pdb")
    assert chain.names[2] == "SER 22"
    ca = next(x for x in lines if x[12:17] == " CA C")
    assert chain.poses[2, :3, 3].tolist() == [float(ca[i : i + 8]) for i in (30, 38, 46)]


def test_a_ligand_in_mmcif_is_no_residue(tmp_path: Path) -> None:
    text = BY_NAME["3o21.cif"].read_text()
    rows = [x for x in text.splitlines() if x.startswith("ATOM") and " PHE A 1 2 " in x]
    ligand = [x.replace("ATOM  ", "HETATM").replace(" PHE A 1 2 ", " PHE Z 9 . ") for x in rows]
    (tmp_path / "x.cif").write_text(text.rstrip("#\n") + "\n" + "\n".join([*ligand, "#", ""]))
    assert [x.name for x in data.read(tmp_path / "x.cif")] == ["A", "B", "C"]


def test_a_ligand_after_the_chain_is_no_residue(tmp_path: Path) -> None:
    lines = BY_NAME["7pbl.pdb"].read_text().splitlines()
    atoms = [x for x in lines if x.startswith("ATOM") and x[21] == "A"]
    ligand = ["HETATM" + x[6:22] + " 900" + x[26:] for x in atoms[:7]]
    (tmp_path / "x.pdb").write_text("\n".join([*atoms, "TER", *ligand, ""]))
    assert len(data.read(tmp_path / "x.pdb")[0]) == len(data.read(BY_NAME["7pbl.pdb"])[0])


def test_the_first_of_several_models_is_read(tmp_path: Path) -> None:
    lines = [x for x in BY_NAME["7pbl.pdb"].read_text().splitlines() if x.startswith(("A", "T"))]
    models = [x for i in (1, 2) for x in (f"MODEL        {i}", *lines, "ENDMDL")]
    (tmp_path / "x.pdb").write_text("\n".join([*models, ""]))
    sets = data.read(tmp_path / "x.pdb")
    assert [x.name for x in sets] == ["A", "B"]
    assert "has 2 models" in sets.notes[0]


@pytest.mark.parametrize(
    ("before", "after"), [("MODEL        1", "ENDMDL"), ("MODEL        1", None), (None, "END")]
)
def test_models_end_where_files_say_so(
    before: str | None, after: str | None, tmp_path: Path
) -> None:
    atoms = [x for x in BY_NAME["7pbl.pdb"].read_text().splitlines() if x.startswith("ATOM")]
    lines = [x for x in (before, *atoms, after) if x] * 3
    (tmp_path / "x.pdb").write_text("\n".join([*lines, "END", ""]))
    sets = data.read(tmp_path / "x.pdb")
    expected = data.read(BY_NAME["7pbl.pdb"])
    assert [x.names for x in sets] == [x.names for x in expected]
    assert sets.notes == ("has 3 models, one after the other; the first is read.",)


def test_alternatives_in_a_block_of_their_own_are_of_the_same_residues(tmp_path: Path) -> None:
    lines = BY_NAME["7pbl.pdb"].read_text().splitlines()
    atoms = [x for x in lines if x.startswith("ATOM") and x[21] == "A"]
    seen = [
        x[:16] + letter + x[17:54] + f"{share:6.2f}" + x[60:]
        for letter, share in (("A", 0.4), ("B", 0.6))
        for x in atoms
    ]
    (tmp_path / "x.pdb").write_text("\n".join([*seen, ""]))
    (chain,) = data.read(tmp_path / "x.pdb")
    expected = data.read(BY_NAME["7pbl.pdb"])[0]
    assert chain.names == expected.names
    assert torch.equal(chain.poses, expected.poses)


def test_residues_whose_numbers_start_anew_are_others(tmp_path: Path) -> None:
    lines = BY_NAME["7pbl.pdb"].read_text().splitlines()
    atoms = [x for x in lines if x.startswith("ATOM") and x[21] == "A"]
    (tmp_path / "x.pdb").write_text("\n".join([*atoms, *atoms, ""]))
    assert len(data.read(tmp_path / "x.pdb")[0]) == 2 * len(data.read(BY_NAME["7pbl.pdb"])[0])
