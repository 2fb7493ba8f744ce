"""One model for each family of kernels, large enough that starting it costs nothing: bandwidth or operations a second.

Bytes are those of inputs and outputs, weights included, each once; operations those of products. Which ceiling a family
is held against is said here.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, parser

from benchmarks.gpu_work import Work, work_of

__all__ = ["FAMILIES", "Family"]


@dataclass(frozen=True, slots=True)
class Family:
    """A few nodes that one kernel is meant for.

    Attributes:
        name: In tables.
        text: Nodes in ONNX's text form; ``y`` is the output.
        inputs: Shapes of floating inputs.
        weights: Shapes of floating constants.
        others: Constants of other types, by name.
        result: Shape of ``y``.
        operations: Of products that `work_of` does not know; 0 otherwise.
        bound: ``"bytes"`` or ``"operations"``.
        opset: Of ONNX.
    """

    name: str
    text: str
    inputs: Mapping[str, tuple[int, ...]]
    result: tuple[int, ...]
    weights: Mapping[str, tuple[int, ...]] = field(default_factory=dict)
    others: Mapping[str, Any] = field(default_factory=dict)
    operations: float = 0.0
    bound: str = "bytes"
    opset: int = 18

    def make(self, folder: Path, half: bool) -> tuple[Path, dict[str, Any], Work]:
        """The model's file, its feeds, and its work."""
        named, dtype = ("float16", np.float16) if half else ("float", np.float32)
        ends = ", ".join(f"{named}[{_dims(shape)}] {name}" for name, shape in self.inputs.items())
        domains = f'"" : {self.opset}, "com.microsoft" : 1'
        model = parser.parse_model(
            f"<ir_version: 10, opset_import: [{domains}]>\n"
            f"family ({ends}) => ({named}[{_dims(self.result)}] y) {{ {self.text} }}"
        )
        random = np.random.default_rng(5)
        for name, shape in self.weights.items():
            array = random.standard_normal(shape, np.float32) * np.float32(math.prod(shape[1:]) ** -0.5)
            model.graph.initializer.append(numpy_helper.from_array(array.astype(dtype), name))
        for name, array in self.others.items():
            model.graph.initializer.append(numpy_helper.from_array(np.asarray(array), name))
        path = folder / f"{self.name.replace(' ', '-')}-{named}.onnx"
        onnx.save(model, path)
        counted = work_of(model)
        feeds = {name: random.standard_normal(shape, np.float32).astype(dtype) for name, shape in self.inputs.items()}
        return path, feeds, Work(self.operations or counted.operations, counted.transferred)


def _dims(shape: tuple[int, ...]) -> str:
    return ", ".join(str(dim) for dim in shape)


_ROWS = (8192, 4096)
_TALL = (32, 128, 56, 56)
_HEADS = (8, 16, 2048, 64)


