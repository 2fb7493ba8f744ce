"""Nodes that OpenVINO computes differently from ONNX are refused, so their results are right. One case per defect."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_openvino import defects
from providers.openvino.tests.models import NAME, check, opened, parsed, refusals, runners

INF = np.inf
SMALL = np.array([120, -3, 100], np.int8)

CASES: dict[str, tuple[str, dict[str, Any], str, str]] = {
    "8-bit sums wrap around": (
        "g (int8[3] x) => (int8[3] y) { y = Add(x, x) }",
        {"x": SMALL},
        "Add",
        "it saturates integers of 8 and 16 bits",
    ),
    "unsigned weights without a zero point": (
        """g (uint8[1, 2, 4, 4] x) => (uint8[1, 3, 3, 3] y) <
            float s = {0.03}, uint8 z = {200}, uint8[3, 2, 2, 2] w = {
                9, 200, 31, 77, 250, 4, 18, 90, 120, 66, 45, 3, 201, 99, 14, 8, 71, 33, 160, 54, 28, 17, 5, 219
            }, uint8 none = {0}, float t = {0.5}
        > { y = QLinearConv (x, s, z, w, s, none, t, z) }""",
        {"x": np.random.default_rng(5).integers(0, 256, (1, 2, 4, 4)).astype(np.uint8)},
        "QLinearConv",
        "it has no code for unsigned weights without a zero point",
    ),
    "a scale for each output channel": (
        """g (uint8[1, 2, 2, 2] x) => (uint8[1, 2, 2, 2] y) <
            float s = {0.03}, float t = {0.5}, uint8 z = {100}, int8[2] none = {0, 0}, float[2] u = {0.02, 0.7},
            int8[2, 2, 1, 1] w = {9, -20, 31, 44}
        > { y = QLinearConv (x, s, z, w, u, none, t, z) }""",
        {"x": np.random.default_rng(7).integers(0, 256, (1, 2, 2, 2)).astype(np.uint8)},
        "QLinearConv",
        "it applies the scales of output channels to input channels",
    ),
    "products in 16 bits": (
        """g (uint8[1, 4] x) => (uint8[1, 2] y) <
            float s = {1}, float t = {500}, uint8 z = {0}, int8 none = {0}, int8[4, 2] w = {
                127, -128, 126, -127, 125, -126, 127, -128
            }
        > { y = QLinearMatMul (x, s, z, w, s, none, t, z) }""",
        {"x": np.array([[255, 254, 255, 253]], np.uint8)},
        "QLinearMatMul",
        "it adds products of 8 bits in 16 bits on this processor",
    ),
    "a quantised number without axes": (
        "g (float x) => (int8 y) <float s = {0.1}, int8 z = {1}> { y = QuantizeLinear(x, s, z) }",
        {"x": np.array(1.5, np.float32)},
        "QuantizeLinear",
        "it gives an axis to a result that has none",
    ),
    "a number expanded to no axes": (
        "g (float x) => (float y) <int64[0] s = {}> { y = Expand(x, s) }",
        {"x": np.array(1.5, np.float32)},
        "Expand",
        "it gives an axis to a result that has none",
    ),
    "axes that are neither kept nor dropped": (
        "g (float[N] x) => (float[] y) { y = ReduceSum <keepdims = 2> (x) }",
        {"x": np.array([1.5, 2], np.float32)},
        "ReduceSum",
        "it keeps axes if keepdims is neither 0 nor 1",
    ),
    "axes of places that are neither kept nor dropped": (
        "g (float[N] x) => (int64[] y) { y = ArgMax <keepdims = 2> (x) }",
        {"x": np.array([1.5, 2], np.float32)},
        "ArgMax",
        "it keeps axes if keepdims is neither 0 nor 1",
    ),
    "a layer of size 0": (
        """g (float[2, 1, 3] x, float[1, 6, 3] w, float[1, 6, 2] r) => (float[2, 1, 1, 2] y) {
            y = GRU <hidden_size = 0> (x, w, r)
        }""",
        {
            name: np.random.default_rng(6).standard_normal(shape).astype(np.float32)
            for name, shape in (("x", (2, 1, 3)), ("w", (1, 6, 3)), ("r", (1, 6, 2)))
        },
        "GRU",
        "it does not compile a layer of size 0",
    ),
    "labels of other scores": (
        "g (float[2, 3] x) => (float y) <int64[2] l = {0, 2}> { y = SoftmaxCrossEntropyLoss(x, l) }",
        {"x": np.random.default_rng(8).standard_normal((2, 3)).astype(np.float32)},
        "SoftmaxCrossEntropyLoss",
        "it reads memory that is not its own",
    ),
    "not-a-number is not greater": (
        "g (float[2] x, float[2] z) => (bool[2] y) { y = Greater(x, z) }",
        {"x": np.array([np.nan, 2], np.float32), "z": np.array([1, 1], np.float32)},
        "Greater",
        "treats not-a-number as greater",
    ),
    "rows of minus infinity": (
        "g (float[2, 2] x) => (float[2, 1] y) <int64[1] axes = {1}> { y = ReduceMax(x, axes) }",
        {"x": np.array([[-INF, -INF], [1, 2]], np.float32)},
        "ReduceMax",
        "lowest finite number for rows of minus infinity",
    ),
    "repeats at run time": (
        "g (float[2] x, int64[1] n) => (float[m] y) { y = Tile(x, n) }",
        {"x": np.array([1, 2], np.float32), "n": np.array([3])},
        "Tile",
        "repeats are not constant",
    ),
    "negative numbers shifted": (
        'g (int32[3] x, int32[3] n) => (int32[3] y) { y = BitShift <direction = "RIGHT"> (x, n) }',
        {"x": np.array([-8, -1, 8], np.int32), "n": np.array([1, 1, 1], np.int32)},
        "BitShift",
        "shifts negative numbers differently",
    ),
    "a window behind the data": (
        """g (float[1, 1, 2, 2] x) => (float[1, 1, a, b] y) {
            y = MaxPool <kernel_shape = [1, 1], strides = [2, 2], ceil_mode = 1> (x)
        }""",
        {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)},
        "MaxPool",
        "a window that begins behind the data",
    ),
    "corners aligned by scales": (
        """g (float[1, 1, 2, 4] x) => (float[1, 1, a, b] y) <float[4] s = {1.0, 1.0, 0.6, 0.6}> {
            y = Resize <mode = "linear", coordinate_transformation_mode = "align_corners"> (x, , s)
        }""",
        {"x": np.arange(8, dtype=np.float32).reshape(1, 1, 2, 4)},
        "Resize",
        "aligns corners by the rounded size",
    ),
    "weights outside": (
        """g (float[1, 1, 4, 4] x) => (float[1, 1, a, b] y) <float[4] s = {1.0, 1.0, 2.0, 2.0}> {
            y = Resize <mode = "cubic", cubic_coeff_a = -0.5, exclude_outside = 1> (x, , s)
        }""",
        {"x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4)},
        "Resize",
        "antialias and exclude_outside",
    ),
    "the largest sample": (
        """g (float[1, 1, 4, 4] x, float[1, 4] r) => (float[1, 1, 2, 2] y) <int64[1] b = {0}> {
            y = RoiAlign <mode = "max", output_height = 2, output_width = 2, sampling_ratio = 2> (x, r, b)
        }""",
        {
            "x": np.random.default_rng(1).standard_normal((1, 1, 4, 4), np.float32),
            "r": np.array([[0, 0, 3, 2]], np.float32),
        },
        "RoiAlign",
        "it chooses the largest sample differently",
    ),
    "layout 1": (
        """g (float[3, 1, 2] x, float[1, 4, 2] w, float[1, 4, 4] r) => (float[3, 1, 1, 4] y) {
            y = RNN <hidden_size = 4, layout = 1> (x, w, r)
        }""",
        {
            "x": np.arange(6, dtype=np.float32).reshape(3, 1, 2) / 6,
            "w": np.full((1, 4, 2), 0.1, np.float32),
            "r": np.full((1, 4, 4), 0.1, np.float32),
        },
        "RNN",
        "it reads layout 1 as layout 0",
    ),
    "halves": (
        "g (float[6] x) => (uint8[6] y, float s, uint8 z) { y, s, z = DynamicQuantizeLinear(x) }",
        {"x": np.array([0, 2, -3, -2.5, 1.34, 0.5], np.float32)},
        "DynamicQuantizeLinear",
        "rounds halves differently",
    ),
    "sequence lengths": (
        """g (float[3, 2, 2] x, float[1, 4, 2] w, float[1, 4, 4] r, int32[2] n) => (float[3, 1, 2, 4] y) {
            y = RNN <hidden_size = 4> (x, w, r, , n)
        }""",
        {
            "x": np.arange(12, dtype=np.float32).reshape(3, 2, 2) / 12,
            "w": np.full((1, 4, 2), 0.1, np.float32),
            "r": np.full((1, 4, 4), 0.1, np.float32),
            "n": np.array([3, 1], np.int32),
        },
        "RNN",
        "it ignores sequence_lens",
    ),
    "ceil_mode with padding that counts": (
        """g (float[1, 1, 12, 8] x) => (float[1, 1, a, b] y) {
            y = AveragePool <ceil_mode = 1, count_include_pad = 1, kernel_shape = [3, 3], strides = [2, 2],
                             pads = [1, 1, 1, 1]> (x)
        }""",
        {"x": np.ones((1, 1, 12, 8), np.float32)},
        "AveragePool",
        "divides windows at the border by a different count",
    ),
    "a norm over windows at the border": (
        """g (float[1, 1, 4] x) => (float[1, 1, n] y) {
            y = LpPool <ceil_mode = 1, kernel_shape = [3], strides = [2]> (x)
        }""",
        {"x": np.ones((1, 1, 4), np.float32)},
        "LpPool",
        "scales windows at the border",
    ),
    "the bias of a normalisation": (
        "g (float[1, 3, 2, 2] x) => (float[1, 3, 2, 2] y) { y = LRN <size = 3, alpha = 0.1, bias = 2.0> (x) }",
        {"x": np.ones((1, 3, 2, 2), np.float32)},
        "LRN",
        "it treats every bias as 1",
    ),
    "nothing to reduce is no identity": (
        "g (float[2] x) => (float[2] y) { y = ReduceL1 <noop_with_empty_axes = 1> (x) }",
        {"x": np.array([-1, 2], np.float32)},
        "ReduceL1",
        "omits what the operator does to each element",
    ),
    "the first of equal elements": (
        "g (float[3, 4] x) => (float[3, 2] y, int64[3, 2] i) <int64[1] k = {2}> { y, i = TopK(x, k) }",
        {"x": np.ones((3, 4), np.float32)},
        "TopK",
        "it takes any of several equal elements",
    ),
    "the norm of small numbers": (
        "g (float[2] x) => (float[2] y) { y = LpNormalization <axis = 0> (x) }",
        {"x": np.array([1e-4, 0], np.float32)},
        "LpNormalization",
        "it adds a small number to the norm",
    ),
    "activations of two directions": (
        """g (float[2, 1, 2] x, float[2, 4, 2] w, float[2, 4, 4] r) => (float[2, 2, 1, 4] y) {
            y = RNN <hidden_size = 4, direction = "bidirectional", activations = ["Tanh", "Relu"]> (x, w, r)
        }""",
        {
            "x": np.array([1, -2, -3, 4], np.float32).reshape(2, 1, 2),
            "w": np.full((2, 4, 2), 0.3, np.float32),
            "r": np.full((2, 4, 4), 0.1, np.float32),
        },
        "RNN",
        "uses the activations of the first direction",
    ),
    "powers of integers": (
        "g (int32[1] x, int32[1] n) => (int32[1] y) { y = Pow(x, n) }",
        {"x": np.array([9999], np.int32), "n": np.array([2], np.int32)},
        "Pow",
        "powers of integers in float32",
    ),
    "an empty range": (
        "g (int32 a, int32 b, int32 c) => (int32[n] y) { y = Range(a, b, c) }",
        {"a": np.array(4, np.int32), "b": np.array(3, np.int32), "c": np.array(1, np.int32)},
        "Range",
        "returns an element if a range is empty",
    ),
    "large integers around others": (
        "g (int32[1] x, int64[2] p, int32 v) => (int32[n] y) { y = Pad(x, p, v) }",
        {"x": np.array([1], np.int32), "p": np.array([1, 1]), "v": np.array(271880807, np.int32)},
        "Pad",
        "through float32",
    ),
    "a chosen nothing": (
        "g (float[3, 2] x) => (float[n, 2] y) <bool[1] c = {0}> { y = Compress <axis = 0> (x, c) }",
        {"x": np.ones((3, 2), np.float32)},
        "Compress",
        "ends the process if nothing is chosen",
    ),
    "integers of 16 bits beyond their ends": (
        "g (float[2] x) => (uint16[2] y) <float s = {0.5}, uint16 z = {3}> { y = QuantizeLinear(x, s, z) }",
        {"x": np.array([-20, 1], np.float32)},
        "QuantizeLinear",
        "does not saturate integers of 16 bits",
    ),
    "cubic samples at the border": (
        """g (float[1, 1, 4, 4] x, float[1, 1, 2, 2] g) => (float[1, 1, 1, 2] y) {
            y = GridSample <mode = "cubic", padding_mode = "border"> (x, g)
        }""",
        {
            "x": np.arange(16, dtype=np.float32).reshape(1, 1, 4, 4),
            "g": np.array([0.9, 0.9, -0.9, 0.3], np.float32).reshape(1, 1, 2, 2),
        },
        "GridSample",
        "pads differently for cubic samples",
    ),
    "a result as large as its input": (
        """g (float[1, 1, 3] x, float[1, 1, 2] w) => (float[1, 1, n] y) {
            y = ConvTranspose <auto_pad = "SAME_LOWER"> (x, w)
        }""",
        {"x": np.ones((1, 1, 3), np.float32), "w": np.ones((1, 1, 2), np.float32)},
        "ConvTranspose",
        "pads to a different size with auto_pad",
    ),
    "a slope of nothing": (
        "g (float[3] x) => (float[3] y) { y = LeakyRelu <alpha = 0.0> (x) }",
        {"x": np.array([-INF, np.nan, 2], np.float32)},
        "LeakyRelu",
        "returns 0 for not-a-number and infinities",
    ),
    "an offset of nothing": (
        "g (float[3] x) => (float[3] y) { y = HardSigmoid <beta = 0.0> (x) }",
        {"x": np.array([-1, 0, 2], np.float32)},
        "HardSigmoid",
        "treats an attribute of 0 as missing",
    ),
    "a factor of nothing": (
        "g (float[3] x) => (float[3] y) { y = Selu <gamma = 0.0> (x) }",
        {"x": np.array([-1, 0, 2], np.float32)},
        "Selu",
        "treats an attribute of 0 as missing",
    ),
    "a product times nothing": (
        "g (float[1, 1] x, float[1, 1] z) => (float[1, 1] y) { y = Gemm <alpha = 0.0> (x, z) }",
        {"x": np.array([[INF]], np.float32), "z": np.array([[2]], np.float32)},
        "Gemm",
        "skips values that are multiplied by 0",
    ),
    "the first of equal places": (
        "g (float[2, 16] x) => (float[2, 16] y) { y = Hardmax(x) }",
        {"x": np.tile(np.array([0, 1], np.float32), (2, 8))},
        "Hardmax",
        "it takes any of several equal elements",
    ),
    "infinities of a sum": (
        "g (float[n] x) => (bool[n] y) { s = Add(x, x) y = IsInf(s) }",
        {"x": np.array([1, INF, -INF], np.float32)},
        "IsInf",
        "does not detect infinities",
    ),
    "a ramp close to 0": (
        "g (float[2] x) => (float[2] y) { y = Softplus(x) }",
        {"x": np.array([-20, 1], np.float32)},
        "Softplus",
        "negative numbers where the result is close to 0",
    ),
    "rounded to 16 bits and back": (
        "g (float[2] x) => (float[2] y) { h = Cast <to = 10> (x) y = Cast <to = 1> (h) }",
        {"x": np.array([0.1234567, 70000], np.float32)},
        "Cast",
        "rounding to 16 bits in between",
    ),
    "a last part that is smaller": (
        "g (float[n, k] x) => (float[n, a] y, float[n, b] z) { y, z = Split <axis = 1, num_outputs = 2> (x) }",
        {"x": np.arange(10, dtype=np.float32).reshape(2, 5)},
        "Split",
        "writes beyond its memory",
    ),
    "fewer indices than data": (
        "g (float[n, k] x, int64[m, 1] i) => (float[m, 1] y) { y = GatherElements <axis = 1> (x, i) }",
        {"x": np.arange(6, dtype=np.float32).reshape(2, 3), "i": np.array([[2]])},
        "GatherElements",
        "corrupts memory if there are fewer indices than data",
    ),
    "cut and mirrored": (
        """g (float[1, 1, 3, 8] x) => (float[1, 1, a, b] y) <int64[8] p = {0, 0, 1, -1, 0, 0, 1, 2}> {
            y = Pad <mode = "reflect"> (x, p)
        }""",
        {"x": np.arange(24, dtype=np.float32).reshape(1, 1, 3, 8)},
        "Pad",
        "reads memory beyond the tensor",
    ),
    "half precision to 8 bits": (
        "g (float16[4] x) => (uint8[4] y) <float16 s = {14336}, uint8 z = {3}> { y = QuantizeLinear(x, s, z) }",
        {"x": np.array([0.25, 0.75, 1.25, -0.25], np.float16)},
        "QuantizeLinear",
        "adds the zero point before it rounds",
    ),
    "a bound that is none": (
        "g (float[2] x) => (float[2] y) <float low = {nan}> { y = Clip(x, low) }",
        {"x": np.array([-1, 4], np.float32)},
        "Clip",
        "is not finite",
    ),
    "a divisor whose reciprocal is hardly a number": (
        "g (float[4] x) => (float[4] y) <float[4] c = {3e38, 1.0, 5e37, 1e-37}> { y = Div(x, c) }",
        {"x": np.array([3e38, 1, 5e37, 1e-37], np.float32)},
        "Div",
        "it multiplies by the reciprocal",
    ),
    "strides of a single tap behind pads": (
        """g (float[1, 1, 9] x) => (float[1, 1, n] y) <float[1, 1, 1] w = {2.0}> {
            r = Relu(x) y = Conv <pads = [1, 1], strides = [3]> (r, w)
        }""",
        {"x": np.arange(9, dtype=np.float32).reshape(1, 1, 9)},
        "Conv",
        "it applies the strides of a kernel of a single tap before the pads",
    ),
    "one channel and one column": (
        """g (float[1, 1, 5, 4, 3] x, float[1, 1, 3, 2, 2] w) => (float[1, 1, 3, 3, 1] y) {
            y = Conv <strides = [1, 1, 3]> (x, w)
        }""",
        {
            "x": np.random.default_rng(1).standard_normal((1, 1, 5, 4, 3), np.float32),
            "w": np.random.default_rng(2).standard_normal((1, 1, 3, 2, 2), np.float32),
        },
        "Conv",
        "reads the wrong elements of one channel",
    ),
    "slopes that are quantised data": (
        """g (float[4, n, h] x) => (float[4, 8, k] y) <float[8, 1, 2] w = {
            5, 4, -3, 7, 1, 3, 6, 2, -2, 3, 5, 1, 4, 4, 2, 1
        }, float s = {0.1}, uint8 z = {246}> {
            c = Conv <group = 8> (x, w) q = QuantizeLinear(c, s, z) d = DequantizeLinear(q, s, z) y = PRelu(c, d)
        }""",
        {"x": np.random.default_rng(9).standard_normal((4, 8, 4)).astype(np.float32)},
        "PRelu",
        "it may take slopes for its data, too",
    ),
    "a resized batch": (
        "g (float[1, 1, 2, 2] x) => (float[3, 1, 2, 2] y) <int64[4] s = {3, 1, 2, 2}> { y = Resize(x, , , s) }",
        {"x": np.arange(4, dtype=np.float32).reshape(1, 1, 2, 2)},
        "Resize",
        "it resizes neither batches nor channels",
    ),
    "almost a whole size": (
        """g (float[1, 1, 10, 9] x) => (float[1, 1, 6, 6] y) <float[4] s = {1.0, 1.0, 0.7, 0.7}> {
            y = Resize <nearest_mode = "floor"> (x, , s)
        }""",
        {"x": np.arange(90, dtype=np.float32).reshape(1, 1, 10, 9)},
        "Resize",
        "rounds the size of a result up",
    ),
    "a part of nothing": (
        "g (float[n, 3] x) => (float[a, 3] y, float[b, 3] z) <int64[2] p = {1, 0}> { y, z = Split(x, p) }",
        {"x": np.ones((1, 3), np.float32)},
        "Split",
        "it does not compute empty parts",
    ),
    "rows counted by the model": (
        "g (float[4, 2] x, int64[2] i) => (float[2, 2] y) <int64[1] one = {1}> { j = Add(i, one) y = Gather(x, j) }",
        {"x": np.ones((4, 2), np.float32), "i": np.array([0, 2])},
        "Gather",
        "its indices are computed",
    ),
}


NOT_BY_THE_REFERENCE = frozenset(
    {
        "activations of two directions",
        "axes of places that are neither kept nor dropped",
        "axes that are neither kept nor dropped",
        "cut and mirrored",
        "fewer indices than data",
        "sequence lengths",
        "a norm over windows at the border",
        "the bias of a normalisation",
    }
)
"""Cases in which onnx's reference departs from the operator's text; onnxruntime is their oracle."""


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # of NumPy, in the reference and in what was refused
@pytest.mark.parametrize("case", CASES)
def test_refused_and_right(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The reason is in the report, the result is the specification's."""
    monkeypatch.setattr(defects, "has_exact_integers", lambda: False)  # whatever the processor has
    text, feeds, op_type, words = CASES[case]
    opset = 28 if op_type == "BitShift" else 21  # older shifts have no signed integers
    if case in NOT_BY_THE_REFERENCE:
        model = parsed(text, opset).SerializeToString()
        expected = onnxruntime.InferenceSession(model, providers=["CPUExecutionProvider"]).run(None, feeds)
        session = opened(text, opset)
        for actual, wanted in zip(session.run(None, feeds), expected, strict=True):
            assert_close(actual, wanted)
    else:
        session = check(text, feeds, opset)
    assert words in refusals(session, op_type)


