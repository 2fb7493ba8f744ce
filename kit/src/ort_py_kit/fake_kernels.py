"""The few operators the fake device has of its own: enough for small CNNs, MLPs and loops.

They exist to move arrays about, not to be fast or complete. Shapes and axes are host inputs, as on a real device. Some
also exist for data with the channels last, which shows where Transposes are left in a graph.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import (
    ALL_NUMERIC,
    ALL_TENSORS,
    CHANNELS_LAST,
    KernelContext,
    KernelDef,
    NodeSpec,
    kernel,
    kernel_defs,
    tensors,
)
from ort_py.dtypes import DataType, numpy_dtype

NEWEST = 99
"""The operators here have not changed their meaning for the types and ranks the tests use; see each kernel."""

_ON_DEVICE = ALL_TENSORS - tensors(DataType.STRING)


def _ufunc(
    op_type: str, name: str, types: frozenset[str], *, since: int = 7, inplace: tuple[tuple[int, int], ...] = ()
) -> KernelDef:
    # Elementwise operators: broadcasting as NumPy's began with opset 7; those of one input never changed.
    def factory(ctx: KernelContext) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(ctx.xp, name)
        return call

    return KernelDef(
        op_type,
        factory,
        since=since,
        until=NEWEST,
        types={"T": types},
        out=True,
        inplace=inplace,
        strided=True,
        implementation=f"{__name__}:{name}",
    )


_ONE, _EITHER = ((0, 0),), ((0, 0), (1, 0))

KERNELS = [
    _ufunc("Add", "add", ALL_NUMERIC, inplace=_EITHER),
    _ufunc("Sub", "subtract", ALL_NUMERIC, inplace=_EITHER),
    _ufunc("Mul", "multiply", ALL_NUMERIC, inplace=_EITHER),
    _ufunc("Less", "less", ALL_NUMERIC),
    _ufunc("Greater", "greater", ALL_NUMERIC),
    _ufunc("Equal", "equal", ALL_NUMERIC),
    _ufunc("And", "logical_and", tensors(DataType.BOOL), inplace=_EITHER),
    _ufunc("Not", "logical_not", tensors(DataType.BOOL), since=1, inplace=_ONE),
    _ufunc("Neg", "negative", ALL_NUMERIC, since=6, inplace=_ONE),
    _ufunc("Abs", "absolute", ALL_NUMERIC, since=6, inplace=_ONE),
    _ufunc("Exp", "exp", ALL_NUMERIC, since=6, inplace=_ONE),
    _ufunc("Sqrt", "sqrt", ALL_NUMERIC, since=6, inplace=_ONE),
    _ufunc("Tanh", "tanh", ALL_NUMERIC, since=6, inplace=_ONE),
]


@kernel("Div", since=7, until=NEWEST, types={"T": tensors(DataType.FLOAT, DataType.DOUBLE)}, strided=True)
def div(ctx: KernelContext, a: Any, b: Any) -> Any:
    """ONNX Div; the integer form, which truncates, stays with others."""
    return ctx.xp.divide(a, b)


@kernel("Relu", since=6, until=NEWEST, types={"T": ALL_NUMERIC}, strided=True)
def relu(ctx: KernelContext, x: Any) -> Any:
    return ctx.xp.maximum(x, ctx.xp.zeros((), x.dtype))


@kernel("Identity", since=1, until=NEWEST, types={"T": _ON_DEVICE, "V": _ON_DEVICE}, views=((0, 0),), strided=True)
def identity(_ctx: KernelContext, x: Any) -> Any:
    """ONNX Identity: the very same array."""
    return x


@kernel("MatMul", since=1, until=NEWEST, types={"T": tensors(DataType.FLOAT, DataType.DOUBLE)}, out=True)
def matmul(ctx: KernelContext, a: Any, b: Any, *, out: Any = None) -> Any:
    return ctx.xp.matmul(a, b, out=out)


@kernel("Gemm", since=7, until=NEWEST, types={"T": tensors(DataType.FLOAT, DataType.DOUBLE)})
def gemm(
    ctx: KernelContext,
    a: Any,
    b: Any,
    c: Any = None,
    *,
    alpha: float = 1.0,
    beta: float = 1.0,
    transA: int = 0,
    transB: int = 0,
) -> Any:
    y = ctx.xp.matmul(a.T if transA else a, b.T if transB else b) * a.dtype.type(alpha)
    return y if c is None else y + c * a.dtype.type(beta)


@kernel("Reshape", since=5, until=NEWEST, types={"T": _ON_DEVICE}, views=((0, 0),), host_inputs=frozenset({1}))
def reshape(ctx: KernelContext, x: Any, shape: Any, *, allowzero: int = 0) -> Any:
    """ONNX Reshape: 0 copies a dimension unless `allowzero`."""
    dims = [int(dim) for dim in shape]
    if not allowzero:
        dims = [x.shape[axis] if dim == 0 else dim for axis, dim in enumerate(dims)]
    return ctx.xp.reshape(x, tuple(dims))


@kernel("Flatten", since=1, until=NEWEST, types={"T": _ON_DEVICE}, views=((0, 0),))
def flatten(ctx: KernelContext, x: Any, *, axis: int = 1) -> Any:
    split = axis + x.ndim if axis < 0 else axis
    rows = int(np.prod(x.shape[:split], dtype=np.int64))
    return ctx.xp.reshape(x, (rows, int(np.prod(x.shape[split:], dtype=np.int64))))


@kernel("Transpose", since=1, until=NEWEST, types={"T": _ON_DEVICE}, views=((0, 0),), strided=True)
def transpose(ctx: KernelContext, x: Any, *, perm: Sequence[int] | None = None) -> Any:
    """ONNX Transpose: a strided view."""
    return ctx.xp.transpose(x, perm)


@kernel("Concat", since=4, until=NEWEST, types={"T": _ON_DEVICE}, strided=True)
def concat(ctx: KernelContext, *xs: Any, axis: int) -> Any:
    return ctx.xp.concatenate(xs, axis=axis)


_CASTABLE = ALL_NUMERIC | tensors(DataType.BOOL)


@kernel("Cast", since=6, until=NEWEST, types={"T1": _CASTABLE, "T2": _CASTABLE}, strided=True)
def cast(_ctx: KernelContext, x: Any, *, to: int, saturate: int = 1, round_mode: str = "up") -> Any:
    """ONNX Cast between types that NumPy converts as C does; the small floats stay with others."""
    return x.astype(numpy_dtype(to))


@kernel("Shape", since=1, until=NEWEST, types={"T": _ON_DEVICE}, strided=True, host_outputs=frozenset({0}))
def shape(_ctx: KernelContext, x: Any, *, start: int = 0, end: int | None = None) -> Any:
    """ONNX Shape: needs no content, so its result is made on the host."""
    return np.array(x.shape[start:end], np.int64)


@kernel("Where", since=9, until=NEWEST, types={"T": _ON_DEVICE}, strided=True)
def where(ctx: KernelContext, condition: Any, x: Any, y: Any) -> Any:
    return ctx.xp.where(condition, x, y)


_AXES = frozenset({1})


@kernel("Split", since=13, until=NEWEST, types={"T": _ON_DEVICE}, outputs=None, strided=True, host_inputs=_AXES)
def split(ctx: KernelContext, x: Any, sizes: Any = None, *, axis: int = 0, num_outputs: int | None = None) -> Any:
    """ONNX Split: copies, so that no part keeps the whole alive."""
    length = x.shape[axis]
    if sizes is None:
        count = num_outputs or len(ctx.node.outputs)
        each = -(-length // count)
        sizes = [min(each, length - each * part) for part in range(count)]
    bounds = [int(bound) for bound in np.cumsum(sizes)[:-1]]
    return tuple(part.copy() for part in ctx.xp.split(x, bounds, axis=axis))


@kernel("ReduceSum", since=13, until=NEWEST, types={"T": ALL_NUMERIC}, strided=True, host_inputs=_AXES)
def reduce_sum(
    ctx: KernelContext, x: Any, axes: Any = None, *, keepdims: int = 1, noop_with_empty_axes: int = 0
) -> Any:
    if axes is None or axes.size == 0:
        if noop_with_empty_axes:
            return x.copy()
        axes = range(x.ndim)
    return ctx.xp.sum(x, axis=tuple(int(axis) for axis in axes), dtype=x.dtype, keepdims=bool(keepdims))


@kernel("Softmax", since=13, until=NEWEST, types={"T": tensors(DataType.FLOAT, DataType.DOUBLE)}, strided=True)
def softmax(ctx: KernelContext, x: Any, *, axis: int = -1) -> Any:
    e = ctx.xp.exp(x - ctx.xp.max(x, axis=axis, keepdims=True))
    return e / ctx.xp.sum(e, axis=axis, keepdims=True)


@kernel("GlobalAveragePool", since=1, until=NEWEST, types={"T": tensors(DataType.FLOAT, DataType.DOUBLE)}, strided=True)
def global_average_pool(ctx: KernelContext, x: Any) -> Any:
    return ctx.xp.mean(x, axis=tuple(range(2, x.ndim)), keepdims=True, dtype=x.dtype)


@kernel("Conv", since=1, until=NEWEST, types={"T": tensors(DataType.FLOAT, DataType.DOUBLE)}, strided=True)
def conv(
    ctx: KernelContext,
    x: Any,
    w: Any,
    b: Any = None,
    *,
    kernel_shape: Sequence[int] | None = None,
    pads: Sequence[int] = (0, 0, 0, 0),
    strides: Sequence[int] = (1, 1),
    dilations: Sequence[int] = (1, 1),
    group: int = 1,
    auto_pad: str = "NOTSET",
) -> Any:
    """ONNX Conv as far as `refusal_of` lets it: a product for each position of the filter."""
    xp = ctx.xp
    x = xp.pad(x, ((0, 0), (0, 0), (pads[0], pads[2]), (pads[1], pads[3])))
    rows, columns = (
        (x.shape[2 + axis] - (w.shape[2 + axis] - 1) * dilations[axis] - 1) // strides[axis] + 1 for axis in (0, 1)
    )
    y = xp.zeros((x.shape[0], w.shape[0], rows, columns), x.dtype)
    for row in range(w.shape[2]):
        for column in range(w.shape[3]):
            top, left = row * dilations[0], column * dilations[1]
            part = x[:, :, top : top + rows * strides[0] : strides[0], left : left + columns * strides[1] : strides[1]]
            y = y + xp.einsum("nchw,kc->nkhw", part, w[:, :, row, column])
    return y if b is None else y + xp.reshape(b, (1, -1, 1, 1))


def refusal_of(node: NodeSpec) -> str | None:
    """Explain why a node that has a kernel here is still not taken, or return None."""
    if node.op_type != "Conv" or node.domain:
        return None
    weight = node.inputs[1]
    rank = None if weight is None or weight.shape is None else len(weight.shape)
    plain = node.attributes.get("group", 1) == 1 and node.attributes.get("auto_pad", "NOTSET") in ("NOTSET", "VALID")
    return None if rank == 4 and plain else "it convolves pictures only, in one group, with padding in numbers"


def fake_kernels() -> list[KernelDef]:
    import sys

    return kernel_defs(sys.modules[__name__])


def channels_last_kernels(kernels: Sequence[KernelDef], operators: Collection[str]) -> list[KernelDef]:
    """Make the kernels for data with the channels last: the standard ones between Transposes.

    Args:
        kernels: Kernels of the standard form, with one input that is data, the first.
    """
    return [
        KernelDef(one.op_type, _channels_last(one), domain=CHANNELS_LAST, strided=True)
        for one in kernels
        if one.op_type in operators and not one.domain
    ]


def _channels_last(definition: KernelDef) -> Callable[[KernelContext], Callable[..., Any]]:
    def factory(ctx: KernelContext) -> Callable[..., Any]:
        call, xp = definition.factory(ctx), ctx.xp

        def turned(x: Any, *others: Any) -> Any:
            return xp.moveaxis(call(xp.moveaxis(x, -1, 1), *others), 1, -1).copy()

        return turned

    return factory
