"""Nodes between conversions that XNNPACK computes with integers of 8 bits alone.

DequantizeLinear, an operator, perhaps a Relu or Clip, and QuantizeLinear become one node, where its sums are exact and
its result is rounded once, as ONNX's is. A number that lies at a half, within `_NEAR` of a step, may go to either side.
Everything else is computed in float32 between conversions, as the model says.

A plan is made once for a graph; it holds for all shapes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

from ort_py.contracts import NodeSpec, ValueSpec
from ort_py.lazy_dataclass import dataclass
from ort_py_xnnpack.binding.constants import INFINITY, Unary
from ort_py_xnnpack.binding.features import has_outer_products
from ort_py_xnnpack.graph.flat_graph import FlatGraph
from ort_py_xnnpack.graph.grids import Grid, Grids, grid_of
from ort_py_xnnpack.operators.operator import attribute, rank

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.builder import Builder

__all__ = ["Integers", "Weights", "planned"]

Array = np.ndarray[Any, Any]

_NEAR = 2.0**-11
"""The part of a step by which XNNPACK's numbers may be off before they are rounded."""
_LARGEST_WEIGHT = 127
"""Kernels for ARM add two products in 16 bits, so the weight -128 might overflow there."""
_MOST = 2**31
_STEPS = 256
"""Integers of 8 bits differ by less."""
_LARGEST_RATIO = 256.0
_SMALLEST_SUMMAND, _SMALLEST_PRODUCT = 2.0**-10, 2.0**-16
_LOWEST, _HIGHEST = -128, 127


@dataclass(frozen=True, slots=True)
class Weights:
    """Constant factors and summands of a product.

    Attributes:
        value: The floating-point value that the factors stand for.
        numbers: The factors, in the model's layout.
        scales: One for each output.
        bias: What is added to the sums of products.
        bias_scales: What one of it stands for, for each output.
        added: The floating-point value that the bias stands for; None where it is 0.
        form: What they depend on beside the constants: grids.
    """

    value: ValueSpec
    numbers: Array
    scales: Array
    bias: Array
    bias_scales: Array
    added: ValueSpec | None
    form: str


@dataclass(frozen=True, slots=True)
class Integers:
    """One node that computes with integers.

    Attributes:
        node: It, reading and writing integers.
        limits: The smallest and the largest number that it writes, in real numbers.
        weights: Those of a product.
    """

    node: NodeSpec
    limits: tuple[float, float]
    weights: Weights | None = None

    @property
    def is_limited(self) -> bool:
        """Return whether some integers are not written."""
        return self.limits != (-INFINITY, INFINITY)

    def clamp(self, builder: Builder, describe: Callable[[NodeSpec], None]) -> None:
        """Describe a node that has no limits of its own, and one behind it that has them.

        Args:
            builder: The builder.
            describe: Describes the node that it is given.
        """
        if not self.is_limited:
            describe(self.node)
            return
        result = self.node.outputs[0]
        assert result is not None
        before = replace(result, name=f"{result.name}/before limits")
        grid = builder.grid_of(result)
        assert grid is not None
        builder.gives(before, grid)
        describe(replace(self.node, outputs=(before,)))
        order = builder.order(before)
        target = builder.write(result, builder.shape(before), order)
        builder.unary(Unary.CLAMP, builder.read(before, order), target, *self.limits)


Check: TypeAlias = "Callable[[_Site], Weights | bool]"


@dataclass(frozen=True, slots=True)
class _Site:
    """A node between conversions.

    Attributes:
        node: The node.
        graph: Its graph.
        sources: The grids of its inputs that are integers, by their places.
        target: That of its result.
    """

    node: NodeSpec
    graph: FlatGraph
    sources: Mapping[int, Grid]
    target: Grid


def planned(graph: FlatGraph, grids: Grids) -> tuple[dict[int, Integers], frozenset[int]]:
    """Find the nodes of a graph that can be computed with integers.

    Args:
        graph: The graph.
        grids: The grids of its integers.

    Returns:
        Them, by the places of the QuantizeLinear that they end in, and the places of nodes that they stand for.
    """
    found: dict[int, Integers] = {}
    gone: set[int] = set()
    for place, node in enumerate(graph.nodes):
        if node.op_type != "QuantizeLinear" or node.domain or node.outputs[0] is None:
            continue
        grid = grids.of(node.outputs[0])
        chain = None if grid is None else _chain(graph, node, grid)
        if chain is None or grid is None:
            continue
        inner, limits, between = chain
        made = _made(graph, grids, inner, node, grid, limits)
        if made is not None and (made.weights is None or not has_outer_products()):
            found[place] = made
            gone |= between
    return found, frozenset(gone)


