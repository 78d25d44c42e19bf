"""One call of the CPU kernel: the library that is used, and what it is given."""

from __future__ import annotations

from collections.abc import Callable
from ctypes import addressof, c_int64, c_uint8

import torch
from torch import Tensor

from .._custom import (
    Cotangents,
    Gradients,
    Needs,
    Results,
    empty_gradients,
)
from ..request import Operands, pair_strides
from . import fallback, library
from .library import NO_MEMORY, UNFIT, VARIABLE, Library, Problem

# Groups that the kernel serves: their codes in native/attention.h, and their dimensions.
CODES = {"SO2": 0, "SE2": 1, "SO3": 2, "SE3": 3, "Aff2": 4, "Aff3": 5}
DIMS = {"SO2": 1, "SE2": 3, "SO3": 3, "SE3": 6, "Aff2": 6, "Aff3": 12}

TEAM = library.openmp()
LIBRARY: Library | None = None
MISSING: str | None = None  # why there is no library
try:
    LIBRARY = library.load_best()
except library.Missing as missing:
    MISSING = str(missing)


class Call:
    """What both entries of the kernel are given, and the tensors behind its addresses."""

    def __init__(self, x: Operands) -> None:
        self.pairs = x.pairs
        self.empty = 0 in self.pairs
        # The kernel takes a NaN or +inf for a key that does not count.
        bias = x.bias
        self.fits = bias is None or bias.numel() == 0 or bool(bias.amax() < torch.inf)
        # Named here, so that they live as long as their addresses are in use.
        self.tensors = [t.contiguous() for t in (x.q_poses, x.k_poses, x.values, x.weights)]
        self.mask, self.bias = _dense_keys(x.mask), _dense_keys(bias)
        self.strides = pair_strides(self.bias, self.pairs)
        self.unfit = (c_uint8 * self.pairs[0])()  # what the kernel says of each set
        self.problem = Problem(
            *(*self.pairs, x.values.shape[-1], CODES[x.group], x.exclude_self),
            *(torch.get_num_threads(), TEAM),
            *(x.margin, x.prune, 0),
            *(t.data_ptr() for t in self.tensors),
            None if self.mask is None else self.mask.data_ptr(),
            (c_int64 * 4)(*pair_strides(self.mask, self.pairs)),
            None if self.bias is None else self.bias.data_ptr(),
            (c_int64 * 4)(*self.strides),
            addressof(self.unfit),
        )

    @property
    def library(self) -> Library:
        if LIBRARY is None:
            raise RuntimeError(f"there is no native kernel here: {MISSING}.")
        return LIBRARY

    def run(self, entry: Callable[..., int], *results: object) -> bool:
        """Fill in the results; False if some sets are unfit for the kernel."""
        status = entry(self.problem, *results)
        if status == NO_MEMORY:
            raise MemoryError("the native kernel found no memory for its work.")
        if status not in (0, UNFIT):
            raise RuntimeError(
                f"the native kernel returned {status}: it was built from another version. Install "
                f"lieattn again, or set {VARIABLE}=off."
            )
        return status == 0

    def unfit_sets(self) -> Tensor:
        """Indices of the sets that the kernel did not answer."""
        return torch.tensor([i for i, unfit in enumerate(self.unfit) if unfit])

    def bias_copies(self, d_bias: Tensor) -> Tensor:
        """Where threads add up the gradient of a bias: one place each if they would meet.

        Threads share sets and keys, and a bias that is the same for all keys does not come here.
        """
        meet = self.pairs[0] > 1 and self.strides[0] == 0
        if not meet or self.problem.threads == 1:
            return d_bias
        return d_bias.new_empty((self.problem.threads, *d_bias.shape))


def _dense_keys(x: Tensor | None) -> Tensor | None:
    """A mask or bias whose keys lie side by side, or which broadcasts along them."""
    if x is None or x.stride(-1) in (0, 1) or x.shape[-1] == 1:
        return x
    return x.contiguous()


def shapes(x: Operands) -> Results:
    """Empty results. Three numbers of each query are kept.

    They are the largest logit, one over the sum of weights, and the squared distance from which on
    keys were left out.
    """
    B, H, Nq, _ = x.pairs
    empty = x.values.new_empty
    out, coords = empty((B, H, Nq, x.values.shape[-1])), empty((B, H, Nq, DIMS[x.group]))
    return Results(out, coords, empty((B, H, Nq, 3)))


def forward(x: Operands) -> Results:
    """Sums of values and coordinates."""
    results, call = shapes(x), Call(x)
    if call.empty:
        return Results(*(y.zero_() for y in results))
    if not call.fits:
        fallback.log()
        return Results(*fallback.answer(x), results.kept.zero_())
    if call.run(call.library.forward, *(y.data_ptr() for y in results)):
        return results
    fallback.log()
    sets = call.unfit_sets()
    for block, unfit in fallback.blocks(sets, len(results.out)):
        found = fallback.answer(fallback.of_sets(x, block))
        for y, part in zip(results, found, strict=False):
            y[block][unfit] = part[unfit]
    results.kept[sets] = 0
    return results


def backward(x: Operands, results: Results, incoming: Cotangents, needs: Needs) -> Gradients:
    """Gradients of the operands."""
    found = empty_gradients(x, needs)
    if needs.bias and x.bias is not None:
        x = x._replace(bias=x.bias.contiguous())  # its gradient has the same strides
    call = Call(x)
    if call.empty:
        return Gradients(*(y.zero_() for y in found))
    if not call.fits:
        fallback.log()
        return fallback.gradients(x, incoming, needs)
    incoming = Cotangents(*(y.contiguous() for y in incoming))
    # A bias that is the same for all keys has no gradient: the softmax cancels it.
    summed = needs.bias and found.bias.shape[-1] > 1
    copies = call.bias_copies(found.bias) if summed else found.bias
    for y in (found.q_poses, found.k_poses, copies):
        y.zero_()
    passed = library.Gradients(
        *(y.data_ptr() for y in (*results, *incoming, found.values, found.weights)),
        found.q_poses.data_ptr() if needs.q_poses else None,
        found.k_poses.data_ptr() if needs.k_poses else None,
        copies.data_ptr() if summed else None,
        0 if copies is found.bias else found.bias.numel(),
    )
    all_fit = call.run(call.library.backward, passed)
    if copies is not found.bias:
        found = found._replace(bias=copies.sum(0))
    if not all_fit:
        fallback.log()
        _fill_in(found, x, incoming, needs, call.unfit_sets())
    return found


def _fill_in(
    found: Gradients, x: Operands, incoming: Cotangents, needs: Needs, sets: Tensor
) -> None:
    """The gradients of sets that the kernel left out, by the reference."""
    for block, unfit in fallback.blocks(sets, x.pairs[0]):
        own = [torch.zeros_like(y[block]) for y in incoming]
        for part, y in zip(own, incoming, strict=True):
            part[unfit] = y[block][unfit]
        rest = fallback.gradients(fallback.of_sets(x, block), Cotangents(*own), needs)
        for y, part, need in zip(found, rest, (needs.q_poses, needs.k_poses, True), strict=False):
            if need:
                y[block][unfit] = part[unfit]
        found.weights.add_(rest.weights)
        if needs.bias and x.bias is not None:
            found.bias[block if x.bias.shape[0] > 1 else slice(None)] += rest.bias
