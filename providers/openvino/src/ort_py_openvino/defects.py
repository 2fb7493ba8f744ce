"""Differences between OpenVINO's conversion or computation and ONNX, each with the reason that is shown.

Every entry was seen with the backend suite or beside the NumPy provider on the version in its comment; a test for each
shows it again. Of a later version an entry goes when its test finds nothing any more.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from ort_py.contracts import FunctionBody, GraphView, NodeSpec
from ort_py.dtypes import DataType
from ort_py_openvino.graph_walk import moved_from
from ort_py_openvino.quantisation import has_exact_integers
from ort_py_openvino.windows import average_pool, conv, conv_transpose, lp_pool, max_pool, resize, upsample

__all__ = ["defect", "defect_of_body"]

Check = Callable[[NodeSpec, GraphView], str | None]


def defect(node: NodeSpec, graph: GraphView) -> str | None:
    """Explain why OpenVINO's results for a node would be wrong, or return None if they are right."""
    if node.domain and node.op_type != "FusedConv":
        return None
    check = _CHECKS.get("Conv" if node.op_type == "FusedConv" else node.op_type)
    reason = _zero(node.op_type, node.attributes) or (None if check is None else check(node, graph))
    return reason and f"OpenVINO's result would be different: {reason}"


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
            elif not node.domain and (
                _zero(node.op_type, node.attributes or {})
                or (node.op_type in _CHECKS and not _is_right(node.op_type, data_type))
            ):
                return f"it stands for a {node.op_type}, which OpenVINO may compute differently"
    return None


def _zero(op_type: str, attributes: Mapping[str, Any]) -> str | None:
    """Explain why OpenVINO does not support an attribute that is 0."""
    names, reason = _ZEROS.get(op_type, ((), None))
    return reason if any(attributes.get(name, 1) == 0 for name in names) else None


def _is_right(op_type: str, data_type: DataType | None) -> bool:
    """Return whether none of an operator's defects can show in a body, which the core's rules have written."""
    if op_type in _RIGHT_IN_BODIES:
        return True
    return _CHECKS[op_type] is _saturates and data_type in _FLOATS


_ZEROS: Mapping[str, tuple[tuple[str, ...], str]] = {
    "Gemm": (("alpha", "beta"), "it skips values that are multiplied by 0, or reads values that the operator ignores"),
    **dict.fromkeys(
        ("GRU", "LSTM", "RNN"), (("hidden_size",), "it does not compile a layer of size 0, whatever its weights say")
    ),
    "HardSigmoid": (("alpha", "beta"), "it treats an attribute of 0 as missing"),
    "LeakyRelu": (("alpha",), "it returns 0 for not-a-number and infinities if alpha is 0"),
    "Selu": (("alpha", "gamma"), "it treats an attribute of 0 as missing"),
}
"""Attributes that are wrong where they are 0."""

_RIGHT_IN_BODIES = frozenset({"Split", "Cast", "Celu", "Conv", "Div", "Softmax", "ReduceMean", "ReduceSum"})
"""Written at the newest version, with constant axes; none has the attributes that OpenVINO ignores."""


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


def _prelu(node: NodeSpec, graph: GraphView) -> str | None:
    slope = node.inputs[1]
    if slope is None or graph.constant(slope.name) is None:
        return "it may take slopes for its data, too, if they are computed from the same convolution"
    return None if _is_float(node) else "it computes integers in float32"


def _tile(node: NodeSpec, graph: GraphView) -> str | None:
    value = node.inputs[1]
    if value is None or graph.constant(value.name) is not None:
        return None
    return "it repeats data wrongly if the repeats are not constant"


