"""DeformConv against onnxruntime, plain convolutions and a loop over positions: groups, masks, any number of axes."""

from __future__ import annotations

from itertools import product
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_array.vision import deform_conv
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, agree, run, sample
from ..runtime_oracle import agree_with_runtime
from ..standin import array_module, to_device, to_host
from ..test_limits import call


def out_sizes(size: Any, kernel: Any, options: dict[str, Any]) -> tuple[int, ...]:
    """Output sizes of a convolution."""
    rank = len(size)
    strides, dilations = options.get("strides", (1,) * rank), options.get("dilations", (1,) * rank)
    pads = options.get("pads", (0,) * 2 * rank)
    return tuple(
        (size[i] + pads[i] + pads[i + rank] - dilations[i] * (kernel[i] - 1) - 1) // strides[i] + 1 for i in range(rank)
    )


def operands(
    shape: tuple[int, ...],
    filters: int,
    kernel: tuple[int, ...],
    dtype: Any = np.float32,
    seed: int = 0,
    **options: Any,
) -> list[Any]:
    """X, W, offsets, bias and mask that fit each other."""
    rank, groups = len(kernel), options.get("offset_group", 1)
    out = out_sizes(shape[2:], kernel, options)
    taps = groups * int(np.prod(kernel))
    return [
        sample(shape, dtype, seed),
        sample((filters, shape[1] // options.get("group", 1), *kernel), dtype, seed + 1),
        sample((shape[0], taps * rank, *out), dtype, seed + 2),
        sample((filters,), dtype, seed + 3),
        sample((shape[0], taps, *out), dtype, seed + 4, low=0),
    ]


def one_by_one(x: Any, w: Any, offset: Any, bias: Any, mask: Any, options: dict[str, Any]) -> Any:
    """The definition, position by position and corner by corner."""
    kernel, rank, group = w.shape[2:], x.ndim - 2, options.get("group", 1)
    parts = options.get("offset_group", 1)
    strides, dilations = options.get("strides", (1,) * rank), options.get("dilations", (1,) * rank)
    pads = options.get("pads", (0,) * 2 * rank)
    out = out_sizes(x.shape[2:], kernel, options)
    offset = offset.reshape(x.shape[0], parts, -1, rank, *out)
    mask = mask.reshape(x.shape[0], parts, -1, *out)
    y = np.zeros((x.shape[0], w.shape[0], *out))
    for n, m, place in product(range(x.shape[0]), range(w.shape[0]), np.ndindex(*out)):
        total = float(bias[m])
        for c, (k, tap) in product(range(w.shape[1]), enumerate(np.ndindex(*kernel))):
            channel = m // (w.shape[0] // group) * w.shape[1] + c
            part = channel // (x.shape[1] // parts)
            at = [
                place[i] * strides[i] + tap[i] * dilations[i] - pads[i] + offset[(n, part, k, i, *place)]
                for i in range(rank)
            ]
            value = 0.0
            for corner in product((0, 1), repeat=rank):
                pixel = [int(np.floor(a)) + step for a, step in zip(at, corner, strict=True)]
                if all(0 <= p < s for p, s in zip(pixel, x.shape[2:], strict=True)):
                    value += x[(n, channel, *pixel)] * np.prod([1 - abs(a - p) for a, p in zip(at, pixel, strict=True)])
            total += w[(m, c, *tap)] * mask[(n, part, k, *place)] * value
        y[(n, m, *place)] = total
    return y


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    batch=st.integers(1, 2),
    group=st.sampled_from([1, 2, 3, 6]),
    offset_group=st.sampled_from([1, 2, 3, 6]),
    kernel=st.tuples(st.integers(1, 3), st.integers(1, 3)),
    strides=st.tuples(st.integers(1, 2), st.integers(1, 3)),
    dilations=st.tuples(st.integers(1, 2), st.integers(1, 2)),
    pads=st.tuples(*[st.integers(0, 2)] * 4),
    given_=st.tuples(st.booleans(), st.booleans()),
    seed=st.integers(0, 1000),
)
def test_pictures_equal_onnxruntime(
    batch: int,
    group: int,
    offset_group: int,
    kernel: tuple[int, int],
    strides: tuple[int, int],
    dilations: tuple[int, int],
    pads: tuple[int, ...],
    given_: tuple[bool, bool],
    seed: int,
) -> None:
    """All attributes together: groups and offset groups that nest and cross; with and without bias and mask."""
    options: dict[str, Any] = {
        "group": group,
        "offset_group": offset_group,
        "strides": strides,
        "dilations": dilations,
        "pads": pads,
    }
    x, w, offset, bias, mask = operands((batch, 6, 7, 8), 6, kernel, seed=seed, **options)
    inputs = [x, w, offset, bias if given_[0] else None, mask if given_[1] else None]
    while inputs[-1] is None:
        inputs.pop()
    agree_with_runtime("DeformConv", inputs, opset=19, **options)


@pytest.mark.parametrize(
    ("size", "kernel", "options"),
    [
        ((7,), (3,), {"pads": (1, 0)}),
        ((5, 6), (3, 2), {"strides": (2, 1), "group": 2, "offset_group": 4}),
        ((4, 3, 5), (2, 1, 3), {"strides": (2, 1, 1), "pads": (0, 0, 1, 1, 0, 1), "group": 2, "offset_group": 4}),
        ((3, 4, 1), (1, 2, 1), {"dilations": (1, 2, 1), "group": 4, "offset_group": 2}),
    ],
)
def test_any_number_of_axes(size: tuple[int, ...], kernel: tuple[int, ...], options: dict[str, Any]) -> None:
    """Lines and volumes, which no other implementation has, against the definition; in double precision."""
    inputs = operands((2, 4, *size), 4, kernel, np.float64, **options)
    x, w, offset, bias, mask = inputs
    assert_close(run("DeformConv", inputs, opset=19, **options)[0], one_by_one(x, w, offset, bias, mask, options))


def assert_close_as_float32(actual: Any, expected: Any) -> None:
    """Compare at the tolerance of float32."""
    assert_close(actual, np.asarray(expected, np.float32))


def test_without_offsets_it_is_a_convolution() -> None:
    options: dict[str, Any] = {"strides": (2, 1), "pads": (1, 2, 1, 0), "dilations": (1, 2), "group": 2}
    x, w, offset, bias, _ = operands((2, 4, 7, 9), 6, (3, 2), **options)
    (expected,) = run("Conv", [x, w, bias], opset=11, **options)
    assert_close_as_float32(run("DeformConv", [x, w, offset * 0, bias], opset=22, **options)[0], expected)


@pytest.mark.parametrize("dtype", [np.float16, BF16])
def test_narrow_floats_are_rounded_once(dtype: Any) -> None:
    """Against the reference, which rounds positions to float32 and computes the rest in double precision."""
    inputs = operands((1, 2, 4, 4), 2, (2, 2), dtype)
    agree("DeformConv", inputs, opset=22)


def test_far_offsets_read_zeros() -> None:
    """However far, and without a value only where the offset has none."""
    x, w, offset, bias, mask = operands((1, 2, 4, 4), 2, (1, 1))
    offset[:] = 1e30
    offset[0, 0, 1, 1] = np.nan
    (y,) = run("DeformConv", [x, w, offset, bias, mask], opset=19)
    assert np.isnan(y[0, :, 1, 1]).all()
    y[0, :, 1, 1] = bias
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None, None], y.shape))


