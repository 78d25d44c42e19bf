"""PDB files: backbone frames, one set a chain, the first model.

Read here and not by a library: those at hand take a coordinate that is no number for zero.
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
    models = _models(source)
    if models > 1:
        notes.append(f"has {models} models, one after the other; the first is read.")
    sets = backbone.drafts(source, _atoms(source), notes)
    if not sets:
        raise backbone.no_frames(source, sum(_is_atom(source, *x) for x in source.lines()))
    return sets


def _models(source: Source) -> int:
    """How many stretches of atoms there are between lines MODEL, ENDMDL and END."""
    models, inside = 0, False
    for line, text in source.lines():
        if _is_break(text):
            inside = False
        elif _is_atom(source, line, text):
            models, inside = models + (not inside), True
    return models


def _is_atom(source: Source, line: int, text: str) -> bool:
    """Whether a line is an atom's. One that almost is would be passed over in silence: an error."""
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


def _is_break(text: str) -> bool:
    return text[:6].rstrip() in ("MODEL", "ENDMDL", "END")


def _atoms(source: Source) -> Iterator[Atom]:
    """Backbone atoms of the first model. A chain that goes on after TER is another one."""
    ended: dict[str, int] = {}
    open_: set[str] = set()  # chains with an ATOM since their last TER
    chain, inside = "", False
    for line, text in source.lines():
        if inside and _is_break(text):
            return
        if text.startswith("TER"):
            ended[chain] = ended.get(chain, 0) + 1
            open_.discard(chain)
        if not _is_atom(source, line, text):
            continue
        inside = True
        if len(text) < 54:
            problem = f"the line ends before its coordinates; expected {_EXPECTS}."
            raise source.error(problem + source.last_line_hint(line), line, len(text) + 1)
        chain = text[21:22].strip()
        hetero = text.startswith("HETATM")
        if not hetero:
            open_.add(chain)
        # What follows the end of a chain are ligands, which may be amino acids too.
        ligand = hetero and chain in ended and chain not in open_
        name = text[12:16].strip()
        if ligand and name not in BACKBONE:
            continue
        x, y, z = (_coordinate(source, line, text, start) for start in (30, 38, 46))
        if name in BACKBONE:
            number_of = f" ({ended[chain] + 1})" if chain in ended else ""
            occupancy = number(text[54:60].strip())
            yield Atom(
                name,
                text[16:17].strip(),
                text[17:21].strip(),
                (chain + number_of).strip(),
                text[22:27].strip(),
                (x, y, z),
                1.0 if occupancy is None else occupancy,
                (line, 31),
                hetero,
                ligand,
            )


def _coordinate(source: Source, line: int, text: str, start: int) -> float:
    piece = text[start : start + 8]
    value = number(piece.strip())
    if value is None:
        column = start + 1 + len(piece) - len(piece.lstrip())
        raise source.error(f"{quoted(piece)} is no number; expected {_EXPECTS}.", line, column)
    return value


FORMAT = Format(
    "pdb",
    "PDB",
    (".pdb", ".ent"),
    "SE(3), frames of N, CA, C, one set a chain",
    _sniff,
    _read,
)
