"""Types of the slices that Loop and Scan stack: they decide the shape of what is stacked where no iteration runs.

They are noted when a model is loaded, and read when it is planned: what transforms find out in between makes no
difference. It is independent of plans.
"""

from __future__ import annotations

from ort_py.dtypes import TensorType, ValueType
from ort_py.graph.ir import Graph, Node, Value

BATCH_AND_TIME = (0, 1)
"""The axes in front of the slices of a Scan-8."""


def note_slice_types(body: Graph) -> None:
    """Put what is known of its slices in the place of what the body of a Loop or Scan declares for its outputs.

    Inference says little inside a body, where carried values may change their shape; the node's output may say more,
    and so may the body's declarations.
    """
    node = body.owner
    if node is None or node.domain or node.op_type not in ("Loop", "Scan"):
        return
    carried, first, axes = _layout(node)
    declared = body.declared_outputs = body.declared_outputs or [None] * len(body.outputs)
    for place in range(first, len(body.outputs)):
        number = place - first
        outer = node.outputs[carried + number] if carried + number < len(node.outputs) else None
        added = axes[number] if number < len(axes) else axes[-1]
        declared[place] = _slice_type(body.outputs[place], declared[place], outer, added)


def slice_types(body: Graph, first: int) -> tuple[ValueType | None, ...]:
    """The type of each scan output's slice, in a body whose outputs before `first` are not stacked."""
    if not body.declared_outputs:
        note_slice_types(body)  # made by a transform
    types: list[ValueType | None] = []
    for value, noted in zip(body.outputs[first:], body.declared_outputs[first:], strict=True):
        inside = value.type
        if isinstance(inside, TensorType) and isinstance(noted, TensorType):
            inside = TensorType(inside.data_type, noted.shape)
        types.append(inside)
    return tuple(types)


def _layout(node: Node) -> tuple[int, int, list[tuple[int, ...]]]:
    """Number of values that are carried, of the body's outputs that are not stacked, and the axes that stacking adds to
    slices; the last of these for all that follow.
    """
    if node.op_type == "Loop":
        carried = max(len(node.inputs) - 2, 0)
        return carried, 1 + carried, [(0,)]
    batched = node.since_version < 9  # the lengths of the sequences come first
    states = max(len(node.inputs) - batched - int(node.attributes["num_scan_inputs"]), 0)
    axes = node.attributes.get("scan_output_axes") or (0,)
    return states, states, [BATCH_AND_TIME] if batched else [(int(axis),) for axis in axes]


def _slice_type(value: Value, own: ValueType | None, outer: Value | None, added: tuple[int, ...]) -> ValueType | None:
    inside = value.type
    shapes = [one.shape for one in (inside, own) if isinstance(one, TensorType) and one.shape is not None]
    if outer is not None and isinstance(outer.type, TensorType) and (shape := outer.type.shape):
        gone = {axis % len(shape) for axis in added if -len(shape) <= axis < len(shape)}
        shapes.insert(0, tuple([dim for axis, dim in enumerate(shape) if axis not in gone]))
    if not isinstance(inside, TensorType) or not shapes:
        return inside
    dims = zip(*[shape for shape in shapes if len(shape) == len(shapes[0])], strict=True)
    return TensorType(
        inside.data_type, tuple([next((size for size in one if isinstance(size, int)), None) for one in dims])
    )
