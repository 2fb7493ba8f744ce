"""The parts of an attention as exporters write them: scaled operands, transposed keys, heads split from columns.

Used by the fusions of attention. Each function looks upwards from a value and says what it is made of; shapes must be
known as far as they matter, sizes being equal where their names are. Changes nothing.
"""

from __future__ import annotations

from ort_py.contracts import GraphEditor, NodeSpec, ValueSpec
from ort_py.dtypes import Shape, TensorType
from ort_py.lazy_dataclass import dataclass

_SWAP = (0, 2, 1, 3)
"""Between (batch, length, heads, size) and (batch, heads, length, size)."""


def shape_of(value: ValueSpec | None) -> Shape | None:
    """A value's shape, or None if its rank is unknown."""
    return value.type.shape if value is not None and isinstance(value.type, TensorType) else None


def operator(graph: GraphEditor, value: ValueSpec | None, *op_types: str) -> NodeSpec | None:
    """The node that writes a value, where it is of one of these operators of ONNX and has one output."""
    node = graph.producer(value)
    return (
        node if node is not None and not node.domain and node.op_type in op_types and len(node.outputs) == 1 else None
    )


def is_swap(node: NodeSpec | None) -> bool:
    return node is not None and node.op_type == "Transpose" and tuple(node.attributes.get("perm", ())) == _SWAP


def unscaled(graph: GraphEditor, value: ValueSpec | None) -> tuple[ValueSpec | None, float, list[NodeSpec]]:
    """A value without the multiplications by one number in front of it, the product of these, and their nodes."""
    factor, nodes = 1.0, list[NodeSpec]()
    while (node := operator(graph, value, "Mul", "Div")) is not None:
        left, right = node.inputs
        number = _number(graph, right)
        if number is None and node.op_type == "Mul":
            left, right, number = right, left, _number(graph, left)
        if number is None or left is None or shape_of(left) is None or shape_of(left) != shape_of(value):
            break
        if node.op_type == "Div" and not number:
            break
        factor = factor / number if node.op_type == "Div" else factor * number
        value = left
        nodes.append(node)
    return value, factor, nodes


def _number(graph: GraphEditor, value: ValueSpec | None) -> float | None:
    shape = shape_of(value)
    if value is None or not value.constant or shape is None or any(dim != 1 for dim in shape):
        return None
    array = graph.constant(value)
    return None if array is None else float(array.item())


def split_heads(graph: GraphEditor, value: ValueSpec | None) -> ValueSpec | None:
    """The value ``(batch, length, heads · size)`` from which ``(batch, heads, length, size)`` was split, or None."""
    node = operator(graph, value, "Transpose")
    return _joined(graph, node.inputs[0]) if node is not None and is_swap(node) else None


def _joined(graph: GraphEditor, rows: ValueSpec | None) -> ValueSpec | None:
    """The input of the Reshape that made ``(batch, length, heads, size)``, or None."""
    node = operator(graph, rows, "Reshape")
    if node is None:
        return None
    before, after = shape_of(node.inputs[0]), shape_of(rows)
    target = shape_of(node.inputs[1]) if len(node.inputs) > 1 else (4,)
    if target is not None and len(target) != 1:
        return None  # a run refuses it
    if before is None or after is None or len(before) != 3 or len(after) != 4 or None in before[:2]:
        return None
    heads, size = after[2:]
    fits = isinstance(heads, int) and isinstance(size, int) and before[2] == heads * size
    return node.inputs[0] if fits and before[:2] == after[:2] else None


@dataclass(frozen=True, slots=True)
class Keys:
    """Keys behind a transposed matrix.

    Attributes:
        heads: The value as ``(batch, heads, length, size)``; None where no value holds that.
        rows: The value as ``(batch, length, heads, size)``; None where no value holds that.
        joined: The value as ``(batch, length, heads · size)``; None where no value holds that.
    """

    heads: ValueSpec | None
    rows: ValueSpec | None
    joined: ValueSpec | None
    factor: float


