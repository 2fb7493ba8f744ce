"""MaxUnpool: the inverse of MaxPool, against onnxruntime and the reference; refusals."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError

from ..oracle import BF16, agree, i64, run, sample
from ..runtime_oracle import agree_with_runtime
from ..standin import array_module, to_device, to_host
from ..test_limits import call

X = np.array([[[[1, 2], [3, 4]]]], np.float32)
INDICES = i64(5, 7, 13, 15).reshape(1, 1, 2, 2)
TWO: dict[str, Any] = {"kernel_shape": (2, 2), "strides": (2, 2)}


@settings(max_examples=25, deadline=None, derandomize=True)
@given(
    rank=st.integers(1, 3),
    kernel=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    strides=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    pooled=st.lists(st.integers(1, 3), min_size=3, max_size=3),
    opset=st.sampled_from([9, 11]),
    seed=st.integers(0, 1000),
)
def test_any_number_of_axes_equals_onnxruntime(
    rank: int, kernel: list[int], strides: list[int], pooled: list[int], opset: int, seed: int
) -> None:
    """Distinct positions, in the tensor that kernel and strides give back."""
    shape = (2, 3, *pooled[:rank])
    sizes = [(p - 1) * s + k for p, s, k in zip(pooled[:rank], strides, kernel, strict=False)]
    total = 6 * int(np.prod(sizes))
    count = int(np.prod(shape))
    if count > total:
        return
    indices = np.random.default_rng(seed).permutation(total)[:count].reshape(shape)
    attributes: dict[str, Any] = {"kernel_shape": kernel[:rank], "strides": strides[:rank]}
    agree_with_runtime("MaxUnpool", [sample(shape, np.float32, seed), indices], opset=opset, **attributes)


def test_a_pool_is_undone_but_for_what_it_lost() -> None:
    """Pooling again gives the maxima back; all other values are 0."""
    x = sample((2, 3, 6, 8), np.float32, low=0.5)
    values, indices = run("MaxPool", [x], opset=12, outputs=2, **TWO)
    (y,) = run("MaxUnpool", [values, indices], opset=11, **TWO)
    np.testing.assert_array_equal(run("MaxPool", [y], opset=12, **TWO)[0], values)
    np.testing.assert_array_equal(y, np.where(y == 0, 0, x))


def test_pads_are_taken_off() -> None:
    """The positions of a padded pool do not count the padding."""
    x = sample((1, 2, 5, 7), np.float32, low=0.5)
    options: dict[str, Any] = {"kernel_shape": (3, 3), "strides": (2, 2), "pads": (1, 1, 1, 1)}
    values, indices = run("MaxPool", [x], opset=12, outputs=2, **options)
    agree_with_runtime("MaxUnpool", [values, indices], opset=11, **options)


def test_strides_are_one_by_default() -> None:
    """Said since version 11, meant before."""
    for opset in (9, 11, 22):
        agree("MaxUnpool", [X, i64(0, 2, 6, 8).reshape(1, 1, 2, 2)], opset=opset, kernel_shape=(2, 2))


@pytest.mark.parametrize("shape", [(1, 1, 4, 4), (1, 1, 5, 5), (1, 1, 4, 7)])
def test_an_output_shape_adds_zeros_at_the_ends(shape: tuple[int, ...]) -> None:
    """Indices count the tensor without them: so the suite has it. onnxruntime counts the elements of the larger one."""
    agree("MaxUnpool", [X, INDICES, i64(*shape)], opset=11, **TWO)


def test_an_output_shape_of_several_images() -> None:
    """Every image and channel moves by its own."""
    x, indices = sample((2, 2, 2, 2), np.float32), np.arange(16).reshape(2, 2, 2, 2) * 4 + 3
    agree("MaxUnpool", [x, indices, i64(2, 2, 6, 5)], opset=11, **TWO)


def test_the_stand_in_gives_the_same() -> None:
    """With an output shape, read on the host, that is larger along several axes."""
    x, indices, shape = sample((2, 2, 2, 2), np.float32), np.arange(16).reshape(2, 2, 2, 2) * 4 + 3, i64(2, 2, 6, 5)
    (y,) = run("MaxUnpool", [to_device(x), to_device(indices), shape], opset=11, xp=array_module, **TWO)
    np.testing.assert_array_equal(to_host(y), run("MaxUnpool", [x, indices, shape], opset=11, **TWO)[0])


@pytest.mark.parametrize("dtype", [np.float16, BF16, np.float64])
def test_all_floats(dtype: Any) -> None:
    (y,) = run("MaxUnpool", [X.astype(dtype), INDICES], opset=22, **TWO)
    assert y.dtype == dtype
    np.testing.assert_array_equal(y.reshape(-1)[INDICES.reshape(-1)], [1, 2, 3, 4])


@pytest.mark.parametrize("shape", [(0, 2, 3, 3), (2, 0, 3, 3)])
def test_nothing_in_nothing_out(shape: tuple[int, ...]) -> None:
    (y,) = run("MaxUnpool", [np.zeros(shape, np.float32), np.zeros(shape, np.int64)], **TWO)
    assert y.shape == (*shape[:2], 6, 6)


def test_the_result_is_announced() -> None:
    """A stride is a number of the model."""
    with pytest.raises(LimitError, match="too large"):
        call("MaxUnpool", [X, INDICES], {"kernel_shape": (2, 2), "strides": (1 << 13, 1 << 13)})


@pytest.mark.parametrize(
    ("inputs", "attributes", "text"),
    [
        ([X, INDICES[:, :, 0]], TWO, r"two inputs of one shape \(n, c, 2 sizes\)[\s\S]*what to do"),
        ([X[0], INDICES[0]], TWO, r"a kernel of 2 axes[\s\S]*what to do"),
        ([X, INDICES + 1], TWO, r"Index 16 is out of range[\s\S]*\[1, 1, 4, 4\][\s\S]*in \[0, 15\]"),
        ([X, INDICES - 6], TWO, r"Index -1 is out of range[\s\S]*in \[0, 15\]"),
        ([X, INDICES, i64(1, 1, 3, 4)], TWO, r"output_shape is \[1, 1, 3, 4\][\s\S]*sizes that are not smaller"),
        ([X, INDICES, i64(2, 1, 4, 4)], TWO, r"output_shape is \[2, 1, 4, 4\][\s\S]*same batch"),
        ([X, INDICES, i64(4, 4)], TWO, r"output_shape is \[4, 4\][\s\S]*same batch"),
        ([X, INDICES], {"kernel_shape": (2, 0)}, r"kernel_shape is \[2, 0\][\s\S]*2 entries of at least 1"),
        ([X, INDICES], {**TWO, "strides": (2,)}, r"strides is \[2\][\s\S]*2 entries of at least 1"),
        ([X, INDICES], {**TWO, "pads": (0, 0)}, r"pads is \[0, 0\][\s\S]*4 entries of at least 0"),
        ([X, INDICES], {**TWO, "pads": (5, 0, 5, 0)}, r"sizes would be \[-6, 4\][\s\S]*what to do"),
    ],
)
def test_inputs_that_do_not_fit_are_refused(inputs: list[Any], attributes: dict[str, Any], text: str) -> None:
    with pytest.raises(InvalidArgument, match=text):
        run("MaxUnpool", inputs, opset=11, **attributes)


@pytest.mark.parametrize("strides", [[1, 1], [2, 3]])
def test_nothing_is_unpooled_to_zeros(strides: list[int]) -> None:
    """The size follows from that of the kernel, also where no maximum is left."""
    x = np.zeros((2, 3, 0, 4), np.float32)
    agree_with_runtime("MaxUnpool", [x, np.zeros(x.shape, np.int64)], opset=11, kernel_shape=[3, 1], strides=strides)