def test_fully_masked_rows() -> None:
    """The function of attention, whose rows without any key are zero and not not-a-number."""
    text = """g (float[1, 2, 3, 4] q, bool[3, 3] mask) => (float[1, 2, 3, 4] y) { y = Attention(q, q, q, mask) }"""
    feeds = {
        "q": np.random.default_rng(3).standard_normal((1, 2, 3, 4), np.float32),
        "mask": np.array([[True, False, True], [False, False, False], [True, True, True]]),
    }
    session = check(text, feeds, opset=23)
    assert "ignores windows and the order of masks" in refusals(session, "Attention")


@pytest.mark.parametrize(("size", "taken"), [(1, True), (2, False)])
def test_older_softmax(size: int, taken: bool) -> None:
    """Up to opset 12 all axes from one on are normalised together: the same where the others have one place."""
    x = np.arange(6 * size, dtype=np.float32).reshape(2, 3, size)
    session = opened(f"g (float[2, 3, {size}] x) => (float[2, 3, {size}] y) {{ y = Softmax <axis = 1> (x) }}", 11)
    powers = np.exp(x - x.max((1, 2), keepdims=True))
    assert_close(session.run(None, {"x": x})[0], powers / powers.sum((1, 2), keepdims=True))
    assert (refusals(session, "Softmax") == "") is taken


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool", "LpPool"])
@pytest.mark.parametrize("stride", [3, 4])
def test_windows_larger_than_data_of_unknown_size(op_type: str, stride: int) -> None:
    """Other providers answer such runs, and OpenVINO those before and after; a single window sees all there is."""
    text = f"""g (float[n, 2, h] x) => (float[a, b, c] y) {{
        y = {op_type} <kernel_shape = [3], strides = [{stride}]> (x)
    }}"""
    session = opened(text)
    assert set(runners(session).values()) == {NAME}
    peer = onnxruntime.InferenceSession(parsed(text).SerializeToString(), providers=["CPUExecutionProvider"])
    rng = np.random.default_rng(stride)
    for size in (5, 1, 5, 2, 9):
        feeds = {"x": rng.standard_normal((2, 2, size), np.float32)}
        assert_close(session.run(None, feeds)[0], peer.run(None, feeds)[0])
    assert not session.fallback_report


