"""Nodes with hundreds of inputs and outputs: their instructions walk over slots instead of naming each."""

from __future__ import annotations

import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_py
from core.tests.small_models import CPU
from ort_py.execution.instructions import _maker, _region_maker

COUNT = 300


def test_many_inputs_and_outputs_keep_their_order() -> None:
    """A Split into 300 parts, a Sum and a Concat of them, of which each part is released behind its last reader."""
    parts = [f"p{index}" for index in range(COUNT)]
    scaled = [f"q{index}" for index in range(COUNT)]
    nodes = [
        helper.make_node("Split", ["x"], parts, axis=0, num_outputs=COUNT),
        *[helper.make_node("Neg", [part], [name]) for part, name in zip(parts, scaled, strict=True)],
        helper.make_node("Sum", scaled, ["total"]),
        helper.make_node("Concat", scaled[::-1], ["turned"], axis=0),
    ]
    x, total, turned = (
        helper.make_tensor_value_info(name, TensorProto.FLOAT, None) for name in ("x", "total", "turned")
    )
    graph = helper.make_graph(nodes, "g", [x], [total, turned])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    given = np.arange(COUNT, dtype=np.float32)
    with ort_py.InferenceSession(model.SerializeToString(), providers=CPU) as session:
        for _ in range(2):
            found = session.run(None, {"x": given})
            np.testing.assert_array_equal(found[0], [-given.sum()])
            np.testing.assert_array_equal(found[1], -given[::-1])


@pytest.mark.parametrize("make", [_maker, _region_maker])
def test_the_code_of_an_instruction_does_not_grow_without_bound(make: object) -> None:
    """Python takes time that grows with the square of the number of names in a closure: a second for 15,000."""
    counts = (1 << 14,) * 3
    context = (None,) * (1 if make is _maker else 5)
    instruction = make(*counts)(*context, *[range(count) for count in counts])  # type: ignore[operator]
    assert len(instruction.__code__.co_freevars) < 10


def test_kernels_are_called_with_all_that_is_there() -> None:
    """Slots are read in order, results are stored, and what is released is gone."""
    slots: list[object] = list(range(3 * COUNT))
    ins, outs = range(COUNT), range(COUNT, 2 * COUNT)
    instruction = _maker(COUNT, COUNT, COUNT)(lambda *given: tuple(-one for one in given), ins, outs, ins)
    instruction(slots)
    assert slots[:COUNT] == [None] * COUNT
    assert slots[COUNT : 2 * COUNT] == [-one for one in ins]
