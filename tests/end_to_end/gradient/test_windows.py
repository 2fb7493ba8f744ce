"""Rules of convolutions and pools, first and second derivatives, against central differences."""

from __future__ import annotations

from typing import Any

import pytest

from tests.end_to_end.gradient.cases import cases
from tests.end_to_end.gradient.finite_differences import check_gradients, random_inputs

CONVOLUTIONS = [
    (
        "y = Conv<group = 2, pads = [1, 0, 2, 1], strides = [2, 1], dilations = [1, 2]>(x, filters, bias)",
        random_inputs(7, x=(2, 2, 4, 4), filters=(4, 1, 3, 2), bias=(4,)),
    ),
    (
        'y = Conv<auto_pad = "SAME_UPPER", strides = [2, 2]>(x, filters)',
        random_inputs(7, x=(1, 2, 3, 4), filters=(2, 2, 2, 3)),
    ),
    ('y = Conv<auto_pad = "SAME_LOWER">(x, filters)', random_inputs(7, x=(1, 1, 3, 4), filters=(2, 1, 2, 3))),
    ('y = Conv<auto_pad = "VALID">(x, filters)', random_inputs(7, x=(1, 1, 3, 3), filters=(2, 1, 2, 3))),
    ("y = Conv<strides = [3]>(x, filters)", random_inputs(7, x=(2, 2, 9), filters=(3, 2, 2))),
    (
        "y = ConvTranspose<group = 2, pads = [1, 0, 0, 1], strides = [2, 1], output_padding = [1, 0]>"
        "(x, filters, bias)",
        random_inputs(7, x=(1, 4, 2, 3), filters=(4, 1, 3, 2), bias=(2,)),
    ),
    ("y = ConvTranspose<dilations = [2]>(x, filters)", random_inputs(7, x=(2, 2, 3), filters=(2, 1, 2))),
]
AVERAGES = [
    "pads = [1, 1, 0, 1], strides = [2, 1]",
    "pads = [1, 1, 1, 1], count_include_pad = 1",
    "ceil_mode = 1, strides = [2, 2]",
    "ceil_mode = 1, strides = [2, 3], pads = [0, 1, 1, 0], count_include_pad = 1",
    'auto_pad = "SAME_UPPER", strides = [2, 2]',
    'auto_pad = "SAME_LOWER", count_include_pad = 1',
]
IMAGE = random_inputs(8, x=(1, 2, 5, 4))


@pytest.mark.parametrize(("body", "inputs", "opset", "dims"), cases(CONVOLUTIONS, 12, 21))
def test_convolution(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Groups, pads of all kinds, strides that do not divide, dilations, one and two dimensions."""
    check_gradients(body, inputs, opset=opset, dims=dims)


@pytest.mark.parametrize(
    ("body", "inputs", "opset", "dims"),
    cases([(f"y = AveragePool<kernel_shape = [3, 2], {one}>(x)", IMAGE) for one in AVERAGES], 12, 21),
)
def test_average_pool(body: str, inputs: dict[str, Any], opset: int, dims: str) -> None:
    """Each window is shared by the elements that it counts."""
    check_gradients(body, inputs, opset=opset, dims=dims)


def test_average_pool_with_dilations() -> None:
    check_gradients("y = AveragePool<kernel_shape = [2, 2], dilations = [2, 1]>(x)", IMAGE, dims="symbolic")


@pytest.mark.parametrize(
    ("attributes", "opset"),
    [
        ("kernel_shape = [2, 2], strides = [2, 2]", 12),
        ("kernel_shape = [2, 2], strides = [2, 2]", 21),
        ("kernel_shape = [3, 2], pads = [1, 1, 0, 1], strides = [2, 1], ceil_mode = 1", 21),
        ("kernel_shape = [2, 2], dilations = [2, 1]", 16),
    ],
)
def test_max_pool(attributes: str, opset: int) -> None:
    """Windows that overlap add up where they chose the same element."""
    for dims in ("static", "symbolic"):
        check_gradients(f"z = MaxPool<{attributes}>(x) y = Mul(z, z)", IMAGE, opset=opset, dims=dims)


def test_max_pool_whose_indices_are_there() -> None:
    """The operator's own second output is used."""
    check_gradients("z, i = MaxPool<kernel_shape = [2, 2]>(x) y = Mul(z, z)", IMAGE)


@pytest.mark.parametrize("name", ["GlobalAveragePool", "GlobalMaxPool"])
def test_global_pools(name: str) -> None:
    for opset, dims in ((12, "symbolic"), (21, "static")):
        check_gradients(f"z = {name}(x) y = Mul(z, z)", IMAGE, opset=opset, dims=dims)