def _chain(graph: FlatGraph, node: NodeSpec, grid: Grid) -> tuple[NodeSpec, tuple[float, float], set[int]] | None:
    """The node whose result is quantised, the limits between, and the places of all of them."""
    value, limits, places = node.inputs[0], (-INFINITY, INFINITY), set[int]()
    while value is not None and value.name not in graph.outputs and len(graph.readers(value.name)) == 1:
        place = graph.maker(value.name)
        if place is None:
            return None
        places.add(place)
        inner = graph.nodes[place]
        bounds = _bounds(inner, graph)
        if bounds is None:
            return (inner, limits, places) if inner.op_type in _CHECKS and not inner.domain else None
        limits = _narrowed(bounds, limits, grid)
        value = inner.inputs[0]
    return None


def _bounds(node: NodeSpec, graph: FlatGraph) -> tuple[float, float] | None:
    if node.domain or node.op_type not in {"Clip", "Relu"}:
        return None
    if node.op_type == "Relu":
        return 0.0, INFINITY
    if any(one is not None and not graph.is_known(one.name) for one in node.inputs[1:]):
        return None
    from ort_py_xnnpack.operators.elementwise import bounds

    found = bounds(node, graph)
    return None if isinstance(found, str) else found


def _narrowed(bounds: tuple[float, float], limits: tuple[float, float], grid: Grid) -> tuple[float, float]:
    """Limits that are multiples of a scale: what is rounded and then limited is what is limited and then rounded."""
    made = []
    for bound, limit, choose, end in zip(bounds, limits, (max, min), (_LOWEST, _HIGHEST), strict=True):
        if not np.isfinite(bound):
            made.append(limit)
            continue
        whole = int(np.clip(np.rint(np.float32(bound) / np.float32(grid.scale)) + grid.zero, _LOWEST, _HIGHEST))
        number = (whole - grid.zero) * grid.scale
        made.append(limit if whole == end else choose(limit, number))
    return made[0], made[1]


def _made(
    graph: FlatGraph, grids: Grids, node: NodeSpec, last: NodeSpec, target: Grid, limits: tuple[float, float]
) -> Integers | None:
    sources: dict[int, Grid] = {}
    inputs = list(node.inputs)
    for index, value in enumerate(node.inputs):
        place = None if value is None else graph.maker(value.name)
        if place is None:
            continue
        maker = graph.nodes[place]
        if maker.op_type != "DequantizeLinear" or maker.domain or maker.inputs[0] is None:
            continue
        grid = grid_of(maker, graph)
        own = grids.of(maker.inputs[0])
        if isinstance(grid, Grid) and grid == own:
            sources[index], inputs[index] = grid, maker.inputs[0]
    if limits[0] >= limits[1]:
        return None
    found = _CHECKS[node.op_type](_Site(node, graph, sources, target))
    if not found:
        return None
    if isinstance(found, Weights):
        return Integers(replace(node, inputs=(inputs[0],), outputs=last.outputs), limits, found)
    return Integers(replace(node, inputs=tuple(inputs), outputs=last.outputs), limits)


def _weights(site: _Site, axis: int) -> Weights | bool:
    """The weights of a product: its second input, and its third.

    Args:
        site: The product.
        axis: The axis of the weights along which its outputs lie.
    """
    graph, value = site.graph, site.node.inputs[1]
    source = site.sources.get(0)
    maker = None if value is None else graph.dequantiser(value.name)
    if source is None or maker is None or value is None or graph.is_known(site.node.inputs[0].name):  # type: ignore[union-attr]
        return False
    data, scale, zero = (graph.value(one) for one in (*maker.inputs, None, None)[:3])
    if data is None or scale is None or data.dtype not in (np.int8, np.uint8) or scale.dtype != np.float32:
        return False
    count, outputs = data.ndim, data.shape[axis]
    along = int(attribute(maker, "axis", 1)) % max(count, 1)
    for numbers in (scale, zero):
        if numbers is not None and numbers.size != 1 and (along != axis or numbers.shape != (outputs,)):
            return False
    shape = [1] * count
    shape[axis] = -1
    moved = data.astype(np.int16)
    if zero is not None and zero.any():
        moved = moved - (zero if zero.size == 1 else zero.reshape(shape)).astype(np.int16)
    if np.abs(moved).max(initial=0) > _LARGEST_WEIGHT:
        return False
    scales = np.array(np.broadcast_to(scale.reshape(-1), outputs), np.float64)
    if not (np.isfinite(scales).all() and (scales > 1e-30).all() and (scales < 1e30).all()):
        return False
    units = scales * source.scale
    steps = units / site.target.scale
    if not (steps < _LARGEST_RATIO).all():
        return False
    bias = _bias(site, units, steps)
    others = tuple(one for one in range(count) if one != axis)
    sums = np.abs(moved).sum(others, dtype=np.int64)
    if bias is None or not (2 * _STEPS * sums + np.abs(bias) < _MOST).all():
        return False
    added = site.node.inputs[2] if len(site.node.inputs) > 2 else None
    form = f"int8 of {source.scale!r} {source.zero} to {site.target.scale!r}"
    signed = data if data.dtype == np.int8 and not (zero is not None and zero.any()) else moved.astype(np.int8)
    return Weights(
        value, signed, scales.astype(np.float32), bias.astype(np.int32), units.astype(np.float32), added, form
    )


