"""A node and its kernel made one callable: attributes and constants resolved, sizes guarded, outputs in shape.

Comes after `registry`; `planning` turns the callable into a step. The context here implements the contract's
`KernelContext` on top of services the session passes in, so this room knows no pool, no session and no device.
"""

from __future__ import annotations

import itertools
import sys
from collections.abc import Callable, Mapping, Sequence
from functools import partial
from math import prod
from typing import Any, TypeVar

import numpy as np

from ort_py.contracts import (
    Array,
    GraphView,
    IExecutionProvider,
    KernelCallable,
    KernelContext,
    KernelDef,
    KernelForms,
    NodeSpec,
    SubgraphCallable,
)
from ort_py.devices import HOST
from ort_py.dtypes import TensorType, numpy_dtype
from ort_py.errors import OrtPyError, PluginError
from ort_py.kernels.blocks import in_blocks
from ort_py.kernels.seeds import stream_for
from ort_py.kernels.services import KernelConstants, KernelServices, run_inline
from ort_py.kernels.subgraphs import BoundSubgraph
from ort_py.lazy_dataclass import dataclass
from ort_py.limits import Limits, check_allocation, check_time, in_checked_parts, is_checked, unquestioned_elements

T = TypeVar("T")


@dataclass(frozen=True, slots=True)
class BoundKernel:
    """A callable for one node.

    Attributes:
        call: ``f(*inputs)``, with as many arguments as the node has inputs; a bare array for one output, else a
            tuple with one entry per output of the node.
        into: ``f(*inputs, *outputs)``, which writes to the arrays it is given for the node's outputs and returns them
            as `call` does; None where the kernel does not declare `out`. It is not guarded: the arrays are there.
        subgraphs: The graphs of the node that the kernel declares and the node has, in the order of their declaration.
        replaced: Inputs that the kernel reads no values of any more: see `KernelContext.packed`.
        over: ``f(*inputs, *outputs)``, which updates inputs that it is also given as outputs: `KernelForms.over`.
    """

    call: KernelCallable
    definition: KernelDef
    into: KernelCallable | None = None
    subgraphs: tuple[BoundSubgraph, ...] = ()
    replaced: frozenset[int] = frozenset()
    over: KernelCallable | None = None


class _BoundContext(KernelContext):
    __slots__ = ("_calls", "_constants", "_declared", "_services", "_split", "_unquestioned", "replaced", "subgraphs")

    def __init__(
        self,
        node: NodeSpec,
        provider: IExecutionProvider,
        services: KernelServices,
        constants: Mapping[int, Array],
        definition: KernelDef | None = None,
    ) -> None:
        super().__init__(node, provider.array_module, provider.device)
        self._services = services
        # A stream is current on the thread that runs the frame alone: others would enqueue out of order.
        self._split = services.parallel_for if self.device == HOST else run_inline
        self._unquestioned = unquestioned_elements(services.limits)
        self._constants = constants
        self.replaced: set[int] = set()
        self._calls = itertools.count()  # its `next` is atomic: threads that run at once get other numbers
        self._declared = tuple(one.name for one in definition.subgraphs) if definition is not None else ()
        self.subgraphs = {
            name: BoundSubgraph(name, node.location)
            for name in self._declared
            if isinstance(node.attributes.get(name), GraphView)
        }

    def constant(self, index: int) -> Array | None:
        return self._constants.get(index)

    def packed(
        self, replaced: Sequence[int], form: str, make: Callable[..., T], others: Sequence[int] = ()
    ) -> T | None:
        given, asked = self.node.inputs, (*replaced, *others)
        present = [position for position in asked if position < len(given) and given[position] is not None]
        if replaced[0] not in present or any(position not in self._constants for position in present):
            return None
        self.replaced.update(position for position in replaced if position in present)
        if not isinstance(self._constants, KernelConstants):
            return super().packed(replaced, form, make, others)

        def made() -> T:
            arrays = self._known(asked)
            assert arrays is not None
            return make(*arrays)

        # Which inputs there are, and where, belongs to what is made of them.
        places = ",".join(str(asked.index(position)) for position in present)
        shared: T = self._constants.packed(present, f"{form} of {places}", made)
        return shared

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        # Kernels ask on each call, nearly always for so little that neither the type nor the place matters.
        count = 1
        for dim in shape:
            count *= int(dim)  # integers of NumPy would wrap
        if count > self._unquestioned:
            check_allocation(self._services.limits, shape, dtype, self.node.location)

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        self._split(rows, grain, in_checked_parts(grain, fn))

    def check_time(self, ahead: float = 0.0) -> None:
        check_time(ahead)

    @property
    def is_timed(self) -> bool:
        return is_checked()

    def random_generator(self, seed: float | None) -> Any:
        if seed is not None:
            return np.random.default_rng(int(np.float32(seed).view(np.uint32)))
        return stream_for(self._services.seed, self.node.location, next(self._calls))

    def subgraph(self, name: str) -> SubgraphCallable | None:
        if name not in self._declared:
            raise PluginError(
                f"The kernel requests the graph '{name}', which it does not declare.",
                where=self.node.location,
                why=f"it declares {', '.join(map(repr, self._declared)) or 'none'}",
                fix="Name the attribute in KernelDef.subgraphs.",
            )
        return self.subgraphs.get(name)


