"""One side of a cache of grouped heads, keys or values, through a call: past, new rows in the past's type, present.

It determines how rows are stored, plain or quantised, but not where they go.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelContext
from ort_py.dtypes import numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.quantized_cache import CacheFormat

__all__ = ["GroupedCache", "stored_type"]


class GroupedCache:
    """Keys or values of a call: the past, what is new as it is stored, and in time the present.

    Args:
        over: Whether the present may be the past itself, with new rows in it.
    """

    def __init__(
        self,
        ctx: KernelContext,
        past: Array | None,
        how: tuple[CacheFormat, Array] | None,
        new: Array,
        size: int,
        *,
        over: bool = False,
    ) -> None:
        self.over = over
        self.ctx = ctx
        self.past = past
        self.how = how
        self.size = size
        self.new = new
        if how is not None:
            self.new = how[0].stored(new, how[1], stored_type(ctx, past, how[0]))
        elif past is not None and past.itemsize == 1:
            raise InvalidArgument(
                f"The past is of {past.dtype.name}, but k_quant_type and v_quant_type do not say how it is quantised.",
                where=ctx.node.location,
                fix="Set both to 'PER_TENSOR' or 'PER_CHANNEL', and connect k_scale and v_scale.",
            )
        elif past is not None and past.dtype != new.dtype:
            self.new = new.astype(past.dtype)
        self.present: Array | None = None

    def loaded(self, rows: Array) -> Array:
        """Rows of the cache as attention reads them."""
        return rows if self.how is None else self.how[0].loaded(rows, self.how[1], self.size)


def stored_type(ctx: KernelContext, past: Array | None, how: CacheFormat) -> Any:
    """The past's type; without one what the output says, or that of the format.

    Raises:
        InvalidArgument: It cannot hold numbers of that many bits.
    """
    outputs = ctx.node.outputs
    said = outputs[1].data_type if len(outputs) > 1 and outputs[1] is not None else None
    usual = ctx.xp.dtype(ctx.xp.uint8 if how.bits == 4 else ctx.xp.int8)
    dtype = past.dtype if past is not None else usual if said is None else numpy_dtype(said)
    if dtype.name not in (("uint8",) if how.bits == 4 else ("int8", "float8_e4m3fn")):
        raise InvalidArgument(
            f"A cache of {dtype.name} cannot hold {how.bits}-bit {how.name}.",
            where=ctx.node.location,
            fix="Use int8 or float8e4m3fn for 8 bits, and uint8 for 4.",
        )
    return dtype
