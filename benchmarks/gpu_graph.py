"""Write an ONNX graph whose weights have names and seeds: whoever knows a name has the weight, PyTorch's module too.

Weights lie in a file beside the model, which models of another batch share. They are made when that file is written.
"""

from __future__ import annotations

import zlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["FLOATING", "Graph", "Value", "seeded"]

OPSET, IR_VERSION = 17, 8
_ALIGNMENT = 64

Value = tuple[str, int, tuple[int, ...]]
"""An end of a graph: name, number of its type, shape."""

FLOATING = TensorProto.UNDEFINED
"""In place of a type: the graph's own floating one."""


def seeded(name: str, shape: Sequence[int]) -> np.ndarray[Any, np.dtype[np.float32]]:
    """The weight of a name, which also says what it is: sizes are such that deep stacks neither die out nor overflow.

    Args:
        name: As in PyTorch's `state_dict`: ``layers.0.norm.weight``.
        shape: As there.

    Returns:
        float32.
    """
    random = np.random.default_rng(zlib.crc32(name.encode()))
    if name.endswith("running_var"):
        return random.uniform(0.8, 1.2, tuple(shape)).astype(np.float32)
    array = random.standard_normal(tuple(shape), np.float32)
    if len(shape) == 1:
        around = np.float32(1 if name.endswith("weight") else 0)
        return array * np.float32(0.02) + around
    if name.startswith(("words", "places", "first")):
        return array * np.float32(0.02)
    return array * np.float32(np.prod(shape[1:]) ** -0.5)


@dataclass(frozen=True, slots=True)
class _Weight:
    name: str
    shape: tuple[int, ...]
    stored: tuple[int, ...]
    turned: bool
    offset: int


