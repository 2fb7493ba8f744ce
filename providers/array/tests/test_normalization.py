"""Normalisations against onnxruntime, and against their function bodies where it has none."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument

from .oracle import BF16, agree, run, sample
from .runtime_oracle import agree_with_runtime

X = sample((2, 6, 5, 4), np.float32)


def _parameters(*sizes: int) -> list[Any]:
    return [sample((size,), np.float32, seed, 0.5, 2.0) for seed, size in enumerate(sizes, 1)]


@pytest.mark.parametrize("constants", [(), (1, 2, 3, 4)], ids=["fed", "constant"])
@pytest.mark.parametrize("opset", [7, 9, 14, 15])
@pytest.mark.parametrize("shape", [(2, 6, 5, 4), (3, 6), (2, 6, 7)], ids=str)
def test_batch_normalization_in_inference(shape: tuple[int, ...], opset: int, constants: tuple[int, ...]) -> None:
    """Statistics come in; folded when they are constants."""
    inputs = [sample(shape, np.float32), *_parameters(6, 6, 6, 6)]
    agree_with_runtime("BatchNormalization", inputs, opset=opset, constants=constants, epsilon=1e-3)


def test_batch_normalization_in_training_mode() -> None:
    """Statistics of the batch, and the running ones moved by the momentum."""
    agree("BatchNormalization", [X, *_parameters(6, 6, 6, 6)], opset=15, outputs=3, training_mode=1, momentum=0.7)


def test_batch_normalization_with_narrow_input_and_wide_statistics() -> None:
    """From version 15 on the parameters may have other types; the result has the input's."""
    x, parameters = X.astype(np.float16), _parameters(6, 6, 6, 6)
    (actual, *_) = run("BatchNormalization", [x, *parameters], opset=15, outputs=3)
    (wide, *_) = run("BatchNormalization", [x.astype(np.float32), *parameters], opset=15, outputs=3)
    np.testing.assert_array_equal(actual, wide.astype(np.float16))


def test_batch_normalization_refuses_statistics_of_another_size() -> None:
    """With its name and the shapes."""
    with pytest.raises(InvalidArgument, match=re.escape("mean has shape [5] instead of [6]")):
        run("BatchNormalization", [X, *_parameters(6, 6, 5, 6)], opset=9)


@pytest.mark.parametrize("axis", [-1, 2, 0])
def test_layer_normalization_with_statistics(axis: int) -> None:
    """All three outputs, over one or more axes."""
    scale = sample(X.shape[axis:], np.float32, 1)
    agree("LayerNormalization", [X, scale, sample(X.shape[axis:], np.float32, 2)], opset=17, outputs=3, axis=axis)
    agree_with_runtime("LayerNormalization", [X, scale], opset=17, axis=axis, epsilon=1e-2)


@pytest.mark.parametrize("dtype", [np.float16, BF16], ids=str)
def test_layer_normalization_of_narrow_floats_has_float32_statistics(dtype: Any) -> None:
    """``stash_type`` 1: mean and deviation are float32."""
    x, scale = X.astype(dtype), sample((4,), dtype, 1)
    y, mean, inverse = run("LayerNormalization", [x, scale], opset=17, outputs=3)
    assert (y.dtype, mean.dtype, inverse.dtype) == (dtype, np.float32, np.float32)
    (wide, *_) = run("LayerNormalization", [x.astype(np.float32), scale.astype(np.float32)], opset=17, outputs=3)
    np.testing.assert_allclose(y.astype(np.float32), wide, rtol=2e-2, atol=1e-2)


def test_rms_normalization() -> None:
    """Against the reference, over the last two axes."""
    agree("RMSNormalization", [X, sample((5, 4), np.float32, 1)], opset=23, axis=-2)


@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization"])
def test_a_scale_that_does_not_broadcast_is_refused(op_type: str) -> None:
    with pytest.raises(InvalidArgument, match=re.escape("Scale of shape [3]")):
        run(op_type, [X, np.ones(3, np.float32)])


@pytest.mark.parametrize("op_type", ["LayerNormalization", "RMSNormalization"])
def test_an_axis_out_of_range_is_refused(op_type: str) -> None:
    with pytest.raises(InvalidArgument, match="Axis 4 is out of range for rank 4"):
        run(op_type, [X, np.ones(4, np.float32)], axis=4)


def test_a_stash_type_that_is_no_float_is_refused() -> None:
    with pytest.raises(InvalidArgument, match="stash_type is 7"):
        run("LayerNormalization", [X, np.ones(4, np.float32)], stash_type=7)


def test_instance_normalization() -> None:
    """Each channel of each image by itself."""
    agree_with_runtime("InstanceNormalization", [X, *_parameters(6, 6)], opset=6)


def test_group_normalization_by_channel_and_by_group() -> None:
    """Version 21 scales by channel, version 18 by group."""
    agree("GroupNormalization", [X, *_parameters(6, 6)], opset=21, num_groups=3)
    agree("GroupNormalization", [X, *_parameters(2, 2)], opset=18, num_groups=2)


