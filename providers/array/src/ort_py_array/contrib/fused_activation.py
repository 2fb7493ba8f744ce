"""Activations by name, applied in place to the result of a fused node.

The formulas are `activation`'s. Comes before `fused_products`; knows nothing of products.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.errors import InvalidArgument
from ort_py_array import activation
from ort_py_array.pointwise import blocked

__all__ = ["activation_of"]

_LARGE = 2048
"""Elements from which on `clip` is faster than `maximum`."""


def _relu(xp: Any, x: Array, out: Array) -> None:
    xp.maximum(x, 0, out=out)


def _tanh(xp: Any, x: Array, out: Array) -> None:
    xp.tanh(x, out)


def _clip(xp: Any, x: Array, out: Array, *, low: float, high: float) -> None:
    xp.clip(x, low, high, out=out)


_ACTIVATIONS: dict[str, tuple[Callable[..., None], tuple[str, ...]]] = {
    "Relu": (_relu, ()),
    "Tanh": (_tanh, ()),
    "Sigmoid": (activation.sigmoid_into, ()),
    "Silu": (activation.swish, ()),
    "Softplus": (activation.softplus, ()),
    "Softsign": (activation.softsign, ()),
    "LeakyRelu": (activation.leaky_relu, ("alpha",)),
    "Elu": (activation.elu, ("alpha",)),
    "ThresholdedRelu": (activation.thresholded_relu, ("alpha",)),
    "HardSigmoid": (activation.hard_sigmoid, ("alpha", "beta")),
    "HardSwish": (activation.hard_swish, ()),
    "Selu": (activation.selu, ("alpha", "gamma")),
    "Clip": (_clip, ("low", "high")),
}
"""Formula and parameters, in the order in which a list gives them."""


def _cut(ctx: KernelContext, low: float, high: float, other: Callable[[Array, Array], None]) -> Callable[[Array], Any]:
    """Cut to bounds in one pass, for which blocks would only be overhead; `other` is for what is not float32."""
    xp = ctx.xp
    clip, maximum, float32 = xp.clip, xp.maximum, xp.dtype(xp.float32)
    # Arrays of the right type cost half of what converting a Python number does, each call.
    bottom, top = xp.full((), low, float32), xp.full((), high, float32)

    def in_place(x: Array) -> None:
        if x.dtype != float32:
            other(x, x)
        elif x.size >= _LARGE or high != xp.inf:
            clip(x, bottom, top, out=x)
        else:
            maximum(x, bottom, out=x)

    return in_place


def activation_of(
    ctx: KernelContext, name: str | None, parameters: Mapping[str, float] | Sequence[float]
) -> Callable[[Array], Any] | None:
    """A function that applies an activation to an array in place; None without a name.

    Args:
        ctx: Context of the node.
        name: As in ONNX, or Silu.
        parameters: By name, the operator's defaults standing for those that are not given; or all of them as a list.

    Raises:
        InvalidArgument: No such activation, or another number of parameters.
    """
    if not name:
        return None
    if name not in _ACTIVATIONS:
        raise InvalidArgument(
            f"activation is '{name}'.", where=ctx.node.location, fix=f"Use one of {', '.join(sorted(_ACTIVATIONS))}."
        )
    formula, wanted = _ACTIVATIONS[name]
    if isinstance(parameters, Mapping):
        given = {key: value for key, value in parameters.items() if key in wanted}
        complete = name != "Clip"
    else:
        given = dict(zip(wanted, parameters, strict=False))
        complete = len(parameters) == len(wanted)
    if not complete:
        raise InvalidArgument(
            f"The activation {name} has {len(parameters)} parameters instead of {len(wanted)}.",
            where=ctx.node.location,
            fix=f"Give {', '.join(wanted) or 'none'} in the attribute 'activation_params'.",
        )
    if name in ("Relu", "Clip"):
        return _cut(ctx, given.get("low", 0.0), given.get("high", ctx.xp.inf), partial(formula, ctx.xp, **given))
    apply = blocked(ctx, partial(formula, ctx.xp, **given))

    def in_place(x: Array) -> None:
        apply(x, x)

    return in_place
