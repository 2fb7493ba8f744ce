"""Conv and ConvTranspose against onnxruntime, over the whole range of their attributes."""

from __future__ import annotations

import random
import re
import tracemalloc
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array import convolution_methods, convolution_transpose, convolution_windows

from .oracle import BF16, bound, run, sample
from .runtime_oracle import agree_with_runtime

CASES: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "pointwise": ((2, 6, 7, 5), (4, 6, 1, 1), {}),
    "pointwise_many_images": ((7, 6, 3, 2), (4, 6, 1, 1), {}),
    "pointwise_many_images_strided": ((7, 6, 3, 2), (4, 6, 1, 1), {"strides": [2, 1]}),
    "pointwise_strided": ((2, 6, 7, 5), (4, 6, 1, 1), {"strides": [2, 3]}),
    "pointwise_grouped": ((2, 6, 7, 5), (4, 3, 1, 1), {"group": 2}),
    "pointwise_padded": ((1, 3, 4, 4), (2, 3, 1, 1), {"pads": [1, 1, 1, 1]}),
    "three_by_three": ((2, 3, 9, 8), (5, 3, 3, 3), {"pads": [1, 1, 1, 1]}),
    "asymmetric_pads": ((1, 3, 9, 8), (5, 3, 3, 2), {"pads": [0, 2, 1, 0]}),
    "same_upper": ((1, 3, 9, 8), (5, 3, 4, 2), {"auto_pad": "SAME_UPPER", "strides": [2, 3]}),
    "same_lower": ((1, 3, 9, 8), (5, 3, 4, 2), {"auto_pad": "SAME_LOWER", "strides": [2, 1]}),
    "valid": ((1, 3, 9, 8), (5, 3, 4, 2), {"auto_pad": "VALID"}),
    "dilated": ((1, 3, 11, 12), (5, 3, 3, 3), {"dilations": [2, 3], "pads": [2, 1, 0, 3]}),
    "stem": ((1, 3, 32, 32), (8, 3, 7, 7), {"strides": [2, 2], "pads": [3, 3, 3, 3]}),
    "groups": ((2, 6, 8, 8), (9, 2, 3, 3), {"group": 3, "pads": [1, 1, 1, 1]}),
    "depthwise": ((2, 7, 8, 9), (7, 1, 3, 3), {"group": 7, "pads": [1, 1, 1, 1]}),
    "depthwise_strided": ((2, 7, 8, 9), (7, 1, 5, 5), {"group": 7, "strides": [2, 2], "pads": [2, 2, 2, 2]}),
    "depthwise_multiplied": ((1, 4, 8, 9), (8, 1, 3, 3), {"group": 4}),
    "one_dimensional": ((2, 4, 30), (6, 4, 5), {"strides": [2], "pads": [2, 1]}),
    "three_dimensional": ((1, 2, 5, 6, 7), (3, 2, 2, 3, 2), {"pads": [1, 0, 1, 0, 1, 1], "strides": [1, 2, 1]}),
    "places_that_see_only_padding": ((1, 3, 2, 9), (4, 3, 3, 3), {"pads": [4, 1, 4, 1], "dilations": [3, 1]}),
    "one_channel_of_sound": ((1, 1, 700), (17, 1, 64), {"strides": [20]}),
    "many_filters": ((1, 16, 6, 6), (512, 16, 3, 3), {"pads": [1, 1, 1, 1]}),
}


