"""Models of sequences, optionals and the control flow that carries them give what onnxruntime gives.

Random programs over the sequence operators, and models that build, map and join sequences inside bodies. Whatever the
program, results share memory with no feed and with no other result.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import combinations
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper, numpy_helper

import ort_py
from ort_py_kit.tolerances import assert_close

CPU = "CPUExecutionProvider"


def arrays(value: Any) -> list[Any]:
    """All arrays in a value."""
    if isinstance(value, list | tuple):
        return [array for item in value for array in arrays(item)]
    return [] if value is None else [value]


def check(model: onnx.ModelProto, feeds: Mapping[str, Any]) -> list[Any]:
    """Run both, twice, and compare; returns the results."""
    data = model.SerializeToString()
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    oracle = onnxruntime.InferenceSession(data, options, providers=[CPU])
    expected = oracle.run(None, dict(feeds))
    before = [array.copy() for array in arrays(list(feeds.values()))]
    with ort_py.InferenceSession(data, providers=[CPU]) as session:
        for _ in range(2):
            results = session.run(None, dict(feeds))
            for index, (left, right) in enumerate(zip(results, expected, strict=True)):
                assert_close(left, right, context=f"output {index}")
    fed = arrays(list(feeds.values()))
    assert all(np.array_equal(left, right) for left, right in zip(before, fed, strict=True))
    for left, right in combinations([*arrays(results), *fed], 2):
        if any(left is one for one in arrays(results)):
            assert not np.shares_memory(left, right)
    return results


def program(steps: list[tuple[str, int]]) -> onnx.ModelProto:
    """A model that starts with a sequence of three tensors and does what the steps say.

    A step is an operator and a number, of which a valid position is made. What was taken last is inserted.
    """
    nodes = [helper.make_node("SequenceConstruct", ["x", "y", "x"], ["s0"])]
    constants: list[onnx.TensorProto] = []
    outputs = [helper.make_tensor_sequence_value_info("s0", TensorProto.FLOAT, None)]
    count, current, taken = 3, "s0", "y"
    for number, (operator, place) in enumerate(steps, 1):
        if operator != "SequenceInsert" and count == 0:
            continue
        places = range(-count, count + (operator == "SequenceInsert"))
        constants.append(numpy_helper.from_array(np.array(places[place % len(places)], np.int64), f"p{number}"))
        if operator == "SequenceAt":
            taken = f"t{number}"
            nodes.append(helper.make_node(operator, [current, f"p{number}"], [taken]))
            outputs.append(helper.make_tensor_value_info(taken, TensorProto.FLOAT, None))
            continue
        new = [taken] if operator == "SequenceInsert" else []
        nodes.append(helper.make_node(operator, [current, *new, f"p{number}"], [f"s{number}"]))
        current, count = f"s{number}", count + (1 if new else -1)
    if current != "s0":
        outputs.append(helper.make_tensor_sequence_value_info(current, TensorProto.FLOAT, None))
    nodes.append(helper.make_node("SequenceLength", [current], ["length"]))
    outputs.append(helper.make_tensor_value_info("length", TensorProto.INT64, []))
    if count:
        nodes.append(helper.make_node("ConcatFromSequence", [current], ["joined"], axis=0))
        outputs.append(helper.make_tensor_value_info("joined", TensorProto.FLOAT, None))
    fed = [helper.make_tensor_value_info(name, TensorProto.FLOAT, [None, 2]) for name in "xy"]
    graph = helper.make_graph(nodes, "g", fed, outputs, constants)
    return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 17)], ir_version=8)


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    st.lists(
        st.tuples(st.sampled_from(["SequenceInsert", "SequenceErase", "SequenceAt"]), st.integers(0, 20)), max_size=8
    )
)
def test_random_programs(steps: list[tuple[str, int]]) -> None:
    """Insert, erase and take at any position, in any order; elements that come from the sequence go into it again."""
    check(program(steps), {"x": np.array([[1, 2]], np.float32), "y": np.array([[3, 4], [5, 6]], np.float32)})


MAPPED = """<ir_version: 8, opset_import: ["" : 17]>
g (float[N,3] x, int64 size, float[1] w) => (seq(float[M,3]) parts, float[N,3] y, seq(int64[2]) shapes, int64 n) {
  parts = SplitToSequence (x, size)
  n = SequenceLength (parts)
  o = Neg (w)
  mapped, shapes = SequenceMap <body = b (float[M,3] e, float[1] t) => (float[M,3] u, int64[2] v) {
    a = Mul (e, t)
    u = Add (a, o)
    v = Shape (e)
  }> (parts, w)
  y = ConcatFromSequence <axis = 0> (mapped)
}"""


@pytest.mark.parametrize(("rows", "size"), [(5, 2), (4, 4), (3, 1), (2, 7)])
def test_split_mapped_and_joined(rows: int, size: int) -> None:
    """A tensor in parts, each through a body with a capture, and put together again."""
    x = np.arange(rows * 3, dtype=np.float32).reshape(rows, 3)
    feeds = {"x": x, "size": np.array(size, np.int64), "w": np.array([2.5], np.float32)}
    _, y, shapes, _ = check(onnx.parser.parse_model(MAPPED), feeds)
    np.testing.assert_array_equal(y, x * 2.5 - 2.5)
    assert sum(int(shape[0]) for shape in shapes) == rows


COLLECTED = """<ir_version: 8, opset_import: ["" : 17]>
g (int64 n, float[2] x) => (seq(float[2]) s, float[2] y, float[k,2] all) <bool go = {1}, int64 zero = {0}> {
  e = SequenceEmpty <dtype = 1> ()
  y, s = Loop (n, go, x, e) <body = b (int64 i, bool c, float[2] v, seq(float[2]) t)
    => (bool d, float[2] w, seq(float[2]) u) {
    first = Equal (i, zero)
    u = If (first) <
      then_branch = yes () => (seq(float[2]) p) { p = SequenceInsert (t, v) },
      else_branch = no () => (seq(float[2]) q) { q = SequenceInsert (t, v, zero) }
    >
    w = Add (v, x)
    d = Identity (c)
  }>
  all = ConcatFromSequence <axis = 0, new_axis = 1> (s)
}"""


@pytest.mark.parametrize("trips", [1, 2, 5])
def test_collected_in_a_loop(trips: int) -> None:
    """A sequence carried through iterations and branches, at its front and its back."""
    x = np.array([1, 2], np.float32)
    s, y, _ = check(onnx.parser.parse_model(COLLECTED), {"n": np.array(trips), "x": x})
    assert (len(s), y.tolist()) == (trips, (x * (trips + 1)).tolist())


@pytest.mark.parametrize("taken", ["y = ConcatFromSequence<axis = 0>(s)", "y = SequenceAt(s, last)"])
def test_what_a_sequence_holds_is_not_written_over(taken: str) -> None:
    """A function of the third tensor does not work in place, and the next run leaves results alone."""
    head = '<ir_version: 8, opset_import: ["" : 15]> g (float[N,64] x) => (float[M,64] y, float[N,64] z) '
    body = f"a = Neg(x) b = Relu(x) c = Abs(x) s = SequenceConstruct(a, b, c) d = Sqrt(c) {taken} e = Exp(d) z = Neg(e)"
    model = onnx.parser.parse_model(f"{head} <int64 last = {{2}}> {{ {body} }}").SerializeToString()
    rows = [np.random.default_rng(seed).standard_normal((128, 64)).astype(np.float32) for seed in range(3)]
    options = ort_py.SessionOptions()
    options.pin_cpu = True  # compiled regions make arrays of their own
    with ort_py.InferenceSession(model, options, providers=[CPU]) as session:
        results = [session.run(None, {"x": one})[0] for one in rows]
    for one, result in zip(rows, results, strict=True):
        parts = [-one, np.maximum(one, 0), np.abs(one)]
        np.testing.assert_array_equal(result, parts[2] if "At" in taken else np.concatenate(parts))