def _bias(site: _Site, units: Array, steps: Array) -> Array | None:
    """What a product adds, as multiples of what its sums count; None where it is none, or changes a result."""
    value = site.node.inputs[2] if len(site.node.inputs) > 2 else None
    if value is None:
        return np.zeros(units.size, np.int64)
    if not site.graph.is_known(value.name):
        return None
    given = _exact_sums(site.graph, value)
    if given is None or given.size not in {1, units.size} or not np.isfinite(given).all():
        return None
    if given.size > 1 and given.shape[-1] != units.size:
        return None
    exact = np.broadcast_to(given.reshape(-1), units.size) / units
    if not (np.abs(exact) < _MOST).all():
        return None
    whole = np.rint(exact)
    # The scale of a bias is rounded to float32 in the model.
    return whole.astype(np.int64) if (np.abs(exact - whole) * steps <= _NEAR).all() else None


def _exact_sums(graph: FlatGraph, value: ValueSpec) -> Array | None:
    """What a product adds, as float64: integers of 32 bits have more digits than float32."""
    maker = graph.dequantiser(value.name)
    data, scale, zero = [*(() if maker is None else map(graph.value, maker.inputs)), None, None, None][:3]
    if data is not None and data.dtype == np.int32 and scale is not None and (zero is None or not zero.any()):
        steps = scale.reshape(-1).astype(np.float64)
        if steps.size == 1 or (data.ndim > 0 and data.shape[-1] == data.size == steps.size):
            return np.asarray(data.astype(np.float64) * steps)
    given = graph.constant(value.name)
    return None if given is None or given.dtype != np.float32 else given.astype(np.float64)


def _convolution(site: _Site) -> Weights | bool:
    return rank(site.node) in {3, 4} and _weights(site, 0)


def _product(site: _Site) -> Weights | bool:
    return rank(site.node) >= 2 and rank(site.node, 1) == 2 and _weights(site, 1)


def _gemm(site: _Site) -> Weights | bool:
    return _weights(site, 0 if attribute(site.node, "transB", 0) else 1)


def _sum(site: _Site) -> bool:
    if set(site.sources) != {0, 1} or len(site.node.inputs) != 2:
        return False
    ratios = [float(np.float32(one.scale) / np.float32(site.target.scale)) for one in site.sources.values()]
    # XNNPACK counts in parts of a step, of which the larger ratio has 2^20 or more.
    part = 2.0 ** (np.frexp(max(ratios))[1] - 1 - 20)
    return min(ratios) >= _SMALLEST_SUMMAND and _STEPS * part <= _NEAR


def _factors(site: _Site) -> bool:
    if set(site.sources) != {0, 1}:
        return False
    one, other = site.sources.values()
    return _SMALLEST_PRODUCT <= one.scale * other.scale / site.target.scale < _LARGEST_RATIO


def _mean(site: _Site) -> bool:
    return 0 in site.sources and site.sources[0].scale / site.target.scale < _LARGEST_RATIO


def _moved(site: _Site) -> bool:
    return 0 in site.sources and site.sources[0] == site.target


def _joined(site: _Site) -> bool:
    return len(site.sources) == len(site.node.inputs) and all(one == site.target for one in site.sources.values())


_CHECKS: dict[str, Check] = {
    "Add": _sum,
    "Concat": _joined,
    "Conv": _convolution,
    "Gemm": _gemm,
    "GlobalAveragePool": _mean,
    "MatMul": _product,
    "MaxPool": _moved,
    "Mul": _factors,
    "ReduceMean": _mean,
    "Sub": _sum,
}