@pytest.mark.parametrize("attributes", ["strides = [1, 1, 1]", "strides = [1, 2, 3]", "pads = [0, 0, 1, 0, 0, 1]"])
def test_one_channel_is_taken_where_it_is_right(attributes: str) -> None:
    """Strides of 1 at the end, strides of more than 1 before it, and results of several columns."""
    text = f"""g (float[1, 1, 5, 4, 3] x, float[1, 1, 3, 2, 2] w) => (float[1, 1, a, b, c] y) {{
        y = Conv <{attributes}> (x, w)
    }}"""
    rng = np.random.default_rng(4)
    feeds = {
        name: rng.standard_normal(shape, np.float32) for name, shape in (("x", (1, 1, 5, 4, 3)), ("w", (1, 1, 3, 2, 2)))
    }
    assert refusals(check(text, feeds), "Conv") == ""


@pytest.mark.parametrize("scale", [0.5, 1.5, 0.6])
def test_scales_that_are_far_from_whole_sizes_are_taken(scale: float) -> None:
    """A product of 7 with each of them is exact, or no integer is near."""
    text = f"""g (float[1, 1, 7, 7] x) => (float[1, 1, a, b] y) <float[4] s = {{1.0, 1.0, {scale}, {scale}}}> {{
        y = Resize(x, , s)
    }}"""
    assert refusals(check(text, {"x": np.arange(49, dtype=np.float32).reshape(1, 1, 7, 7)}), "Resize") == ""


