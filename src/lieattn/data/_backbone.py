"""Residue frames from atoms: what PDB and mmCIF share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import NamedTuple

import torch

from ..groups import SE3
from ._draft import Draft, Place

BACKBONE = ("N", "CA", "C")


class Atom(NamedTuple):
    """One of the atoms N, CA, C. `chain` and `residue` tell where a set and a token end."""

    name: str
    alternative: str  # blank, or a letter where the residue was seen in several places
    residue_name: str
    chain: str
    residue: str
    position: tuple[float, float, float]
    occupancy: float
    place: Place


@dataclass
class _Chain:
    names: list[str]
    atoms: list[list[tuple[float, float, float]]]
    places: list[Place]
    incomplete: int = 0


def drafts(atoms: Iterable[Atom], notes: list[str]) -> list[Draft]:
    """One set a chain, one pose a residue that has all three atoms, in the order of the file."""
    chains: dict[str, _Chain] = {}
    for residue in _residues(atoms):
        _add(chains, residue)
    for name, chain in chains.items():
        if chain.incomplete and chain.names:
            notes.append(
                f"chain {name or 'without name'}: {chain.incomplete} residues without all of N, "
                "CA, C are left out."
            )
    return [_draft(name, chain) for name, chain in chains.items() if chain.names]


def _residues(atoms: Iterable[Atom]) -> list[list[Atom]]:
    """Atoms by chain and residue: alternatives may be listed in a block of their own.

    One that comes again with the same atoms is another, as where numbers start anew.
    """
    residues: list[list[Atom]] = []
    latest: dict[tuple[str, str], list[Atom]] = {}
    current: list[Atom] = []
    for atom in atoms:
        key = (atom.chain, atom.residue)
        residue = latest.get(key)
        if residue is None or (residue is not current and _holds(residue, atom)):
            residue = latest[key] = []
            residues.append(residue)
        residue.append(atom)
        current = residue
    return residues


def _holds(residue: list[Atom], atom: Atom) -> bool:
    return any((x.name, x.alternative) == (atom.name, atom.alternative) for x in residue)


def _add(chains: dict[str, _Chain], residue: list[Atom]) -> None:
    chain = chains.setdefault(residue[0].chain, _Chain([], [], []))
    chosen = _one_place(residue)
    if any(name not in chosen for name in BACKBONE):
        chain.incomplete += 1
        return
    chain.atoms.append([chosen[name].position for name in BACKBONE])
    chain.names.append(f"{chosen['CA'].residue_name} {residue[0].residue}")
    chain.places.append(chosen["N"].place)


def _one_place(residue: list[Atom]) -> dict[str, Atom]:
    """The atoms of the alternative that is complete and most occupied; the first of equals."""
    letters = dict.fromkeys(atom.alternative for atom in residue if atom.alternative)
    candidates = []
    for letter in letters or [""]:
        atoms: dict[str, Atom] = {}
        for atom in residue:
            if atom.alternative in ("", letter):
                atoms.setdefault(atom.name, atom)
        candidates.append(atoms)
    return max(candidates, key=lambda x: (len(x), sum(atom.occupancy for atom in x.values())))


def _draft(name: str, chain: _Chain) -> Draft:
    x = torch.tensor(chain.atoms, dtype=torch.float64)  # [N, 3 atoms, 3]
    g = SE3.from_backbone(*x.unbind(-2))
    line = "N, CA and C lie on a line or in one point, which makes no frame. Drop the residue."
    flat = ~g.isfinite().all(-1).all(-1) & x.isfinite().all(-1).all(-1)
    problems = dict.fromkeys(flat.nonzero().flatten().tolist(), line)
    return Draft(SE3, g, chain.names, chain.places, name, problems)
