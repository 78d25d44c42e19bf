"""PDB and mmCIF as programs write them: long serials, missing numbers, modified residues."""

from __future__ import annotations

import time
from pathlib import Path

import gemmi
import pytest
import torch

from lieattn import data

SHAPE = {"N": (0.0, 0.0, 0.0), "CA": (1.4, 0.5, 0.0), "C": (2.5, -0.4, 0.3)}
TAGS = (
    *("group_PDB", "id", "type_symbol", "label_atom_id", "label_alt_id", "label_comp_id"),
    *("label_asym_id", "label_seq_id", "pdbx_PDB_ins_code", "Cartn_x", "Cartn_y", "Cartn_z"),
    *("occupancy", "auth_seq_id", "auth_asym_id", "pdbx_PDB_model_num"),
)


def atom(
    name: str, number: object, *, record: str = "ATOM  ", residue: str = "ALA", chain: str = "A"
) -> str:
    """A line of PDB; the place in the chain follows from where it stands."""
    return (
        f"{record}    1  {name:<3} {residue:>3} {chain}{number:>4}    {{:8.3f}}{{:8.3f}}{{:8.3f}}"
    )


def pdb(*lines: str) -> str:
    """Lines with coordinates along the chain."""
    shift, found = 0.0, []
    for line in lines:
        shift += 3.8 if line[13:16].strip() == "N" else 0.0
        x, y, z = SHAPE.get(line[12:16].strip(), (9.0, 9.0, 9.0))
        found.append(line.format(x + shift, y, z))
    return "\n".join([*found, ""])


def residue(
    number: object, *, record: str = "ATOM  ", name: str = "ALA", chain: str = "A"
) -> list[str]:
    return [atom(x, number, record=record, residue=name, chain=chain) for x in SHAPE]


def cif(rows: list[str], tags: tuple[str, ...] = TAGS) -> str:
    return "\n".join(["data_x", "loop_", *(f"_atom_site.{tag}" for tag in tags), *rows, "#", ""])


def rows(auth: str = "{}", label: str = "{}", chain: str = "A", count: int = 4) -> list[str]:
    """Rows of residues 1, 2, ...; `{}` stands for the number."""
    return [
        f"ATOM {3 * i + k} C {name} . ALA A {label.format(i)} ? {x + 3.8 * i:.1f} {y} {z} 1 "
        f"{auth.format(i)} {chain} 1"
        for i in range(1, count + 1)
        for k, (name, (x, y, z)) in enumerate(SHAPE.items())
    ]


def read(folder: Path, name: str, text: str) -> data.PoseSets:
    (folder / name).write_text(text)
    return data.read(folder / name)


# ---- PDB -------------------------------------------------------------------------------------


@pytest.mark.parametrize("record", ["ATOM 100000", "ATOM1000000"])
def test_serials_of_many_digits_are_read(record: str, tmp_path: Path) -> None:
    lines = [line for i in range(1, 4) for line in residue(i)]
    lines[3:6] = [record + line[len(record) :] for line in lines[3:6]]
    (chain,) = read(tmp_path, "a.pdb", pdb(*lines))
    assert chain.names == ("ALA 1", "ALA 2", "ALA 3")


def test_a_file_of_long_serials_alone_is_recognised(tmp_path: Path) -> None:
    lines = [f"ATOM {100_000 + i}" + line[11:] for i, line in enumerate(residue(1))]
    sets = read(tmp_path, "a.txt", pdb(*lines))
    assert (sets.format, sets.why) == ("pdb", "by its contents")


@pytest.mark.parametrize(
    ("change", "column"),
    [
        (str.lower, 1),
        (lambda line: line.replace("  ", "\t"), 1),
        (lambda line: "HETATM\t" + line[10:], 1),
        (lambda line: "  " + line, 3),
    ],
)
def test_lines_that_are_almost_atoms_are_no_silence(
    change: object, column: int, tmp_path: Path
) -> None:
    assert callable(change)
    first, *others = pdb(*residue(1), *residue(2)).splitlines()
    with pytest.raises(data.DataError, match="is no line of an atom; expected ATOM") as caught:
        read(tmp_path, "a.pdb", "\n".join([first, *map(change, others), ""]))
    assert (caught.value.line, caught.value.column) == (2, column)


@pytest.mark.parametrize(("number", "expected"), [("", "ALA"), (1, "ALA 1")])
def test_residues_without_numbers_of_their_own_are_told_apart(
    number: object, expected: str, tmp_path: Path
) -> None:
    lines = [line for _ in range(3) for line in residue(number)]
    (chain,) = read(tmp_path, "a.pdb", pdb(*lines))
    assert chain.names == (expected,) * 3
    same = read(tmp_path, "b.pdb", pdb(*(line for i in range(3) for line in residue(i))))[0]
    assert torch.equal(chain.poses, same.poses)


def test_a_residue_that_lacks_atoms_takes_none_of_the_next(tmp_path: Path) -> None:
    lines = [*residue("")[:2], *residue("", name="GLY"), *residue("", name="SER")[1:]]
    sets = read(tmp_path, "a.pdb", pdb(*lines))
    assert sets[0].names == ("GLY",)
    assert sets.notes == ("chain A: 2 residues without all of N, CA, C are left out.",)