def test_pools_with_ceil_mode_and_no_such_window_are_taken() -> None:
    """Cases in which both formulas give the same windows."""
    text = """g (float[1, 1, 5, 5] x) => (float[1, 1, a, b] y) {
        y = MaxPool <kernel_shape = [2, 2], strides = [2, 2], ceil_mode = 1> (x)
    }"""
    session = check(text, {"x": np.arange(25, dtype=np.float32).reshape(1, 1, 5, 5)})
    assert refusals(session, "MaxPool") == ""


@pytest.mark.parametrize("op_type", ["ReduceL1", "ReduceLogSum", "ReduceLogSumExp"])
def test_axes_of_version_13(op_type: str) -> None:
    """An attribute at opset 13, which OpenVINO takes for absent there."""
    text = f"g (float[2, 3, 4] x) => (float[2, 4] y) {{ y = {op_type} <axes = [1], keepdims = 0> (x) }}"
    x = np.random.default_rng(2).uniform(0.1, 1, (2, 3, 4)).astype(np.float32)
    assert "ignores the axes of version 13" in refusals(check(text, {"x": x}, opset=13), op_type)


_CONCAT = "s = Shape(x) a = Slice(s, from, to) z = Concat <axis = 0> (a, grown)"
_PARTS = "s = Shape(w) a = Gather(s, from) z = Concat <axis = 0> (a, three, grown)"
_OTHER = "s = Shape(v) a = Slice(s, from, to) z = Concat <axis = 0> (a, grown)"


