"""`Request`: what the operator is asked for, and the checks of it. They read no values."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, fields
from typing import Any, NamedTuple

import torch
from torch import Tensor

from .._core.tensors import common_batch, has_memory, is_dense
from ..geometry.pairs import Relations, divide, relate, require_neighbours
from ..groups import Group
from ..groups import checks as of_group

Logits = Callable[[Tensor], Tensor]


class Operands(NamedTuple):
    """What a kernel computes with, in the order of its operator's arguments."""

    group: str  # its name
    q_poses: Tensor  # [B, Nq, m, m], float32 as all that follow
    k_poses: Tensor  # [B, Nk, m, m]
    values: Tensor  # [B, H, Nk, dv]
    weights: Tensor  # [H, K]
    mask: Tensor | None  # four dimensions that broadcast to [B, H, Nq, Nk]
    bias: Tensor | None  # like the mask
    exclude_self: bool
    margin: float
    prune: float = 0.0

    @property
    def pairs(self) -> tuple[int, int, int, int]:
        """B, H, Nq, Nk."""
        B, H, Nk, _ = self.values.shape
        return B, H, self.q_poses.shape[1], Nk

    @property
    def tensors(self) -> tuple[Tensor | None, ...]:
        return self[1:7]

    def with_tensors(self, tensors: Sequence[Tensor | None]) -> Operands:
        """The same operands with other tensors."""
        named: dict[str, Any] = dict(zip(Operands._fields[1:7], tensors, strict=True))
        return self._replace(**named)


@dataclass(frozen=True)
class Request:
    """One call of the operator. Shapes fit together; a backend need not check them again.

    A backend is a module with `ANSWERS`, the names of the fields that it knows, `unsupported`,
    from a request to a reason in one sentence or None, and `run`, which gives `sum_j a_ij v_j` and
    `sum_j a_ij w_ij`. A field that has its default asks for nothing. `dispatch` refuses a request
    that uses a field which the backend does not name, so a new field starts out refused by all.
    """

    group: Group
    q_poses: Tensor  # [..., Nq, m, m]
    k_poses: Tensor  # [..., Nk, m, m]
    values: Tensor  # [..., H, Nk, dv]
    weights: Tensor | Logits  # [H, K] of the chart's blocks; or from coordinates to logits
    mask: Tensor | None = None  # boolean, broadcasts to [..., H, Nq, Nk]
    bias: Tensor | None = None  # broadcasts to [..., H, Nq, Nk]; -inf masks
    exclude_self: bool = False
    chart: str = "principal"
    neighbours: Tensor | None = None  # [..., Nq, k], -1 for none; k then stands for Nk above
    margin: float = 0.0
    q_content: Tensor | None = None  # [..., H, Nq, c], and for the keys, whose products
    k_content: Tensor | None = None  # [..., H, Nk, c], are added to the logits
    scale: Tensor | None = None  # [..., 1, dim], one number a block: w is divided by it
    dtype: torch.dtype | None = None  # of w after the logarithm, if not that of the poses
    prune: float = 0.0  # share of a row's weights that a backend may leave out, none has to
    first: int = 0  # the key that is query 0 itself: a block of queries starts further on

    @property
    def used(self) -> list[str]:
        """Names of the fields that ask for something: those that differ from their default."""
        kind, names = type(self), [field.name for field in fields(self)]
        # Defaults are attributes of the class; torch cannot compile `field.default`.
        return [
            name
            for name in names
            if not hasattr(kind, name) or _differs(getattr(self, name), getattr(kind, name))
        ]

    @property
    def queries(self) -> int:
        """Nq."""
        return self.q_poses.shape[-3]

    @property
    def batch(self) -> torch.Size:
        """What the batches of poses, values and lists broadcast to."""
        shapes = [self.q_poses.shape[:-3], self.k_poses.shape[:-3], self.values.shape[:-3]]
        if self.neighbours is not None:
            shapes.append(self.neighbours.shape[:-2])
        batch = common_batch(*shapes)
        if batch is None:
            raise ValueError(f"poses, values and lists must have one batch, got {shapes}.")
        return batch

    @property
    def pairs_of_a_query(self) -> int:
        """Pairs that each query has over the whole batch."""
        lists = self.neighbours
        keys = self.k_poses.shape[-3] if lists is None else lists.shape[-1]
        return self.batch.numel() * keys

    def relations(self) -> Relations:
        """w and where it exists, of all pairs at once."""
        coords, valid = relate(
            self.group,
            self.q_poses,
            self.k_poses,
            self.chart,
            self.neighbours,
            self.exclude_self,
            self.margin,
            self.first,
        )
        if self.scale is not None:
            coords = divide(self.group, coords, self.scale)
        return Relations(coords if self.dtype is None else coords.to(self.dtype), valid)

    def check(self) -> None:
        """Refuse tensors that do not fit together."""
        group, q, k, values = self.group, self.q_poses, self.k_poses, self.values
        if self.exclude_self:
            require_square(q, k)
        of_group.sets(group, q, k)
        columns = k.shape[-3]
        if self.neighbours is not None:
            require_neighbours(self.neighbours, q.shape[-3], k.shape[-3])
            columns = self.neighbours.shape[-1]
        require_values(values, q, k)
        require_prune(self.prune)
        if isinstance(self.weights, Tensor):
            require_weights(self.weights, values.shape[-3], group, self.chart)
        if (self.q_content is None) != (self.k_content is None):
            raise ValueError("q_content and k_content go together: contents of queries and keys.")
        if self.mask is None and self.bias is None:
            return
        batch = self.batch
        shape = torch.Size((*batch, values.shape[-3], q.shape[-3], columns))
        if self.bias is not None:
            require_bias(self.bias, len(batch))
            require_pairs("bias", self.bias, shape)
        if self.mask is not None:
            require_pairs("mask", self.mask, shape)
            _require_one_meaning(self.mask, shape)

    # ---- as kernels take it: one batch dimension ---------------------------------------------

    def operands(self, weights: Tensor, margin: float) -> Operands:
        """What a kernel computes with; values in float32."""
        batch = self.batch
        return Operands(
            self.group.name,
            _flat(self.q_poses, batch),
            _flat(self.k_poses, batch),
            _flat(self.values.float(), batch),
            weights,
            _flat_pairs(self.mask, batch),
            _flat_pairs(self.bias, batch),
            self.exclude_self,
            margin,
            float(self.prune),
        )

    def unflat(self, out: Tensor, coords: Tensor) -> tuple[Tensor, Tensor]:
        """The two sums with the batch of the request, in the dtype of the values.

        Coordinates are without the batch that values alone have, where all of them are the same.
        """
        batch = self.batch
        out = out.to(self.values.dtype)
        if len(batch) != 1:
            out = out.reshape(*batch, *out.shape[1:])
            coords = coords.reshape(*batch, *coords.shape[1:])
        pairs = (x.shape[:-3] for x in (self.mask, self.bias) if x is not None)
        own = common_batch(self.q_poses.shape[:-3], self.k_poses.shape[:-3], *pairs)
        if own is None or own == batch:
            return out, coords
        more = len(batch) - len(own)
        coords = coords[(0,) * more]
        for dim, (size, whole) in enumerate(zip(own, batch[more:], strict=True)):
            coords = coords if size == whole else coords.narrow(dim, 0, 1)
        return out, coords