def keys_of(graph: GraphEditor, value: ValueSpec | None) -> Keys | str:
    """The keys whose transpose ``(batch, heads, size, length)`` is a value, or why it is none."""
    value, factor, _ = unscaled(graph, value)
    node = operator(graph, value, "Transpose", "Reshape")
    if node is None:
        return "the second operand of the product is not a Transpose"
    perm = tuple(node.attributes.get("perm", ()))
    if perm == (0, 2, 3, 1):
        rows = node.inputs[0]
        return Keys(None, rows, _joined(graph, rows), factor)
    if node.op_type == "Reshape":
        source = _folded_transpose(graph, node)
        if isinstance(source, str):
            return source
    elif perm == (0, 1, 3, 2):
        source = node.inputs[0]
    else:
        return f"the keys are transposed by {list(perm)}, not by [0, 1, 3, 2]"
    inner, more, _ = unscaled(graph, source)
    return Keys(inner, None, split_heads(graph, inner), factor * more)


def _folded_transpose(graph: GraphEditor, last: NodeSpec) -> ValueSpec | str | None:
    """The input of a Transpose of the last two of four axes that is written over three axes, or the reason why there is
    none.
    """
    swap = operator(graph, last.inputs[0], "Transpose")
    first = operator(graph, swap.inputs[0], "Reshape") if swap is not None else None
    if swap is None or first is None or tuple(swap.attributes.get("perm", ())) != (0, 2, 1):
        return "the second operand of the product is not a Transpose"
    given, flat, result = (shape_of(one) for one in (first.inputs[0], first.outputs[0], last.outputs[0]))
    if given is None or flat is None or result is None or None in (*given, *flat[1:], *result):
        return "the shapes around the Transpose of the keys are unknown"
    if len(given) != 4 or len(flat) != 3 or flat[1:] != given[2:] or result != (*given[:2], given[3], given[2]):
        return f"the keys go from {list(given)} over {list(flat)} to {list(result)}, which is not a Transpose"
    return first.inputs[0]


def repeated_heads(graph: GraphEditor, value: ValueSpec | None) -> ValueSpec | None:
    """The value whose heads ``(batch, heads, length, size)`` repeats several times in a row, or None."""
    join = operator(graph, value, "Reshape")
    spread = operator(graph, join.inputs[0], "Expand") if join is not None else None
    insert = operator(graph, spread.inputs[0], "Unsqueeze", "Reshape") if spread is not None else None
    if join is None or spread is None or insert is None:
        return None
    given, one, many, result = (shape_of(x) for x in (insert.inputs[0], insert.outputs[0], spread.outputs[0], value))
    if given is None or one is None or many is None or result is None or len(given) != 4 or None in given:
        return None
    heads, group = given[1], many[2] if len(many) == 5 else None
    if not isinstance(heads, int) or not isinstance(group, int):
        return None
    fits = (
        one == (*given[:2], 1, *given[2:])
        and many == (*given[:2], group, *given[2:])
        and result == (given[0], heads * group, *given[2:])
    )
    return insert.inputs[0] if fits else None


def merged_heads(graph: GraphEditor, value: ValueSpec, wanted: Shape) -> tuple[NodeSpec, NodeSpec] | None:
    """The Transpose and the Reshape that alone read ``(batch, heads, length, size)`` and make it the shape `wanted`."""
    swap = _reader(graph, value)
    if swap is None or not is_swap(swap) or swap.domain or swap.outputs[0] is None:
        return None
    join = _reader(graph, swap.outputs[0])
    if join is None or join.op_type != "Reshape" or join.domain or join.inputs[0] != swap.outputs[0]:
        return None
    return (swap, join) if None not in wanted and shape_of(join.outputs[0]) == wanted else None


def _reader(graph: GraphEditor, value: ValueSpec) -> NodeSpec | None:
    """The node that reads a value, where it is the only use."""
    readers = graph.readers(value)
    return readers[0] if len(readers) == 1 and graph.uses(value) == 1 else None