class Graph:
    """Nodes written one after the other.

    Args:
        half: Whether floating values and weights are float16; float32 otherwise.
    """

    def __init__(self, half: bool) -> None:
        self.float = TensorProto.FLOAT16 if half else TensorProto.FLOAT
        self.dtype = np.dtype(np.float16 if half else np.float32)
        self._nodes: list[onnx.NodeProto] = []
        self._constants: dict[tuple[Any, ...], onnx.TensorProto] = {}
        self._weights: dict[str, _Weight] = {}
        self._end = 0

    def __call__(self, op_type: str, *inputs: str, output: str | None = None, **attributes: Any) -> str:
        """Append a node of one output, and return its name."""
        name = output or f"v{len(self._nodes)}"
        self._append(op_type, inputs, [name], attributes)
        return name

    def split(self, value: str, axis: int, *parts: int) -> list[str]:
        """Append a Split into parts of these sizes."""
        names = [f"v{len(self._nodes)}_{part}" for part in range(len(parts))]
        self._append("Split", (value, self.constant(np.array(parts, np.int64))), names, {"axis": axis})
        return names

    def _append(
        self, op_type: str, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]
    ) -> None:
        name = f"n{len(self._nodes)}_{op_type}"
        self._nodes.append(helper.make_node(op_type, list(inputs), list(outputs), name=name, **attributes))

    def weight(self, name: str, *shape: int, turned: bool = False, ones: int = 0) -> str:
        """A seeded weight; `turned` has its axes exchanged, as MatMul wants those of a linear layer; `ones` are
        further axes of one element."""
        if name not in self._weights:
            stored = (shape[::-1] if turned else shape) + (1,) * ones
            self._weights[name] = _Weight(name, shape, stored, turned, self._end)
            size = int(np.prod(shape)) * self.dtype.itemsize
            self._end += -(-size // _ALIGNMENT) * _ALIGNMENT
        return name

    def constant(self, array: Any) -> str:
        """A small constant; numbers of floating type become the graph's."""
        array = np.asarray(array)
        array = array.astype(self.dtype) if array.dtype.kind == "f" else array
        return self.exactly(array)

    def exactly(self, array: np.ndarray[Any, Any]) -> str:
        """A small constant of this very type."""
        key = (array.dtype.str, array.shape, array.tobytes())
        if key not in self._constants:
            self._constants[key] = numpy_helper.from_array(array, f"c{len(self._constants)}")
        return self._constants[key].name

    def linear(self, value: str, name: str, inputs: int, outputs: int, bias: bool = True) -> str:
        """`torch.nn.Linear`."""
        found = self("MatMul", value, self.weight(f"{name}.weight", outputs, inputs, turned=True))
        return self("Add", found, self.weight(f"{name}.bias", outputs)) if bias else found

    def conv(
        self,
        value: str,
        name: str,
        inputs: int,
        outputs: int,
        kernel: Sequence[int],
        *,
        stride: int = 1,
        bias: bool = True,
    ) -> str:
        """A convolution over as many axes as `kernel` has sides, padded so that stride 1 keeps the size."""
        weights = [self.weight(f"{name}.weight", outputs, inputs, *kernel)]
        weights += [self.weight(f"{name}.bias", outputs)] if bias else []
        pads = [side // 2 for side in kernel] * 2
        return self("Conv", value, *weights, strides=[stride] * len(kernel), pads=pads, kernel_shape=list(kernel))

    def norm(self, value: str, name: str, width: int, output: str | None = None) -> str:
        """`torch.nn.LayerNorm` over the last axis."""
        weights = self.weight(f"{name}.weight", width), self.weight(f"{name}.bias", width)
        return self("LayerNormalization", value, *weights, axis=-1, epsilon=1e-5, output=output)

    def gelu(self, value: str) -> str:
        """Gelu with erf as exporters write it."""
        half, one = self.constant(0.5), self.constant(1.0)
        found = self("Erf", self("Div", value, self.constant(2**0.5)))
        return self("Mul", self("Mul", value, self("Add", found, one)), half)

    def silu(self, value: str) -> str:
        """Silu as exporters write it."""
        return self("Mul", value, self("Sigmoid", value))

    def reshape(self, value: str, *shape: int) -> str:
        """To a shape, 0 and -1 as in ONNX."""
        return self("Reshape", value, self.constant(np.array(shape, np.int64)))

    def attention(
        self, queries: str, keys: str, values: str, heads: int, width: int, mask: str | None = None, split: bool = True
    ) -> str:
        """Attention as exporters write it, over (batch, words, width); `split=False` where keys and values are
        (batch, heads, words, each) already."""
        each = width // heads
        asked = self("Transpose", self.reshape(queries, 0, -1, heads, each), perm=[0, 2, 1, 3])
        if split:
            keys = self("Transpose", self.reshape(keys, 0, -1, heads, each), perm=[0, 2, 3, 1])
            values = self("Transpose", self.reshape(values, 0, -1, heads, each), perm=[0, 2, 1, 3])
        else:
            keys = self("Transpose", keys, perm=[0, 1, 3, 2])
        scores = self("Mul", self("MatMul", asked, keys), self.constant(each**-0.5))
        if mask is not None:
            scores = self("Add", scores, mask)
        mixed = self("MatMul", self("Softmax", scores, axis=-1), values)
        return self.reshape(self("Transpose", mixed, perm=[0, 2, 1, 3]), 0, -1, width)

    def save(self, path: Path, weights: Path, inputs: Sequence[Value], outputs: Sequence[Value]) -> None:
        """Write the model, and its weights where that file is not there yet.

        Args:
            path: Of the model.
            weights: In the same folder; shared by models that ask for the same weights in the same order.
            inputs, outputs: Ends of the graph.
        """
        if not weights.exists():
            unfinished = weights.with_suffix(".part")
            with unfinished.open("wb") as file:
                for weight in self._weights.values():
                    array = seeded(weight.name, weight.shape).astype(self.dtype)
                    file.seek(weight.offset)
                    file.write(np.ascontiguousarray(array.T if weight.turned else array).tobytes())
                file.truncate(self._end)
            unfinished.rename(weights)
        tensors = [
            *(self._tensor(weight, weights.name) for weight in self._weights.values()),
            *self._constants.values(),
        ]
        fed, made = (
            [helper.make_tensor_value_info(name, self._type(kind), shape) for name, kind, shape in ends]
            for ends in (inputs, outputs)
        )
        graph = helper.make_graph(self._nodes, path.stem, fed, made, tensors)
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", OPSET)], ir_version=IR_VERSION)
        unfinished = path.with_suffix(".part")
        unfinished.write_bytes(model.SerializeToString())
        unfinished.replace(path)

    def _type(self, kind: int) -> int:
        return self.float if kind == FLOATING else kind

    def _tensor(self, weight: _Weight, location: str) -> onnx.TensorProto:
        tensor = onnx.TensorProto(name=weight.name, data_type=self.float, dims=weight.stored)
        tensor.data_location = TensorProto.EXTERNAL
        length = int(np.prod(weight.shape)) * self.dtype.itemsize
        for key, entry in (("location", location), ("offset", str(weight.offset)), ("length", str(length))):
            tensor.external_data.add(key=key, value=entry)
        return tensor