def _recurrent(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("layout", 0):
        return "it reads layout 1 as layout 0"
    if len(node.inputs) > 7 and node.inputs[7] is not None:
        return "it ignores peepholes"
    if len(node.inputs) > 4 and node.inputs[4] is not None:
        return "it ignores sequence_lens if a state is not given, and computes sequences of length zero differently"
    activations = list(node.attributes.get("activations") or ())
    ways = 2 if node.attributes.get("direction", "forward") in {"bidirectional", b"bidirectional"} else 1
    half = len(activations) // ways
    constants = node.attributes.get("activation_alpha") or node.attributes.get("activation_beta")
    if ways == 2 and activations and (activations[:half] != activations[half:] or constants):
        return "it uses the activations of the first direction for both directions"
    return "it ignores input_forget" if node.attributes.get("input_forget", 0) else None


def _split(node: NodeSpec, graph: GraphView) -> str | None:
    """Right where the parts that are counted are known to be equal, and none is empty."""
    given = graph.constant(node.inputs[1].name) if len(node.inputs) > 1 and node.inputs[1] is not None else None
    sizes = node.attributes.get("split") if given is None else given
    if sizes is not None and 0 in sizes:
        return "it does not compute empty parts"
    count, value = node.attributes.get("num_outputs"), node.inputs[0]
    if count is None or value is None or not value.shape:
        return None
    size = value.shape[int(node.attributes.get("axis", 0))]
    even = isinstance(size, int) and size % int(count) == 0
    return None if even else "it writes beyond its memory if the last part is smaller than the others"


def _gather_elements(node: NodeSpec, graph: GraphView) -> str | None:
    """Right where data and indices are known to have one size along each other axis."""
    data, indices = node.inputs[0], node.inputs[1]
    if data is None or indices is None or data.shape is None or indices.shape is None:
        return None
    axis = int(node.attributes.get("axis", 0)) % max(len(data.shape), 1)
    pairs = [pair for place, pair in enumerate(zip(data.shape, indices.shape, strict=False)) if place != axis]
    same = all(one is not None and one == other for one, other in pairs)
    return None if same else "it corrupts memory if there are fewer indices than data along the other axes"


def _range(node: NodeSpec, graph: GraphView) -> str | None:
    """Right where it counts the elements of an axis: from 0, by 1, to a size that `Shape` gives, which is not 0."""
    names = [value.name for value in node.inputs if value is not None]
    start, step = graph.constant(names[0]), graph.constant(names[2])
    counts = start is not None and step is not None and int(start) == 0 and int(step) == 1
    if counts and any(maker.op_type == "Shape" for maker in moved_from(names[1], graph)):
        return None
    return "it returns an element if a range is empty, and a different number of fractions"


def _cast(node: NodeSpec, graph: GraphView) -> str | None:
    source, result = node.inputs[0], node.outputs[0]
    if source is None or result is None or source.data_type not in _HALVES or result.data_type in _HALVES:
        return None
    for maker in moved_from(source.name, graph):
        narrowed = maker.op_type == "Cast" and maker.inputs[0] is not None and maker.inputs[0].data_type not in _HALVES
        if narrowed:
            return "it omits the rounding to 16 bits in between"
    return None


def _div(node: NodeSpec, graph: GraphView) -> str | None:
    """Constants whose reciprocal is a normal number are right."""
    divisor = None if node.inputs[1] is None else graph.constant(node.inputs[1].name)
    if divisor is None or not _is_float(node):
        return None
    sizes = np.abs(divisor.astype(np.float32))
    normal = (sizes == 0) | ((sizes > _TINY) & (sizes < 1 / _TINY))
    return None if normal.all() else "it multiplies by the reciprocal, which is not a normal number"


def _samples_cubic(node: NodeSpec) -> bool:
    mode, padding = str(node.attributes.get("mode", "")), str(node.attributes.get("padding_mode", "zeros"))
    return "cubic" in mode and "zeros" not in padding


def _pad(node: NodeSpec, graph: GraphView) -> str | None:
    if node.attributes.get("mode", "constant") not in {"constant", b"constant"}:
        given = node.inputs[1] if len(node.inputs) > 1 else None
        pads = node.attributes.get("pads") if given is None else graph.constant(given.name)
        if pads is None or min(pads, default=0) < 0:
            return "it reads memory beyond the tensor if it removes one part and mirrors or repeats another"
    value = node.inputs[2] if len(node.inputs) > 2 else None
    if value is None or _is_float(node):
        return None
    constant = graph.constant(value.name)
    exact = constant is not None and bool((abs(constant.astype("int64")) < 2**24).all())
    return None if exact else "it converts integers through float32"


def _quantized_product(node: NodeSpec, graph: GraphView) -> str | None:
    """Without VNNI, products of constant weights are added in pairs of 16 bits."""
    weights = None if node.inputs[3] is None else graph.constant(node.inputs[3].name)
    if weights is None or weights.dtype != np.int8 or has_exact_integers():
        return None
    large = int(abs(weights.astype(np.int32)).max(initial=0)) > _FITS_IN_PAIRS
    return "it adds products of 8 bits in 16 bits on this processor" if large else None


def _quantized_conv(node: NodeSpec, graph: GraphView) -> str | None:
    inexact = _quantized_product(node, graph)
    if inexact is not None:
        return inexact
    if any(value is not None and value.shape not in {(), (1,)} for value in node.inputs[4:6]):
        return "it applies the scales of output channels to input channels"
    weights = node.inputs[3]
    if weights is None or weights.data_type is not DataType.UINT8:
        return None
    of_input, of_weights = (
        None if one is None else graph.constant(one.name) for one in (node.inputs[2], node.inputs[5])
    )
    if of_input is not None and not of_input.any():
        return None
    if of_weights is not None and of_weights.all():
        return None
    return "it has no code for unsigned weights without a zero point beside an input that has one"


def _quantize(node: NodeSpec, graph: GraphView) -> str | None:
    if _type(node) is not DataType.FLOAT:
        return "it adds the zero point before it rounds if the data are not float32"
    if node.inputs[0] is not None and not node.inputs[0].shape:
        return "it gives an axis to a result that has none"  # also where the number of axes is unknown
    scale = node.inputs[1]
    if scale is None or graph.constant(scale.name) is not None:
        if node.attributes.get("block_size", 0):
            return "it rounds blocks differently"
        result = node.outputs[0]
        wide = result is not None and result.data_type in {DataType.INT16, DataType.UINT16}
        return "it does not saturate integers of 16 bits" if wide else None
    return "it multiplies by the reciprocal of a computed scale, and therefore rounds differently"


def _softmax(node: NodeSpec, graph: GraphView) -> str | None:
    """Up to opset 12 an axis begins the part of the tensor that is normalised as a whole."""
    value = node.inputs[0]
    if node.since_version >= 13 or value is None or value.shape is None:
        return None
    axis = int(node.attributes.get("axis", 1)) % max(len(value.shape), 1)
    alone = all(size == 1 for size in value.shape[axis + 1 :])
    return None if alone else "it normalises along one axis instead of all axes from that one on"


def _reduction(node: NodeSpec, graph: GraphView) -> str | None:
    axes = node.inputs[1] if len(node.inputs) > 1 else None
    given = None if axes is None else graph.constant(axes.name)
    if (
        node.op_type in {"ReduceL1", "ReduceLogSum", "ReduceLogSumExp"}
        and node.since_version == 13
        and "axes" in node.attributes
    ):
        return "it ignores the axes of version 13, which are an attribute"
    if node.attributes.get("noop_with_empty_axes", 0) and (given is None or not given.size):
        return "with noop_with_empty_axes it omits what the operator does to each element"
    if not _is_float(node) and node.op_type in {"ReduceLogSum", "ReduceLogSumExp", "ReduceL2", "ReduceMean"}:
        return "it rounds integers differently"
    return _kept_axes(node, graph)


def _kept_axes(node: NodeSpec, graph: GraphView) -> str | None:
    return None if node.attributes.get("keepdims", 1) in {0, 1} else "it keeps axes if keepdims is neither 0 nor 1"


def _expand(node: NodeSpec, graph: GraphView) -> str | None:
    result = node.outputs[0]
    return None if result is None or result.shape != () else "it gives an axis to a result that has none"


def _reduce_max(node: NodeSpec, graph: GraphView) -> str | None:
    if _is_float(node):
        return "it returns the lowest finite number for rows of minus infinity, which masks contain"
    return _reduction(node, graph)


def _scatter(node: NodeSpec, graph: GraphView) -> str | None:
    reduction = node.attributes.get("reduction", "none")
    if reduction in {"min", "max", b"min", b"max"} and _is_float(node):
        return "it ignores not-a-number when it looks for the smallest and the largest number"
    return None


def _top_k(node: NodeSpec, graph: GraphView) -> str | None:
    if len(node.outputs) > 1 and node.outputs[1] is not None:
        return "it takes any of several equal elements instead of the first"
    return None


_FITS_IN_PAIRS = 64
"""The largest weight of which two products with any 8 bits fit into 16 bits."""

_TINY = np.float32(2.0**-126)
"""The smallest normal number."""

_NARROW = frozenset({DataType.INT8, DataType.UINT8, DataType.INT16, DataType.UINT16})
_FLOATS = frozenset({DataType.FLOAT, DataType.FLOAT16, DataType.BFLOAT16})

_HALVES = frozenset({DataType.FLOAT16, DataType.BFLOAT16})

_REDUCTIONS = tuple(
    f"Reduce{name}" for name in ("Sum", "Mean", "Min", "Prod", "L1", "L2", "LogSum", "LogSumExp", "SumSquare")
)


_saturates = _with("it saturates integers of 8 and 16 bits, while those of ONNX wrap around", _is_narrow)
_compares = _with("it treats not-a-number as greater than any number", _is_float)

_CHECKS: Mapping[str, Check] = {
    **dict.fromkeys(("Add", "Mul", "Neg", "Sub", "Sum"), _saturates),
    **dict.fromkeys(("Greater", "GreaterOrEqual"), _compares),
    **dict.fromkeys(("GRU", "LSTM", "RNN"), _recurrent),
    "Attention": _always("it ignores windows and the order of masks; the operator's function is computed instead"),
    "BitShift": _always("it saturates instead of shifting bits out, and shifts negative numbers differently"),
    "DFT": _always("its transform is less accurate than others by three digits"),
    "Div": _div,
    "Dropout": _always("it loses the names of its inputs, and there would be nothing to compute anyway"),
    "DynamicQuantizeLinear": _always("it rounds halves differently"),
    **dict.fromkeys(("LogSoftmax", "Softmax"), _softmax),
    **dict.fromkeys(
        ("NegativeLogLikelihoodLoss", "SoftmaxCrossEntropyLoss"),
        _always("it reads memory that is not its own if labels or weights do not suit the scores"),
    ),
    **dict.fromkeys(("ScatterElements", "ScatterND"), _scatter),
    **dict.fromkeys(_REDUCTIONS, _reduction),
    **dict.fromkeys(("ArgMax", "ArgMin"), _kept_axes),
    "AveragePool": average_pool,
    "Cast": _cast,
    "Celu": _with(
        "it treats a division by an alpha of zero differently", lambda node: node.attributes.get("alpha", 1.0) == 0
    ),
    "Compress": _always("it ends the process if nothing is chosen"),
    "Conv": conv,
    "ConvTranspose": conv_transpose,
    "Expand": _expand,
    "Hardmax": _always("it takes any of several equal elements instead of the first"),
    "IsInf": _always("it does not detect infinities that were computed directly before"),
    "GatherElements": _gather_elements,
    "GridSample": _with("it pads differently for cubic samples", _samples_cubic),
    "LRN": _with("it treats every bias as 1", lambda node: node.attributes.get("bias", 1.0) != 1),
    "LpNormalization": _always("it adds a small number to the norm, which is visible if the norm is small"),
    "LpPool": lp_pool,
    "MaxPool": max_pool,
    "Pow": _with("it computes powers of integers in float32", lambda node: not _is_float(node)),
    "NonMaxSuppression": _always("it drops boxes whose overlap equals the threshold"),
    "Pad": _pad,
    "PRelu": _prelu,
    "QLinearConv": _quantized_conv,
    "QLinearMatMul": _quantized_product,
    "QuantizeLinear": _quantize,
    "Range": _range,
    "ReduceMax": _reduce_max,
    "Resize": resize,
    "RoiAlign": _with("it chooses the largest sample differently", lambda node: node.attributes.get("mode") == "max"),
    "Split": _split,
    "STFT": _always("its transform is less accurate than others by three digits"),
    "TopK": _top_k,
    "Softplus": _always("it returns negative numbers where the result is close to 0, and has no correct digits there"),
    "SpaceToDepth": _with("it ignores the mode", lambda node: "mode" in node.attributes),
    "Tile": _tile,
    "Upsample": upsample,
}
