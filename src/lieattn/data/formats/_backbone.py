"""Residue frames from atoms: what PDB and mmCIF share."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from typing import NamedTuple

import torch

from ..._core.text import printable
from ...groups import SE3
from .._draft import Draft, Place
from .._source import Source
from ..errors import DataError

BACKBONE = ("N", "CA", "C")
HOLDS = "SE(3), frames of N, CA, C, one set a chain"
_ATOM_SIZE = 400  # bytes, about
_FLAT = "N, CA and C lie on a line or in one point, which makes no frame. Drop the residue."


class Atom(NamedTuple):
    """One of the atoms N, CA, C. A set is a `chain`, a token is a `residue`."""

    name: str
    alternative: str  # a letter where the residue has several locations, else empty
    residue_name: str
    chain: str
    residue: str
    position: tuple[float, float, float]
    occupancy: float
    place: Place
    hetero: bool  # HETATM: a modified residue, a cap, a ligand, an ion
    ligand: bool  # outside the chain, as far as the file says


def drafts(source: Source, atoms: Iterable[Atom], notes: list[str]) -> list[Draft]:
    """One set a chain, one pose a residue that has all three atoms, in the order of the file."""
    chains: dict[str, list[dict[str, Atom]]] = {}
    incomplete: Counter[str] = Counter()
    ligands = 0
    for residue in _residues(source, atoms):
        first, chosen = residue[0], _one_location(residue)
        if first.ligand:
            ligands += len(chosen) == 3
            continue
        chain = chains.setdefault(first.chain, [])
        if len(chosen) == 3:
            chain.append(chosen)
        else:
            # A calcium is called CA, and a cap has only a C or an N: these are no residues.
            incomplete[first.chain] += len(chosen) > 1 or not first.hetero
    chains = {name: chain for name, chain in chains.items() if chain}
    for name in chains:
        if incomplete[name]:
            left_out = _counted(incomplete[name], "without all of N, CA, C")
            notes.append(f"chain {printable(name, 24) or 'without name'}: {left_out} left out.")
    if ligands:
        where = "after the end of a chain"
        notes.append(f"{_counted(ligands, where)} left out: ligands come there.")
    return _drafts(chains)


def no_frames(source: Source, count: int) -> DataError:
    """The error for a file of so many atoms whose `drafts` are empty."""
    return source.error(
        f"no residue with the atoms N, CA and C among {count} atoms. A backbone is needed: "
        "traces of CA alone have no frames."
    )


def _counted(count: int, which: str) -> str:
    return f"1 residue {which} is" if count == 1 else f"{count} residues {which} are"


def _residues(source: Source, atoms: Iterable[Atom]) -> list[list[Atom]]:
    """Atoms by chain and residue. Alternatives may be listed in a block of their own.

    An atom begins another residue, whose number is the same or missing, if the residue has that
    atom already, or if its residue name is new and it is no alternative.
    """
    residues: list[list[Atom]] = []
    latest: dict[tuple[str, str], tuple[list[Atom], set[object]]] = {}
    for count, atom in enumerate(atoms):
        if count % 10_000 == 0:
            source.require_few(count, "atoms of backbones", _ATOM_SIZE)
        key = (atom.chain, atom.residue)
        own = (atom.name, atom.alternative)
        residue, held = latest.get(key, ([], {own}))
        if own in held or not (atom.alternative or atom.residue_name in held):
            residue, held = latest[key] = ([], set())
            residues.append(residue)
        residue.append(atom)
        held |= {own, atom.residue_name}
    return residues


def _one_location(residue: list[Atom]) -> dict[str, Atom]:
    """The atoms of the alternative that is complete and most occupied; the first of equals."""
    seen: dict[str, dict[str, Atom]] = {}  # letter -> name -> atom
    for atom in residue:
        seen.setdefault(atom.alternative, {}).setdefault(atom.name, atom)
    candidates = [seen.get("", {}) | atoms for atoms in seen.values()]
    return max(candidates, key=lambda x: (len(x), sum(atom.occupancy for atom in x.values())))


def _drafts(chains: dict[str, list[dict[str, Atom]]]) -> list[Draft]:
    """The frames of all chains, computed together."""
    positions = [[x[name].position for name in BACKBONE] for own in chains.values() for x in own]
    x = torch.tensor(positions, dtype=torch.float64).reshape(-1, 3, 3)  # [N, atom, axis]
    g = SE3.from_backbone(*x.unbind(-2))
    flat = (~g.isfinite().flatten(1).all(-1) & x.isfinite().flatten(1).all(-1)).tolist()
    drafts, start = list[Draft](), 0
    for name, chain in chains.items():
        stop = start + len(chain)
        names = [f"{x['CA'].residue_name} {x['CA'].residue}".strip() for x in chain]
        problems = {i: _FLAT for i, wrong in enumerate(flat[start:stop]) if wrong}
        places = [x["N"].place for x in chain]
        drafts.append(Draft(SE3, g[start:stop], names, places, name, problems))
        start = stop
    return drafts
