"""mmCIF files: backbone frames, one set a chain, the first model."""

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
_CHAINS, _RESIDUES = ("auth_asym_id", "label_asym_id"), ("auth_seq_id", "label_seq_id")
_READ = {
    *(tag.lower() for tag in (*_NEEDED, *_CHAINS, *_RESIDUES, "occupancy", "group_PDB")),
    *("pdbx_pdb_model_num", "pdbx_pdb_ins_code", "label_alt_id"),
}
_NONE = (".", "?", "")
_LONGEST_ROW = 10_000  # characters of a line in which a value's column is looked for
_BLANK = bytes(32 if i in b" \t\n" else 120 for i in range(256))  # others become an x
# Quotes end before a blank. One that does not end is matched too, so that time stays linear.
_VALUE = re.compile(r"'(?:[^']|'(?=\S))*+'?|\"(?:[^\"]|\"(?=\S))*+\"?|\S+")


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
        raise _syntax_error(source, str(error)) from None
    blocks = [
        (block, loop)
        for block in document
        if (loop := block.find_loop(_TABLE + "Cartn_x").get_loop()) is not None
    ]
    if not blocks:
        raise source.error(
            "has no table _atom_site with Cartn_x. Is it a file of structure factors or of a "
            "dictionary? Coordinates are needed."
        )
    if len(blocks) > 1:
        first = quoted(blocks[0][0].name)
        notes.append(f"has {len(blocks)} data blocks with atoms; the first, {first}, is read.")
    table = _Table(source, *blocks[0])
    models = set(table.column("pdbx_PDB_model_num", default="1"))
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

    def __init__(self, source: Source, block: Any, loop: Any) -> None:
        self.source = source
        self.length = loop.length()
        tags = [tag.lower().removeprefix(_TABLE) for tag in loop.tags]
        found = zip(tags, loop.tags, strict=True)
        self.columns = {tag: list(block.find_loop(name)) for tag, name in found if tag in _READ}
        item = next(x for x in block if x.loop is not None and x.loop.tags == loop.tags)
        self.line = item.line_number
        self.tags = tags
        for tag in _NEEDED:
            if tag.lower() not in self.columns:
                problem = f"the table has no column {_TABLE}{tag}, which frames need."
                raise source.error(problem, self.line)

    def column(self, *names: str, default: str = "") -> list[str]:
        """What the first of these columns that is there and not blank says, row by row."""
        found = [self.columns[x.lower()] for x in names if x.lower() in self.columns]
        if not found:
            return [default] * self.length
        if len(found) == 1:
            return found[0]
        return [
            next((x for x in row if x not in _NONE), row[0]) for row in zip(*found, strict=True)
        ]

    def place(self, name: str, index: int) -> tuple[int, int]:
        """Line and column of a value of a row, in files of one row a line, as all are.

        In others, the line where the table begins.
        """
        line, value = self.line + 1 + len(self.tags) + index, self.columns[name.lower()][index]
        text = self._lines[line - 1] if line <= len(self._lines) else ""
        if len(text) > _LONGEST_ROW:
            return self.line, 1
        if text.count(value) == 1:  # the quick way
            return line, text.index(value) + 1
        values, at = list(_VALUE.finditer(text)), self.tags.index(name.lower())
        if len(values) > at and values[at][0] == value:
            return line, values[at].start() + 1
        return self.line, 1

    @property
    def _lines(self) -> list[str]:
        if not hasattr(self, "_split"):
            self._split = self.source.text.split("\n")
        return self._split

    def coordinate(self, name: str, index: int) -> float:
        text = self.columns[name.lower()][index]
        value = number(re.sub(r"\(\d+\)$", "", text))  # 1.234(5): with its uncertainty
        if value is None:
            problem = f"{quoted(text)} is no number; expected {_TABLE}{name} of row {index + 1}."
            raise self.source.error(problem, *self.place(name, index))
        return value


def _atoms(table: _Table) -> Iterator[Atom]:
    """Backbone atoms of the first model's polymers."""
    models = table.column("pdbx_PDB_model_num", default="1")
    entities = table.column("label_asym_id", "auth_asym_id")
    chains, residues = table.column(*_CHAINS), table.column(*_RESIDUES)
    insertions = table.column("pdbx_PDB_ins_code", default="?")
    alternatives = table.column("label_alt_id", default=".")
    occupancies = table.column("occupancy", default="1")
    groups = table.column("group_PDB", default="ATOM")
    sequence = table.column("label_seq_id")
    # Ligands have no place in a sequence; water and ions are none of ours anyway.
    sequenced = any(x not in _NONE for x in sequence)
    ends = {} if sequenced else _ends(table, chains, models)
    names, taken = dict[tuple[str, str], str](), set[str]()
    for i, atom in enumerate(table.column("label_atom_id")):
        name = atom.strip("\"'")
        if models[i] != models[0] or name not in BACKBONE or (sequenced and sequence[i] in _NONE):
            continue
        x, y, z = (table.coordinate(f"Cartn_{axis}", i) for axis in "xyz")
        occupancy = number(occupancies[i])
        yield Atom(
            name,
            _known(alternatives[i]),
            table.columns["label_comp_id"][i],
            _chain_name(names, taken, _known(chains[i]), _known(entities[i])),
            _known(residues[i]) + _known(insertions[i]),
            (x, y, z),
            1.0 if occupancy is None else occupancy,
            table.place("Cartn_x", i),
            groups[i] == "HETATM",
            not sequenced and i > ends.get(chains[i], -1),
        )


def _ends(table: _Table, chains: list[str], models: list[str]) -> dict[str, int]:
    """The last row of every chain of the first model, where no row has a place in a sequence.

    Programs that know no sequence write none, as gemmi of PDB files without SEQRES. What is
    HETATM before a chain's last ATOM is a modified residue, and what comes after it a ligand.
    """
    if "group_pdb" in table.columns:
        polymer = [x == "ATOM" for x in table.columns["group_pdb"]]
    else:
        polymer = [x not in _NONE for x in table.column("auth_seq_id", default="1")]
    rows = (i for i, model in enumerate(models) if model == models[0] and polymer[i])
    return {chains[i]: i for i in rows}


def _known(text: str) -> str:
    return "" if text in _NONE else text


def _chain_name(names: dict[tuple[str, str], str], taken: set[str], chain: str, entity: str) -> str:
    """The authors' name of a chain, told apart where two polymers share it."""
    if (chain, entity) not in names:
        names[chain, entity] = f"{chain} ({entity})" if chain in taken else chain
        taken.add(names[chain, entity])
    return names[chain, entity]


def _syntax_error(source: Source, message: str) -> Exception:
    """gemmi says `string:line:column(byte): what`; column from 0."""
    found = re.match(r"string:(\d+):(\d+)\(\d+\): (.*)", message, re.DOTALL)
    if found is None:
        line = re.match(r"string:(\d+)[^:]*: (.*)", message, re.DOTALL)
        if line is None:
            return source.error(f"is no mmCIF: {message.strip()}.")
        return source.error(f"is no mmCIF: {line[2].strip()}.", int(line[1]))
    what = found[3].strip().splitlines()[0]
    return source.error(f"is no mmCIF: {what}.", int(found[1]), int(found[2]) + 1)


FORMAT = Format(
    "mmcif",
    "mmCIF",
    (".cif", ".mmcif"),
    "SE(3), frames of N, CA, C, one set a chain",
    _sniff,
    _read,
)