def _differs(value: object, default: object) -> bool:
    if value is None or default is None:
        return value is not default
    return value != default


def _flat(x: Tensor, batch: torch.Size) -> Tensor:
    """`[..., a, b, c]` as `[B, a, b, c]`."""
    if x.dim() == 4 and x.shape[:1] == batch:
        return x
    return x.expand(*batch, *x.shape[-3:]).reshape(batch.numel(), *x.shape[-3:])


def _flat_pairs(x: Tensor | None, batch: torch.Size) -> Tensor | None:
    """A mask or bias as `[B or 1, H or 1, Nq or 1, Nk or 1]`; what it broadcasts is not copied."""
    if x is None:
        return None
    x = x if x.dtype == torch.bool else x.float()
    x = x[(None,) * (3 - x.dim())] if x.dim() < 3 else x
    return x.reshape(1, *x.shape[-3:]) if x.shape[:-3].numel() == 1 else _flat(x, batch)


def pair_strides(x: Tensor | None, pairs: tuple[int, ...]) -> tuple[int, ...]:
    """Strides along batch, heads, queries and keys, 0 where `x` broadcasts."""
    return x.expand(pairs).stride() if x is not None else (0, 0, 0, 0)


# ---- checks -------------------------------------------------------------------------------------


def require_values(values: Tensor, q_poses: Tensor, k_poses: Tensor) -> None:
    """Values are `[..., H, Nk, dv]`, with the batch of the poses."""
    if not values.is_floating_point():
        raise ValueError(f"values must be floating-point numbers, got {values.dtype}.")
    keys = k_poses.shape[-3]
    batch = common_batch(q_poses.shape[:-3], k_poses.shape[:-3]) or torch.Size()
    fits = values.dim() >= 3 and values.shape[-2] == keys
    if not fits or common_batch(values.shape[:-3], batch) is None:
        expected = f"[{', '.join(map(str, batch))}{', ' if batch else ''}H, {keys}, dv]"
        raise ValueError(
            f"values must have shape {expected} (batch, heads, keys, width), got "
            f"{list(values.shape)}; the key poses are {list(k_poses.shape)}."
        )


def require_weights(weights: Tensor, heads: int, group: Group, chart: str) -> None:
    """Block weights are `[H, K]`, a row a head and a column a block of the chart."""
    blocks = group.chart_blocks(chart)
    if weights.shape != (heads, len(blocks)):
        names = ", ".join(block.name for block in blocks)
        raise ValueError(
            f"weights must have shape [{heads}, {len(blocks)}] (heads of the values, blocks of "
            f"{group} in the {chart} chart: {names}), got {list(weights.shape)}."
        )


