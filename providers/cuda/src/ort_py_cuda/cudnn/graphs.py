"""Descriptions of cuDNN's computations as plain data: tensors with explicit sizes and strides, and operations between
them.

A `Graph` is frozen and hashable, so that it is its own key in the cache of plans, and can be interpreted on NumPy,
which is how tests prove it right. It is independent of libraries, arrays and ONNX; `lowering` hands it to the front
end.

The front end infers channels-last strides for results whatever its inputs have, so nothing is left to it: every tensor
here states its strides, intermediate ones too.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, TypeAlias

from ort_py.lazy_dataclass import dataclass

__all__ = [
    "Activation",
    "Graph",
    "Operation",
    "Sizes",
    "Tensor",
    "WindowOf",
    "attention",
    "channels_first",
    "channels_last",
    "convolution",
    "instance_norm",
    "transposed_convolution",
]

Sizes: TypeAlias = tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Tensor:
    """A tensor of a graph.

    Attributes:
        name: Unique in its graph.
        dims: Sizes, in the order that cuDNN wants for the operation: (N, C, space…) whatever the memory's order.
        strides: Elements from one entry to the next along each axis.
        dtype: NumPy's name of the element type.
        virtual: An intermediate result, which never is in memory.
        value: The value of a scalar that is part of the graph; None elsewhere.
    """

    name: str
    dims: Sizes
    strides: Sizes
    dtype: str
    virtual: bool = False
    value: float | None = None


@dataclass(frozen=True, slots=True)
class Operation:
    """A node: the front end's method of that name, with these tensors by parameter and these attributes."""

    method: str
    inputs: tuple[tuple[str, str], ...]
    output: str
    attributes: tuple[tuple[str, Any], ...] = ()


@dataclass(frozen=True, slots=True)
class Graph:
    """A graph with one result.

    Attributes:
        tensors: All of them. The position, counted from 1, is a tensor's identity in calls.
        operations: In an order in which each reads what was made before it.
        tf32: float32 operands may be rounded to TF32.
    """

    tensors: tuple[Tensor, ...]
    operations: tuple[Operation, ...]
    tf32: bool = False

    def identity(self, name: str) -> int:
        """The number of a tensor in calls, from 1 on."""
        return next(place for place, tensor in enumerate(self.tensors, 1) if tensor.name == name)

    @property
    def in_memory(self) -> tuple[Tensor, ...]:
        """Tensors that a call gives addresses of, in order."""
        return tuple(tensor for tensor in self.tensors if not tensor.virtual and tensor.value is None)


@dataclass(frozen=True, slots=True)
class WindowOf:
    """Geometry of a convolution, one entry a spatial axis. `begin` and `end` are the padding on both sides."""

    strides: Sizes
    dilations: Sizes
    begin: Sizes
    end: Sizes


@dataclass(frozen=True, slots=True)
class Activation:
    """The activation after a convolution. `name` is ONNX's; of its parameters, those that it has."""

    name: str
    alpha: float = 0.0
    low: float | None = None
    high: float | None = None


def channels_first(dims: Sizes) -> Sizes:
    """Strides of a dense tensor whose axes lie in memory as they are named."""
    strides, step = [], 1
    for size in reversed(dims):
        strides.append(step)
        step *= size
    return tuple(reversed(strides))


def channels_last(dims: Sizes) -> Sizes:
    """Strides of a dense tensor (N, C, space…) that lies in memory as (N, space…, C)."""
    order = (0, *range(2, len(dims)), 1)
    strides, step = [0] * len(dims), 1
    for axis in reversed(order):
        strides[axis] = step
        step *= dims[axis]
    return tuple(strides)


def convolution(
    x: Tensor,
    w: Tensor,
    y: Tensor,
    window: WindowOf,
    *,
    bias: Tensor | None = None,
    z: Tensor | None = None,
    activation: Activation | None = None,
    tf32: bool = False,
) -> Graph:
    """``activation(x * w + z + bias)``; groups follow from the channels of `x` and `w`.

    Args:
        x, w, y: Tensors named as they are to be given in calls; `w` has the sizes (M, C / group, kernel…).
        window: Geometry.
        bias: Sizes (1, M, 1…).
        z: A tensor of the result's size, added before the bias: the order that cuDNN has ready-made kernels for.
        activation: What the result goes through.
        tf32: As in `Graph`.
    """
    return _finished("conv_fprop", (("image", x), ("weight", w)), y, window, bias, z, activation, tf32)


