"""Heads whose pairs of elements are turned by the angles of their positions; ONNX's operator and com.microsoft's."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import NodeSpec
from ort_py.lazy_dataclass import dataclass
from ort_py_coreml.operators.operator import FLOATS, INTEGERS, Constants, Operator, Var, attribute, shape_of

if TYPE_CHECKING:
    from ort_py_coreml.lowering import Lowering

__all__ = ["CONTRIBUTED", "OPERATORS"]


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
        if (len(shape) == 3 or attribute(node, "interleaved", 0)) and not any(
            isinstance(size, int) for size in (shape[0], shape[1] if len(shape) == 3 else shape[2])
        ):
            return "neither the size of the batch nor the length of a sequence is known"
        if len(shape) == 4 and attribute(node, "interleaved", 0) and not isinstance(shape[1], int):
            return "the number of its heads is not known"
        if self._has_positions(node) and len(shape_of(node, self.positions)) == 1 and not isinstance(shape[-2], int):
            return "it counts positions for a sequence of unknown length"
        return None

    def _has_positions(self, node: NodeSpec) -> bool:
        return self.positions < len(node.inputs) and node.inputs[self.positions] is not None

    def lower(self, lowering: Lowering, node: NodeSpec) -> Var:
        """Turn the first elements of each head, and keep the others."""
        mb, x, shape = lowering.mb, lowering.read(node.inputs[0]), shape_of(node)
        half = shape_of(node, self.cosines)[-1]
        joined = len(shape) == 3
        if joined:
            heads = int(attribute(node, "num_heads", 0)) or shape[-1] // (2 * half)
            shape = (*shape[:2], heads, shape[-1] // heads)
            x = mb.reshape(x=x, shape=_sizes(shape))
        cosines, sines = self._angles(lowering, node, axis=2 if joined else 1)
        rest = shape[-1] - 2 * half
        if attribute(node, "interleaved", 0):
            result = _neighbours(mb, x, shape, half, cosines, sines)
        else:
            first, second = mb.split(x=x, split_sizes=[half, half, *([rest] if rest else [])], axis=3)[:2]
            result = mb.concat(values=_turned(mb, first, second, cosines, sines), axis=3)
        if rest:
            result = mb.concat(values=[result, _cut(mb, x, 2 * half, shape[-1], 1)], axis=3)
        return mb.reshape(x=result, shape=_sizes((*shape[:2], shape[2] * shape[3]))) if joined else result

    def _angles(self, lowering: Lowering, node: NodeSpec, axis: int) -> list[Var]:
        """Return cosines and sines of each place, with an axis for the heads."""
        mb, tables = lowering.mb, [lowering.read(node.inputs[place]) for place in (self.cosines, self.sines)]
        if self._has_positions(node):
            positions = lowering.read(node.inputs[self.positions])
            if len(shape_of(node, self.positions)) == 1:
                shape = shape_of(node)
                counted = np.arange(shape[2] if len(shape) == 4 else shape[1], dtype=np.int32)
                positions = mb.expand_dims(x=mb.add(x=positions, y=counted), axes=[0])
            tables = [mb.gather(x=table, indices=positions, axis=0) for table in tables]
        return [mb.expand_dims(x=table, axes=[axis]) for table in tables]


def _sizes(shape: tuple[Any, ...]) -> list[int]:
    return [size if isinstance(size, int) else -1 for size in shape]


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


def _turned(mb: Any, first: Var, second: Var, cosines: Var, sines: Var) -> list[Var]:
    return [
        mb.sub(x=mb.mul(x=first, y=cosines), y=mb.mul(x=second, y=sines)),
        mb.add(x=mb.mul(x=first, y=sines), y=mb.mul(x=second, y=cosines)),
    ]


def _neighbours(mb: Any, x: Var, shape: tuple[Any, ...], half: int, cosines: Var, sines: Var) -> Var:
    """Turn neighbours. coremltools would make of `stack` a form of `concat` that it folds wrongly."""
    first, second = (_cut(mb, x, place, 2 * half, 2) for place in (0, 1))
    turned = [mb.expand_dims(x=one, axes=[4]) for one in _turned(mb, first, second, cosines, sines)]
    pairs = mb.concat(values=turned, axis=4)
    return mb.reshape(x=pairs, shape=_sizes((*shape[:3], 2 * half)))


_KINDS = FLOATS | INTEGERS
_OWN, _THEIRS = _Places(1, 2, 3), _Places(2, 3, 1)
OPERATORS = {"RotaryEmbedding": Operator(_OWN.lower, _OWN.check, since=23, kinds=_KINDS)}
CONTRIBUTED = {"RotaryEmbedding": Operator(_THEIRS.lower, _THEIRS.check, kinds=_KINDS)}
