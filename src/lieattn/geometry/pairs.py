"""From poses to pairwise invariants: `w_ij = log(g_i^-1 g_j)` and where it exists."""

from __future__ import annotations

from typing import NamedTuple

import torch
from torch import Tensor

from .._core.pytree import exportable
from .._core.tensors import gather_neighbours, island, readable
from ..groups import Group, checks


@exportable
class Relations(NamedTuple):
    """Pairwise invariants of two sets of poses, unchanged when one element moves all of them."""

    coords: Tensor  # [..., Nq, Nk, dim], orthonormal coordinates of the chart, 0 where invalid
    valid: Tensor  # [..., Nq, Nk], True where the pair is on the chart


class DeferredRelations(NamedTuple):
    """Poses whose relations are too many to keep: each layer computes them, a block at a time."""

    q_poses: Tensor  # [..., Nq, m, m]
    k_poses: Tensor  # [..., Nk, m, m]
    exclude_self: bool
    margin: float
    mask: Tensor | None = None  # boolean, True = may attend, broadcasts to [..., 1, Nq, Nk]
    queries: Tensor | None = None  # [..., Nq], False: this query attends to nothing
    scale: Tensor | None = None  # [..., 1, dim], what w is divided by


def relations(
    group: Group, q: Tensor, k: Tensor, chart: str = "principal", *, margin: float = 0.0
) -> Relations:
    """Coordinates of `q_i^-1 k_j` for every query i and key j, and their validity.

    Args:
        group: the group of the poses.
        q: query poses, `[..., Nq, m, m]`.
        k: key poses, `[..., Nk, m, m]`; batch dimensions broadcast.
        chart: "principal" (the logarithm) or "polar" (defined for every pair, see `Aff2`).
        margin: pairs closer to the cut than this angle count as off the chart. Data full of half
            turns need one: there the sign of w hangs on rounding, and equivariance with it. In the
            polar chart of Aff(n) they stay, all with rotations about axes on one side of a plane,
            by up to pi + margin: `exp` leads to the same elements, and every pair may attend.
    Returns:
        `Relations(coords, valid)`. A pair without a logarithm has zero coordinates, zero gradient
        and `valid` False, and so has every pair of a pose that the group does not admit (see
        `Group.admits`). An exact half turn of SO(n), SE(n), Sim(n) is valid: it has two logarithms
        of equal norms, and one of them comes back.

    Validity depends on `q_i^-1 k_j` alone, so masking by it preserves equivariance.

    >>> import torch
    >>> from lieattn import SE2, relations
    >>> poses = SE2.from_xy_theta(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    >>> relations(SE2, poses, poses).coords[0, 1]
    tensor([1., 0., 0.])
    """
    require_sets(group, q, k)
    with island(q):
        (q, of_q), (k, of_k) = _admitted(group, q), _admitted(group, k)
        pairs = q[..., :, None, :, :], k[..., None, :, :, :]
        rel = Relations(*group.relation(*pairs, chart, margin))
        return _among(rel, of_q[..., :, None] & of_k[..., None, :])


def neighbour_relations(
    group: Group,
    q: Tensor,
    k: Tensor,
    neighbours: Tensor,
    chart: str = "principal",
    *,
    margin: float = 0.0,
) -> Relations:
    """Coordinates of `q_i^-1 k_j` for the keys j that a list names for query i.

    Args:
        group, q, k, chart, margin: as for `relations`.
        neighbours: indices of keys, `[..., Nq, k]`; -1 fills a list that is shorter than k.
    Returns:
        `Relations` with coords `[..., Nq, k, dim]`; a place filled with -1 is not valid.

    >>> import torch
    >>> from lieattn import SE2, neighbour_relations
    >>> poses = SE2.from_xy_theta(torch.tensor([[0.0, 0.0, 0.0], [1.0, 0.0, 0.0]]))
    >>> neighbour_relations(SE2, poses, poses, torch.tensor([[1], [-1]])).valid
    tensor([[ True],
            [False]])
    """
    require_sets(group, q, k)
    require_neighbours(neighbours, q.shape[-3], k.shape[-3])
    m = group.matrix_size
    with island(q):
        (q, of_q), (k, of_k) = _admitted(group, q), _admitted(group, k)
        keys = gather_neighbours(k.flatten(-2), neighbours).unflatten(-1, (m, m))
        rel = Relations(*group.relation(q[..., :, None, :, :], keys, chart, margin))
        of_k = gather_neighbours(of_k[..., None], neighbours)[..., 0]
        return _among(rel, of_q[..., :, None] & of_k & (neighbours >= 0))


