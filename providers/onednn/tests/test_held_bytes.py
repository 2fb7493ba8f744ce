"""Bytes that stay within a region: signed ones are held as unsigned, and residual sums scale them in place."""

from __future__ import annotations

from typing import Any, TypeAlias

import numpy as np
import pytest
from onnx import NodeProto, TensorProto

from ort_py_onednn.binding.constants import Element
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.binding.primitive import Accumulate
from ort_py_onednn.execution.region import DnnlRegion
from ort_py_onednn.graph.operation import Operation
from providers.onednn.tests.models import model, narrow_weights, node, open_session, run_here, run_plain

Array: TypeAlias = np.ndarray[Any, Any]


class _Chain:
    """Nodes between conversions of int8, over a picture of 16 channels."""

    def __init__(self) -> None:
        self._rng = np.random.default_rng(11)
        self.x = self._rng.standard_normal((1, 16, 10, 10)).astype(np.float32)
        self.constants: dict[str, Array] = {}
        self.nodes: list[NodeProto] = []

    def quantized(self, name: str, zero: int, scale: float = 0.02) -> str:
        """Name of the integers of a value."""
        self.constants[f"{name}_s"], self.constants[f"{name}_z"] = np.array(scale, np.float32), np.array(zero, np.int8)
        self.nodes.append(node("QuantizeLinear", f"{name} {name}_s {name}_z", f"{name}_q"))
        return f"{name}_q"

    def converted(self, name: str, zero: int, scale: float = 0.02) -> str:
        """Name of a value after it was rounded to integers."""
        self.quantized(name, zero, scale)
        self.nodes.append(node("DequantizeLinear", f"{name}_q {name}_s {name}_z", f"{name}_d"))
        return f"{name}_d"

    def convolved(self, name: str, made: str) -> str:
        """Name of a value's convolution with seeded weights that onnxruntime multiplies exactly on any processor."""
        self.constants[f"{made}_w"] = narrow_weights(self._rng, (16, 16, 3, 3))
        self.constants[f"{made}_ws"] = self._rng.uniform(0.002, 0.004, 16).astype(np.float32)
        self.nodes.append(node("DequantizeLinear", f"{made}_w {made}_ws", f"{made}_wd", axis=0))
        self.nodes.append(node("Conv", f"{name} {made}_wd", made, pads=[1] * 4))
        return made

    def applied(self, op_type: str, inputs: str, made: str, **attributes: Any) -> str:
        """Name of an operator's result."""
        self.nodes.append(node(op_type, inputs, made, **attributes))
        return made

    def check(self, *outputs: str) -> None:
        """Compare outputs of int8 with onnxruntime's; numbers at a half may differ by one."""
        data = model(self.nodes, {"x": self.x}, self.constants, outputs, kind=TensorProto.INT8)
        wanted = run_plain(data, {"x": self.x})
        for actual, right in zip(run_here(data, {"x": self.x}), wanted, strict=True):
            far = np.abs(actual.astype(int) - right.astype(int))
            assert far.max() <= 1
            assert (far > 0).mean() < 0.01


@pytest.fixture
def operations(monkeypatch: pytest.MonkeyPatch) -> list[Operation]:
    """Operations of the region that was compiled last."""
    found: list[Operation] = []
    original = DnnlRegion.__init__

    def remember(self: DnnlRegion, *arguments: Any, **options: Any) -> None:
        original(self, *arguments, **options)
        found[:] = self.operations

    monkeypatch.setattr(DnnlRegion, "__init__", remember)
    return found


def _are_held_as(operations: list[Operation], *wanted: Element) -> bool:
    """Whether operations give these types; without exact products of integers they give numbers, and hold no bytes."""
    found = [None if one.result is None else one.result.element for one in operations]
    return found == list(wanted) or not has_exact_integers()


@pytest.mark.parametrize("zero", [-128, -3, 40, 127])
def test_signed_bytes_are_held_unsigned(operations: list[Operation], zero: int) -> None:
    """With a zero point bytes within a region are moved by 128; an output keeps its type."""
    chain = _Chain()
    start = chain.converted("x", zero)
    chain.quantized(chain.convolved(chain.converted(chain.convolved(start, "one"), zero), "two"), zero)
    chain.check("two_q")
    assert _are_held_as(operations, Element.U8, Element.U8, Element.S8)


