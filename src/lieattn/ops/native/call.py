"""One call of the CPU kernel: the library that is used, and what it is given."""

from __future__ import annotations

from ctypes import addressof, c_int64, c_uint8

import torch
from torch import Tensor

from .._flat import pair_strides
from . import library
from .library import Library, Problem

# Groups that the kernel serves, by the codes of native/attention.h.
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

    def __init__(
        self,
        group: str,
        q_poses: Tensor,
        k_poses: Tensor,
        values: Tensor,
        weights: Tensor,
        mask: Tensor | None,
        bias: Tensor | None,
        exclude_self: bool,
        margin: float,
        prune: float = 0.0,
    ) -> None:
        B, H, Nk, dv = values.shape
        Nq = q_poses.shape[1]
        self.pairs = B, H, Nq, Nk
        self.empty = 0 in self.pairs
        # The kernel takes a NaN or +inf for a key that does not count.
        self.fits = bias is None or bias.numel() == 0 or bool(bias.amax() < torch.inf)
        # Named here, so that they live as long as their addresses are in use.
        self.tensors = [x.contiguous() for x in (q_poses, k_poses, values, weights)]
        self.mask, self.bias = _dense_keys(mask), _dense_keys(bias)
        self.strides = pair_strides(self.bias, self.pairs)
        self.unfit = (c_uint8 * B)()  # what the kernel says of each set
        self.problem = Problem(
            *(B, H, Nq, Nk, dv, CODES[group], exclude_self),
            *(torch.get_num_threads(), TEAM),
            margin,
            *(prune, 0),
            *(x.data_ptr() for x in self.tensors),
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

    def unfit_sets(self) -> Tensor:
        """Indices of the sets that the kernel did not answer."""
        return torch.tensor([i for i, unfit in enumerate(self.unfit) if unfit])

    def bias_copies(self, d_bias: Tensor) -> Tensor:
        """Where threads add up the gradient of a bias: one place each if they would meet.

        They share out sets and keys, and no bias that is the same for all keys comes here.
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
