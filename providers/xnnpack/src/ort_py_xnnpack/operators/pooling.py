"""Pooling and reductions.

The largest and the smallest of numbers are found with instructions that lose NaN, and so is the mean of a window: what
these nodes read is watched, and a run in which it is not finite is declined.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from ort_py.contracts import NodeSpec
from ort_py_xnnpack.binding.constants import INFINITY, Flag, Reduction
from ort_py_xnnpack.graph.grids import BYTES
from ort_py_xnnpack.operators.operator import FLOATS, Constants, Lower, Operator, attribute, constant, rank
from ort_py_xnnpack.operators.windows import Windows, as_two_axes, is_padded_forwards, restored

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["OPERATORS"]


def _check(node: NodeSpec, graph: Constants) -> str | None:
    if rank(node) not in {3, 4}:
        return f"its data has {max(rank(node) - 2, 0)} axes besides the channels; one and two are supported"
    if sum(value is not None for value in node.outputs) > 1:
        return "its output of indices is used"
    if not is_padded_forwards(node):
        return "its padding is negative"
    if all(one == 1 for one in attribute(node, "kernel_shape", [])):
        return "its windows have one element"
    if attribute(node, "ceil_mode", 0) and attribute(node, "auto_pad", "NOTSET") != "NOTSET":
        return "its sizes are rounded up although its padding follows from them"
    return None


def _check_average(node: NodeSpec, graph: Constants) -> str | None:
    if any(one != 1 for one in attribute(node, "dilations", [])):
        return "the elements of its windows are not neighbours"
    if attribute(node, "ceil_mode", 0) and attribute(node, "count_include_pad", 0):
        return "it counts padding, and its sizes are rounded up"
    return _check(node, graph)


def _max_pool(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    windows = Windows.of(node, builder.shape(x)[2:], attribute(node, "kernel_shape", []))
    source, sizes = as_two_axes(builder, x)
    builder.watch(source)
    target, done = restored(builder, node.outputs[0], (*sizes[:2], *windows.results))
    window = (*windows.padding, *windows.kernel, *windows.strides, *windows.dilations)
    builder.define("max_pooling_2d", *window, -INFINITY, INFINITY, source, target, 0)
    done()


def _average_pool(builder: Builder, node: NodeSpec) -> None:
    x = node.inputs[0]
    windows = Windows.of(node, builder.shape(x)[2:], attribute(node, "kernel_shape", []))
    source, sizes = as_two_axes(builder, x)
    padding = windows.padding
    if any(padding) and attribute(node, "count_include_pad", 0):
        top, right, below, left = padding
        wider = builder.between((sizes[0], sizes[2] + top + below, sizes[3] + left + right, sizes[1]))
        before, after = [0, top, left, 0], [0, below, right, 0]
        builder.define("static_constant_pad_v2", 4, before, after, 0.0, source, wider, 0)
        source, padding = wider, (0, 0, 0, 0)
    builder.watch(source)
    target, done = restored(builder, node.outputs[0], (*sizes[:2], *windows.results))
    window = (*padding, *windows.kernel, *windows.strides)
    builder.define("average_pooling_2d", *window, -INFINITY, INFINITY, source, target, 0)
    done()


def _reduce(builder: Builder, node: NodeSpec, kind: Reduction, axes: tuple[int, ...], *, keep: bool) -> None:
    x = node.inputs[0]
    shape = builder.shape(x)
    order = builder.order(x) if keep else tuple(range(len(shape)))
    if not keep and len(axes) == len(shape) - 2:
        # Nothing else moves if the channels are last and stay.
        there = builder.order(x)
        if tuple(axis for axis in there if axis not in axes) == tuple(sorted(set(range(len(shape))) - set(axes))):
            order = there
    source = builder.read(x, order)
    if kind in {Reduction.MAXIMUM, Reduction.MINIMUM}:
        builder.watch(source)
    sizes = tuple(1 if axis in axes else dim for axis, dim in enumerate(shape))
    if keep:
        target = builder.write(node.outputs[0], sizes, order)
    else:
        target = builder.write(node.outputs[0], tuple(dim for axis, dim in enumerate(shape) if axis not in axes))
    places = sorted(order.index(axis) for axis in axes)
    flags = int(Flag.KEEP_AXES) if keep else 0
    builder.define("static_reduce_v2", int(kind), len(places), places, source, target, flags)


def _reduction(kind: Reduction) -> Lower:
    def lower(builder: Builder, node: NodeSpec) -> None:
        x = node.inputs[0]
        count = len(builder.shape(x))
        if len(node.inputs) > 1 and node.inputs[1] is not None:
            given = [int(one) for one in builder.constant(node.inputs[1]).reshape(-1)]
        else:
            given = [int(one) for one in attribute(node, "axes", [])]
        axes = tuple(sorted({axis % count for axis in given})) or tuple(range(count))
        _reduce(builder, node, kind, axes, keep=attribute(node, "keepdims", 1) == 1)

    return lower


def _check_reduction(node: NodeSpec, graph: Constants) -> str | None:
    count = rank(node)
    if not count:
        return "its data has no axes"
    axes = constant(node, graph, 1)
    given = list(attribute(node, "axes", [])) if axes is None else axes.reshape(-1).tolist()
    if not given and attribute(node, "noop_with_empty_axes", 0):
        return "it reduces nothing"
    if not all(-count <= axis < count for axis in given):
        return "one of its axes does not exist"
    return None


def _global(kind: Reduction) -> Lower:
    def lower(builder: Builder, node: NodeSpec) -> None:
        _reduce(builder, node, kind, tuple(range(2, len(builder.shape(node.inputs[0])))), keep=True)

    return lower


def _check_global(node: NodeSpec, graph: Constants) -> str | None:
    return None if rank(node) > 2 else "its data has no axes besides the channels"


OPERATORS = {
    "AveragePool": Operator(_average_pool, _check_average),
    "MaxPool": Operator(_max_pool, _check, takes=FLOATS | BYTES, gives=FLOATS | BYTES, half=True),
    "GlobalAveragePool": Operator(_global(Reduction.MEAN), _check_global, half=True),
    "GlobalMaxPool": Operator(_global(Reduction.MAXIMUM), _check_global, half=True),
    "ReduceMax": Operator(_reduction(Reduction.MAXIMUM), _check_reduction, looked_at=frozenset({1}), half=True),
    "ReduceMean": Operator(_reduction(Reduction.MEAN), _check_reduction, looked_at=frozenset({1}), half=True),
    "ReduceMin": Operator(_reduction(Reduction.MINIMUM), _check_reduction, looked_at=frozenset({1}), half=True),
    "ReduceSum": Operator(_reduction(Reduction.SUM), _check_reduction, looked_at=frozenset({1}), half=True),
}
