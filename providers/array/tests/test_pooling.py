"""Pools against onnxruntime."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper

import ort_py as ort
from ort_py.errors import InvalidArgument
from ort_py_array import kernel_defs, pooling
from ort_py_kit.kernel_runner import run_kernel
from ort_py_kit.tolerances import assert_close

from .oracle import BF16, run, sample
from .runtime_oracle import agree_with_runtime

GEOMETRIES: dict[str, tuple[tuple[int, ...], dict[str, Any]]] = {
    "two_by_two": ((2, 3, 8, 8), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "overlapping": ((2, 3, 9, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    "asymmetric": ((1, 2, 7, 9), {"kernel_shape": [3, 2], "pads": [0, 1, 2, 0]}),
    "ceil": ((1, 2, 8, 8), {"kernel_shape": [3, 3], "strides": [2, 2], "ceil_mode": 1}),
    "ceil_padded": ((1, 2, 8, 7), {"kernel_shape": [3, 3], "strides": [2, 3], "pads": [1, 1, 1, 1], "ceil_mode": 1}),
    "same_upper": ((1, 2, 7, 8), {"kernel_shape": [2, 3], "strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same_lower": ((1, 2, 7, 8), {"kernel_shape": [2, 3], "strides": [1, 2], "auto_pad": "SAME_LOWER"}),
    "one_dimensional": ((2, 3, 11), {"kernel_shape": [4], "strides": [3]}),
    "three_dimensional": ((1, 2, 5, 6, 7), {"kernel_shape": [2, 3, 2], "pads": [1, 1, 0, 0, 1, 1]}),
    "clipped": ((1, 2, 1, 7), {"kernel_shape": [2, 2], "strides": [2, 2]}),
    "without_a_window": ((1, 2, 1, 7), {"kernel_shape": [2, 2]}),
    "dilated": ((1, 2, 9, 9), {"kernel_shape": [3, 2], "dilations": [2, 3]}),
    "second_tap_in_padding": ((1, 2, 3, 7), {"kernel_shape": [2, 3], "dilations": [3, 3], "pads": [0, 1, 1, 2]}),
    "ceil_of_no_column": ((0, 2, 7, 0), {"kernel_shape": [2, 1], "strides": [1, 2], "ceil_mode": 1}),
}


@pytest.mark.parametrize("case", GEOMETRIES)
def test_max_pool_equals_onnxruntime(case: str) -> None:
    shape, attributes = GEOMETRIES[case]
    agree_with_runtime("MaxPool", [sample(shape, np.float32)], opset=12, **attributes)


@pytest.mark.parametrize("storage_order", [0, 1])
@pytest.mark.parametrize("case", GEOMETRIES)
def test_max_pool_positions_equal_onnxruntime(case: str, storage_order: int) -> None:
    """The second output: flat positions, row by row or column by column; rounded values have ties."""
    shape, attributes = GEOMETRIES[case]
    x = np.rint(sample(shape, np.float32))
    agree_with_runtime("MaxPool", [x], opset=12, outputs=2, storage_order=storage_order, **attributes)


@pytest.mark.parametrize("shape", [(2, 3, 9, 8), (1, 70, 40, 41)], ids=str)
def test_pools_of_wide_padding(shape: tuple[int, ...]) -> None:
    """No tap meets the picture everywhere, and the pictures may be taken in several blocks; against a naive loop."""
    window = {"kernel_shape": [3, 2], "strides": [2, 3], "pads": [2, 1, 2, 1], "dilations": [3, 2]}
    x = sample(shape, np.float32)
    padding = ((0, 0), (0, 0), (2, 2), (1, 1))
    high, low = np.pad(x, padding, constant_values=-np.inf), np.pad(x, padding)
    rows, columns = (high.shape[2] - 7) // 2 + 1, (high.shape[3] - 3) // 3 + 1

    def windows(padded: Any) -> Any:
        taps = [(i, j) for i in (0, 3, 6) for j in (0, 2)]
        return np.stack([padded[:, :, i : i + 2 * rows - 1 : 2, j : j + 3 * columns - 2 : 3] for i, j in taps])

    np.testing.assert_array_equal(run("MaxPool", [x], opset=12, **window)[0], windows(high).max(0))
    mean = run("AveragePool", [x], opset=19, count_include_pad=1, **window)[0]
    np.testing.assert_allclose(mean, windows(low).mean(0), atol=1e-6)


@pytest.mark.parametrize("dtype", [np.int8, np.uint8])
def test_max_pool_of_integers_pads_with_the_least_value(dtype: Any) -> None:
    x = sample((1, 1, 4, 4), dtype, low=-100, high=-1)
    agree_with_runtime("MaxPool", [x], opset=12, kernel_shape=[3, 3], pads=[1, 1, 1, 1])


def test_max_pool_of_minus_infinity_has_positions_inside_the_picture() -> None:
    """A window of the padding's own value still points to the picture."""
    x = np.full((1, 1, 2, 2), -np.inf, np.float32)
    _, positions = run("MaxPool", [x], opset=12, outputs=2, kernel_shape=[2, 2], pads=[1, 1, 1, 1])
    assert positions.min() >= 0


