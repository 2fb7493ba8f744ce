"""Axes of size 0: each in turn, for every operator of ONNX's own suite; and former defects with them.

Where a kernel refuses, it says so in the project's own words: NumPy's errors for empty arrays never reach the user.
"""

from __future__ import annotations

import copy
import functools
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from ort_py.errors import ExecutionError, InvalidArgument, OrtPyError
from ort_py_kit.backend_cases import SuiteCase, suite_cases

from .oracle import i64, run, sample
from .runtime_oracle import agree_with_runtime

CASES_OF_ONE_OPERATOR = 3
MOST = 24
"""Variants of one case: each axis of each input by itself, all axes of one extent, the same axis of all inputs."""


@functools.cache
def cases() -> dict[str, list[SuiteCase]]:
    """Some cases of each operator, from all over its list: they differ in attributes and optional inputs."""
    found: dict[str, list[SuiteCase]] = {}
    for case in suite_cases():
        if case.kind == "node" and isinstance(case.source, onnx.ModelProto) and "_expanded" not in case.name:
            found.setdefault("+".join(node.op_type for node in case.source.graph.node), []).append(case)
    return {name: all_[:: max(1, len(all_) // CASES_OF_ONE_OPERATOR)] for name, all_ in found.items()}


def without_sizes(model: onnx.ModelProto) -> bytes:
    """The model with the ranks of its inputs alone."""
    model = copy.deepcopy(model)
    for value in model.graph.input:
        for dimension in value.type.tensor_type.shape.dim:
            dimension.Clear()
    for value in model.graph.output:
        value.type.tensor_type.ClearField("shape")
    return bytes(model.SerializeToString())


def cuts(feeds: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
    """The feeds with axes of size 0."""
    arrays = {name: value for name, value in feeds.items() if isinstance(value, np.ndarray)}
    chosen = [{name: {axis}} for name, array in arrays.items() for axis in range(array.ndim)]
    extents = sorted({size for array in arrays.values() for size in array.shape})
    chosen += [
        {name: {axis for axis, size in enumerate(array.shape) if size == extent} for name, array in arrays.items()}
        for extent in extents
    ]
    most = max((array.ndim for array in arrays.values()), default=0)
    chosen += [{name: {axis} for name, array in arrays.items() if array.ndim > axis} for axis in range(most)]
    for axes in chosen[:MOST]:
        emptied = {
            name: arrays[name][tuple(slice(0 if axis in cut else None) for axis in range(arrays[name].ndim))]
            for name, cut in axes.items()
        }
        yield {**feeds, **emptied}


@pytest.mark.slow
def test_no_operator_fails_as_numpy_does(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every operator either computes or refuses; no error is anything but a refusal."""
    monkeypatch.setenv("ORT_PY_BLOCK_PROVIDERS", "ort-py-onednn,ort-py-openvino")
    options = ort_py.SessionOptions()
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    wrong, runs = [], 0
    for name, some in cases().items():
        for case in some:
            try:
                session = ort_py.InferenceSession(
                    without_sizes(case.model), options, providers=["CPUExecutionProvider"]
                )
            except OrtPyError:
                continue  # the model itself has constants that say its sizes
            for feeds in cuts(next(iter(case.data_sets()))[0]):
                runs += 1
                try:
                    session.run(None, feeds)
                except ExecutionError as error:
                    wrong.append(f"{name}, {case.name}: {error.what}")
                except OrtPyError:
                    pass
    assert wrong == []
    assert runs > 3000


ZERO = np.zeros((5, 3, 0), np.float32)


@pytest.mark.parametrize("axis", [0, 1, 2, -1])
@pytest.mark.parametrize("shape", [(5, 3, 0), (5, 0, 2), (0, 3, 2), (0, 0, 0)], ids=str)
def test_gather_and_scatter_elements(shape: tuple[int, ...], axis: int) -> None:
    """Nothing is gathered from nothing, along whichever axis."""
    x, indices = np.zeros(shape, np.float32), np.zeros(shape, np.int64)
    agree_with_runtime("GatherElements", [x, indices], opset=13, axis=axis)
    (y,) = run("ScatterElements", [x, indices, x], axis=axis)
    assert y.shape == shape


def test_an_index_into_nothing_is_refused() -> None:
    """The axis has no element, whatever the index says."""
    with pytest.raises(InvalidArgument, match=r"out of range|outside"):
        run("GatherElements", [np.zeros((5, 0), np.float32), np.zeros((5, 1), np.int64)], axis=1)


@pytest.mark.parametrize("shapes", [((2, 0), (0, 3)), ((4, 2, 0), (4, 0, 3)), ((0,), (0,)), ((2, 0), (0,))], ids=str)
def test_products_of_no_columns_are_zero(shapes: tuple[tuple[int, ...], tuple[int, ...]]) -> None:
    """A sum of no terms is zero. onnxruntime is no oracle here: it leaves the result of (2, 0) and (0,) unwritten."""
    left, right = (np.zeros(shape, np.float32) for shape in shapes)
    (y,) = run("MatMul", [left, right], opset=13)
    np.testing.assert_array_equal(y, np.matmul(left, right), strict=True)


@pytest.mark.parametrize("alpha", [1.0, 2.0])
def test_gemm_of_no_columns_is_its_third_input(alpha: float) -> None:
    c = sample((2, 3), np.float32)
    (y,) = run("Gemm", [np.zeros((2, 0), np.float32), np.zeros((0, 3), np.float32), c], alpha=alpha, beta=0.5)
    np.testing.assert_allclose(y, 0.5 * c)


def test_fused_products_of_no_columns_are_zero() -> None:
    """This equals the plain products, for all transposes of the factors."""
    inputs = [np.zeros((2, 0), np.float32), np.zeros((3, 0), np.float32)]
    (y,) = run("FusedMatMul", inputs, domain="com.microsoft", transB=1, alpha=2.0)
    np.testing.assert_array_equal(y, np.zeros((2, 3), np.float32))


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalLpPool", "GlobalMaxPool"])
def test_pictures_without_pixels(op_type: str) -> None:
    """A window of size 0 is refused, as onnxruntime does. Where there are no pictures the result is empty."""
    with pytest.raises(InvalidArgument, match="without a pixel"):
        run(op_type, [np.zeros((1, 2, 0, 3), np.float32)])
    (y,) = run(op_type, [np.zeros((0, 2, 0, 3), np.float32)])
    assert y.shape == (0, 2, 1, 1)


def test_peepholes_of_no_direction_are_refused() -> None:
    x, w, r = (sample(shape, np.float32) for shape in ((3, 2, 4), (1, 20, 4), (1, 20, 5)))
    with pytest.raises(InvalidArgument, match="needs an entry for each direction"):
        run("LSTM", [x, w, r, None, None, None, None, np.zeros((0, 15), np.float32)], hidden_size=5)


def test_linear_attention_without_keys_is_zero() -> None:
    """Scores over no key entries are sums of nothing."""
    q, v = np.zeros((2, 3, 0), np.float32), sample((2, 3, 8), np.float32)
    decay = np.zeros((2, 3, 0), np.float32)
    y, state = run(
        "LinearAttention", [q, q, v, None, decay], outputs=2, q_num_heads=4, kv_num_heads=4, update_rule="gated"
    )
    assert not y.any()
    assert (y.shape, state.shape) == ((2, 3, 8), (2, 4, 0, 2))


def test_shapes_of_gathers_of_tuples() -> None:
    """GatherND and ScatterND with tuples of no length, no tuples, and rows of no element."""
    x = sample((2, 3), np.float32)
    agree_with_runtime("GatherND", [x, np.zeros((0, 1), np.int64)], opset=13)
    (y,) = run("ScatterND", [ZERO, i64(1, 2).reshape(2, 1), np.zeros((2, 3, 0), np.float32)])
    assert y.shape == ZERO.shape


def test_a_window_of_no_picture_has_the_lowest_maximum() -> None:
    """With positions and without, so that leaving the positions out changes nothing."""
    x = np.zeros((1, 2, 0), np.float32)
    (alone,) = run("MaxPool", [x], kernel_shape=[1], strides=[2])
    values, positions = run("MaxPool", [x], outputs=2, kernel_shape=[1], strides=[2])
    np.testing.assert_array_equal(values, alone)
    np.testing.assert_array_equal(positions, np.full(alone.shape, -1))