@pytest.fixture(params=["windows place by place", "windows one by one", "many windows"])
def route(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Either way to convolve, whatever the shapes would have chosen."""
    limit = 0 if request.param == "many windows" else 1 << 40
    monkeypatch.setattr(convolution_windows, "_ROWS", limit)
    monkeypatch.setattr(convolution_windows, "_ELEMENTS", limit)
    monkeypatch.setattr(convolution_windows, "_PLACES", limit if request.param == "windows place by place" else 0)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("opset", [1, 11])
@pytest.mark.parametrize("case", CASES)
def test_conv_equals_onnxruntime(case: str, opset: int) -> None:
    """Each way to convolve, each attribute, with a bias."""
    shape, weights, attributes = CASES[case]
    inputs = [sample(shape, np.float32), sample(weights, np.float32, 1), sample(weights[:1], np.float32, 2)]
    agree_with_runtime("Conv", inputs, opset=opset, **attributes)


@pytest.mark.parametrize("case", CASES)
def test_blocks_do_not_show(case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """With scratch for a few rows only, results are the same to the last bits of reordering; no bias here."""
    shape, weights, attributes = CASES[case]
    monkeypatch.setattr(convolution_methods, "_COLUMN_BYTES", 3000)
    monkeypatch.setattr(convolution_windows, "_ROWS", 0)
    agree_with_runtime("Conv", [sample(shape, np.float32), sample(weights, np.float32, 1)], opset=11, **attributes)


@pytest.mark.usefixtures("route")
@pytest.mark.parametrize("seed", range(40))
def test_random_geometries_equal_onnxruntime(seed: int) -> None:
    """Sizes, kernels, strides, dilations, pads and groups drawn at random."""
    draw = random.Random(seed)
    rank, group = draw.randint(1, 3), draw.choice([1, 2, 3])
    size = [draw.randint(5, 10) for _ in range(rank)]
    shape = (draw.randint(1, 3), group * draw.randint(1, 3), *size)
    kernel = [draw.randint(1, 3) for _ in range(rank)]
    weights = (group * draw.randint(1, 3), shape[1] // group, *kernel)
    attributes: dict[str, Any] = {
        "group": group,
        "strides": [draw.randint(1, 3) for _ in range(rank)],
        "dilations": [draw.randint(1, 2) for _ in range(rank)],
        "pads": [draw.randint(0, 2) for _ in range(2 * rank)],
    }
    inputs = [sample(shape, np.float32, seed), sample(weights, np.float32, seed + 1)]
    agree_with_runtime("Conv", inputs, opset=11, **attributes)


@pytest.mark.parametrize("scratch", [4 << 20, 5000])
@pytest.mark.parametrize("seed", range(24))
def test_long_kernels_equal_onnxruntime(seed: int, scratch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Kernels longer than the output, as of spectrograms, at once and in blocks; sizes and attributes at random."""
    monkeypatch.setattr(convolution_methods, "_COLUMN_BYTES", scratch)
    monkeypatch.setattr(convolution_windows, "_ROWS", 0)
    draw = random.Random(seed)
    rank, group = draw.randint(1, 2), draw.choice([1, 1, 2])
    long = draw.randint(33, 70)
    kernel, stride = [*([draw.randint(1, 3)] * (rank - 1)), long], draw.choice([1, 2, 7, long - 5])
    dilation = draw.choice([1, 1, 2])
    size = [*([draw.randint(4, 6)] * (rank - 1)), dilation * long + stride * draw.randint(0, 12)]
    shape = (draw.randint(1, 2), group * draw.randint(1, 3), *size)
    attributes: dict[str, Any] = {
        "group": group,
        "strides": [*([draw.randint(1, 2)] * (rank - 1)), stride],
        "dilations": [*([1] * (rank - 1)), dilation],
        "pads": [draw.randint(0, 3) for _ in range(2 * rank)],
    }
    weights = (group * draw.randint(1, 4), shape[1] // group, *kernel)
    # Small weights: sums of hundreds of products that cancel out would tell nothing but their order.
    inputs = [sample(shape, np.float32, seed), sample(weights, np.float32, 1, -0.1, 0.1)]
    agree_with_runtime("Conv", [*inputs, sample(weights[:1], np.float32, 2)], opset=11, **attributes)


def test_a_bias_that_stops_fitting_is_refused_also_when_the_shapes_are_known() -> None:
    """The facts that a node caches for a shape do not let a wrong bias through later."""
    x, w = np.zeros((1, 2, 5), np.float32), np.zeros((3, 2, 3), np.float32)
    _, call = bound("Conv", [x, w, np.zeros(3, np.float32)], opset=11)
    call(x, w, np.zeros(3, np.float32))
    with pytest.raises(InvalidArgument, match=re.escape("The bias has shape [1] instead of [3]")):
        call(x, w, np.zeros(1, np.float32))


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
def test_conv_keeps_the_type_and_rounds_once(dtype: Any) -> None:
    """Narrow floats give the float64 result of the same inputs, rounded at the end."""
    x, w = sample((1, 8, 6, 6), dtype), sample((4, 8, 3, 3), dtype, 1)
    (actual,) = run("Conv", [x, w], opset=22)
    (wide,) = run("Conv", [x.astype(np.float64), w.astype(np.float64)], opset=22)
    assert actual.dtype == dtype
    # float32 sums may fall on the other side of a tie: one unit in the last place of the type.
    step = {"float16": 2.0**-10, "bfloat16": 2.0**-7, "float64": 0.0}[actual.dtype.name]
    np.testing.assert_allclose(actual.astype(np.float64), wide, rtol=step, atol=step)


def test_an_empty_batch_gives_an_empty_result() -> None:
    """Zero images in, zero images out, of the right size."""
    (y,) = run("Conv", [np.zeros((0, 3, 5, 5), np.float32), np.ones((2, 3, 3, 3), np.float32)], opset=11)
    assert y.shape == (0, 2, 3, 3)


def test_constant_weights_give_the_same() -> None:
    """Preparation at planning does not change the result."""
    x, w = sample((1, 3, 8, 8), np.float32), sample((4, 3, 3, 3), np.float32, 1)
    np.testing.assert_array_equal(run("Conv", [x, w], opset=11)[0], run("Conv", [x, w], opset=11, constants=(1,))[0])


@pytest.mark.parametrize(
    ("shapes", "attributes", "text"),
    [
        (((1, 4, 5, 5), (2, 3, 3, 3)), {}, "has 4 channels, but weights of shape [2, 3, 3, 3] with group 1 need 3"),
        (((1, 4, 5, 5), (3, 2, 3, 3)), {"group": 2}, "3 channels cannot be divided into 2 groups"),
        (((1, 4, 5, 5), (2, 4, 3)), {}, "both need the same rank, at least 3"),
        (((1, 4, 5, 5), (2, 4, 7, 3)), {}, "spans 7 positions"),
        (((1, 4, 5, 5), (2, 4, 3, 3), (3,)), {}, "The bias has shape [3] instead of [2]"),
    ],
)
def test_shapes_that_do_not_fit_are_refused(
    shapes: tuple[tuple[int, ...], ...], attributes: dict[str, Any], text: str
) -> None:
    """With the numbers and the node."""
    with pytest.raises(InvalidArgument, match=re.escape(text)) as caught:
        run("Conv", [np.zeros(shape, np.float32) for shape in shapes], opset=11, **attributes)
    assert caught.value.location.node == "Conv_under_test"


TRANSPOSED: dict[str, tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]] = {
    "plain": ((2, 3, 4, 5), (3, 2, 3, 3), {}),
    "upsampling": ((1, 4, 6, 6), (4, 3, 2, 2), {"strides": [2, 2]}),
    "pads": ((1, 4, 6, 6), (4, 3, 3, 4), {"strides": [2, 3], "pads": [1, 0, 2, 1]}),
    "output_padding": ((1, 4, 6, 6), (4, 3, 3, 3), {"strides": [2, 2], "output_padding": [1, 1]}),
    "output_shape": ((1, 4, 6, 6), (4, 3, 3, 3), {"strides": [2, 2], "output_shape": [12, 12]}),
    "same_upper": ((1, 4, 6, 6), (4, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_UPPER"}),
    "same_lower": ((1, 4, 6, 6), (4, 3, 3, 3), {"strides": [2, 2], "auto_pad": "SAME_LOWER"}),
    "groups": ((1, 4, 6, 6), (4, 3, 3, 3), {"group": 2}),
    "dilations": ((1, 4, 6, 6), (4, 3, 3, 3), {"dilations": [2, 1]}),
    "one_dimensional": ((2, 3, 9), (3, 2, 4), {"strides": [3]}),
    "three_dimensional": ((1, 2, 3, 4, 3), (2, 2, 2, 2, 3), {"strides": [2, 1, 2]}),
}


@pytest.mark.parametrize("scratch", [8 << 20, 500])
@pytest.mark.parametrize("case", TRANSPOSED)
def test_conv_transpose_equals_onnxruntime(case: str, scratch: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each attribute, with a bias, at once and in blocks of rows."""
    monkeypatch.setattr(convolution_transpose, "_SCRATCH_BYTES", scratch)
    shape, weights, attributes = TRANSPOSED[case]
    filters = weights[1] * attributes.get("group", 1)
    inputs = [sample(shape, np.float32), sample(weights, np.float32, 1), sample((filters,), np.float32, 2)]
    agree_with_runtime("ConvTranspose", inputs, opset=11, **attributes)


@pytest.mark.parametrize(
    ("shapes", "attributes", "text"),
    [
        (((1, 4, 5, 5), (3, 2, 3, 3)), {}, "has 4 channels, but weights of shape [3, 2, 3, 3] with group 1 need 3"),
        (((1, 4, 1, 1), (4, 2, 1, 1)), {"pads": [1, 1, 1, 1]}, "would have -1 positions along spatial axis 0"),
        (((1, 4, 5, 5), (4, 2, 3, 3)), {"strides": [2]}, "strides is [2]"),
        (((1, 4, 5, 5), (4, 2, 3, 3)), {"pads": [1]}, "pads is [1]"),
        (((1, 4, 5, 5), (4, 2, 3, 3)), {"kernel_shape": [3, 2]}, "kernel_shape is [3, 2]"),
        (
            ((1, 4, 5, 5), (4, 2, 3, 3)),
            {"strides": [3, 2], "output_padding": [2, 2]},
            "along spatial axis 1, 2 is less",
        ),
    ],
)
def test_conv_transpose_refuses_what_does_not_fit(
    shapes: tuple[tuple[int, ...], ...], attributes: dict[str, Any], text: str
) -> None:
    with pytest.raises(InvalidArgument, match=re.escape(text)):
        run("ConvTranspose", [np.zeros(shape, np.float32) for shape in shapes], opset=11, **attributes)


@pytest.mark.parametrize("group", [1, 2])
@pytest.mark.parametrize("shape", [(2, 4, 1, 900), (2, 4, 900, 1), (2, 4, 1, 900, 1)], ids=str)
def test_sequences_that_come_as_pictures(shape: tuple[int, ...], group: int) -> None:
    """Axes of one position change nothing: the same as without them, padding and strides along the others included."""
    long = shape.index(900)
    flat, w = sample((2, 4, 900), np.float32), sample((6, 4 // group, 35), np.float32, 1)
    (expected,) = run("Conv", [flat, w], group=group, strides=[2], pads=[3, 0])
    axes = range(2, len(shape))
    kernel = [35 if axis == long else 1 for axis in axes]
    pads = [3 if axis == long else 0 for axis in axes] + [0] * len(axes)
    strides = [2 if axis == long else 3 for axis in axes]
    inputs = [flat.reshape(shape), w.reshape(6, 4 // group, *kernel)]
    (y,) = run("Conv", inputs, group=group, strides=strides, pads=pads)
    np.testing.assert_array_equal(y.reshape(expected.shape), expected)


def test_scratch_of_a_long_sequence_is_bounded() -> None:
    """A row of 44,000 samples is convolved in blocks; all its columns at once would take 21 MiB."""
    x, w = sample((1, 1, 1, 44000), np.float32), sample((1, 1, 1, 256), np.float32, 1)
    tracemalloc.start()
    try:
        run("Conv", [x, w], strides=[1, 2])
        assert tracemalloc.get_traced_memory()[1] < 4 << 20
    finally:
        tracemalloc.stop()
