"""mmCIF files: backbone frames, one set a chain, the first model.

gemmi reads the table of atoms. Its structures are not used: they have no line numbers, locations
of one letter only, and take quadratic time where alternatives are in a block of their own.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Any

from ..._core.text import quoted
from .._draft import Draft
from .._needs import needs
from .._numbers import number, whole_lines
from .._source import Source
from . import _backbone as backbone
from ._backbone import BACKBONE, Atom
from .format import Format

_TABLE = "_atom_site."
_NEEDED = ("label_atom_id", "label_comp_id", "Cartn_x", "Cartn_y", "Cartn_z")
_READ = (
    *(*_NEEDED, "auth_asym_id", "label_asym_id", "auth_seq_id", "label_seq_id", "occupancy"),
    *("group_PDB", "pdbx_PDB_model_num", "pdbx_PDB_ins_code", "label_alt_id"),
)
_NONE = (".", "?", "")
_LONGEST_ROW = 10_000  # characters of a line in which a value's column is looked for
_BLANK = bytes(32 if i in b" \t\n" else 120 for i in range(256))  # others become an x
# Quotes end before a blank. One that does not end is matched too, so that time stays linear.
_VALUE = re.compile(r"'(?:[^']|'(?=\S))*+'?|\"(?:[^\"]|\"(?=\S))*+\"?|\S+")
_SYNTAX = re.compile(r"string:(\d+)(?::(\d+)\(\d+\))?[^:]*: ([^\n]*)")  # as gemmi says it


def _sniff(head: bytes, text: str) -> bool:
    lines = whole_lines(text)
    return bool(lines) and re.match(r"data_\S", lines[0], re.IGNORECASE) is not None


def _read(source: Source, notes: list[str]) -> list[Draft]:
    gemmi = needs("gemmi", "mmCIF files", source.path)
    values = source.text.encode().translate(_BLANK).count(b" x")
    source.require_few(values, "values", 24)
    try:
        document = gemmi.cif.read_string(source.text)
    except (ValueError, RuntimeError) as error:  # what gemmi raises on bad syntax
        found = _SYNTAX.match(str(error))
        if found is None:
            raise source.error(f"is no mmCIF: {str(error).strip()}.") from None
        line, column, what = found.groups()
        place = int(column) + 1 if column else None
        raise source.error(f"is no mmCIF: {what.strip()}.", int(line), place) from None
    blocks = [x for x in document if x.find_loop(_TABLE + "Cartn_x").get_loop() is not None]
    if not blocks:
        raise source.error(
            "has no table _atom_site with Cartn_x. Is it a file of structure factors or of a "
            "dictionary? Coordinates are needed."
        )
    if len(blocks) > 1:
        first = quoted(blocks[0].name)
        notes.append(f"has {len(blocks)} data blocks with atoms; the first, {first}, is read.")
    table = _Table(source, blocks[0])
    models = set(table.column("pdbx_PDB_model_num"))
    if len(models) > 1:
        notes.append(f"has {len(models)} models of the same chains; the first is read.")
    sets = backbone.drafts(source, _atoms(table), notes)
    if not sets:
        raise backbone.no_frames(source, table.length)
    return sets


class _Table:
    """The columns of _atom_site, and where its rows are in the file.

    Names of columns are the same in capitals and in small letters.
    """

    def __init__(self, source: Source, block: Any) -> None:
        self.source, self.lines = source, source.text.split("\n")
        loop = block.find_loop(_TABLE + "Cartn_x").get_loop()
        self.length = loop.length()
        self.tags = [tag.lower() for tag in loop.tags]
        names = {x: (_TABLE + x).lower() for x in _READ}
        self.columns = {x: list(block.find_loop(y)) for x, y in names.items() if y in self.tags}
        item = next(x for x in block if x.loop is not None and x.loop.tags == loop.tags)
        self.line = item.line_number
        for tag in _NEEDED:
            if tag not in self.columns:
                problem = f"the table has no column {_TABLE}{tag}, which frames need."
                raise source.error(problem, self.line)

    def column(self, *names: str) -> list[str]:
        """The first of these columns that has a value, row by row; empty where there is none."""
        found = [self.columns[x] for x in names if x in self.columns]
        rows = zip(*found, strict=True) if found else [()] * self.length
        return [next((x for x in row if x not in _NONE), "") for row in rows]

    def place(self, name: str, index: int) -> tuple[int, int]:
        """Line and column of a value of a row, if the table has a row on each line.

        In other files, the line where the table begins.
        """
        line, value = self.line + 1 + len(self.tags) + index, self.columns[name][index]
        text = self.lines[line - 1] if line <= len(self.lines) else ""
        if len(text) > _LONGEST_ROW:
            return self.line, 1
        if text.count(value) == 1:  # faster
            return line, text.index(value) + 1
        values, at = list(_VALUE.finditer(text)), self.tags.index((_TABLE + name).lower())
        if len(values) > at and values[at][0] == value:
            return line, values[at].start() + 1
        return self.line, 1

    def coordinate(self, name: str, index: int) -> float:
        text = self.columns[name][index]
        value = number(re.sub(r"\(\d+\)$", "", text))  # 1.234(5): with its uncertainty
        if value is None:
            problem = f"{quoted(text)} is no number; expected {_TABLE}{name} of row {index + 1}."
            raise self.source.error(problem, *self.place(name, index))
        return value


def _atoms(table: _Table) -> Iterator[Atom]:
    """Backbone atoms of the first model's polymers."""
    models, entities = table.column("pdbx_PDB_model_num"), table.column("label_asym_id")
    chains = table.column("auth_asym_id", "label_asym_id")
    residues = table.column("auth_seq_id", "label_seq_id")
    insertions, alternatives = table.column("pdbx_PDB_ins_code"), table.column("label_alt_id")
    occupancies, groups = table.column("occupancy"), table.column("group_PDB")
    rows = [i for i, model in enumerate(models) if model == models[0]]
    # Ligands have no place in a sequence. Programs that know no sequence write none, as gemmi of
    # PDB files without SEQRES: then what comes after a chain's last ATOM is a ligand.
    sequence = table.column("label_seq_id")
    sequenced = any(sequence)
    polymer = [x == "ATOM" for x in groups] if any(groups) else table.column("auth_seq_id")
    ends = {chains[i]: i for i in rows if polymer[i]}
    names, taken = dict[tuple[str, str], str](), set[str]()
    for i in rows:
        name = table.columns["label_atom_id"][i].strip("\"'")
        if name not in BACKBONE or (sequenced and not sequence[i]):
            continue
        x, y, z = (table.coordinate(f"Cartn_{axis}", i) for axis in "xyz")
        occupancy = number(occupancies[i])
        yield Atom(
            name,
            alternatives[i],
            residue_name=table.columns["label_comp_id"][i],
            chain=_chain_name(names, taken, chains[i], entities[i]),
            residue=residues[i] + insertions[i],
            position=(x, y, z),
            occupancy=1.0 if occupancy is None else occupancy,
            place=table.place("Cartn_x", i),
            hetero=groups[i] == "HETATM",
            ligand=not sequenced and i > ends.get(chains[i], -1),
        )


def _chain_name(names: dict[tuple[str, str], str], taken: set[str], chain: str, entity: str) -> str:
    """The authors' name of a chain, told apart where two polymers share it."""
    if (chain, entity) not in names:
        names[chain, entity] = f"{chain} ({entity})" if chain in taken else chain
        taken.add(names[chain, entity])
    return names[chain, entity]


FORMAT = Format("mmcif", "mmCIF", (".cif", ".mmcif"), backbone.HOLDS, _sniff, _read)