@pytest.mark.parametrize("count_include_pad", [0, 1])
@pytest.mark.parametrize("case", GEOMETRIES)
def test_average_pool_equals_onnxruntime(case: str, count_include_pad: int) -> None:
    """Padding counts or does not; what ceil mode adds beyond it never does."""
    shape, attributes = GEOMETRIES[case]
    agree_with_runtime(
        "AveragePool", [sample(shape, np.float32)], opset=19, count_include_pad=count_include_pad, **attributes
    )


@pytest.mark.parametrize("p", [1, 2, 3])
@pytest.mark.parametrize("case", ["two_by_two", "overlapping", "ceil", "one_dimensional", "second_tap_in_padding"])
def test_lp_pool_equals_onnxruntime(case: str, p: int) -> None:
    shape, attributes = GEOMETRIES[case]
    agree_with_runtime("LpPool", [sample(shape, np.float32)], opset=18, p=p, **attributes)


@pytest.mark.parametrize("op_type", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools_equal_onnxruntime(op_type: str) -> None:
    agree_with_runtime(op_type, [sample((2, 3, 5, 4), np.float32)], opset=1)


def test_global_lp_pool_equals_onnxruntime() -> None:
    agree_with_runtime("GlobalLpPool", [sample((2, 3, 5, 4), np.float32)], opset=2, p=3)


@pytest.mark.parametrize("op_type", ["MaxPool", "AveragePool"])
@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_narrow_floats_are_rounded_once(op_type: str, dtype: Any) -> None:
    x = sample((1, 2, 6, 6), dtype)
    (actual,) = run(op_type, [x], opset=22, kernel_shape=[3, 3])[:1]
    (wide,) = run(op_type, [x.astype(np.float32)], opset=22, kernel_shape=[3, 3])[:1]
    np.testing.assert_array_equal(actual, wide.astype(dtype))


def test_blocks_do_not_show(monkeypatch: pytest.MonkeyPatch) -> None:
    """One channel at a time gives the same."""
    monkeypatch.setattr(pooling, "_CACHE_BYTES", 1)
    shape, attributes = GEOMETRIES["overlapping"]
    agree_with_runtime("MaxPool", [sample(shape, np.float32)], opset=12, **attributes)


def test_an_empty_batch_gives_an_empty_result() -> None:
    """Zero images in, zero images out."""
    (y,) = run("AveragePool", [np.zeros((0, 3, 5, 5), np.float32)], opset=19, kernel_shape=[2, 2])
    assert y.shape == (0, 3, 4, 4)


@pytest.mark.parametrize(
    ("shape", "text"),
    [((2, 3), "has shape [2, 3]; pooling needs"), ((1, 1, 1, 1), "spans 3 positions")],
)
def test_inputs_that_do_not_fit_are_refused(shape: tuple[int, ...], text: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("MaxPool", [np.zeros(shape, np.float32)], opset=12, kernel_shape=[3, 3])


@pytest.mark.parametrize("operator", ["MaxPool", "AveragePool", "LpPool"])
def test_a_hostile_kernel_takes_no_time(operator: str) -> None:
    """Taps that meet no element are not walked through: with SAME padding a kernel may be as large as a number."""
    options = ort.SessionOptions()
    options.pin_cpu = True
    node = helper.make_node(operator, ["x"], ["y"], kernel_shape=[2**31 - 1], auto_pad="SAME_LOWER")
    values = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["n", 1, "w"]) for name in "xy"]
    model = helper.make_model(
        helper.make_graph([node], "g", values[:1], values[1:]),
        opset_imports=[helper.make_opsetid("", 21)],
        ir_version=10,
    )
    x = np.array([[[1, 3, 2]]], np.float32)
    (y,) = ort.InferenceSession(model.SerializeToString(), options).run(None, {"x": x})
    expected = {"MaxPool": 3, "AveragePool": 2, "LpPool": np.sqrt(14)}[operator]
    assert_close(y, np.full((1, 1, 3), expected, np.float32))


@pytest.mark.parametrize("operator", ["MaxPool", "LpPool"])
def test_a_huge_window_over_no_pictures(operator: str) -> None:
    """Its taps, which are billions, are not walked through."""
    x = np.zeros((0, 1, 3), np.float32)
    (y,) = run_kernel(kernel_defs(), operator, [x], kernel_shape=(2**31,), strides=(1,), pads=(2**31 - 1,) * 2)
    assert y.shape == (0, 1, 2**31 + 2)
