"""Residue frames from atoms: what PDB and mmCIF share."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import NamedTuple

import torch

from ..._core.text import printable
from ...groups import SE3
from .._draft import Draft, Place
from .._source import Source
from ..errors import DataError

BACKBONE = ("N", "CA", "C")
_ATOM_SIZE = 400  # bytes, about


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
    hetero: bool = False  # HETATM: a modified residue, a cap, a ligand, an ion
    ligand: bool = False  # not of the chain, as far as the file tells


@dataclass
class _Residue:
    """Atoms of one residue, with what tells whether another belongs to it."""

    atoms: list[Atom] = field(default_factory=list)
    held: set[tuple[str, str]] = field(default_factory=set)
    names: set[str] = field(default_factory=set)

    def takes(self, atom: Atom) -> bool:
        """Whether the atom may be of it.

        Those that it has already are another's, and so are those of another residue name unless
        they are alternatives.
        """
        if (atom.name, atom.alternative) in self.held:
            return False
        return bool(atom.alternative) or atom.residue_name in self.names

    def add(self, atom: Atom) -> None:
        self.atoms.append(atom)
        self.held.add((atom.name, atom.alternative))
        self.names.add(atom.residue_name)


@dataclass
class _Chain:
    names: list[str]
    atoms: list[list[tuple[float, float, float]]]
    places: list[Place]
    incomplete: int = 0


def drafts(source: Source, atoms: Iterable[Atom], notes: list[str]) -> list[Draft]:
    """One set a chain, one pose a residue that has all three atoms, in the order of the file."""
    chains: dict[str, _Chain] = {}
    ligands = 0
    for residue in _residues(source, atoms):
        if residue[0].ligand:
            ligands += {atom.name for atom in residue} == set(BACKBONE)
        else:
            _add(chains, residue)
    for name, chain in chains.items():
        if chain.incomplete and chain.names:
            left_out = _counted(chain.incomplete, "without all of N, CA, C")
            notes.append(f"chain {printable(name, 24) or 'without name'}: {left_out} left out.")
    if ligands:
        where = "after the end of a chain"
        notes.append(f"{_counted(ligands, where)} left out: ligands come there.")
    return _drafts({name: chain for name, chain in chains.items() if chain.names})


def no_frames(source: Source, count: int) -> DataError:
    """What to raise about a file of so many atoms whose `drafts` are none."""
    return source.error(
        f"no residue with the atoms N, CA and C among {count} atoms. A backbone is needed: "
        "traces of CA alone have no frames."
    )


def _counted(count: int, which: str) -> str:
    return f"1 residue {which} is" if count == 1 else f"{count} residues {which} are"


def _residues(source: Source, atoms: Iterable[Atom]) -> list[list[Atom]]:
    """Atoms by chain and residue: alternatives may be listed in a block of their own.

    One that comes again with the same atoms is another, as where numbers start anew or are
    missing.
    """
    residues: list[_Residue] = []
    latest: dict[tuple[str, str], _Residue] = {}
    for count, atom in enumerate(atoms):
        if count % 10_000 == 0:
            source.require_few(count, "atoms of backbones", _ATOM_SIZE)
        key = (atom.chain, atom.residue)
        residue = latest.get(key)
        if residue is None or not residue.takes(atom):
            residue = latest[key] = _Residue()
            residues.append(residue)
        residue.add(atom)
    return [residue.atoms for residue in residues]


def _add(chains: dict[str, _Chain], residue: list[Atom]) -> None:
    chain = chains.setdefault(residue[0].chain, _Chain([], [], []))
    chosen = _one_place(residue)
    if any(name not in chosen for name in BACKBONE):
        # A calcium is called CA, and a cap has but a C or an N: these are no residues.
        chain.incomplete += len(chosen) > 1 or not residue[0].hetero
        return
    chain.atoms.append([chosen[name].position for name in BACKBONE])
    chain.names.append(f"{chosen['CA'].residue_name} {residue[0].residue}".strip())
    chain.places.append(chosen["N"].place)


def _one_place(residue: list[Atom]) -> dict[str, Atom]:
    """The atoms of the alternative that is complete and most occupied; the first of equals."""
    seen: dict[str, dict[str, Atom]] = {}  # letter -> name -> atom
    for atom in residue:
        seen.setdefault(atom.alternative, {}).setdefault(atom.name, atom)
    shared = seen.get("", {})
    candidates = [shared | atoms for atoms in seen.values()]
    return max(candidates, key=lambda x: (len(x), sum(atom.occupancy for atom in x.values())))


def _drafts(chains: dict[str, _Chain]) -> list[Draft]:
    """The frames of all chains, computed together."""
    x = torch.tensor([p for c in chains.values() for p in c.atoms], dtype=torch.float64)
    x = x.reshape(-1, 3, 3)  # [N, atom, axis]
    g = SE3.from_backbone(*x.unbind(-2))
    line = "N, CA and C lie on a line or in one point, which makes no frame. Drop the residue."
    flat = ~g.isfinite().flatten(1).all(-1) & x.isfinite().flatten(1).all(-1)
    sizes = [len(chain.names) for chain in chains.values()]
    some, drafts = bool(flat.any()), list[Draft]()
    parts = zip(chains.items(), g.split(sizes), flat.split(sizes), strict=True)
    for (name, chain), own, lines in parts:
        problems = dict.fromkeys(lines.nonzero().flatten().tolist() if some else (), line)
        drafts.append(Draft(SE3, own, chain.names, chain.places, name, problems))
    return drafts
