"""Small models that most providers can run something of, for the checks that look at memory, threads and shapes.

Each has one symbolic size, N, so that it serves every size of data; weights are random and seeded. An author whose
provider runs none of them gives samples of their own.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import helper, numpy_helper

from ort_py_kit.graphs import model_from_text


@dataclass(frozen=True, eq=False)
class Sample:
    """A model and how it is fed.

    Attributes:
        name: Name in messages.
        model: The model; each of its inputs' symbolic sizes takes any value.
        low, high: Bounds of the random numbers that are fed.
    """

    name: str
    model: onnx.ModelProto
    low: float = -1.5
    high: float = 1.5

    def feeds(self, size: int = 3, seed: int = 0) -> dict[str, Any]:
        """Fresh arrays for each input.

        Args:
            size: Value of symbolic sizes.
            seed: Seed of the numbers.
        """
        generator = np.random.default_rng(seed)
        given = {tensor.name for tensor in self.model.graph.initializer}
        return {
            info.name: self._numbers(info.type.tensor_type, size, generator)
            for info in self.model.graph.input
            if info.name not in given
        }

    def size_of(self, nbytes: int) -> int:
        """The size for which the inputs take about so many bytes."""
        one, two = (sum(array.nbytes for array in self.feeds(size).values()) for size in (16, 32))
        return max(16, 16 * nbytes // max(1, int(two - one)))

    def _numbers(self, declared: onnx.TypeProto.Tensor, size: int, generator: np.random.Generator) -> Any:
        shape = tuple([dim.dim_value if dim.HasField("dim_value") else size for dim in declared.shape.dim])
        dtype = helper.tensor_dtype_to_np_dtype(declared.elem_type)
        if dtype.kind in "iu":
            return generator.integers(0, 3, shape).astype(dtype)
        if dtype.kind == "b":
            return generator.integers(0, 2, shape).astype(dtype)
        return generator.uniform(self.low, self.high, shape).astype(dtype)


def sample_from_text(
    name: str, text: str, weights: Mapping[str, tuple[int, ...]] | None = None, *, opset: int = 18, **bounds: float
) -> Sample:
    """A sample from ONNX's text form.

    Args:
        name: Name in messages.
        text: One graph, e.g. ``g (float[N, 8] x) => (float[N, 5] y) { y = MatMul(x, w) }``.
        weights: Shapes of random float32 initializers, by name.
        opset: Opset of the default domain.
        **bounds: `low` and `high` of `Sample`.
    """
    model = model_from_text(text, opset)
    generator = np.random.default_rng(len(text))
    for weight, shape in (weights or {}).items():
        fan_in = math.sqrt(math.prod(shape[1:]) or 1)
        array = (generator.standard_normal(shape) / fan_in).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, weight))
    return Sample(name, model, **bounds)


_UNARY = ("Abs", "Exp", "Identity", "LeakyRelu", "Neg", "Relu", "Sigmoid", "Softmax", "Tanh")
_BINARY = ("Add", "Div", "Max", "Mul", "Sub")


@cache
def sample_models() -> tuple[Sample, ...]:
    """The kit's own samples: common operators one by one, and a few together."""
    samples = [
        sample_from_text(op, f"g (float[N, 8] x) => (float[N, 8] y) {{ y = {op}(x) }}", low=-1.5) for op in _UNARY
    ]
    samples += [
        sample_from_text(op, f"g (float[N, 8] a, float[N, 8] b) => (float[N, 8] y) {{ y = {op}(a, b) }}", low=0.5)
        for op in _BINARY
    ]
    samples += [
        sample_from_text("MatMul", "g (float[N, 8] x) => (float[N, 5] y) { y = MatMul(x, w) }", {"w": (8, 5)}),
        sample_from_text(
            "Gemm", "g (float[N, 8] x) => (float[N, 5] y) { y = Gemm(x, w, b) }", {"w": (8, 5), "b": (5,)}
        ),
        sample_from_text(
            "Conv",
            "g (float[N, 3, 8, 8] x) => (float[N, 4, 8, 8] y) { y = Conv<pads = [1, 1, 1, 1]>(x, w, b) }",
            {"w": (4, 3, 3, 3), "b": (4,)},
        ),
        sample_from_text(
            "MaxPool",
            "g (float[N, 3, 8, 8] x) => (float[N, 3, 4, 4] y) "
            "{ y = MaxPool<kernel_shape = [2, 2], strides = [2, 2]>(x) }",
        ),
        sample_from_text(
            "LayerNormalization",
            "g (float[N, 8] x) => (float[N, 8] y) { y = LayerNormalization(x, s, b) }",
            {"s": (8,), "b": (8,)},
        ),
        sample_from_text("Transpose", "g (float[N, 8] x) => (float[8, N] y) { y = Transpose<perm = [1, 0]>(x) }"),
        sample_from_text(
            "Concat", "g (float[N, 8] a, float[N, 4] b) => (float[N, 12] y) { y = Concat<axis = 1>(a, b) }"
        ),
        sample_from_text(
            "two layers",
            "g (float[N, 8] x) => (float[N, 5] y, float[N, 8] h) "
            "{ m = MatMul(x, v)\n s = Add(m, b)\n h = Relu(s)\n y = MatMul(h, w) }",
            {"v": (8, 8), "b": (8,), "w": (8, 5)},
        ),
        sample_from_text(
            "diamond",
            "g (float[N, 8] x) => (float[N, 8] y, float[N, 8] a) "
            "{ a = Relu(x)\n t = Tanh(a)\n n = Neg(a)\n p = Add(t, n)\n y = Mul(p, a) }",
        ),
    ]
    return tuple(samples)