@pytest.mark.parametrize(
    ("sizes", "form", "kept"),
    [
        (_CONCAT, 'Resize(w, "", "", z)', True),
        (_PARTS, 'Resize(w, "", "", z)', True),
        (_OTHER, 'Resize(w, "", "", z)', False),
        ("z = Shape(v)", 'Resize(w, "", "", z)', False),
        ("z = Constant <value = int64[4] {1, 3, 8, 8}> ()", 'Resize(w, "", "", z)', False),
        ("z = Constant <value = int64[2] {8, 8}> ()", 'Resize <axes = [2, 3]> (w, "", "", z)', True),
        ("z = Constant <value = int64[2] {1, 8}> ()", 'Resize <axes = [0, 3]> (w, "", "", z)', False),
        ("z = Constant <value = float[4] {1, 1, 2, 2}> ()", 'Resize(w, "", z)', True),
        ("z = Constant <value = float[4] {2, 1, 2, 2}> ()", 'Resize(w, "", z)', False),
    ],
)
def test_batches_and_channels_that_a_run_may_resize(sizes: str, form: str, kept: bool) -> None:
    """It would read and write memory that is not its own: what proves that they stay is looked for in the graph."""
    text = f"""g (float[N, 3, H, W] x, float[N, C, K, L] v) => (float[] y)
        <int64[1] from = {{0}}, int64[1] to = {{2}}, int64[1] three = {{3}}, int64[2] grown = {{8, 8}}>
        {{ w = Relu(x) {sizes} y = {form} }}"""
    numbers = np.random.default_rng(4)
    feeds = {"x": numbers.standard_normal((1, 3, 4, 4), np.float32), "v": np.zeros((2, 3, 8, 8), np.float32)}
    session = check(text, feeds, opset=21)
    assert ("it resizes neither batches nor channels" not in refusals(session, "Resize")) is kept


@pytest.mark.parametrize(("scale", "kept"), [(1, True), (2, False)])
def test_batches_and_channels_of_upsample(scale: int, kept: bool) -> None:
    """The older operator."""
    x = np.random.default_rng(4).standard_normal((1, 2, 3, 3)).astype(np.float32)
    scales = f"<float[4] s = {{{scale}, 1, 2, 2}}>"
    session = opened(f"g (float[N, C, H, W] x) => (float[] y) {scales} {{ y = Upsample(x, s) }}", 9)
    expected = x.repeat(scale, 0).repeat(2, 2).repeat(2, 3)
    assert_close(session.run(None, {"x": x})[0], expected)
    assert ("it resizes neither batches nor channels" not in refusals(session, "Upsample")) is kept
