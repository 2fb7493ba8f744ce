"""Kernels that stand on the array library's: declared as the library's are, and falling back to it with a reason.

`over_library` declares a kernel with all that the library's declares for the same operator, so that versions, types,
forms and permissions are the same; the factory gets the library's factory beside the context. `unprepared` binds a
library kernel late, when a run shows that ours cannot serve a shape. It is independent of operators. Comes after
`catalog`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, KernelFactory, SubgraphCallable
from ort_py.errors import KernelNotFoundError
from ort_py_array.library import LibraryKernels
from ort_py_cuda.kernels.catalog import library_kernel

__all__ = ["StandingFactory", "note_fallback", "over_library", "unprepared"]

StandingFactory: TypeAlias = Callable[[KernelContext, KernelFactory], KernelCallable]
"""``factory(ctx, library)``; ``library(ctx)`` is the library's kernel, to be returned where ours serves nothing."""

_log = logging.getLogger("ort_py_cuda.kernels")


def over_library(op_type: str, factory: StandingFactory, *, domain: str = "", **changes: Any) -> list[KernelDef]:
    """Declare a kernel in place of each of the library's for an operator.

    Args:
        op_type: Operator.
        factory: Ours.
        domain: Its domain.
        **changes: Fields of the declaration that differ from the library's.
    """
    name = f"{factory.__module__}:{factory.__qualname__}"
    return [
        definition.replace(factory=partial(_bound, factory, definition), implementation=name, **changes)
        for definition in LibraryKernels().kernels_of(domain, op_type)
    ]


def _bound(factory: StandingFactory, definition: KernelDef, ctx: KernelContext) -> KernelCallable:
    return factory(ctx, definition.factory)


def note_fallback(ctx: KernelContext, reason: object) -> None:
    """Say in the log why a node is computed in another way than cuDNN's."""
    _log.info("%s is computed by the array library: %s", ctx.node.location, reason)


def unprepared(ctx: KernelContext, node: NodeSpec | None = None) -> KernelCallable:
    """The library's kernel for a node, bound outside of its factory: it takes no input for a constant.

    What a factory has packed is gone, so nothing may be prepared of constants any more: the caller passes arrays that
    hold values.

    Args:
        ctx: Context of our kernel.
        node: The node to bind, where it is not the context's: its standard form, for instance.

    Raises:
        KernelNotFoundError: The library has no kernel for it.
    """
    late = _Late(ctx, ctx.node if node is None else node)
    definition = library_kernel(late.node)
    if definition is None:
        raise KernelNotFoundError(
            f"The array library has no kernel for {late.node.op_type}({late.node.since_version}).",
            where=late.node.location,
            why="cuDNN does not serve this call either",
            fix="Run the node on another provider.",
        )
    return definition.factory(late)


class _Late(KernelContext):
    """A context that knows no constants."""

    __slots__ = ("_context",)

    def __init__(self, context: KernelContext, node: NodeSpec) -> None:
        super().__init__(replace(node, body=None), context.xp, context.device)
        self._context = context

    def constant(self, index: int) -> Array | None:
        return None

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        self._context.check_allocation(shape, dtype)

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        self._context.parallel_for(rows, grain, fn)

    def random_generator(self, seed: float | None) -> Any:
        return self._context.random_generator(seed)

    def subgraph(self, name: str) -> SubgraphCallable | None:
        return self._context.subgraph(name)
