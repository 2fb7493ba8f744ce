"""Cases of `operators`: for each family of operators, single nodes at sizes that trained models have.

A case is a node with seeded inputs; those in `constants` are initializers, as weights are. `scale` multiplies the axis
that grows with the amount of work, so that the same nodes can be timed at ten times the size.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ort_py.dtypes import data_type_of

__all__ = ["FAMILIES", "LIMITS", "Case"]

_RNG = np.random.default_rng(0)


@dataclass(frozen=True)
class Case:
    """One node.

    Attributes:
        label: Operator and what is special about it.
        op_type: Operator.
        inputs: Values; None where an optional one is absent.
        attributes: The node's attributes.
        constants: Inputs that are initializers.
        outputs: Outputs of the node.
        opset: Opset of ``ai.onnx``.
        domain: Domain of the operator.
        version: Opset of that domain, where it is not ``ai.onnx``.
    """

    label: str
    op_type: str
    inputs: Sequence[Any]
    attributes: Mapping[str, Any] = field(default_factory=dict)
    constants: frozenset[int] = frozenset()
    outputs: int = 1
    opset: int = 20
    domain: str = ""
    version: int = 1

    def model(self) -> onnx.ModelProto:
        """A model of this node alone."""
        names = [f"x{index}" if value is not None else "" for index, value in enumerate(self.inputs)]
        results = [f"y{index}" for index in range(self.outputs)]
        node = helper.make_node(self.op_type, names, results, domain=self.domain, **self.attributes)
        values = {name: value for name, value in zip(names, self.inputs, strict=True) if name}
        weights = {names[index] for index in self.constants}
        graph = helper.make_graph(
            [node],
            "one_node",
            [
                helper.make_tensor_value_info(name, int(data_type_of(value.dtype)), list(value.shape))
                for name, value in values.items()
                if name not in weights
            ],
            [helper.make_empty_tensor_value_info(name) for name in results],
            [numpy_helper.from_array(values[name], name) for name in sorted(weights)],
        )
        imports = [helper.make_opsetid("", self.opset)]
        if self.domain:
            imports.append(helper.make_opsetid(self.domain, self.version))
        return helper.make_model(graph, opset_imports=imports, ir_version=10)

    def feeds(self) -> dict[str, Any]:
        """Inputs of a run."""
        present = enumerate(self.inputs)
        return {f"x{index}": value for index, value in present if value is not None and index not in self.constants}


def _f32(*shape: int, low: float = -3.0, high: float = 3.0) -> Any:
    return _RNG.uniform(low, high, shape).astype(np.float32)


def _whole(low: int, high: int, *shape: int, dtype: Any = np.int64) -> Any:
    return _RNG.integers(low, high, shape).astype(dtype)


def _i64(*values: int) -> Any:
    return np.array(values, np.int64)


def _named(op_type: str, *inputs: Any, label: str = "", **arguments: Any) -> Case:
    """A case whose attributes are the arguments that `Case` does not have."""
    own = {
        name: arguments.pop(name)
        for name in ("constants", "outputs", "opset", "domain", "version")
        if name in arguments
    }
    if "constants" in own:
        own["constants"] = frozenset(own["constants"])
    return Case(f"{op_type} {label}".strip(), op_type, inputs, arguments, **own)


def _arithmetic(scale: int) -> list[Case]:
    x, y = _f32(scale, 64, 56, 56), _f32(scale, 64, 56, 56, low=0.5)
    return [
        *(_named(op_type, x, y) for op_type in ("Add", "Sub", "Mul", "Div", "Max")),
        _named("Add", x, _f32(1, 64, 1, 1), label="a channel"),
        _named("Mul", _whole(-9, 9, scale, 128, 768), _whole(-9, 9, scale, 128, 768), label="int64"),
        _named("Pow", y, np.array(2.0, np.float32), label="square", constants=[1]),
        *(_named(op_type, y) for op_type in ("Abs", "Neg", "Sqrt", "Reciprocal", "Floor", "Round")),
        _named("Clip", x, np.array(0, np.float32), np.array(6, np.float32), constants=[1, 2]),
    ]


def _comparison(scale: int) -> list[Case]:
    x, y = _f32(scale, 64, 56, 56), _f32(scale, 64, 56, 56)
    p, q = x > 0, y > 0
    return [
        _named("Greater", x, y),
        _named("Equal", _whole(0, 4, scale, 128, 768), _whole(0, 4, scale, 128, 768), label="int64"),
        _named("And", p, q),
        _named("Not", p),
        _named("Where", p, x, y),
        _named("IsNaN", x),
    ]


def _functions(scale: int) -> list[Case]:
    x = _f32(scale, 128, 3072)
    return [_named(op_type, x) for op_type in ("Exp", "Sin", "Erf", "Tanh", "Softplus")] + [
        _named("Log", _f32(scale, 128, 3072, low=0.1))
    ]


def _activation(scale: int) -> list[Case]:
    x = _f32(scale, 128, 3072)
    return [_named(op_type, x) for op_type in ("Relu", "LeakyRelu", "HardSwish", "HardSigmoid", "Elu", "Gelu")]


def _sigmoid(scale: int) -> list[Case]:
    return [_named("Sigmoid", _f32(scale, 128, 3072))]


def _softmax(scale: int) -> list[Case]:
    return [
        _named("Softmax", _f32(scale, 12, 197, 197), label="of attention"),
        _named("Softmax", _f32(scale, 1000), label="of classes"),
        _named("LogSoftmax", _f32(scale * 50, 2000)),
    ]


def _reduction(scale: int) -> list[Case]:
    x = _f32(scale, 128, 768)
    return [
        _named("ReduceMean", x, _i64(-1), constants=[1]),
        _named("ReduceSum", x, _i64(1), constants=[1]),
        _named("ReduceMax", _f32(scale, 64, 56, 56), _i64(2, 3), constants=[1]),
        _named("ReduceL2", x, _i64(-1), constants=[1]),
        _named("ReduceLogSumExp", x, _i64(-1), constants=[1]),
        _named("ReduceSum", x, label="of all"),
        _named("ArgMax", x, axis=-1),
        _named("CumSum", x, np.array(1, np.int64), constants=[1]),
    ]


def _gather(scale: int) -> list[Case]:
    table, x = _f32(30000, 768), _f32(scale, 128, 768)
    places = _whole(0, 768, scale, 128, 768)
    rows = np.stack([_whole(0, scale, 500 * scale), _whole(0, 128, 500 * scale)], 1)
    return [
        _named("Gather", table, _whole(0, 30000, scale, 128), label="embedding", constants=[0]),
        _named("Gather", x, np.array(0, np.int64), label="one row", axis=1, constants=[1]),
        _named("GatherElements", x, places, axis=2),
        _named("GatherND", x, rows),
        _named("ScatterElements", x, _whole(0, 768, scale, 128, 16), _f32(scale, 128, 16), axis=2),
        _named("ScatterND", x, np.unique(rows, axis=0), _f32(len(np.unique(rows, axis=0)), 768)),
        _named(
            "OneHot",
            _whole(0, 1000, scale * 128),
            np.array(1000, np.int64),
            np.array([0, 1], np.float32),
            constants=[1, 2],
        ),
    ]


def _movement(scale: int) -> list[Case]:
    x = _f32(scale, 128, 12, 64)
    picture = _f32(scale, 64, 56, 56)
    return [
        _named("Transpose", x, label="heads", perm=[0, 2, 1, 3]),
        _named("Transpose", picture, label="channels last", perm=[0, 2, 3, 1]),
        _named("Concat", picture, picture, axis=1),
        _named("Split", picture, axis=1, num_outputs=2, outputs=2),
        _named(
            "Slice",
            picture,
            _i64(0, 0),
            _i64(56, 56),
            _i64(2, 3),
            _i64(2, 2),
            label="every other",
            constants=[1, 2, 3, 4],
        ),
        _named("Pad", picture, _i64(0, 0, 1, 1, 0, 0, 1, 1), constants=[1]),
        _named("Tile", x, _i64(1, 1, 1, 4), constants=[1]),
        _named("Expand", _f32(scale, 1, 64, 1), _i64(scale, 128, 64, 64), constants=[1]),
        _named("DepthToSpace", picture, blocksize=2),
        _named("Cast", picture, label="to float16", to=TensorProto.FLOAT16),
        _named("Cast", picture, label="to int32", to=TensorProto.INT32),
    ]


def _matmul(scale: int) -> list[Case]:
    return [
        _named("MatMul", _f32(scale, 128, 768), _f32(768, 768), constants=[1]),
        _named("MatMul", _f32(scale * 12, 197, 64), _f32(scale * 12, 64, 197), label="of heads"),
        _named("MatMul", _f32(scale, 768), _f32(768, 3072), label="one row", constants=[1]),
        _named("Gemm", _f32(scale * 32, 512), _f32(1000, 512), _f32(1000), transB=1, constants=[1, 2]),
        _named("Einsum", _f32(scale, 12, 64, 64), _f32(scale, 12, 64, 64), equation="bhid,bhjd->bhij"),
    ]


def _convolution(scale: int) -> list[Case]:
    x = _f32(scale, 64, 56, 56)
    return [
        _named("Conv", x, _f32(64, 64, 3, 3), _f32(64), label="3x3", pads=[1, 1, 1, 1], constants=[1, 2]),
        _named("Conv", x, _f32(256, 64, 1, 1), label="1x1", constants=[1]),
        _named("Conv", x, _f32(64, 1, 3, 3), label="depthwise", pads=[1, 1, 1, 1], group=64, constants=[1]),
        _named(
            "Conv",
            _f32(scale, 3, 224, 224),
            _f32(64, 3, 7, 7),
            label="7x7 of a picture",
            pads=[3] * 4,
            strides=[2, 2],
            constants=[1],
        ),
        _named("ConvTranspose", _f32(scale, 64, 28, 28), _f32(64, 32, 2, 2), strides=[2, 2], constants=[1]),
    ]


def _pooling(scale: int) -> list[Case]:
    x = _f32(scale, 64, 112, 112)
    window: dict[str, Any] = {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}
    return [
        _named("MaxPool", x, **window),
        _named("AveragePool", x, **window),
        _named("GlobalAveragePool", _f32(scale, 512, 7, 7)),
        _named("LpPool", x, **window),
    ]


def _normalization(scale: int) -> list[Case]:
    x, c = _f32(scale, 64, 56, 56), _f32(64, low=0.5)
    return [
        _named("BatchNormalization", x, c, c, c, c, constants=[1, 2, 3, 4]),
        _named("LayerNormalization", _f32(scale, 128, 768), _f32(768), _f32(768), constants=[1, 2]),
        _named("InstanceNormalization", x, c, c, constants=[1, 2]),
        _named("LRN", x, size=5),
        _named("LpNormalization", _f32(scale, 128, 768)),
    ]


def _recurrent(scale: int) -> list[Case]:
    steps, hidden = 50 * scale, 128
    x = _f32(steps, 1, 64)

    def layer(op_type: str, gates: int) -> Case:
        w, r = _f32(1, gates * hidden, 64, low=-0.1, high=0.1), _f32(1, gates * hidden, hidden, low=-0.1, high=0.1)
        bias = _f32(1, 2 * gates * hidden, low=-0.1, high=0.1)
        return _named(op_type, x, w, r, bias, hidden_size=hidden, constants=[1, 2, 3])

    return [layer("LSTM", 4), layer("GRU", 3), layer("RNN", 1)]


def _resize(scale: int) -> list[Case]:
    x = _f32(scale, 32, 40, 40)
    scales = np.array([1, 1, 2, 2], np.float32)
    return [
        _named("Resize", x, None, scales, label=mode, mode=mode, constants=[2])
        for mode in ("nearest", "linear", "cubic")
    ]


def _quantization(scale: int) -> list[Case]:
    x, step = _f32(scale, 64, 56, 56), np.array(0.02, np.float32)
    q = _whole(0, 256, scale, 64, 56, 56, dtype=np.uint8)
    zero, signed = np.array(128, np.uint8), np.array(0, np.int8)
    a, w = _whole(0, 256, scale * 128, 768, dtype=np.uint8), _whole(-99, 99, 768, 768, dtype=np.int8)
    kernel = _whole(-99, 99, 64, 64, 3, 3, dtype=np.int8)
    return [
        _named("QuantizeLinear", x, step, zero, constants=[1, 2]),
        _named("DequantizeLinear", q, step, zero, constants=[1, 2]),
        _named("DynamicQuantizeLinear", x, outputs=3),
        _named("MatMulInteger", a, w, zero, signed, constants=[1, 2, 3]),
        _named("QLinearMatMul", a, step, zero, w, step, signed, step, zero, constants=[1, 2, 3, 4, 5, 6, 7]),
        _named(
            "QLinearConv",
            q,
            step,
            zero,
            kernel,
            step,
            signed,
            step,
            zero,
            label="3x3",
            pads=[1] * 4,
            constants=range(1, 8),
        ),
    ]


def _ordering(scale: int) -> list[Case]:
    x = _f32(scale, 100000)
    return [
        _named("TopK", x, _i64(100), outputs=2, constants=[1]),
        _named("NonZero", _whole(0, 3, scale, 128, 768)),
        _named("Unique", _whole(0, 1000, 20000 * scale), outputs=4),
        _named("Compress", _f32(4000, 64 * scale), _RNG.integers(0, 2, 4000).astype(bool), axis=0),
    ]


def _signal(scale: int) -> list[Case]:
    wave = _f32(scale, 16384, 1)
    window = np.hanning(400).astype(np.float32)
    return [
        _named("DFT", wave, axis=1, opset=17),
        _named("STFT", wave, np.array(160, np.int64), window, np.array(400, np.int64), opset=17, constants=[1, 2, 3]),
    ]


def _vision(scale: int) -> list[Case]:
    x = _f32(scale, 16, 64, 64)
    boxes = np.sort(_f32(scale * 100, 2, 2, low=0, high=60), 1).reshape(-1, 4)
    corners = np.sort(_f32(1, 1000 * scale, 2, 2, low=0, high=500), 2).reshape(1, -1, 4)
    limits = [np.array(value, kind) for value, kind in ((100, np.int64), (0.5, np.float32), (0.3, np.float32))]
    return [
        _named("GridSample", x, _f32(scale, 64, 64, 2, low=-1, high=1)),
        _named("RoiAlign", x, boxes, _whole(0, scale, len(boxes)), output_height=7, output_width=7, sampling_ratio=2),
        _named("NonMaxSuppression", corners, _f32(1, 20, 1000 * scale, low=0, high=1), *limits, constants=[2, 3, 4]),
    ]


def _attention(scale: int) -> list[Case]:
    q = _f32(scale, 12, 197, 64)
    token, past = _f32(scale, 12, 1, 64), _f32(scale, 12, 512, 64)
    return [
        _named("Attention", q, q, q, opset=23),
        _named("Attention", token, past, past, label="of one token", opset=23),
        _named("RotaryEmbedding", q, _f32(197, 32), _f32(197, 32), np.tile(np.arange(197), (scale, 1)), opset=23),
    ]


def _classic(scale: int) -> list[Case]:
    x = _f32(scale * 100, 64)
    ml: dict[str, Any] = {"domain": "ai.onnx.ml", "version": 3, "opset": 17}
    return [
        _forest(x),
        _named("Scaler", x, offset=[0.5] * 64, scale=[2.0] * 64, **ml),
        _named(
            "LinearClassifier",
            x,
            coefficients=_f32(640).tolist(),
            intercepts=_f32(10).tolist(),
            classlabels_ints=list(range(10)),
            post_transform="SOFTMAX",
            multi_class=1,
            outputs=2,
            **ml,
        ),
        _named("Normalizer", x, norm="L2", **ml),
        _named(
            "SVMRegressor",
            x,
            coefficients=_f32(50).tolist(),
            support_vectors=_f32(50 * 64).tolist(),
            rho=[0.1],
            n_supports=50,
            kernel_type="RBF",
            kernel_params=[0.01, 0.0, 3.0],
            **ml,
        ),
        _named(
            "LabelEncoder", _whole(0, 100, scale * 1000), keys_int64s=list(range(100)), values_floats=[0.5] * 100, **ml
        ),
    ]


def _forest(x: Any, trees: int = 50, depth: int = 6) -> Case:
    """A complete forest over 64 features with one output."""
    inner, total = 2**depth - 1, 2 ** (depth + 1) - 1
    nodes = np.tile(np.arange(total), trees)
    leaf = nodes >= inner
    attributes = {
        "n_targets": 1,
        "nodes_treeids": np.repeat(np.arange(trees), total).tolist(),
        "nodes_nodeids": nodes.tolist(),
        "nodes_featureids": np.where(leaf, 0, _whole(0, 64, len(nodes))).tolist(),
        "nodes_modes": ["LEAF" if one else "BRANCH_LEQ" for one in leaf],
        "nodes_values": _f32(len(nodes)).tolist(),
        "nodes_truenodeids": np.where(leaf, 0, 2 * nodes + 1).tolist(),
        "nodes_falsenodeids": np.where(leaf, 0, 2 * nodes + 2).tolist(),
        "target_treeids": np.repeat(np.arange(trees), total)[leaf].tolist(),
        "target_nodeids": nodes[leaf].tolist(),
        "target_ids": [0] * int(leaf.sum()),
        "target_weights": _f32(int(leaf.sum())).tolist(),
    }
    return _named("TreeEnsembleRegressor", x, label="50 trees", domain="ai.onnx.ml", version=3, opset=17, **attributes)


def _text(scale: int) -> list[Case]:
    words = np.array([f"Word{index % 50}" for index in range(1000 * scale)], object)
    tokens = _whole(0, 50, 20 * scale, 50)
    return [
        _named("StringNormalizer", words, case_change_action="LOWER", stopwords=["word1"], opset=17),
        _named(
            "TfIdfVectorizer",
            tokens,
            mode="TF",
            min_gram_length=1,
            max_gram_length=2,
            max_skip_count=0,
            ngram_counts=[0, 50],
            ngram_indexes=list(range(100)),
            pool_int64s=[*range(50), *np.stack([np.arange(50), np.arange(50)[::-1]], 1).reshape(-1).tolist()],
            opset=17,
        ),
        _named("StringConcat", words, words),
    ]


def _contrib(scale: int) -> list[Case]:
    ms: dict[str, Any] = {"domain": "com.microsoft"}
    x, g = _f32(scale, 128, 768), _f32(768)
    packed, scales = _whole(0, 256, 768, 24, 16, dtype=np.uint8), _f32(768 * 24, low=0.01, high=0.02)
    return [
        _named("SkipLayerNormalization", x, x, g, g, constants=[2, 3], **ms),
        _named("BiasGelu", x, g, constants=[1], **ms),
        _named("FastGelu", x, **ms),
        _named("FusedMatMul", x, _f32(768, 768), alpha=0.5, transB=1, constants=[1], **ms),
        _named("MatMulNBits", x, packed, scales, K=768, N=768, bits=4, block_size=32, constants=[1, 2], **ms),
        _named("MultiHeadAttention", x, x, x, num_heads=12, **ms),
        _named(
            "QLinearAdd",
            *(_whole(0, 256, scale, 64, 56, 56, dtype=np.uint8), np.array(0.02, np.float32), np.array(9, np.uint8)) * 2,
            np.array(0.04, np.float32),
            np.array(7, np.uint8),
            constants=[1, 2, 4, 5, 6, 7],
            **ms,
        ),
    ]


def _random(scale: int) -> list[Case]:
    return [
        _named("RandomNormal", shape=[scale, 128, 768], dtype=1),
        _named("RandomUniformLike", _f32(scale, 128, 768)),
        _named("Dropout", _f32(scale, 128, 768), label="inference"),
    ]


FAMILIES: dict[str, Callable[[int], list[Case]]] = {
    "arithmetic": _arithmetic,
    "comparison": _comparison,
    "functions": _functions,
    "activation": _activation,
    "sigmoid": _sigmoid,
    "softmax": _softmax,
    "reduction": _reduction,
    "gather and scatter": _gather,
    "movement": _movement,
    "matmul": _matmul,
    "convolution": _convolution,
    "pooling": _pooling,
    "normalization": _normalization,
    "recurrent": _recurrent,
    "resize": _resize,
    "quantization": _quantization,
    "ordering": _ordering,
    "signal": _signal,
    "vision": _vision,
    "attention": _attention,
    "classic ml": _classic,
    "text": _text,
    "com.microsoft": _contrib,
    "random": _random,
}
"""Families in the order they are printed; each makes its cases for a scale, 1 being what models have."""

_INT8 = "float32 GEMM of exact integers against int8 instructions"
_PASSES = "several passes over memory against one"

LIMITS = {
    "Softmax": "five passes; a maximum and a sum cost as much as the exponential",
    "LogSoftmax": "five passes; a maximum and a sum cost as much as the exponential",
    "Gelu": "a pass for each step of the polynomial of erf",
    "Sigmoid": "a pass for each step",
    "Cast": "NumPy converts to float16 without vector instructions; integer arithmetic takes 13 passes",
    "QuantizeLinear": _PASSES,
    "DynamicQuantizeLinear": _PASSES,
    "QLinearAdd": _PASSES,
    "QLinearConv": _INT8,
    "MatMulInteger": _INT8,
    "QLinearMatMul": _INT8,
    "CumSum": "a chain of sums, each after the one before",
    "TfIdfVectorizer": "n-grams are looked for by binary search in arrays, not in a hash table",
}
"""What keeps an operator from its peer's time, for those that may take more than five times as long."""
