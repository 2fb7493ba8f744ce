"""Casts of casts: one, where the type between loses nothing of what goes through it."""

from __future__ import annotations

from ort_py.contracts import GraphEditor, NodeSpec, NodeTemplate, RewriteRule, TransformContext
from ort_py.dtypes import DataType
from ort_py.transforms.chains import chain_of

_MANTISSA = {DataType.FLOAT16: 11, DataType.BFLOAT16: 8, DataType.FLOAT: 24, DataType.DOUBLE: 53}
"""Bits of the integers that a floating type holds exactly."""

_UNSIGNED = {DataType.UINT8: 8, DataType.UINT16: 16, DataType.UINT32: 32, DataType.UINT64: 64}
_SIGNED = {DataType.INT8: 8, DataType.INT16: 16, DataType.INT32: 32, DataType.INT64: 64}

_WIDER = {
    DataType.FLOAT16: (DataType.FLOAT, DataType.DOUBLE),
    DataType.BFLOAT16: (DataType.FLOAT, DataType.DOUBLE),
    DataType.FLOAT: (DataType.DOUBLE,),
}
"""Floating types that hold every value of another."""


class MergeCasts(RewriteRule):
    """``Cast(Cast(x))``: the first is left out, where the type it makes holds every value of the one before."""

    name = "CastChainElimination"
    op_types = frozenset({"Cast"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        chain = chain_of(node, graph, self.op_types)
        if chain is None:
            return False
        first, second, last = chain.source.data_type, chain.between.data_type, chain.result.data_type
        if first is None or second is None or last is None:
            return "a type is not known"
        if not _keeps(first, second, last):
            return f"{first.name} -> {second.name} -> {last.name} is not the same as {first.name} -> {last.name}"
        merged = NodeTemplate("Cast", (chain.source.name,), (chain.result.name,), node.attributes)
        graph.replace_nodes(chain.replaced(graph), [merged])
        return True


def _keeps(first: DataType, second: DataType, last: DataType) -> bool:
    """Return whether the value that reaches the last type equals that of the first."""
    if first is second:
        return True
    if second in _WIDER.get(first, ()):
        return last is not DataType.STRING  # digits are written as the type has them
    if first is DataType.BOOL:
        return second is not DataType.STRING and last is not DataType.STRING
    bits = _UNSIGNED.get(first) or _SIGNED.get(first)
    if bits is None or last is DataType.STRING:
        return False
    # The result for a number out of a type's range depends on the source type: integers wrap around, floats do not.
    if last not in _MANTISSA and last is not first:
        return (first in _UNSIGNED and _UNSIGNED.get(second, _SIGNED.get(second, 1) - 1) >= bits) or (
            first in _SIGNED and _SIGNED.get(second, 0) >= bits
        )
    room = _MANTISSA.get(second) or _UNSIGNED.get(second) or _SIGNED.get(second, 1) - 1
    magnitude = bits if first in _UNSIGNED else bits - 1
    return room >= magnitude and (first in _UNSIGNED or second not in _UNSIGNED)
