"""Element types that an attribute names by number: checked against those that the operator's schema allows.

For operators whose output type no input decides (random numbers, windows). It is independent of arrays.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.kernel import KernelContext
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument

__all__ = ["attribute_type"]


def attribute_type(ctx: KernelContext, name: str, number: DataType | int, allowed: frozenset[str]) -> Any:
    """The NumPy dtype of element type `number`.

    Args:
        ctx: Context of the node.
        name: The attribute, for messages.
        number: Its value, or the type it defaults to.
        allowed: Type strings, as in `KernelDef.types`.

    Raises:
        InvalidArgument: There is no such type, or the operator cannot make it.
    """
    try:
        kind = DataType(number)
    except ValueError:
        kind = DataType.UNDEFINED
    if f"tensor({kind.onnx_name})" not in allowed:
        raise InvalidArgument(
            f"{ctx.node.op_type} cannot make elements of type {kind.onnx_name} ({int(number)}).",
            where=ctx.node.location,
            fix=f"Set the attribute '{name}' to one of {', '.join(sorted(allowed))}.",
        )
    return numpy_dtype(kind)
