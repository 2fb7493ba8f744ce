"""Kernels that read a form of their own of constant weights: the same results as with fed ones, and one form for all.

The kernels' values are checked elsewhere; here the same node is run with its weights as constants and as feeds.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest
from onnx import ValueInfoProto, helper, numpy_helper

import ort_py as ort
from ort_py.graph.weights.weight_store import process_store

CPU = ["CPUExecutionProvider"]
RNG = np.random.default_rng(3)


@dataclass(frozen=True)
class Case:
    """A node: its inputs (None where absent), and which of them are weights and their parameters."""

    op_type: str
    inputs: tuple[np.ndarray[Any, Any] | None, ...]
    weights: tuple[int, ...]
    domain: str = ""
    attributes: dict[str, Any] = field(default_factory=dict)
    outputs: int = 1

    def model(self, *, constant: bool) -> tuple[bytes, dict[str, np.ndarray[Any, Any]]]:
        """A model of the node and its feed."""
        named = {f"x{i}": value for i, value in enumerate(self.inputs) if value is not None}
        held = [f"x{i}" for i in self.weights] if constant else []
        feeds = {name: value for name, value in named.items() if name not in held}
        node = helper.make_node(
            self.op_type,
            [f"x{i}" if value is not None else "" for i, value in enumerate(self.inputs)],
            [f"y{i}" for i in range(self.outputs)],
            domain=self.domain,
            **self.attributes,
        )
        graph = helper.make_graph(
            [node],
            "one",
            [
                helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(value.dtype), value.shape)
                for name, value in feeds.items()
            ],
            [ValueInfoProto(name=f"y{i}") for i in range(self.outputs)],
            [numpy_helper.from_array(named[name], name) for name in held],
        )
        imports = [helper.make_opsetid("", 21), helper.make_opsetid("com.microsoft", 1)]
        model = helper.make_model(graph, opset_imports=imports, ir_version=10)
        return model.SerializeToString(), feeds


def u8(*shape: int) -> np.ndarray[Any, Any]:
    """Small unsigned integers."""
    return RNG.integers(0, 200, shape).astype(np.uint8)


def i8(*shape: int) -> np.ndarray[Any, Any]:
    """Small signed integers."""
    return RNG.integers(-90, 90, shape).astype(np.int8)


def real(*shape: int, kind: type[np.generic] = np.float32) -> np.ndarray[Any, Any]:
    """Numbers around zero."""
    return RNG.uniform(-1, 1, shape).astype(kind)


F, MS = np.float32, "com.microsoft"
SCALE, ZERO = np.array(0.02, F), np.array(7, np.uint8)
HALF = np.float16
CASES = [
    Case("MatMulInteger", (u8(5, 64), i8(64, 48), ZERO, i8(48)), (1, 3)),
    Case("MatMulInteger", (u8(5, 64), i8(64, 48)), (1,)),
    Case("QLinearMatMul", (u8(5, 64), SCALE, ZERO, u8(64, 48), SCALE, u8(48), np.array(0.9, F), ZERO), (3, 4, 5)),
    Case("ConvInteger", (u8(1, 8, 9, 9), u8(12, 8, 3, 3), ZERO, ZERO), (1, 3)),
    Case(
        "QLinearConv",
        (u8(1, 8, 9, 9), SCALE, ZERO, i8(12, 8, 3, 3), real(12) + 2, i8(12), np.array(4, F), ZERO),
        (3, 4, 5),
    ),
    Case("DynamicQuantizeMatMul", (real(5, 64), i8(64, 48), SCALE, np.array(3, np.int8)), (1, 2, 3), MS),
    Case("MatMulIntegerToFloat", (u8(5, 64), u8(64, 48), SCALE, SCALE, ZERO, ZERO), (1, 3, 5), MS),
    Case("QGemm", (u8(5, 64), SCALE, ZERO, i8(48, 64), SCALE, i8(48)), (3, 4, 5), MS, {"transB": 1}),
    Case(
        "QAttention",
        (u8(1, 6, 32), i8(32, 96), real(96), SCALE, SCALE, None, ZERO, np.array(2, np.int8)),
        (1, 4, 7),
        MS,
        {"num_heads": 4},
    ),
    Case("Attention", (real(1, 6, 32, kind=HALF), real(32, 96, kind=HALF)), (1,), MS, {"num_heads": 4}),
    Case(
        "MatMulNBits",
        (real(3, 64), u8(48, 2, 16), real(48 * 2), u8(48)),
        (1, 2, 3),
        MS,
        {"K": 64, "N": 48, "bits": 4, "block_size": 32},
    ),
    Case(
        "LSTM",
        (real(4, 2, 16, kind=HALF), real(1, 64, 16, kind=HALF), real(1, 64, 16, kind=HALF), real(1, 128, kind=HALF)),
        (1, 2, 3),
        attributes={"hidden_size": 16},
        outputs=3,
    ),
    Case(
        "GRU",
        (real(4, 2, 16, kind=HALF), real(1, 48, 16, kind=HALF), real(1, 48, 16, kind=HALF)),
        (1, 2),
        attributes={"hidden_size": 16},
        outputs=2,
    ),
    Case(
        "DynamicQuantizeLSTM",
        (
            *(real(4, 2, 16), i8(1, 16, 64), i8(1, 16, 64), None, None, None, None, None),
            *(np.array([0.01], F), np.array([1], np.int8), np.array([0.02], F), np.array([0], np.int8)),
        ),
        (1, 2, 8, 9, 10, 11),
        MS,
        {"hidden_size": 16},
        3,
    ),
]


def _plain_session(content: bytes) -> ort.InferenceSession:
    """A session of the provider whose kernels these are; those that stand in for it pack in forms of their own."""
    options = ort.SessionOptions()
    options.pin_cpu = True
    return ort.InferenceSession(content, options, providers=CPU)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.op_type)
def test_constant_weights_give_what_fed_ones_give(case: Case) -> None:
    """To the last bit, in two sessions that share the form the kernel made, and after the first is closed."""
    content, feeds = case.model(constant=False)
    expected = _plain_session(content).run(None, feeds)
    content, feeds = case.model(constant=True)
    before = process_store().stats().packed_bytes
    first = _plain_session(content)
    made = process_store().stats().packed_bytes - before
    assert made == first.memory_report().packed > 0
    second = _plain_session(content)
    assert process_store().stats().packed_bytes - before == made
    for session in (first, second):
        for result, wanted in zip(session.run(None, feeds), expected, strict=True):
            np.testing.assert_array_equal(result, wanted)
    first.close()
    np.testing.assert_array_equal(second.run(None, feeds)[0], expected[0])
    second.close()
    assert process_store().stats().packed_bytes == before
