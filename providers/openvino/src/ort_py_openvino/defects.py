"""What OpenVINO converts and computes otherwise than ONNX says, each with the reason that is shown.

Every entry was seen with the backend suite or beside the NumPy provider on the version in its comment; a test for each
shows it again. Of a later version an entry goes when its test finds nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping

from ort_py.contracts import FunctionBody, GraphView, NodeSpec
from ort_py.dtypes import DataType

__all__ = ["defect", "defect_of_body"]

Check = Callable[[NodeSpec, GraphView], str | None]


def defect(node: NodeSpec, graph: GraphView) -> str | None:
    """Why OpenVINO's results for a node would be wrong, None where they are right."""
    check = _CHECKS.get(node.op_type)
    reason = None if check is None or node.domain else check(node, graph)
    return reason and f"OpenVINO's result would be another: {reason}"


def defect_of_body(body: FunctionBody, data_type: DataType | None) -> str | None:
    """The same for the nodes that a fused one stands for, of which less is known: constants are not.

    Args:
        body: The nodes.
        data_type: What they compute.
    """
    pending = [body]
    while pending:
        for node in pending.pop().nodes:
            if node.body is not None:
                pending.append(node.body)
            elif not node.domain and node.op_type in _CHECKS and not _is_right(node.op_type, data_type):
                return f"it stands for a {node.op_type}, which OpenVINO may compute otherwise"
    return None


def _is_right(op_type: str, data_type: DataType | None) -> bool:
    return _CHECKS[op_type] is _saturates and data_type in _FLOATS


def _always(reason: str) -> Check:
    return lambda node, graph: reason


def _with(reason: str, wrong: Callable[[NodeSpec], bool]) -> Check:
    return lambda node, graph: reason if wrong(node) else None


def _type(node: NodeSpec) -> DataType | None:
    value = node.inputs[0] if node.inputs else None
    return None if value is None else value.data_type


def _is_narrow(node: NodeSpec) -> bool:
    return _type(node) in _NARROW


def _is_float(node: NodeSpec) -> bool:
    return _type(node) in _FLOATS


def _tile(node: NodeSpec, graph: GraphView) -> str | None:
    value = node.inputs[1]
    if value is None or graph.constant(value.name) is not None:
        return None
    return "it repeats wrongly where the repeats are no constant"


def _recurrent(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("layout", 0):
        return "it reads layout 1 as layout 0"
    if len(node.inputs) > 7 and node.inputs[7] is not None:
        return "it ignores peepholes"
    return None


def _quantize(node: NodeSpec, graph: GraphView) -> str | None:
    scale = node.inputs[1]
    if scale is None or graph.constant(scale.name) is not None:
        return None
    return "it multiplies with the reciprocal of a scale that is computed, and rounds another way then"


def _max_pool(node: NodeSpec, graph: GraphView) -> str | None:
    """With `ceil_mode`, a window that would begin behind the data is none of ONNX's and one of OpenVINO's."""
    attributes = node.attributes
    value = node.inputs[0]
    if not attributes.get("ceil_mode", 0):
        return None
    shape = () if value is None or value.shape is None else value.shape[2:]
    rank = len(shape)
    kernel = attributes["kernel_shape"]
    strides = attributes.get("strides") or (1,) * rank
    pads = attributes.get("pads") or (0,) * (2 * rank)
    dilations = attributes.get("dilations") or (1,) * rank
    for axis, size in enumerate(shape):
        if not isinstance(size, int):
            return "ceil_mode, where it has windows that begin behind the data"
        reach = size + pads[axis] + pads[axis + rank] - dilations[axis] * (kernel[axis] - 1) - 1
        windows = -(-reach // strides[axis]) + 1
        if (windows - 1) * strides[axis] >= size + pads[axis]:
            return "ceil_mode, where it has a window that begins behind the data"
    return None


def _resize(node: NodeSpec, graph: GraphView) -> str | None:
    attributes = node.attributes
    if attributes.get("antialias", 0) or attributes.get("exclude_outside", 0):
        return "it computes antialias and exclude_outside otherwise"
    if attributes.get("keep_aspect_ratio_policy", "stretch") != "stretch":
        return "it ignores keep_aspect_ratio_policy"
    by_scales = len(node.inputs) > 2 and node.inputs[2] is not None
    if attributes.get("coordinate_transformation_mode") == "align_corners" and by_scales:
        return "it aligns corners by the rounded size, not by the scales"
    return None


_NARROW = frozenset({DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16})
_FLOATS = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})

_saturates = _with("it saturates integers of 8 and 16 bits where ONNX's wrap around", _is_narrow)
_compares = _with("it finds not-a-number greater than any number", _is_float)

_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("Add", "Mul", "Neg", "Pow", "Sub", "Sum"), _saturates),
    **dict.fromkeys(("Greater", "GreaterOrEqual"), _compares),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "Attention": _always("it ignores windows and the order of masks; the operator's function is computed instead"),
    "BitShift": _always("it saturates what is shifted out, and shifts negative numbers otherwise"),
    "DFT": _always("its transform loses three digits more than others"),
    "Dropout": _always("it forgets what its inputs are called; nothing would be computed anyway"),
    "DynamicQuantizeLinear": _always("it rounds halves another way"),
    "MaxPool": _max_pool,
    "QuantizeLinear": _quantize,
    "ReduceMax": _with("it makes the lowest finite number of rows of minus infinity, as masks are", _is_float),
    "Resize": _resize,
    "STFT": _always("its transform loses three digits more than others"),
    "SpaceToDepth": _with("it ignores the mode", lambda node: "mode" in node.attributes),
    "Tile": _tile,
}