def bind_kernel(
    node: NodeSpec,
    definition: KernelDef,
    provider: IExecutionProvider,
    services: KernelServices,
    constants: Mapping[int, Array],
) -> BoundKernel:
    """Call the kernel's factory and adapt what it returns to the node.

    Args:
        constants: Inputs known now, by position, as host arrays.

    Raises:
        OrtPyError: The factory refused the node's attributes or constants.
    """
    context = _BoundContext(node, provider, services, constants, definition)
    try:
        call = definition.factory(context)
    except OrtPyError:
        raise
    except Exception as error:  # a plug-in's code
        raise PluginError(
            f"The factory of kernel {definition} raised {type(error).__name__}: {error}",
            where=node.location,
            why=f"kernel {definition.implementation or definition}",
            fix="Report this to the author of the provider.",
        ) from error
    call, into, over = (call.call, call.into, call.over) if isinstance(call, KernelForms) else (call, call, None)
    if services.timed and provider.device == HOST and definition.outputs == len(node.outputs):
        call, into = in_blocks(
            node, context, frozenset(constants), call, into if definition.out else None, strided=definition.strided
        )
    call = _guard(call, node, definition, context, services.limits)
    return BoundKernel(
        _fit_outputs(call, node, definition),
        definition,
        _fit_into(into, node, definition),
        tuple(context.subgraphs.values()),
        frozenset(context.replaced),
        None if over is None or definition.out else _fit_outputs(over, node, definition),
    )


def _fit_into(into: KernelCallable | None, node: NodeSpec, definition: KernelDef) -> KernelCallable | None:
    """The second form, for nodes that want just the outputs that the kernel makes; none where one is left out."""
    wanted = len(node.outputs)
    if into is None or not definition.out or definition.outputs not in (None, wanted):
        return None
    if None in node.outputs:
        return None
    return partial(_single, into) if definition.outputs is None and wanted == 1 else into


def _fit_outputs(call: KernelCallable, node: NodeSpec, definition: KernelDef) -> KernelCallable:
    wanted = len(node.outputs)
    if definition.outputs is None:
        return partial(_single, call) if wanted == 1 else call
    if definition.outputs == 1:
        return call if wanted == 1 else partial(_padded, call, wanted)
    if wanted == 1:
        return partial(_first, call)
    if wanted == definition.outputs:
        return call
    return partial(_cut, call, wanted)


def _single(call: KernelCallable, *inputs: Any) -> Any:
    (result,) = call(*inputs)
    return result


def _first(call: KernelCallable, *inputs: Any) -> Any:
    return call(*inputs)[0]


def _cut(call: KernelCallable, wanted: int, *inputs: Any) -> tuple[Any, ...]:
    result = tuple(call(*inputs))
    return result[:wanted] + (None,) * (wanted - len(result))


def _padded(call: KernelCallable, wanted: int, *inputs: Any) -> tuple[Any, ...]:
    return (call(*inputs),) + (None,) * (wanted - 1)


def _guard(
    call: KernelCallable, node: NodeSpec, definition: KernelDef, context: KernelContext, limits: Limits
) -> KernelCallable:
    """Check the size of the result before the call, where the kernel leaves that to us and it is not known yet."""
    shape_of = definition.output_shape
    cap = limits.single_allocation_bytes
    output = node.outputs[0] if node.outputs else None
    if shape_of is None or cap is None or output is None:
        return call
    dtype = np.dtype(np.complex128)  # the widest, where the type is unknown
    if isinstance(output.type, TensorType):
        dtype = numpy_dtype(output.type.data_type)
        shape = output.type.shape
        known = [dim for dim in shape or () if isinstance(dim, int)]
        if shape is not None and len(known) == len(shape):
            # Most are far below the limit, and thousands are asked about.
            if prod(known) * dtype.itemsize > min(cap, sys.maxsize):
                check_allocation(limits, known, dtype, node.location)
            return call
    if len(node.inputs) == 2:
        return partial(_guarded_pair, call, shape_of, context.check_allocation, cap // dtype.itemsize, dtype)
    return partial(_guarded, call, shape_of, context.check_allocation, dtype)


def _guarded_pair(
    call: KernelCallable,
    shape_of: Callable[..., Sequence[int] | None],
    check: Callable[[Sequence[int], Any], None],
    cap: int,
    dtype: Any,
    left: Any,
    right: Any,
) -> Any:
    # The product of the sizes bounds a broadcast and an outer product, so the common case costs one comparison.
    # A product of zero says nothing: a matrix product over an empty axis has a full result.
    if not 0 < left.size * right.size <= cap:
        shape = shape_of(left, right)
        if shape is not None:
            check(shape, dtype)
    return call(left, right)


def _guarded(
    call: KernelCallable,
    shape_of: Callable[..., Sequence[int] | None],
    check: Callable[[Sequence[int], Any], None],
    dtype: Any,
    *inputs: Any,
) -> Any:
    shape = shape_of(*inputs)
    if shape is not None:
        check(shape, dtype)
    return call(*inputs)


def make_context(node: NodeSpec, provider: IExecutionProvider, services: KernelServices) -> KernelContext:
    """A kernel context for a node without constants, for transforms that only ask about limits."""
    return _BoundContext(node, provider, services, {})
