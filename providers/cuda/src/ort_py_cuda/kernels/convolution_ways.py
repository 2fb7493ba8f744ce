"""The ways in which cuDNN computes a convolution, and choosing the first that works for a shape.

A way is chosen on the first run, with that run's arrays: only building a plan tells whether there is one. Shared by
Conv, FusedConv and ConvTranspose.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.lazy_dataclass import dataclass
from ort_py_array.contrib.fused_activation import activation_of
from ort_py_cuda.cudnn import graphs, legacy
from ort_py_cuda.cudnn.choice import Choice
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.frontend import missing_frontend
from ort_py_cuda.cudnn.graphs import Activation, Graph, Tensor, WindowOf
from ort_py_cuda.cudnn.library import cudnn, missing_library
from ort_py_cuda.cudnn.plans import shared_plans
from ort_py_cuda.kernels.pictures import addresses
from ort_py_cuda.settings import Settings

__all__ = ["Problem", "Way", "ways"]

Way: TypeAlias = Callable[[Array, Array, Array | None, Array | None, Array], bool]
"""``way(x, w, bias, z, y)``: writes `y`; False where cuDNN cannot compute it in any way."""

_Enqueue: TypeAlias = Callable[[Array, Array, Array | None, Array | None, Array], None]

_log = logging.getLogger("ort_py_cuda.kernels")


@dataclass(frozen=True, slots=True)
class Problem:
    """A convolution of known shapes, and what follows it.

    Attributes:
        x, w, y: As in `graphs.convolution`, or `graphs.transposed_convolution`.
        window: Geometry, with the same padding on both sides.
        group: Number of groups.
        transposed: Whether it is a ConvTranspose.
        bias, z: What is added, or None.
        activation: What comes last, or None.
        tf32: float32 operands may be rounded to TF32.
    """

    x: Tensor
    w: Tensor
    y: Tensor
    window: WindowOf
    group: int
    transposed: bool = False
    bias: Tensor | None = None
    z: Tensor | None = None
    activation: Activation | None = None
    tf32: bool = False

    @property
    def bare(self) -> bool:
        """True if nothing follows the convolution."""
        return self.bias is None and self.z is None and self.activation is None

    def graph(self, *, fused: bool) -> Graph:
        """For the front end, with what follows or without."""
        bias = self.bias if fused else None
        if self.transposed:
            return graphs.transposed_convolution(self.x, self.w, self.y, self.window, bias=bias, tf32=self.tf32)
        z, activation = (self.z, self.activation) if fused else (None, None)
        return graphs.convolution(
            self.x, self.w, self.y, self.window, bias=bias, z=z, activation=activation, tf32=self.tf32
        )


def ways(ctx: KernelContext, problem: Problem, wishes: Settings) -> Way:
    """The way of a problem: chosen at its first call, then kept.

    Args:
        ctx: Context of the node.
        problem: What to compute.
        wishes: The session's settings.
    """
    chosen: list[_Enqueue | None] = []

    def way(x: Array, w: Array, bias: Array | None, z: Array | None, y: Array) -> bool:
        if not chosen:
            chosen.append(_chosen(ctx, problem, wishes, (x, w, bias, z, y)))
            return chosen[0] is not None  # choosing computed it
        enqueue = chosen[0]
        if enqueue is None:
            return False
        enqueue(x, w, bias, z, y)
        return True

    return way


def _chosen(ctx: KernelContext, problem: Problem, wishes: Settings, arrays: Any) -> _Enqueue | None:
    """The first way that computes the problem, having done so."""
    choice = Choice.of(wishes)
    reasons: list[str] = []
    for make in (_fused, _planned, _older):
        try:
            enqueue = make(ctx, problem, choice, arrays)
            if enqueue is not None:
                enqueue(*arrays)
                return enqueue
        except Unsupported as refusal:
            reasons.append(f"{make.__name__[1:]}: {'; '.join((refusal.what, *refusal.why))}")
    reasons += [missing for missing in (missing_frontend(), missing_library()) if missing is not None]
    _log.info("%s: %s", ctx.node.location, " | ".join(reasons))
    return None


def _fused(ctx: KernelContext, problem: Problem, choice: Choice, arrays: Any) -> _Enqueue | None:
    """One plan for everything."""
    if missing_frontend() is not None:
        return None
    xp, device = ctx.xp, ctx.device.index
    x, w, bias, z, y = arrays
    plan = shared_plans().plan(xp, problem.graph(fused=True), device, addresses(x, w, z, bias, y), choice)

    def enqueue(x: Array, w: Array, bias: Array | None, z: Array | None, y: Array) -> None:
        plan(xp, device, addresses(x, w, z, bias, y))

    return enqueue


def _planned(ctx: KernelContext, problem: Problem, choice: Choice, arrays: Any) -> _Enqueue | None:
    """A plan for the convolution, then what follows."""
    if missing_frontend() is not None or problem.bare:
        return None
    xp, device = ctx.xp, ctx.device.index
    x, w, _, _, y = arrays
    plan = shared_plans().plan(xp, problem.graph(fused=False), device, addresses(x, w, y), choice)
    finish = _finish(ctx, problem)

    def enqueue(x: Array, w: Array, bias: Array | None, z: Array | None, y: Array) -> None:
        plan(xp, device, addresses(x, w, y))
        finish(bias, z, y)

    return enqueue


def _older(ctx: KernelContext, problem: Problem, choice: Choice, arrays: Any) -> _Enqueue | None:
    """The older calls, then what follows."""
    if missing_library() is not None:
        return None
    xp, device = ctx.xp, ctx.device.index
    x, w, _, _, y = arrays
    call = legacy.Convolution(
        cudnn(),
        problem.x,
        problem.w,
        problem.y,
        problem.window,
        problem.group,
        transposed=problem.transposed,
        tf32=problem.tf32,
    )
    call.choose(xp, device, addresses(x, w, y), choice)
    finish = _finish(ctx, problem)

    def enqueue(x: Array, w: Array, bias: Array | None, z: Array | None, y: Array) -> None:
        call(xp, device, addresses(x, w, y))
        finish(bias, z, y)

    return enqueue


def _finish(ctx: KernelContext, problem: Problem) -> Callable[[Array | None, Array | None, Array], Any]:
    """The operations after a convolution, in place, by cuDNN's older calls as far as they support them."""
    xp, device = ctx.xp, ctx.device.index
    if problem.bare:
        return lambda bias, z, y: None
    activation = problem.activation
    missing = missing_library()
    if missing is not None:
        raise Unsupported("What follows the convolution needs cuDNN's older calls.", why=missing)
    apart: Callable[[Array], Any] | None = None
    if activation is not None and legacy.activation_mode(activation) is None:
        apart = activation_of(ctx, activation.name, ctx.node.attributes.get("activation_params", ()))
        activation = None
    finish = legacy.Finish(cudnn(), problem.y, problem.bias, problem.z, activation)

    def finished(bias: Array | None, z: Array | None, y: Array) -> None:
        finish(xp, device, addresses(z, bias), y.data.ptr)
        if apart is not None:
            apart(y)

    return finished
