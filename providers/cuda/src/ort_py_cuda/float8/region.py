"""Execution of a float8 region: numbers become bytes, and bytes are multiplied. Comes last."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts.compiled import CompiledRegion, FunctionRegion
from ort_py.contracts.graph_view import Array, RegionView
from ort_py.contracts.region_weights import RegionWeight
from ort_py.devices import Device
from ort_py.dtypes import numpy_dtype
from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.float8.bytes import columns_of, product, rows_of
from ort_py_cuda.float8.patterns import Activation, Product, product_of
from ort_py_cuda.settings import current

__all__ = ["Float8Region", "compile_region"]


@dataclass(frozen=True, slots=True)
class _Ready:
    """A product and what of it is on the device.

    Attributes:
        what: The product.
        columns: Bytes of the weight.
        depth: Length of the axis that is summed over.
        scales: Of both factors.
        added: A constant that is added; None where it is fed, or nothing is added.
        where: The node.
    """

    what: Product
    columns: Array
    depth: int
    scales: tuple[Array, Array]
    added: Array | None
    where: Location


class Float8Region(FunctionRegion):
    """Products of float8. Immutable; called from any thread.

    Args:
        xp: The array module.
        inputs: Names of what is fed, in order.
        outputs: Names of the results, in order; each with the number of its product.
        products: The products.
        divisors: By the name of a scale: its value on the device.
    """

    def __init__(
        self,
        xp: Any,
        inputs: Sequence[str],
        outputs: Sequence[int],
        products: Sequence[_Ready],
        divisors: dict[str, Array],
    ) -> None:
        super().__init__(self.run)
        self._xp = xp
        self._inputs = tuple(inputs)
        self._outputs = tuple(outputs)
        self._products = tuple(products)
        self._divisors = divisors

    def run(self, *feeds: Array) -> list[Array]:
        """Enqueue the region on the current stream.

        Raises:
            InvalidArgument: Shapes that do not fit.
            EPFail: cuBLASLt has no such product on this device.
        """
        given = dict(zip(self._inputs, feeds, strict=True))
        rows: dict[Activation, Array] = {}
        made: list[Array] = []
        for one in self._products:
            what, x = one.what, given[one.what.activation.x]
            if not x.ndim or x.shape[-1] != one.depth:
                raise InvalidArgument(
                    f"'{what.activation.x}' has shape {list(x.shape)}; its last axis must have {one.depth} entries.",
                    where=one.where,
                    fix="Check the shapes of the inputs that were fed.",
                )
            source = what.activation
            if source not in rows:
                rows[source] = rows_of(
                    *(self._xp, x, self._divisors[source.divisor]),
                    *(numpy_dtype(source.form).name, numpy_dtype(source.rounded).name),
                )
            made.append(self._product(one, x, rows[source], given))
        return [made[number] for number in self._outputs]

    def _product(self, one: _Ready, x: Array, rows: Array, given: dict[str, Array]) -> Array:
        what = one.what
        added = given.get(what.added) if one.added is None else one.added
        shape = (*x.shape[:-1], what.weight.columns)
        if added is not None and not _spreads(added.shape, shape):
            raise InvalidArgument(
                f"'{what.added}' has shape {list(added.shape)}, which does not broadcast to {list(shape)}.",
                where=one.where,
                fix="Give C a shape that broadcasts to the product's, e.g. one entry per column.",
            )
        y = product(
            *(self._xp, rows, one.columns),
            (numpy_dtype(what.activation.form).name, numpy_dtype(what.weight.form).name),
            one.scales,
            what.weight.columns,
            numpy_dtype(what.kind),
            alpha=what.alpha,
            added=added,
            beta=what.beta,
            relu=what.relu,
        )
        return y.reshape(shape)


def _spreads(shape: Sequence[int], into: Sequence[int]) -> bool:
    return len(shape) <= len(into) and all(s in (1, t) for s, t in zip(shape[::-1], into[::-1], strict=False))


def compile_region(region: RegionView, xp: Any) -> CompiledRegion:
    """A region that `patterns.find` put together: its weights become bytes on the device.

    Args:
        region: The region.
        xp: The array module.
    """
    numbers: dict[str, Array] = {}

    def number(name: str) -> Array:
        """A scale as a float32 of one element on the device."""
        if name not in numbers:
            numbers[name] = xp.asarray(np.asarray(region.constant(name)).astype(np.float32).reshape(1))
        return numbers[name]

    products: list[_Ready] = []
    names: dict[str, int] = {}
    for node in region.nodes:
        what = product_of(region, node)
        if not isinstance(what, Product):
            continue
        weight = region.weight(what.weight.name)
        assert weight is not None
        output = node.outputs[0]
        assert output is not None
        columns = _columns(region, what, weight, xp)
        weight.replaced()
        added = region.constant(what.added) if what.added else None
        number(what.activation.divisor)
        names[output.name] = len(products)
        products.append(
            _Ready(
                what,
                columns,
                weight.shape[1 if what.weight.turned else 0],
                (number(what.activation.scale), number(what.weight.scale)),
                None if added is None else xp.asarray(np.asarray(added)),
                node.location,
            )
        )
    inputs = [value.name for value in region.inputs]
    return Float8Region(xp, inputs, [names[value.name] for value in region.outputs], products, numbers)


def _columns(region: RegionView, what: Product, weight: RegionWeight, xp: Any) -> Array:
    """Bytes of a weight, shared by all regions of the session."""
    turned = what.weight.turned
    form = f"{Device('cuda', current().device)} bytes of float8 by column{' of its transpose' if turned else ''}"
    packed: Array = region.packed_forms.packed([weight.key], form, lambda: columns_of(xp, weight.array(), turned))
    return packed