def _admitted(group: Group, poses: Tensor) -> tuple[Tensor, Tensor]:
    """Poses with the identity where they are not admitted, and where they are, `[..., N]`.

    A pose that is not finite, singular or out of range is a masked token: as an identity it has
    finite coordinates and no gradient, so that it cannot spoil other tokens.
    """
    admitted = group.admits(poses)
    eye = group.identity(dtype=poses.dtype, device=poses.device)
    return torch.where(admitted[..., None, None], poses, eye), admitted


def _among(rel: Relations, pairs: Tensor) -> Relations:
    """Relations that are valid for some pairs alone, with zero coordinates for the others."""
    return Relations(torch.where(pairs[..., None], rel.coords, 0), rel.valid & pairs)


def relate(
    group: Group,
    q: Tensor,
    k: Tensor,
    chart: str,
    neighbours: Tensor | None,
    exclude_self: bool,
    margin: float,
    first: int = 0,
) -> Relations:
    """Relations of all pairs or of listed ones, with `valid` = may attend.

    With `first` the queries are the tokens from there on, as in a block of a set. Pairs closer to
    the cut than `Chart.resolution` are left out.
    """
    margin = max(margin, group.chart(chart).resolution(torch.promote_types(q.dtype, k.dtype)))
    if neighbours is None:
        rel = relations(group, q, k, chart, margin=margin)
    else:
        rel = neighbour_relations(group, q, k, neighbours, chart, margin=margin)
    return without_self(rel, neighbours, first) if exclude_self else rel


def without_self(rel: Relations, neighbours: Tensor | None = None, first: int = 0) -> Relations:
    """Relations of a set with itself in which no token may attend to itself."""
    queries, keys = rel.valid.shape[-2:]
    tokens = torch.arange(first, first + queries, device=rel.valid.device)
    if neighbours is None:
        neighbours = torch.arange(keys, device=rel.valid.device)
    return Relations(rel.coords, rel.valid & (neighbours != tokens[:, None]))


def divide(group: Group, coords: Tensor, scale: Tensor) -> Tensor:
    """Coordinates divided by scales `[..., 1, dim]` of their sets; parity stays as it is."""
    divided = coords[..., : group.dim] / scale.unsqueeze(-2)
    if coords.shape[-1] == group.dim:
        return divided
    parity = coords[..., group.dim :].expand(*divided.shape[:-1], -1)
    return torch.cat([divided, parity], dim=-1)


def require_neighbours(neighbours: Tensor, queries: int, keys: int) -> None:
    """Refuse what is not a list of indices of keys for every query."""
    if not isinstance(neighbours, Tensor):
        raise TypeError(
            f"neighbours must be a torch.Tensor, got {type(neighbours).__name__}. Use "
            "torch.as_tensor(...)."
        )
    if neighbours.dtype != torch.int64:
        raise ValueError(f"neighbours must be int64 indices of keys, got {neighbours.dtype}.")
    if keys == 0:
        raise ValueError("neighbours name keys of an empty set; leave them out.")
    if neighbours.dim() < 2 or neighbours.shape[-2] != queries:
        raise ValueError(
            f"neighbours must have shape [..., Nq, k] with Nq = {queries}, got "
            f"{list(neighbours.shape)}: one list of keys for each query, filled up with -1."
        )
    if neighbours.numel() and readable(neighbours):
        low, high = (int(x) for x in neighbours.aminmax())
        if low < -1 or high >= keys:
            raise ValueError(
                f"neighbours must be indices of keys, 0 to {keys - 1}, or -1 for none; got values "
                f"from {low} to {high}."
            )


def require_sets(group: Group, q: Tensor, k: Tensor) -> None:
    """Queries and keys are sets of poses of the group, with one batch."""
    if not isinstance(group, Group):
        raise TypeError(f"group must be a Group, got {group!r}. Use get_group(...) for a name.")
    checks.sets(group, q, k)


def require_set(group: Group, poses: Tensor) -> None:
    """Poses are a set `[..., N, m, m]`."""
    checks.pose_set(group, poses)
