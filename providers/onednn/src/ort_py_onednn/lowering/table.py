"""Lowering functions by kind of operation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib import import_module

from ort_py_onednn.binding import primitives
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.graph.shape_values import SHAPE_OPERATORS
from ort_py_onednn.lowering.planner import Planner
from ort_py_onednn.lowering.shape_values import evaluate

__all__ = ["LOWERINGS", "Lowering"]

Lowering = Callable[[Planner, Operation], None]


def _eltwise(planner: Planner, operation: Operation) -> None:
    """Functions and operands applied to a value, no work before them."""
    source = planner.value(operation.inputs[0])
    if source.weight is not None:
        planner.buffer_of(source)
    source = planner.converted(source, planner.result_type(source))
    found = planner.apply(source, operation.posts)
    planner.bind(operation.outputs[0], planner.view(found, found.desc, found.shape))


def _binary(planner: Planner, operation: Operation) -> None:
    """A function of two values."""
    first, second = (planner.value(name) for name in operation.inputs)
    planner.bind(
        operation.outputs[0], planner.combine(operation.attributes["algorithm"], first, second, operation.posts)
    )


def _prelu(planner: Planner, operation: Operation) -> None:
    """ONNX PRelu: the slopes broadcast; before version 7 a vector of them is one per channel."""
    source = planner.value(operation.inputs[0])
    source = planner.converted(source, planner.result_type(source))
    value = source if source.desc.is_dense and source.desc.key is not None else planner.plain(source)
    slopes = planner.value(operation.inputs[1])
    if operation.since < 7 and len(slopes.dims) == 1 and len(value.dims) > 1:
        slopes = planner.reshaped(slopes, (1, slopes.dims[0], *(1,) * (len(value.dims) - 2)))
    slopes = planner.ranked(slopes, len(value.dims))
    desc = value.desc
    wanted = desc if slopes.dims == desc.dims else Desc.plain(slopes.dims, desc.dtype)
    primitive = planner.make(lambda: primitives.prelu(desc, wanted, desc), desc)
    count = planner.count
    given = planner.in_layout(slopes, primitive.arguments[Argument.WEIGHTS])
    planner.count = count
    found = planner.new(desc, source.shape)
    planner.emit(primitive, {Argument.SRC: value, Argument.WEIGHTS: given, Argument.DST: found})
    planner.bind(operation.outputs[0], found)


_PLACES: Mapping[str, str] = {
    "Attention": "attention.attention",
    "AveragePool": "pooling.pool",
    "Cast": "casting.cast",
    "Concat": "movement.concatenate",
    "ConstantOfShape": "copying.constant_of_shape",
    "Conv": "convolution.convolution",
    "ConvTranspose": "convolution.transposed_convolution",
    "DepthToSpace": "copying.depth_to_space",
    "Expand": "copying.expand",
    "Flatten": "movement.flatten",
    "Gather": "copying.gather",
    "Gemm": "products.gemm",
    "DequantizeLinear": "quantized.dequantize",
    "DigitMatMul": "digits.digit_product",
    "DynamicQuantizeLSTM": "quantized_recurrent.quantized_lstm",
    "DynamicQuantizeLinear": "dynamic.dynamic_quantize",
    "GRU": "recurrent.recurrent_layer",
    "GlobalAveragePool": "pooling.global_pool",
    "GlobalMaxPool": "pooling.global_pool",
    "GroupNormalization": "normalization.group_normalization",
    "GroupQueryAttention": "past_attention.grouped_attention",
    "InstanceNormalization": "normalization.group_normalization",
    "LRN": "normalization.local_response",
    "LSTM": "recurrent.recurrent_layer",
    "LayerNormalization": "row_normalization.layer_normalization",
    "LogSoftmax": "normalization.softmax",
    "MatMul": "products.matmul",
    "MatMulNBits": "block_quantized.block_product",
    "MaxPool": "pooling.pool",
    "MultiHeadAttention": "attention.multi_head",
    "Pad": "padding.pad",
    "QuantizeLinear": "quantized.quantize",
    "QuantizedConv": "quantized.convolution",
    "QuantizedMatMul": "quantized.product",
    "RMSNormalization": "row_normalization.root_mean_square",
    "RNN": "recurrent.recurrent_layer",
    "ReduceMax": "pooling.reduce",
    "ReduceMean": "pooling.reduce",
    "ReduceMin": "pooling.reduce",
    "ReduceSum": "pooling.reduce",
    "Reshape": "movement.reshape",
    "RotaryEmbedding": "rotary.rotary_embedding",
    "Resize": "resizing.resize",
    "Slice": "movement.slice_",
    "Softmax": "normalization.softmax",
    "SpaceToDepth": "copying.space_to_depth",
    "Split": "movement.split",
    "Squeeze": "movement.squeeze",
    "Tile": "copying.tile",
    "Transpose": "movement.transpose",
    "Unsqueeze": "movement.unsqueeze",
    "Upsample": "resizing.resize",
    "WindowSums": "integer_windows.window_sums",
}
"""Module of this package and function for each kind of operation. A process imports the modules of what it runs."""


class _Lowerings(dict[str, Lowering]):
    """Lowering functions; those of other modules are imported when they are first asked for."""

    def __missing__(self, kind: str) -> Lowering:
        module, _, name = _PLACES[kind].partition(".")
        found: Lowering = getattr(import_module(f"ort_py_onednn.lowering.{module}"), name)
        self[kind] = found
        return found


LOWERINGS = _Lowerings({f"shape:{name}": evaluate for name in SHAPE_OPERATORS})
LOWERINGS |= {"PRelu": _prelu, "binary": _binary, "eltwise": _eltwise}