def test_modified_residues_are_read_in_every_stretch_of_a_chain(tmp_path: Path) -> None:
    modified = residue(2, record="HETATM", name="MSE", chain=" ")
    stretch = [*residue(1, chain=" "), *modified, *residue(3, chain=" ")]
    ligand = residue(9, record="HETATM", name="GLU", chain=" ")
    sets = read(tmp_path, "a.pdb", pdb(*stretch, "TER", *stretch, "TER", *ligand))
    assert [x.name for x in sets] == ["", "(2)"]
    assert [x.names[1] for x in sets] == ["MSE 2", "MSE 2"]
    assert [len(x) for x in sets] == [3, 3]
    note = "1 residue after the end of a chain is left out: ligands come there."
    assert sets.notes == (note,)


def test_calcium_and_caps_are_no_residues_without_atoms(tmp_path: Path) -> None:
    calcium = atom("CA", 8, record="HETATM", residue="CA")
    cap = atom("C", 0, record="HETATM", residue="ACE")
    sets = read(tmp_path, "a.pdb", pdb(cap, *residue(1), calcium))
    assert sets[0].names == ("ALA 1",)
    assert sets.notes == ()
    sets = read(tmp_path, "a.pdb", pdb(*residue(1), *residue(2)[:2]))
    assert sets.notes == ("chain A: 1 residue without all of N, CA, C is left out.",)


# ---- mmCIF -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("auth", "chain", "label"),
    [("?", "A", "{}"), (".", ".", "{}"), ("?", "?", "{}"), ("{}", "A", ".")],
)
def test_numbers_and_chains_that_are_missing_are_those_of_the_other_columns(
    auth: str, chain: str, label: str, tmp_path: Path
) -> None:
    (found,) = read(tmp_path, "a.cif", cif(rows(auth, label, chain)))
    assert (found.name, found.names) == ("A", ("ALA 1", "ALA 2", "ALA 3", "ALA 4"))
    expected = read(tmp_path, "b.cif", cif(rows()))[0]
    assert torch.equal(found.poses, expected.poses)


def test_residues_without_any_number_are_told_apart(tmp_path: Path) -> None:
    (found,) = read(tmp_path, "a.cif", cif(rows("?", ".")))
    assert found.names == ("ALA",) * 4


def test_mmcif_that_gemmi_makes_of_pdb_is_the_same(tmp_path: Path) -> None:
    modified = residue(2, record="HETATM", name="MSE")
    ligand = residue(9, record="HETATM", name="GLU")
    lines = [*residue(1), *modified, *residue(3), "TER", *ligand]
    models = [x for i in (1, 2) for x in (f"MODEL        {i}", *lines, "ENDMDL")]
    (expected,) = read(tmp_path, "a.pdb", pdb(*models, "END"))
    structure = gemmi.read_structure(str(tmp_path / "a.pdb"))
    structure.make_mmcif_document().write_file(str(tmp_path / "a.cif"))
    sets = data.read(tmp_path / "a.cif")
    assert sets[0].names == expected.names == ("ALA 1", "MSE 2", "ALA 3")
    torch.testing.assert_close(sets[0].poses, expected.poses, atol=1e-9, rtol=0)
    assert len(sets) == 1
    assert "1 residue after the end of a chain is left out: ligands come there." in sets.notes


def test_without_groups_what_has_a_number_is_a_residue(tmp_path: Path) -> None:
    text = cif([x.removeprefix("ATOM ") for x in rows(label=".")], TAGS[1:])
    assert len(read(tmp_path, "a.cif", text)[0]) == 4


@pytest.mark.parametrize("change", [str.lower, str.upper])
def test_names_of_columns_are_the_same_in_capitals(change: object, tmp_path: Path) -> None:
    assert callable(change)
    text = cif(rows()).replace("_atom_site.", change("_atom_site."))
    for tag in TAGS:
        text = text.replace(f".{tag}\n", f".{change(tag)}\n")
    assert len(read(tmp_path, "a.cif", text)[0]) == 4


def test_the_first_of_several_blocks_is_read_and_that_is_noted(tmp_path: Path) -> None:
    sets = read(tmp_path, "a.cif", cif(rows()) + cif(rows()).replace("data_x", "data_y"))
    assert len(sets[0]) == 4
    assert sets.notes == ("has 2 data blocks with atoms; the first, 'x', is read.",)


@pytest.mark.parametrize("quoted", ["ALA", "'A LA'", '"A\'L A"'])
def test_an_unknown_coordinate_is_placed_where_it_stands(quoted: str, tmp_path: Path) -> None:
    lines = rows()
    lines[3] = lines[3].replace("? 7.6", "? ?").replace("ALA", quoted)
    with pytest.raises(data.DataError, match=r"'\?' is no number; .*Cartn_x of row 4") as caught:
        read(tmp_path, "a.cif", cif(lines))
    place = (3 + len(TAGS) + 3, lines[3].index("? ?") + 3)
    assert (caught.value.line, caught.value.column) == place


def test_thousands_of_alternatives_take_linear_time(tmp_path: Path) -> None:
    lines = [
        x.replace(" . ALA", f" a{i} ALA").replace(" 1 1 A 1", f" 0.{i % 7} 1 A 1")
        for i in range(6000)
        for x in rows(count=1)
    ]
    begin = time.perf_counter()
    (chain,) = read(tmp_path, "a.cif", cif(lines))
    assert len(chain) == 1
    assert time.perf_counter() - begin < 15  # a minute and more where every pair is looked at