def transposed_convolution(
    x: Tensor, w: Tensor, y: Tensor, window: WindowOf, *, bias: Tensor | None = None, tf32: bool = False
) -> Graph:
    """The gradient of a convolution by its picture, which is what ConvTranspose computes.

    Args:
        x, w, y: `w` has the sizes (C, M / group, kernel…): the filter of the convolution from `y` to `x`.
        window: Geometry of that convolution.
        bias: Sizes (1, M, 1…).
        tf32: As in `Graph`.
    """
    return _finished("conv_dgrad", (("loss", x), ("filter", w)), y, window, bias, None, None, tf32)


def _finished(
    method: str,
    operands: Sequence[tuple[str, Tensor]],
    y: Tensor,
    window: WindowOf,
    bias: Tensor | None,
    z: Tensor | None,
    activation: Activation | None,
    tf32: bool,
) -> Graph:
    attributes = (
        ("pre_padding", window.begin),
        ("post_padding", window.end),
        ("stride", window.strides),
        ("dilation", window.dilations),
    )
    steps: list[tuple[str, tuple[tuple[str, Tensor | None], ...], tuple[tuple[str, Any], ...]]] = [
        (method, tuple(operands), attributes)
    ]
    if z is not None:
        steps.append(("add", (("a", None), ("b", z)), ()))
    if bias is not None:
        steps.append(("bias", (("input", None), ("bias", bias)), ()))
    if activation is not None:
        steps += _activated(activation)
    return _chained(y, steps, tf32)


def _activated(activation: Activation) -> list[tuple[str, Any, tuple[tuple[str, Any], ...]]]:
    """The steps of an activation; those of the front end's own form need parameters that differ between versions."""
    one = (("input", None),)
    match activation.name:
        case "Relu":
            return [("relu", one, ())]
        case "LeakyRelu":
            return [("leaky_relu", one, (("negative_slope", activation.alpha),))]
        case "Clip":
            bounds = [("lower_clip", activation.low), ("upper_clip", activation.high)]
            return [("relu", one, tuple((name, bound) for name, bound in bounds if bound is not None))]
        case "Sigmoid":
            return [("sigmoid", one, ())]
        case "Tanh":
            return [("tanh", one, ())]
        case _:
            raise ValueError(activation.name)  # the caller asks `fusible` first


def _chained(y: Tensor, steps: Sequence[tuple[str, Any, tuple[tuple[str, Any], ...]]], tf32: bool) -> Graph:
    """A graph of steps each of which reads the result of the one before it, where it says None."""
    tensors: list[Tensor] = []
    operations: list[Operation] = []
    before = ""
    for place, (method, operands, attributes) in enumerate(steps):
        last = place == len(steps) - 1
        made = y if last else Tensor(f"step{place}", y.dims, y.strides, "float32", virtual=True)
        tensors += [tensor for _, tensor in operands if tensor is not None]
        inputs = tuple((name, before if tensor is None else tensor.name) for name, tensor in operands)
        operations.append(Operation(method, inputs, made.name, attributes))
        tensors.append(made)
        before = made.name
    return Graph(tuple(tensors), tuple(operations), tf32)


def attention(
    q: Tensor, k: Tensor, v: Tensor, y: Tensor, *, scale: float, bias: Tensor | None = None, causal: str = ""
) -> Graph:
    """``softmax(q kᵀ · scale + bias) v`` by head; fewer heads in `k` and `v` serve groups of query heads.

    Args:
        q, k, v, y: Sizes (batch, heads, length, size), any strides with 1 along the last axis.
        scale: Factor on the scores.
        bias: Broadcasts to the scores.
        causal: ``""`` for none, ``"top_left"``: query i sees keys up to i, ``"bottom_right"``: the last query sees all.
    """
    given = [("q", q), ("k", k), ("v", v), *([("bias", bias)] if bias is not None else [])]
    attributes: list[tuple[str, Any]] = [("attn_scale", scale), ("generate_stats", False)]
    if causal:
        attributes += [("diagonal_alignment", causal.upper()), ("diagonal_band_right_bound", 0)]
    operation = Operation("sdpa", tuple((name, tensor.name) for name, tensor in given), y.name, tuple(attributes))
    return Graph((*(tensor for _, tensor in given), y), (operation,))


def instance_norm(x: Tensor, scale: Tensor, bias: Tensor, y: Tensor, epsilon: float) -> Graph:
    """Each channel of each picture standardised over its space; scale and bias have the sizes (1, C, 1…)."""
    small = Tensor("epsilon", (1,) * len(x.dims), (1,) * len(x.dims), "float32", value=epsilon)
    given = (("input", x), ("scale", scale), ("bias", bias), ("epsilon", small))
    operation = Operation("instancenorm", tuple((name, tensor.name) for name, tensor in given), y.name)
    return Graph((x, scale, bias, small, y), (operation,))
