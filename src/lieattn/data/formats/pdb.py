"""PDB files: backbone frames, one set a chain, the first model.

Read here and not by gemmi, which takes a coordinate that is no number for zero.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from ..._core.text import quoted
from .._draft import Draft
from .._numbers import number
from .._source import Source
from . import _backbone as backbone
from ._backbone import BACKBONE, Atom
from .format import Format

_RECORDS = (
    *("HEADER", "TITLE ", "COMPND", "REMARK", "CRYST1", "MODEL ", "ATOM  ", "HETATM", "SEQRES"),
    *("ORIGX1", "SCALE1", "OBSLTE", "SPLIT ", "CAVEAT", "EXPDTA", "AUTHOR", "MTRIX1"),
)
_ATOM = re.compile(r"ATOM[ \d]|HETATM(?!\s*\t)")  # serials of six digits begin in column 6
_ALMOST = re.compile(r"\s*(atom|hetatm)\s*\d", re.IGNORECASE)
_EXPECTS = "a coordinate in columns 31-38, 39-46 and 47-54"


def _sniff(head: bytes, text: str) -> bool:
    lines = [x for x in text.split("\n")[:50] if x.strip()]
    known = sum(x.startswith(_RECORDS) or _ATOM.match(x) is not None for x in lines)
    return known > 0 and 2 * known >= len(lines)


def _read(source: Source, notes: list[str]) -> list[Draft]:
    models = list[int]()
    sets = backbone.drafts(source, _atoms(source, models), notes)
    if not sets:
        raise backbone.no_frames(source, sum(models))
    if len(models) > 1:
        notes.insert(0, f"has {len(models)} models, one after the other; the first is read.")
    return sets


def _atoms(source: Source, models: list[int]) -> Iterator[Atom]:
    """Backbone atoms of the first model. A chain that goes on after TER is another one.

    `models` gets the number of atoms of each stretch between lines MODEL, ENDMDL and END.
    """
    ended: dict[str, int] = {}
    open_: set[str] = set()  # chains with an ATOM since their last TER
    chain, inside = "", False
    for line, text in source.lines():
        if text[:6].rstrip() in ("MODEL", "ENDMDL", "END"):
            inside = False
        if text.startswith("TER"):
            ended[chain] = ended.get(chain, 0) + 1
            open_.discard(chain)
        if not _is_atom(source, line, text):
            continue
        if not inside:
            models.append(0)
        inside, models[-1] = True, models[-1] + 1
        if len(models) > 1:
            continue
        if len(text) < 54:
            problem = f"the line ends before its coordinates; expected {_EXPECTS}."
            raise source.error(problem + source.last_line_hint(line), line, len(text) + 1)
        chain, name, hetero = text[21:22].strip(), text[12:16].strip(), text.startswith("HETATM")
        if not hetero:
            open_.add(chain)
        # What follows the end of a chain are ligands, which may be amino acids too.
        ligand = hetero and chain in ended and chain not in open_
        if ligand and name not in BACKBONE:
            continue
        x, y, z = (_coordinate(source, line, text, start) for start in (30, 38, 46))
        if name in BACKBONE:
            part = f" ({ended[chain] + 1})" if chain in ended else ""
            occupancy = number(text[54:60].strip())
            yield Atom(
                name,
                alternative=text[16:17].strip(),
                residue_name=text[17:21].strip(),
                chain=(chain + part).strip(),
                residue=text[22:27].strip(),
                position=(x, y, z),
                occupancy=1.0 if occupancy is None else occupancy,
                place=(line, 31),
                hetero=hetero,
                ligand=ligand,
            )


def _is_atom(source: Source, line: int, text: str) -> bool:
    """Whether a line is an atom's. One that almost is one is an error, not a line to skip."""
    if _ATOM.match(text):
        return True
    almost = _ALMOST.match(text)
    if almost is None:
        return False
    problem = (
        f"{quoted(text)} is no line of an atom; expected ATOM or HETATM from column 1 on, in "
        f"capitals, blanks and no tabs, {_EXPECTS}. Write the file anew."
    )
    raise source.error(problem, line, almost.start(1) + 1)


def _coordinate(source: Source, line: int, text: str, start: int) -> float:
    piece = text[start : start + 8]
    value = number(piece.strip())
    if value is None:
        column = start + 1 + len(piece) - len(piece.lstrip())
        raise source.error(f"{quoted(piece)} is no number; expected {_EXPECTS}.", line, column)
    return value


FORMAT = Format("pdb", "PDB", (".pdb", ".ent"), backbone.HOLDS, _sniff, _read)