def _packed_weights(rows: int, columns: int, block: int) -> dict[str, Any]:
    random = np.random.default_rng(6)
    return {"b": random.integers(0, 256, (columns, rows // block, block // 2), np.uint8)}


FAMILIES: tuple[Family, ...] = (
    Family(
        "element-wise",
        "a = Mul (x, s) b = Add (a, z) c = Sigmoid (b) y = Mul (b, c)",
        dict.fromkeys("xz", _ROWS),
        _ROWS,
        weights={"s": (4096,)},
    ),
    Family(
        "reduction", "y = ReduceMean <keepdims = 1> (x, axes)", {"x": _ROWS}, (8192, 1), others={"axes": np.array([1])}
    ),
    Family("softmax", "y = Softmax <axis = -1> (x)", {"x": _ROWS}, _ROWS),
    Family(
        "layer normalisation",
        "y = LayerNormalization <axis = -1> (x, s, b)",
        {"x": _ROWS},
        _ROWS,
        weights={"s": (4096,), "b": (4096,)},
    ),
    Family(
        "rms normalisation",
        "y = RMSNormalization <axis = -1> (x, s)",
        {"x": _ROWS},
        _ROWS,
        weights={"s": (4096,)},
        opset=23,
    ),
    Family(
        "group normalisation",
        "y = GroupNormalization <num_groups = 32> (x, s, b)",
        {"x": _TALL},
        _TALL,
        weights={"s": (128,), "b": (128,)},
        opset=21,
    ),
    Family(
        "rotary embedding",
        "y = RotaryEmbedding (x, cos, sin, places)",
        {"x": _HEADS},
        _HEADS,
        weights={"cos": (2048, 32), "sin": (2048, 32)},
        others={"places": np.tile(np.arange(2048), (8, 1))},
        opset=23,
    ),
    Family(
        "gather of rows",
        "y = Gather <axis = 0> (x, rows)",
        {"x": _ROWS},
        _ROWS,
        others={"rows": np.random.default_rng(7).permutation(8192)},
    ),
    Family(
        "scatter of rows",
        "y = ScatterND (x, rows, z)",
        {"x": _ROWS, "z": (4096, 4096)},
        _ROWS,
        others={"rows": np.random.default_rng(7).permutation(8192)[:4096, None]},
    ),
    Family("transpose", "y = Transpose <perm = [0, 2, 1, 3]> (x)", {"x": _HEADS}, (8, 2048, 16, 64)),
    Family(
        "pooling",
        "y = MaxPool <kernel_shape = [3, 3], strides = [2, 2], pads = [1, 1, 1, 1]> (x)",
        {"x": _TALL},
        (32, 128, 28, 28),
    ),
    Family(
        "convolution 3x3",
        "y = Conv <pads = [1, 1, 1, 1]> (x, w)",
        {"x": (32, 256, 28, 28)},
        (32, 256, 28, 28),
        weights={"w": (256, 256, 3, 3)},
        bound="operations",
    ),
    Family(
        "convolution 1x1",
        "y = Conv (x, w)",
        {"x": (32, 512, 28, 28)},
        (32, 512, 28, 28),
        weights={"w": (512, 512, 1, 1)},
        bound="operations",
    ),
    Family(
        "depthwise convolution",
        "y = Conv <group = 128, pads = [1, 1, 1, 1]> (x, w)",
        {"x": _TALL},
        _TALL,
        weights={"w": (128, 1, 3, 3)},
    ),
    Family(
        "transposed convolution",
        "y = ConvTranspose <strides = [2, 2]> (x, w)",
        {"x": (32, 256, 28, 28)},
        (32, 128, 56, 56),
        weights={"w": (256, 128, 2, 2)},
        bound="operations",
    ),
    Family(
        "product",
        "y = MatMul (x, w)",
        {"x": (4096, 4096)},
        (4096, 4096),
        weights={"w": (4096, 4096)},
        bound="operations",
    ),
    Family(
        "product, bias, relu",
        "g = Gemm (x, w, b) y = Relu (g)",
        {"x": (4096, 4096)},
        (4096, 4096),
        weights={"w": (4096, 4096), "b": (4096,)},
        bound="operations",
    ),
    Family(
        "products of a batch",
        "y = MatMul (x, z)",
        {"x": (64, 1024, 1024), "z": (64, 1024, 1024)},
        (64, 1024, 1024),
        bound="operations",
    ),
    Family("product, one row", "y = MatMul (x, w)", {"x": (1, 8192)}, (1, 8192), weights={"w": (8192, 8192)}),
    Family(
        "product, one row, 4 bits",
        "y = com.microsoft.MatMulNBits <K = 8192, N = 8192, bits = 4, block_size = 32> (x, b, s)",
        {"x": (1, 8192)},
        (1, 8192),
        weights={"s": (8192 * 256,)},
        others=_packed_weights(8192, 8192, 32),
    ),
    Family(
        "attention",
        "y = Attention (q, k, v)",
        dict.fromkeys("qkv", _HEADS),
        _HEADS,
        operations=4.0 * 8 * 16 * 2048 * 2048 * 64,
        bound="operations",
        opset=23,
    ),
)
"""What `benchmarks.gpu --families` measures."""
