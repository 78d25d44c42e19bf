"""What tokens are, by their names: residues, elements of a drawing, files of parts."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

import torch
from torch import Tensor

from .. import data

COMMON = 3  # sets that a kind is in, at least


def kind_of(name: str) -> str:
    """The first word of a name; nothing if it is a number, as time stamps are.

    >>> kind_of("ALA 12"), kind_of("stud.dat"), kind_of("1305031102.1758")
    ('ALA', 'stud.dat', '')
    """
    first = name.split(maxsplit=1)[0] if name.strip() else ""
    try:
        float(first)
    except ValueError:
        return first
    return ""


def vocabulary(sets: Sequence[data.PoseSet], most: int) -> tuple[str, ...]:
    """The kinds that most sets have, up to `most` of them."""
    # Windows of one set are one.
    found = {(x.source, x.whole or x.name, kind_of(name)) for x in sets for name in x.names}
    counts = Counter(kind for *_, kind in found)
    common = [(kind, n) for kind, n in counts.items() if kind and n >= COMMON]
    common.sort(key=lambda item: (-item[1], item[0]))
    return tuple(kind for kind, _ in common[:most])


def kind_features(sets: Sequence[data.PoseSet], kinds: Sequence[str]) -> Tensor:
    """`[S, N, len(kinds)]`: one where a token is of a kind, all zeros for others and padding."""
    size = max(len(x) for x in sets)
    places = {kind: i for i, kind in enumerate(kinds)}
    found = torch.zeros(len(sets), size, len(kinds))
    for row, x in enumerate(sets):
        for i, name in enumerate(x.names):
            place = places.get(kind_of(name))
            if place is not None:
                found[row, i, place] = 1
    return found
