"""Kernels of generated code in front of the library's: what both share, and how the one gives way to the other.

A declaration takes over the library's for the element types that generated code has; at run time an array that it was
not written for goes to the library's kernel, which takes everything. It is independent of operators.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from functools import lru_cache, partial
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py_cuda import modules
from ort_py_cuda.code.kernel import Kernel
from ort_py_cuda.code.sources import program

__all__ = ["FLOATS", "Factory", "built", "contiguous", "covering", "current_stream"]

FLOATS = tensors(DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16, DataType.DOUBLE)
"""Floating-point types that generated code computes with; the narrow ones in float32, rounded once."""

Factory = Callable[[KernelContext, KernelCallable], KernelCallable]
"""``f(context, general)``: the callable for a node, `general` being the library's for it."""


def covering(
    library: Iterable[KernelDef],
    op_types: Iterable[str],
    ours: Factory,
    *,
    variable: str = "T",
    types: frozenset[str] | None = None,
    **changes: Any,
) -> list[KernelDef]:
    """Declarations like the library's of some operators, whose callables are ours with the library's behind them.

    Args:
        library: Its definitions.
        op_types: Operators to take over.
        ours: Makes the callable of a node.
        variable: The schema's type variable that `types` limits.
        types: Type strings that ours are for; None for all that the library has.
        **changes: Other fields of `KernelDef`.
    """
    wanted = frozenset(op_types)
    found: list[KernelDef] = []
    for definition in library:
        if definition.op_type not in wanted:
            continue
        limits = dict(definition.types)
        if types is not None:
            limits[variable] = limits.get(variable, types) & types
        found.append(
            definition.replace(
                factory=partial(_bound, ours, definition),
                types=limits,
                strided=False,
                implementation=f"{ours.__module__}:{ours.__qualname__}",
                **changes,
            )
        )
    return found


def _bound(ours: Factory, definition: KernelDef, ctx: KernelContext) -> KernelCallable:
    return ours(ctx, definition.factory(ctx))


def current_stream() -> int:
    """Native handle of the calling thread's current stream, which the engine has made the frame's."""
    return int(modules.cupy().cuda.get_current_stream().ptr)


def contiguous(*arrays: Array | None) -> bool:
    """Return whether all that are there are C-contiguous."""
    return all(array is None or array.flags.c_contiguous for array in arrays)


@lru_cache(maxsize=1024)
def built(parts: tuple[str, ...], name: str, parameters: str, arguments: str, call: str) -> Kernel:
    """A kernel around one call of a template of `sources`; the same one for the same arguments.

    Args:
        parts: Parts of the program.
        name: Its name.
        parameters: Its parameters in C++.
        arguments: The same in the letters of `Kernel`.
        call: The statement that is its body.
    """
    body = f'extern "C" __global__ void {name}({parameters}) {{ {call} }}\n'
    return Kernel(program(*parts, body=body), name, arguments)
