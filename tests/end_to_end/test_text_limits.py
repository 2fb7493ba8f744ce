"""Strings that double with each node: ended before memory is gone, while running and while the graph is optimised."""

from __future__ import annotations

import dataclasses
import resource
import sys

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py as ort

LIMITS = dataclasses.replace(ort.Limits.untrusted(), single_allocation_bytes=16 << 20, total_memory_bytes=64 << 20)


def _doubling(*, constant: bool, fan: int = 1) -> bytes:
    """40 nodes that each join a string with itself, `fan` copies of it at the end."""
    info = helper.make_tensor_value_info
    nodes, name = [], "x"
    for level in range(40):
        nodes.append(helper.make_node("StringConcat", [name, name], [f"c{level}"]))
        name = f"c{level}"
    start = numpy_helper.from_array(np.array(["aaaa"] * fan, object), "x")
    graph = helper.make_graph(
        nodes,
        "g",
        [] if constant else [info("x", TensorProto.STRING, ["n"])],
        [info(name, TensorProto.STRING, None)],
        [start] if constant else [],
    )
    return bytes(
        helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9).SerializeToString()
    )


@pytest.mark.parametrize("constant", [True, False])
@pytest.mark.parametrize("limits", [LIMITS, dataclasses.replace(LIMITS, total_memory_bytes=None)])
def test_doubling_ends_at_the_limit(constant: bool, limits: ort.Limits) -> None:
    """The error is a `LimitError`, and no more than a few times one allocation was used."""
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    options = ort.SessionOptions()
    options.limits = limits
    with pytest.raises(ort.LimitError):
        ort.InferenceSession(_doubling(constant=constant), options).run(
            None, {} if constant else {"x": np.array(["aaaa"], object)}
        )
    used = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * (1 if sys.platform == "darwin" else 1024)
    assert used < 12 * (16 << 20)


def test_one_string_in_many_places_is_not_copied_unasked() -> None:
    """Joining a million pointers to one long string asks for all the new strings before it makes the first."""
    info = helper.make_tensor_value_info
    graph = helper.make_graph(
        [helper.make_node("Expand", ["x", "n"], ["w"]), helper.make_node("StringConcat", ["w", "w"], ["y"])],
        "g",
        [info("x", TensorProto.STRING, [1]), info("n", TensorProto.INT64, [1])],
        [info("y", TensorProto.STRING, None)],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 20)], ir_version=9)
    options = ort.SessionOptions()
    options.limits = LIMITS
    session = ort.InferenceSession(model.SerializeToString(), options)
    with pytest.raises(ort.LimitError, match="larger than one allocation may be"):
        session.run(None, {"x": np.array(["a" * 100_000], object), "n": np.array([1_000_000])})


def test_maps_count_against_the_memory_of_a_run() -> None:
    """A hundred thousand rows become as many dictionaries of about 300 bytes, from 1.6 MB of numbers."""
    node = helper.make_node("ZipMap", ["x"], ["y"], domain="ai.onnx.ml", classlabels_int64s=[1, 2, 3, 4])
    x = helper.make_tensor_value_info("x", TensorProto.FLOAT, ["N", 4])
    graph = helper.make_graph([node], "g", [x], [onnx.ValueInfoProto(name="y")])
    imports = [helper.make_opsetid("", 18), helper.make_opsetid("ai.onnx.ml", 3)]
    model = helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString()
    feeds = {"x": np.ones((100_000, 4), np.float32)}
    for allowed in (100 << 20, 20 << 20):
        options = ort.SessionOptions()
        options.limits = dataclasses.replace(ort.Limits(), total_memory_bytes=allowed)
        with ort.InferenceSession(model, options) as session:
            if allowed == 100 << 20:
                assert len(session.run(None, feeds)[0]) == 100_000
            else:
                with pytest.raises(ort.LimitError, match="The run holds"):
                    session.run(None, feeds)