@pytest.mark.parametrize(("group", "offset_group"), [(1, 2), (2, 1), (4, 2), (2, 4), (2, 3)])
def test_the_stand_in_gives_the_same(group: int, offset_group: int) -> None:
    """Every way in which groups and offset groups meet."""
    options: dict[str, Any] = {"group": group, "offset_group": offset_group}
    inputs = operands((2, 12, 4, 5), 4, (2, 3), **options)
    (y,) = run("DeformConv", [to_device(value) for value in inputs], opset=19, xp=array_module, **options)
    assert_close(to_host(y), run("DeformConv", inputs, opset=19, **options)[0])


@pytest.mark.parametrize("elements", [1, 300, 2000])
def test_blocks_do_not_show(elements: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Some positions at a time give the same."""
    inputs = operands((3, 4, 6, 5), 4, (3, 2), group=2)
    (expected,) = run("DeformConv", inputs, opset=19, group=2)
    monkeypatch.setattr(deform_conv, "_ELEMENTS", elements)
    assert_close_as_float32(run("DeformConv", inputs, opset=19, group=2)[0], expected)


def test_empty_batches_and_no_channels() -> None:
    """No images give none; no channels leave the bias."""
    x, w, offset, bias, mask = operands((1, 2, 4, 4), 2, (2, 2))
    assert run("DeformConv", [x[:0], w, offset[:0], bias, mask[:0]], opset=19)[0].shape == (0, 2, 3, 3)
    (y,) = run("DeformConv", [x[:, :0], w[:, :0], offset, bias], opset=19)
    np.testing.assert_array_equal(y, np.broadcast_to(bias[:, None, None], (1, 2, 3, 3)))


def test_the_result_is_announced() -> None:
    filters = 1 << 14
    inputs = [np.ones((1, 1, 64, 64), np.float32), np.ones((filters, 1, 1, 1), np.float32)]
    with pytest.raises(LimitError, match="too large"):
        call("DeformConv", [*inputs, np.zeros((1, 2, 64, 64), np.float32)], {}, opset=19)


def _changed(index: int, value: Any) -> list[Any]:
    inputs = operands((1, 4, 5, 5), 4, (3, 3))
    inputs[index] = value
    return inputs


@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        (_changed(0, np.zeros((4, 5), "f")), {}, r"needs X \(n, c, d1, …\)[\s\S]*what to do"),
        (_changed(1, np.zeros((4, 4, 3), "f")), {}, r"weights of the same rank[\s\S]*what to do"),
        (_changed(1, np.zeros((4, 3, 3, 3), "f")), {}, r"weights do not fit the input in 1 groups[\s\S]*what to do"),
        (_changed(4, np.zeros((1, 9, 3, 3), "f")), {"group": 3}, r"do not fit the input in 3 groups[\s\S]*what to do"),
        (_changed(4, np.zeros((1, 9, 3, 3), "f")), {"offset_group": 3}, r"cannot be cut into 3[\s\S]*what to do"),
        (
            _changed(2, np.zeros((1, 9, 3, 3), "f")),
            {},
            r"offsets of shape \[1, 9, 3, 3\] must .* \[1, 18, 3, 3\][\s\S]*do",
        ),
        (
            _changed(2, np.zeros((1, 18, 4, 3), "f")),
            {},
            r"offsets of shape .* sizes are \[3, 3\][\s\S]*Check kernel_shape",
        ),
        (_changed(3, np.zeros(3, "f")), {}, r"bias of shape \[3\] must have the shape \[4\][\s\S]*what to do"),
        (_changed(4, np.zeros((1, 8, 3, 3), "f")), {}, r"mask of shape \[1, 8, 3, 3\] must have[\s\S]*what to do"),
        (_changed(3, None), {"group": 0}, r"group is 0 and offset_group is 1[\s\S]*at least 1"),
        (_changed(3, None), {"kernel_shape": (2, 2)}, r"kernel_shape is \[2, 2\], but the weights'"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text.replace(".*", r"[\s\S]*")):
        run("DeformConv", inputs, opset=19, **attributes)