def require_prune(prune: float) -> None:
    """`prune` is a share of the weights of a query."""
    if isinstance(prune, bool) or not isinstance(prune, int | float):
        raise TypeError(f"prune must be a number, got {type(prune).__name__} {prune!r}.")
    if not 0 <= prune < 1:
        raise ValueError(
            f"prune is the share of a query's weights that may be left out, from 0 (nothing) to "
            f"below 1, got {prune}. 1e-3 is a good start."
        )


def require_logits(logits: Tensor, coords: Tensor, heads: int) -> None:
    """A score answers coordinates `[..., Nq, Nk, C]` with logits `[..., H, Nq, Nk]`."""
    *batch, queries, keys, _ = coords.shape
    fits = [[*batch, h, queries, keys] for h in {1, heads}]
    if list(logits.shape) not in fits:
        raise ValueError(
            f"the score returned {list(logits.shape)} for coordinates {list(coords.shape)}, "
            f"expected {[*batch, heads, queries, keys]} (batch, heads, queries, keys). For one "
            "score for all heads use logits.unsqueeze(-3)."
        )


def require_pairs(name: str, x: Tensor, shape: torch.Size) -> None:
    """A mask or bias broadcasts to the logits, `[..., H, Nq, Nk]`."""
    if name == "mask" and x.dtype != torch.bool:
        raise ValueError(
            f"mask must be boolean, True where a query may attend to a key, got {x.dtype}. For a "
            "mask of zeros and -inf use bias=mask."
        )
    if not _broadcasts(x.shape, shape):
        hint = ""
        if x.dim() == 2 and x.shape == (shape[0], shape[-1]):
            hint = f" To mask the keys of each set use {name}[:, None, None, :]."
        raise ValueError(
            f"{name} must broadcast to {list(shape)} (batch, heads, queries, keys), got "
            f"{list(x.shape)}.{hint}"
        )


def require_bias(bias: Tensor, batch: int) -> None:
    """A bias is of all pairs, `[Nq, Nk]`, or names sets and heads both, `[..., H, Nq, Nk]`.

    Three dimensions, with one of the batch, could be of sets or of heads.
    """
    if bias.dim() in (2, batch + 3):
        return
    hint = ""
    if bias.dim() == batch + 2:
        hint = " For one bias a set, shared by its heads, use bias.unsqueeze(-3)"
        hint += "; for one a head, shared by all sets, bias[None]." if batch == 1 else "."
    raise ValueError(
        f"bias must be [Nq, Nk], or [{'B, ' * batch}H, Nq, Nk] where sizes of 1 broadcast, got "
        f"{list(bias.shape)}.{hint}"
    )


def _require_one_meaning(mask: Tensor, shape: torch.Size) -> None:
    """A mask `[B, Nq, Nk]` means sets to a layer, and broadcasts as `[H, Nq, Nk]` here."""
    batch, first = shape[:-3], mask.shape[:-2]
    if len(first) == len(batch) and first.numel() != 1 and _broadcasts(first, batch):
        raise ValueError(
            f"mask {list(mask.shape)} could be one of sets or of heads, for {list(shape)} (batch, "
            "heads, queries, keys). Use mask.unsqueeze(-3) for one mask a set, mask[None] for one "
            "a head."
        )


def self_excluded(exclude_self: bool | None, q_poses: Tensor, k_poses: Tensor) -> bool:
    """Whether key i is left out for query i: as asked, or with None where keys are the queries.

    They are if both are one tensor, or views of the same memory: `p[None] is p[None]` is False.
    """
    if exclude_self is not None:
        return exclude_self
    if any(not isinstance(x, Tensor) or not is_dense(x) for x in (q_poses, k_poses)):
        return False  # `Request.check` says what is wrong
    if not has_memory(q_poses, k_poses) or torch._C._get_tracing_state() is not None:
        raise ValueError(
            "whether keys are the queries cannot be told inside torch.func transforms, "
            "torch.compile and export. Pass exclude_self=True to leave out key i for query i, as "
            "in self-attention, or exclude_self=False."
        )
    return q_poses is k_poses or _place(q_poses) == _place(k_poses)


def _place(x: Tensor) -> tuple[object, ...]:
    """Where the elements of a tensor lie; the stride of a single element has no meaning."""
    strides = tuple(s for s, n in zip(x.stride(), x.shape, strict=True) if n != 1)
    return x.device, x.dtype, x.data_ptr(), x.shape, strides


def require_square(q_poses: Tensor, k_poses: Tensor) -> None:
    """`exclude_self` pairs query i with key i."""
    if any(not isinstance(x, Tensor) or x.dim() < 3 for x in (q_poses, k_poses)):
        return  # `Request.check` says what is wrong
    queries, keys = q_poses.shape[-3], k_poses.shape[-3]
    if queries != keys:
        raise ValueError(
            f"exclude_self leaves out key i for query i and needs as many queries as keys, got "
            f"{queries} and {keys}. For attention between two sets pass exclude_self=False."
        )


def _broadcasts(shape: torch.Size, target: torch.Size) -> bool:
    if len(shape) > len(target):
        return False
    pairs = zip(reversed(shape), reversed(target), strict=False)
    return all(a in (1, b) for a, b in pairs)
