"""A run under `Limits.run_seconds` ends inside of long kernels, with the error of limits."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_py as ort

_FLOAT, _INT64, _STRING = TensorProto.FLOAT, TensorProto.INT64, TensorProto.STRING
_TINY = np.ones(1, np.float32)
_SIDE = np.ones((1, 3, 100, 100), np.float32)
_REGIONS = np.array([[0, 0, 99, 99]] * 200, np.float32)


def _limited(node: Any, feeds: dict[str, Any], seconds: float) -> ort.InferenceSession:
    """A session of one node whose inputs are of any shape."""
    kinds = {"f": _FLOAT, "i": _INT64, "O": _STRING}
    inputs = [
        helper.make_tensor_value_info(name, kinds[array.dtype.kind], [f"{name}{axis}" for axis in range(array.ndim)])
        for name, array in feeds.items()
    ]
    kind = kinds[next(iter(feeds.values())).dtype.kind]
    graph = helper.make_graph([node], "g", inputs, [helper.make_tensor_value_info("y", kind, None)])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    options = ort.SessionOptions()
    options.limits = dataclasses.replace(ort.Limits.untrusted(), run_seconds=seconds)
    options.intra_op_num_threads = 1
    return ort.InferenceSession(model.SerializeToString(), options)


@pytest.mark.parametrize(
    ("op_type", "feeds", "attributes"),
    [
        ("Expand", {"x": np.array(["text"], object), "n": np.array([60_000_000])}, {}),
        ("Tile", {"x": np.array(["a", "b"], object), "n": np.array([30_000_000])}, {}),
        ("Expand", {"x": np.ones((1, 2, 1), np.float32), "n": np.array([30_000_000, 1, 2])}, {}),
        (
            "RoiAlign",
            {"x": _SIDE, "r": _REGIONS, "b": np.zeros(200, np.int64)},
            {"output_height": 50, "output_width": 50, "sampling_ratio": 100},
        ),
        ("DepthToSpace", {"x": np.ones((1, 4, 4000, 4000), np.float32)}, {"blocksize": 2}),
    ],
    ids=["expand-strings", "tile-strings", "expand-short-runs", "roi-align", "depth-to-space"],
)
def test_long_kernels_end(op_type: str, feeds: dict[str, Any], attributes: dict[str, Any]) -> None:
    """The time is over long before the kernel would be done."""
    node = helper.make_node(op_type, list(feeds), ["y"], **attributes)
    with _limited(node, feeds, 0.02) as session, pytest.raises(ort.LimitError, match=r"longer than 0\.02 s"):
        session.run(None, feeds)


@pytest.mark.parametrize("op_type", ["MatMul", "Gemm", "Einsum"])
def test_products_that_cannot_end_are_not_begun(op_type: str) -> None:
    """Alone or in a compiled region: nothing interrupts them, so they are refused first."""
    feeds = {"x": np.ones((5000, 5000), np.float32)}
    attributes = {"equation": "ij,jk->ik"} if op_type == "Einsum" else {}
    with _limited(helper.make_node(op_type, ["x", "x"], ["y"], **attributes), feeds, 0.5) as session:
        with pytest.raises(ort.LimitError, match=r"multiplications are more than fit into 0\.5 s"):
            session.run(None, feeds)
        small = np.ones((2, 2), np.float32)
        np.testing.assert_array_equal(session.run(None, {"x": small})[0], small @ small)


def test_folding_ends_with_the_time_for_loading() -> None:
    """Constants are computed while a model is loaded, by the same kernels."""
    regions = helper.make_tensor("r", _FLOAT, _REGIONS.shape, _REGIONS.tobytes(), raw=True)
    side = helper.make_tensor("x", _FLOAT, _SIDE.shape, _SIDE.tobytes(), raw=True)
    images = helper.make_tensor("b", _INT64, [200], np.zeros(200, np.int64).tobytes(), raw=True)
    node = helper.make_node("RoiAlign", ["x", "r", "b"], ["z"], output_height=9, output_width=9, sampling_ratio=500)
    value = helper.make_tensor_value_info
    graph = helper.make_graph(
        [node, helper.make_node("Add", ["z", "w"], ["y"])],
        "g",
        [value("w", _FLOAT, [1])],
        [value("y", _FLOAT, None)],
        [side, regions, images],
    )
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    options = ort.SessionOptions()
    options.limits = dataclasses.replace(ort.Limits(), load_seconds=1.0)
    with pytest.raises(ort.LimitError, match="longer than 1 s"):
        ort.InferenceSession(model.SerializeToString(), options)