def test_a_zero_point_of_nothing_keeps_bytes_signed(operations: list[Operation]) -> None:
    """Unsigned bytes would need a zero point that signed ones do not."""
    chain = _Chain()
    start = chain.converted("x", 0)
    chain.quantized(chain.convolved(chain.converted(chain.convolved(start, "one"), 0), "two"), 0)
    chain.check("two_q")
    assert _are_held_as(operations, Element.S8, Element.S8, Element.S8)


def test_what_is_not_negative_is_unsigned_as_it_is(operations: list[Operation]) -> None:
    """Behind Relu a zero point of 0 stays, and numbers that are too large become 127, not 255."""
    chain = _Chain()
    start = chain.converted("x", 0)
    positive = chain.applied("Relu", chain.convolved(start, "one"), "relu")
    chain.quantized(chain.convolved(chain.converted(positive, 0, 0.004), "two"), 5)
    chain.check("two_q")
    assert _are_held_as(operations, Element.S8, Element.U8, Element.S8)
    data = model(chain.nodes, {"x": chain.x}, chain.constants, ("relu_d",))
    (numbers,) = run_here(data, {"x": chain.x})
    assert (numbers == np.float32(127) * np.float32(0.004)).mean() > 0.1


def test_pieces_of_one_tensor_are_held_alike(operations: list[Operation]) -> None:
    """Inputs of a later join stay signed, negative or not, so that bytes can be joined."""
    chain = _Chain()
    start = chain.converted("x", 0)
    positive = chain.converted(chain.applied("Relu", chain.convolved(start, "one"), "relu"), 0)
    other = chain.converted(chain.convolved(start, "two"), 0)
    chain.quantized(chain.applied("Concat", f"{positive} {other}", "all", axis=1), 0)
    chain.check("all_q")
    joined = next(one for one in operations if one.kind == "Concat")
    assert all(name is not None and name.endswith("_q") for name in joined.inputs)


def test_bytes_that_are_seen_outside_keep_their_type() -> None:
    """An output that is read within the region too is the model's."""
    chain = _Chain()
    middle = chain.converted(chain.convolved(chain.converted("x", -7), "one"), -7)
    chain.quantized(chain.convolved(middle, "two"), -7)
    chain.check("one_q", "two_q")


@pytest.mark.parametrize("inner", [True, False])
def test_averages_of_held_bytes(operations: list[Operation], inner: bool) -> None:
    """An average within the region is held as what it is made of, an output of the model's type."""
    chain = _Chain()
    middle = chain.converted(chain.convolved(chain.converted("x", -7), "one"), -7)
    average = chain.applied("AveragePool", middle, "mean", kernel_shape=[2, 2], strides=[2, 2])
    if inner:
        chain.quantized(chain.convolved(chain.converted(average, 0), "two"), 9)
        chain.check("two_q")
        kinds = [one.kind for one in operations[2:]]
        assert kinds == ["AveragePool", "QuantizedConv"] or not has_exact_integers()
    else:
        chain.quantized(average, 0)
        chain.check("mean_q")


def test_sums_scale_what_they_are_added_to(monkeypatch: pytest.MonkeyPatch) -> None:
    """A residual's scale is a part of the sum in place, with no function behind it."""
    scales: list[float] = []

    def spy(scale: float = 1.0) -> Accumulate:
        scales.append(scale)
        return Accumulate(scale)

    monkeypatch.setattr("ort_py_onednn.lowering.planner.Accumulate", spy)
    chain = _Chain()
    start = chain.converted("x", -20, 0.0301)
    one = chain.converted(chain.convolved(start, "one"), -128)
    both = f"{chain.converted(chain.convolved(one, 'two'), 4, 0.0517)} {start}"
    last = chain.converted(chain.applied("Relu", chain.applied("Add", both, "sum"), "out"), -128, 0.0613)
    chain.quantized(chain.convolved(last, "three"), -5, 0.0441)
    data = model(chain.nodes, {"x": chain.x}, chain.constants, ("three_q",), kind=TensorProto.INT8)
    chain.check("three_q")
    if has_exact_integers():
        scales.clear()
        with open_session(data):
            assert scales[-1] == pytest.approx(0.0301 / 0.0613)
