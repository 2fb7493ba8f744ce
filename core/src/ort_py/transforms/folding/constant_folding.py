"""Nodes whose result is known when the session is created: computed once, kept as constants.

A node folds where all it reads is constant, its operator is deterministic, and the result does not take much more
room than what it replaces, or the session has room to spare. Shape and Size fold where the sizes are known, whatever
the input. The work is done by the session's own kernels, so a folded model computes what an unfolded one does.
"""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np

from ort_py.contracts import Array, GraphEditor, NodeSpec, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import DataType, TensorType, data_type_of, nbytes_of
from ort_py.errors import OrtPyError
from ort_py.graph.typing.type_merge import element_conflict, shape_conflict
from ort_py.limits import array_memory, longest_text
from ort_py.transforms.folding.repeatable import is_repeatable

_FREE = 1 << 20
"""Bytes a result may have in any case."""

_NAMED = 64 << 10
"""Size from which a result is identified by its node and inputs: hashing it costs more than computing it."""

_GROWTH = 4
"""Multiple of the size of its inputs that a larger result may take: int8 weights widened to float32 take four times."""

_KEPT = frozenset({"DequantizeLinear", "QuantizeLinear"})
"""Providers look for these around other operators to compute in integers; folded, the pattern is gone."""


class ConstantFolding(RewriteRule):
    """Visited in topological order, a chain of such nodes goes in one sweep."""

    name = "ConstantFolding"
    op_types = None

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        known = _known_shape(node)
        if known is not None:
            return _replace(graph, node, [known])
        if not node.inputs and node.op_type != "Constant":
            return False
        if any(value is not None and not value.constant for value in node.inputs) or not is_repeatable(node):
            return False
        if node.op_type in _KEPT:
            return False
        if node.op_type == "Identity" and _returned(graph, node):
            return False  # it gives a constant the name of a graph output
        inputs = [graph.constant(value) for value in node.inputs]
        allowed = max(_FREE, _GROWTH * sum(_bytes_of(array) for array in inputs))
        expected = self._expected_bytes(node, graph)
        if expected is not None and any(longest_text(array) for array in inputs):
            # Operators on strings may double them with each node, so a limit on the growth factor does not bound them.
            allowed, expected = _FREE, expected + _expected_text(node, inputs, expected)
        if expected is not None and expected > allowed and context.reserve(expected):
            allowed = expected
        if expected is None or expected > allowed:
            size = "unknown" if expected is None else f"{expected:,} bytes"
            return f"its result is {size}, more than the {allowed:,} bytes allowed"
        return self._compute(node, inputs, allowed, graph, context)

    @staticmethod
    def _compute(
        node: NodeSpec, inputs: list[Array | None], allowed: int, graph: GraphEditor, context: TransformContext
    ) -> bool | str:
        try:
            results = context.evaluate(node, inputs)
        except Exception as error:
            # It may be in a branch that is never taken. If not, running it says the same.
            return f"computing it failed: {error}"
        if results is None:
            return "no kernel on the host computes it"
        if not all(isinstance(result, np.ndarray | np.generic) for result in results):
            return "its result is not a tensor"
        arrays = [np.asarray(result) for result in results]
        for value, array in zip(node.outputs, arrays, strict=False):
            if value is not None and _contradicts(value, array):
                return f"computing it gave {array.dtype} of shape {array.shape}, which is not what its type says"
        if sum(_bytes_of(array) for array in arrays) > allowed:
            return f"its result is larger than the {allowed:,} bytes allowed"
        return _replace(graph, node, arrays)

    @staticmethod
    def _expected_bytes(node: NodeSpec, graph: GraphEditor) -> int | None:
        """Size of the result before it is computed, or None if the types do not determine it."""
        expected = _type_bytes(node.outputs)
        if expected is None:
            # Its inputs may have become constants since types were inferred.
            try:
                expected = _type_bytes(graph.infer(node).outputs)
            except OrtPyError:
                return None
        return expected


def _known_shape(node: NodeSpec) -> Array | None:
    """The result of Shape or Size where types tell it."""
    if node.op_type not in ("Shape", "Size") or node.domain or node.inputs[0] is None:
        return None
    shape = node.inputs[0].shape
    if shape is None:
        return None
    if node.op_type == "Shape":
        shape = shape[slice(node.attributes.get("start", 0), node.attributes.get("end"))]
    sizes = [size for size in shape if isinstance(size, int)]
    if len(sizes) < len(shape):
        return None
    return np.array(sizes if node.op_type == "Shape" else prod(sizes), np.int64)


def _expected_text(node: NodeSpec, inputs: Sequence[Array | None], pointers: int) -> int:
    """Bytes of the strings of a result at most, if each is made of one string of each input."""
    if not any(value is not None and value.data_type is DataType.STRING for value in node.outputs):
        return 0
    return pointers // nbytes_of(DataType.STRING, (1,)) * sum(longest_text(array) for array in inputs)


def _type_bytes(values: tuple[ValueSpec | None, ...]) -> int | None:
    total = 0
    for value in values:
        if value is None:
            continue
        if not isinstance(value.type, TensorType) or value.type.shape is None:
            return None
        sizes = [size for size in value.type.shape if isinstance(size, int)]
        if len(sizes) < len(value.type.shape):
            return None
        total += nbytes_of(value.type.data_type, tuple(sizes))
    return total


def _contradicts(value: ValueSpec, array: Any) -> bool:
    found = TensorType(data_type_of(array.dtype), tuple(array.shape))
    return value.type is not None and (element_conflict(found, value.type) or shape_conflict(found, value.type))


def _bytes_of(array: Any) -> int:
    return 0 if array is None else array_memory(array)


def _returned(graph: GraphEditor, node: NodeSpec) -> bool:
    return any(value is not None and graph.is_output(value) for value in node.outputs)


def _replace(graph: GraphEditor, node: NodeSpec, results: list[Array]) -> bool:
    for value, array in zip(node.outputs, results, strict=False):
        if value is not None:
            made_of = _made_of(node, value, array, graph)
            name = graph.add_constant(f"{value.name}/folded", array, made_of=made_of)
            graph.replace_uses(value.name, name)
    graph.replace_nodes([node], ())
    return True


def _made_of(node: NodeSpec, output: ValueSpec, array: Array, graph: GraphEditor) -> str:
    """A text that identifies a large constant's content; "" if the content itself does.

    Only for operators of ONNX: those of other domains may have one meaning in this session and another in the next.
    """
    if array.nbytes <= _NAMED or node.domain or not _is_own(array):
        return ""
    if node.op_type == "ConstantOfShape":
        return f"equal numbers {array.reshape(-1)[:1].tobytes().hex()}"
    if any(not isinstance(one, int | float | str | bytes | tuple) for one in node.attributes.values()):
        return ""
    keys = ["" if value is None else graph.constant_key(value) for value in node.inputs]
    operator = (node.op_type, node.since_version, sorted(node.attributes.items()))
    return f"{operator!r} {keys} output {node.outputs.index(output)}"


def _is_own(array: Array) -> bool:
    """Return whether no other array shares the memory. A kernel may return its input, or a view of it."""
    owns = array.flags.owndata and array.flags.writeable and array.flags.c_contiguous
    return bool(owns and not array.dtype.hasobject)