@pytest.mark.parametrize(("opset", "groups", "size"), [(21, 4, 6), (18, 4, 4), (21, 0, 6)])
def test_group_normalization_refuses_groups_that_do_not_divide(opset: int, groups: int, size: int) -> None:
    """With the shape and the number."""
    with pytest.raises(InvalidArgument, match=f"cannot be divided into {groups} groups"):
        run("GroupNormalization", [X, *_parameters(size, size)], opset=opset, num_groups=groups)


@pytest.mark.parametrize("operator", ["InstanceNormalization", "GroupNormalization"])
def test_parameters_by_channel_have_one_axis(operator: str) -> None:
    """The specification gives them one; onnxruntime refuses others, too."""
    scale, bias = _parameters(6, 6)
    groups = {"num_groups": 3} if operator == "GroupNormalization" else {}
    with pytest.raises(InvalidArgument, match=re.escape("A parameter of shape [1, 6] does not fit")):
        run(operator, [X, scale, bias.reshape(1, 6)], opset=21, **groups)


def test_group_normalization_18_refuses_parameters_by_channel() -> None:
    with pytest.raises(InvalidArgument, match=re.escape("scale has shape [6] and bias [6] instead of [2]")):
        run("GroupNormalization", [X, *_parameters(6, 6)], opset=18, num_groups=2)


@pytest.mark.parametrize("op_type", ["InstanceNormalization", "GroupNormalization"])
def test_parameters_of_another_size_are_refused(op_type: str) -> None:
    attributes = {"num_groups": 2} if op_type == "GroupNormalization" else {}
    with pytest.raises(InvalidArgument, match=re.escape("A parameter of shape [5] does not fit")):
        run(op_type, [X, *_parameters(5, 6)], **attributes)


@pytest.mark.parametrize("size", [1, 2, 3, 4, 9])
@pytest.mark.parametrize("beta", [0.75, 0.5])
def test_lrn(size: int, beta: float) -> None:
    """Windows of odd and even size, and larger than the channels."""
    if size % 2:  # onnxruntime takes odd sizes only
        agree_with_runtime("LRN", [X], opset=13, size=size, alpha=0.02, beta=beta, bias=2.0)
    (y,) = run("LRN", [X], opset=1, size=size, alpha=0.02, beta=beta, bias=2.0)
    sums = np.stack([(X[:, max(0, c - (size - 1) // 2) : c + size // 2 + 1] ** 2).sum(1) for c in range(6)], 1)
    np.testing.assert_allclose(y, X / (2.0 + 0.02 / size * sums) ** beta, rtol=1e-5)


def test_lrn_refuses_a_size_of_zero() -> None:
    with pytest.raises(InvalidArgument, match="size is 0"):
        run("LRN", [X], opset=13, size=0)


@pytest.mark.parametrize("p", [1, 2])
def test_lp_normalization(p: int) -> None:
    """Both norms; a row of zeros stays zero."""
    x = X.copy()
    x[0, 0, 0] = 0
    agree_with_runtime("LpNormalization", [X], opset=1, p=p, axis=1)
    assert not run("LpNormalization", [x], opset=22, p=p)[0][0, 0, 0].any()


def test_lp_normalization_without_a_norm_is_zero() -> None:
    """Squares that vanish make a norm of 0; the elements are 0 then, of whatever size and sign they are."""
    x = np.array([[1e-30, -2e-30, 3e-30], [-0.0, -0.0, -0.0], [1.0, 0.0, 0.0]], np.float32)
    agree_with_runtime("LpNormalization", [x], opset=22)
    (y,) = run("LpNormalization", [x], opset=22)
    assert not np.signbit(y).any()


def test_lp_normalization_refuses_other_norms() -> None:
    with pytest.raises(InvalidArgument, match="p is 3"):
        run("LpNormalization", [X], p=3)


def test_mean_variance_normalization() -> None:
    """Over the default axes and others."""
    agree_with_runtime("MeanVarianceNormalization", [X], opset=13)
    agree_with_runtime("MeanVarianceNormalization", [X], opset=13, axes=[0, 1, 2, 3])


@pytest.mark.parametrize("size", [4096, 4097, 9000])
def test_statistics_of_long_rows(size: int) -> None:
    """Long rows are added up with more care; both ways keep float32's digits where the mean is far from 0."""
    x = sample((3, 2, size), np.float32, low=999, high=1001)
    wide = x.astype(np.float64)
    expected = (wide - wide.mean(2, keepdims=True)) / np.sqrt(wide.var(2, keepdims=True) + 1e-5)
    ones, zeros = np.ones(2, np.float32), np.zeros(2, np.float32)
    (actual,) = run("InstanceNormalization", [x, ones, zeros])
    np.testing.assert_allclose(actual, expected, atol=5e-4)  # of which the input's own rounding is a fifth


@pytest.mark.parametrize("shape", [(0, 4), (2, 0)], ids=str)
def test_layer_normalization_of_nothing(shape: tuple[int, ...]) -> None:
    """Empty rows have no mean, and no rows have none to give."""
    scale = np.ones(shape[1], np.float32)
    y, mean, _ = run("LayerNormalization", [np.zeros(shape, np.float32), scale], outputs=3)
    assert y.shape == shape
    assert mean.shape == (shape[0], 1)
    assert np.isnan(mean).all()
