"""Functions of poses beyond exp and log: points, steps, Jacobians, means, products."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, cast

import torch
from torch import Tensor

from .._core.small import mul_vec, widened
from . import _actions, _jacobians, _means, checks

if TYPE_CHECKING:
    from .base import Group


class Calculus:
    """The part of `Group` that follows from its exponential, logarithm and products.

    A subclass that knows a better way overrides `_act`, `_to_local` or `_settle`, whose arguments
    have been checked.
    """

    def _prepare(self) -> None:
        """Compute what is kept: a compiler cannot enter the lock of a `cached_property` (3.11)."""
        _ = self.point_dim, self._adjoint_action, _whole(self)._charts

    # ---- points ------------------------------------------------------------------------------

    @cached_property
    def point_dim(self) -> int:
        """Dimension of the points that `act` moves: n, or m where poses are not homogeneous.

        Poses are homogeneous where the last row of every generator is zero. Those of a product act
        on the points of its factors, side by side.
        """
        return _actions.point_dim(_whole(self))

    def act(self, g: Tensor, points: Tensor) -> Tensor:
        r"""Points moved by poses: $A p + t$, or $A p$ for a group without translations.

        Batch dimensions broadcast: `act(g[..., None, :, :], points)` moves many points by each
        pose.

        Args:
            g: poses, `[..., m, m]`; they carry coordinates of their own frame into the world's.
            points: `[..., n]`, n = `point_dim`.
        Returns:
            `[..., n]`.

        >>> import torch
        >>> from lieattn import SE2
        >>> g = SE2.from_xy_theta(torch.tensor([[1.0, 2.0, torch.pi / 2], [0.0, 0.0, 0.0]]))
        >>> SE2.act(g[:, None], torch.tensor([[1.0, 0.0], [0.0, 3.0], [0.0, 0.0]])).shape
        torch.Size([2, 3, 2])
        """
        return self._act(*_actions.operands(_whole(self), g, points))

    def to_local(self, g: Tensor, points: Tensor) -> Tensor:
        r"""Points of the world in the frames of poses, $A^{-1}(p - t)$: the inverse of `act`.

        The difference comes first: no digits are lost where poses are far from the origin.

        Args:
            g: poses, `[..., m, m]`.
            points: `[..., n]`; batch dimensions broadcast as in `act`.
        Returns:
            `[..., n]`.

        >>> import torch
        >>> from lieattn import T2
        >>> T2.to_local(T2.from_vector(torch.tensor([5.0, 5.0])), torch.tensor([6.0, 7.0]))
        tensor([1., 2.])
        """
        return self._to_local(*_actions.operands(_whole(self), g, points))

    def _act(self, g: Tensor, points: Tensor) -> Tensor:
        k = self.point_dim
        moved = mul_vec(g[..., :k, :k], points)
        return moved + g[..., :k, k] if k < g.shape[-1] else moved

    def _to_local(self, g: Tensor, points: Tensor) -> Tensor:
        k = self.point_dim
        if k < g.shape[-1]:
            points = points - g[..., :k, k]
        return _actions.solve(g[..., :k, :k], points)

    # ---- steps on the group ------------------------------------------------------------------

    def retract(self, g: Tensor, x: Tensor, chart: str = "principal") -> Tensor:
        """`g exp(x)`: poses moved by coordinates of their own frame.

        Args:
            g: poses, `[..., m, m]`.
            x: coordinates of the chart, `[..., dim]`; batch dimensions broadcast.
        Returns:
            `[..., m, m]`; `local(g, retract(g, x))` is x on the chart.

        >>> import torch
        >>> from lieattn import T2
        >>> T2.retract(T2.identity(), torch.tensor([1.0, 2.0]))[:2, 2]
        tensor([1., 2.])
        """
        whole = _whole(self)
        return whole.compose(g, whole.exp(x, chart))

    def local(self, g: Tensor, h: Tensor, chart: str = "principal") -> Tensor:
        """`log(g^-1 h)`: where h is as seen from g, the inverse of `retract`.

        Args:
            g, h: poses, `[..., m, m]`; batch dimensions broadcast.
        Returns:
            `[..., dim]` (one more in the polar chart of Aff(n)); NaN off the chart. It is
            `log_relative` under the name that optimisers give it.

        >>> from lieattn import T2
        >>> T2.local(T2.identity(), T2.identity())
        tensor([0., 0.])
        """
        return _whole(self).log_relative(g, h, chart)

    # ---- derivatives of exp ------------------------------------------------------------------

    def left_jacobian(self, x: Tensor, chart: str = "principal") -> Tensor:
        r"""Derivative of exp from the left, $e^{x + dx} \approx e^{J_l dx} e^x$.

        $J_l(x) = \sum_k \mathrm{ad}_x^k / (k+1)!$, in orthonormal coordinates. In the polar chart
        of Aff(n), exp is that of the chart, on the left of dx alone, and its derivative is taken
        in forward mode.

        Args:
            x: coordinates, `[..., dim]`; in the polar chart of Aff(n) the parity may follow.
        Returns:
            `[..., dim, dim]`, with finite gradients, at 0 too.

        >>> import torch
        >>> from lieattn import SE3
        >>> SE3.left_jacobian(torch.zeros(6)).equal(torch.eye(6))
        True
        """
        own = _whole(self).chart(chart)
        return own.left_jacobian(own.checked(x))

    def right_jacobian(self, x: Tensor, chart: str = "principal") -> Tensor:
        r"""Derivative of exp from the right, $e^{x + dx} \approx e^x e^{J_r dx}$.

        $J_r(x) = J_l(-x) = \mathrm{Ad}(e^{-x}) J_l(x)$.

        Args:
            x: coordinates, `[..., dim]`, as in `left_jacobian`.
        Returns:
            `[..., dim, dim]`.

        >>> import torch
        >>> from lieattn import SO3
        >>> x = torch.tensor([0.1, 0.2, 0.3])
        >>> SO3.right_jacobian(x).allclose(SO3.left_jacobian(-x))
        True
        """
        own = _whole(self).chart(chart)
        return own.right_jacobian(own.checked(x))

    def left_jacobian_inverse(self, x: Tensor, chart: str = "principal") -> Tensor:
        r"""$J_l(x)^{-1}$: how the logarithm of $e^{dx} e^x$ moves with dx, `[..., dim, dim]`.

        Domain: $J_l$ is singular where ad_x has an eigenvalue $2 \pi i k$, k not 0, as at a full
        turn; no such x is on the principal chart, and entries may be anything there.

        >>> import torch
        >>> from lieattn import SO2
        >>> SO2.left_jacobian_inverse(torch.tensor([1.0]))
        tensor([[1.]])
        """
        return torch.linalg.inv_ex(self.left_jacobian(x, chart))[0]

    def right_jacobian_inverse(self, x: Tensor, chart: str = "principal") -> Tensor:
        r"""$J_r(x)^{-1}$: how the logarithm of $e^x e^{dx}$ moves with dx, `[..., dim, dim]`.

        Domain: that of `left_jacobian_inverse`.

        >>> import torch
        >>> from lieattn import SO2
        >>> SO2.right_jacobian_inverse(torch.tensor([1.0]))
        tensor([[1.]])
        """
        return torch.linalg.inv_ex(self.right_jacobian(x, chart))[0]

    @cached_property
    def _adjoint_action(self) -> Tensor:
        """ad of each basis element, `[dim, dim, dim]` in float64: `ad_x = sum_i x_i ad_i`."""
        return _jacobians.adjoint_action(_whole(self)._generators64)

    # ---- many poses --------------------------------------------------------------------------

    def mean(self, g: Tensor, weights: Tensor | None = None) -> Tensor:
        r"""Weighted mean m of poses: $\sum_i w_i \log(m^{-1} g_i) = 0$.

        It moves with the scene, and is also that of inverses and of poses seen from elsewhere:
        `mean(a g b) = a mean(g) b`. For rotations it is the Karcher mean. Newton's method with
        step control finds it; gradients are those of the fixed point, in `g` and in `weights`.

        Args:
            g: poses, `[..., N, m, m]`.
            weights: `[..., N]`, not negative, of any positive sum; zero leaves a pose out, whatever
                it holds. They broadcast; None weighs all alike.
        Returns:
            `[..., m, m]`.
        Domain: poses within a quarter turn of some rotation have one mean. Where tensors are on the
            CPU and eager, poses that have none or more than one (half a turn apart) raise
            ValueError, as bad weights do; compiled programs, vmap and GPUs return finite poses.

        >>> import torch
        >>> from lieattn import SO2
        >>> m = SO2.mean(SO2.from_angle(torch.tensor([3.0, -3.0])), torch.tensor([3.0, 1.0]))
        >>> round(SO2.to_angle(m).item(), 4)
        3.0708
        """
        return _means.mean(_whole(self), g, weights)

    def cumulative(self, steps: Tensor) -> Tensor:
        r"""Products of relative steps: $g_1,\ g_1 g_2,\ g_1 g_2 g_3,\ \dots$.

        A scan of depth log N in float64 (float32 on MPS), steps and products being put back onto
        the group: thousands of steps in float32 give poses that `contains` still accepts. Groups
        made by `matrix_group` have products that are not put back, as no nearest element is known
        far from the identity.

        Args:
            steps: `[..., N, m, m]`, step i as seen from pose i - 1.
        Returns:
            `[..., N, m, m]`, in the dtype of the steps. For a start g use `compose(g, ...)`.

        >>> import torch
        >>> from lieattn import T2
        >>> T2.cumulative(T2.exp(torch.ones(3, 2)))[:, 0, 2]
        tensor([1., 2., 3.])
        """
        whole = _whole(self)
        if checks.poses(whole, steps, "steps").dim() < 3:
            m = whole.matrix_size
            raise ValueError(
                f"{self} steps must have shape [..., N, {m}, {m}], got {list(steps.shape)}."
            )
        # Rounding took the steps off the group, all perhaps to the same side: that would add up.
        g = self._settle(widened(steps))
        span = 1
        while span < g.shape[-3]:  # the scan of Hillis and Steele
            later = whole.compose(g[..., :-span, :, :], g[..., span:, :, :])
            g = torch.cat((g[..., :span, :, :], later), dim=-3)
            span *= 2
        return self._settle(g).to(steps.dtype)

    def _settle(self, g: Tensor) -> Tensor:
        """Products of many poses, whose rounding has moved them off the group, put back."""
        return _whole(self).project(g)


def _whole(part: Calculus) -> Group:
    # Only `Group` derives from `Calculus`; a mixin cannot say so to the type checker.
    return cast("Group", part)
