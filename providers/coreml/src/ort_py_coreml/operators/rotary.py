"""Heads whose pairs of elements are turned by the angles of their positions; ONNX's operator and com.microsoft's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators.attention import joined, split_heads
from ort_py_coreml.operators.extents import counted_up
from ort_py_coreml.operators.operator import FLOATS, INTEGERS, Constants, Operator, Var, attribute, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["CONTRIBUTED", "OPERATORS", "turned"]


@dataclass(frozen=True, slots=True)
class _Places:
    """The places of the inputs."""

    cosines: int
    sines: int
    positions: int

    def check(self, node: NodeSpec, graph: Constants) -> str | None:
        """Return why a node cannot be written, or None."""
        shape, table = shape_of(node), shape_of(node, self.cosines)
        if not isinstance(shape[-1], int) or not isinstance(table[-1], int):
            return "the size of its heads, or the number of its angles, is not known"
        return None

    def _has_positions(self, node: NodeSpec) -> bool:
        return self.positions < len(node.inputs) and node.inputs[self.positions] is not None

    def lower(self, lowering: Lowering, node: NodeSpec) -> Var:
        """Turn the first elements of each head, and keep the others."""
        mb, x, shape = lowering.mb, lowering.read(node.inputs[0]), shape_of(node)
        half = shape_of(node, self.cosines)[-1]
        size = shape[-1]
        heads = 1
        if len(shape) == 3:
            heads = int(attribute(node, "num_heads", 0)) or size // (2 * half)
            size //= heads
            x = split_heads(mb, x, shape, heads)
        cosines, sines = self._angles(lowering, node)
        result = turned(mb, x, cosines, sines, half, size, interleaved=bool(attribute(node, "interleaved", 0)))
        return joined(mb, result, shape, heads * size) if len(shape) == 3 else result

    def _angles(self, lowering: Lowering, node: NodeSpec) -> list[Var]:
        """Return cosines and sines of each place, with an axis for the heads."""
        mb, tables = lowering.mb, [lowering.read(node.inputs[place]) for place in (self.cosines, self.sines)]
        if self._has_positions(node):
            positions = lowering.read(node.inputs[self.positions])
            if len(shape_of(node, self.positions)) == 1:
                rows = shape_of(node)[-2]
                counted = counted_up(mb, rows, lowering.read(node.inputs[0]), len(shape_of(node)) - 2)
                positions = mb.expand_dims(x=mb.add(x=positions, y=counted), axes=[0])
            tables = [mb.gather(x=table, indices=positions, axis=0) for table in tables]
        return [mb.expand_dims(x=table, axes=[1]) for table in tables]


def turned(mb: Any, x: Var, cosines: Var, sines: Var, half: int, size: int, *, interleaved: bool) -> Var:
    """Turn the first elements of each head.

    Args:
        mb: Has the functions of MIL as members.
        x: The heads.
        cosines: One for each pair of elements, with an axis for the heads.
        sines: The same.
        half: The number of pairs.
        size: The size of a head.
        interleaved: Whether pairs are neighbours.
    """
    step, second = (2, 1) if interleaved else (1, half)
    parts = [_cut(mb, x, first, 2 * half if interleaved else first + half, step) for first in (0, second)]
    result = mb.concat(values=_pairs(mb, parts[0], parts[1], cosines, sines), axis=3)
    if interleaved:
        result = mb.gather(x=result, indices=np.arange(2 * half, dtype=np.int32).reshape(2, half).T.ravel(), axis=3)
    return mb.concat(values=[result, _cut(mb, x, 2 * half, size, 1)], axis=3) if 2 * half < size else result


def _cut(mb: Any, x: Var, first: int, behind: int, step: int) -> Var:
    """Return some elements of each head."""
    return mb.slice_by_index(
        x=x,
        begin=[0, 0, 0, first],
        end=[0, 0, 0, behind],
        stride=[1, 1, 1, step],
        begin_mask=[True, True, True, False],
        end_mask=[True, True, True, False],
    )


def _pairs(mb: Any, first: Var, second: Var, cosines: Var, sines: Var) -> list[Var]:
    return [
        mb.sub(x=mb.mul(x=first, y=cosines), y=mb.mul(x=second, y=sines)),
        mb.add(x=mb.mul(x=first, y=sines), y=mb.mul(x=second, y=cosines)),
    ]


_KINDS = FLOATS | INTEGERS
_OWN, _THEIRS = _Places(1, 2, 3), _Places(2, 3, 1)
OPERATORS = {"RotaryEmbedding": Operator(_OWN.lower, _OWN.check, since=23, kinds=_KINDS)}
CONTRIBUTED = {"RotaryEmbedding": Operator(_THEIRS.lower, _THEIRS.check, kinds=_KINDS)}
