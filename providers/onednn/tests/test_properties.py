"""Convolutions, pools and products of any shape give what onnxruntime gives."""

from __future__ import annotations

from typing import Any

import numpy as np
from hypothesis import assume, given, seed, settings
from hypothesis import strategies as st

from ort_py_kit.tolerances import assert_close
from providers.onednn.tests.models import model, node, run_here, run_plain

FEW = settings(max_examples=40, deadline=None)


def _f(draw: int, *shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(np.random.default_rng(draw).standard_normal(shape), np.float32)


def _compare(data: bytes, feeds: dict[str, np.ndarray[Any, Any]]) -> None:
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])


SMALL = st.integers(1, 3)


@seed(7)
@FEW
@given(
    st.integers(0, 1000),
    st.integers(1, 3),
    st.sampled_from([(1, 3, 5), (1, 8, 16), (2, 4, 4), (4, 8, 8), (3, 6, 9)]),
    st.lists(
        st.tuples(st.integers(3, 9), SMALL, SMALL, SMALL, st.integers(0, 2), st.integers(0, 2)), min_size=3, max_size=3
    ),
    st.booleans(),
)
def test_any_convolution(
    draw: int, rank: int, channels: tuple[int, int, int], axes: list[tuple[int, ...]], dynamic: bool
) -> None:
    """1 to 3 dimensions, groups, strides, dilations and paddings."""
    groups, inputs, outputs = channels
    assume(inputs % groups == 0 and outputs % groups == 0)
    sizes, kernel, strides, dilations, begin, end = ([axis[place] for axis in axes[:rank]] for place in range(6))
    assume(
        all(
            size + before + behind >= (width - 1) * apart + 1
            for size, width, apart, before, behind in zip(sizes, kernel, dilations, begin, end, strict=True)
        )
    )
    made = node(
        "Conv",
        "x w b",
        "y",
        group=groups,
        strides=strides,
        dilations=dilations,
        pads=[*begin, *end],
    )
    constants = {"w": _f(draw + 1, outputs, inputs // groups, *kernel), "b": _f(draw + 2, outputs)}
    feeds = {"x": _f(draw, 2, inputs, *sizes)}
    _compare(model([made], feeds, constants, dynamic=dynamic), feeds)


@seed(8)
@FEW
@given(
    st.integers(0, 1000),
    st.sampled_from(["MaxPool", "AveragePool"]),
    st.integers(1, 3),
    st.lists(
        st.tuples(st.integers(4, 9), st.integers(2, 3), SMALL, st.integers(0, 1), st.integers(0, 1)),
        min_size=3,
        max_size=3,
    ),
    st.booleans(),
    st.booleans(),
)
def test_any_pool(draw: int, op_type: str, rank: int, axes: list[tuple[int, ...]], ceil: bool, counts: bool) -> None:
    """1 to 3 dimensions, strides, paddings, sizes rounded up; averages with and without what was padded."""
    sizes, kernel, strides, begin, end = ([axis[place] for axis in axes[:rank]] for place in range(5))
    average = op_type == "AveragePool"
    assume(not (average and ceil and counts))
    attributes: dict[str, Any] = {"count_include_pad": int(counts)} if average else {}
    made = node(
        op_type, "x", "y", kernel_shape=kernel, strides=strides, pads=[*begin, *end], ceil_mode=int(ceil), **attributes
    )
    feeds = {"x": _f(draw, 2, 5, *sizes)}
    _compare(model([made], feeds), feeds)


@seed(9)
@FEW
@given(
    st.integers(0, 1000),
    st.lists(st.tuples(st.sampled_from([1, 2, 3]), st.booleans(), st.booleans()), max_size=2),
    st.tuples(st.integers(1, 20), st.integers(1, 20), st.integers(1, 20)),
    st.tuples(st.booleans(), st.booleans(), st.booleans()),
)
def test_any_product(
    draw: int, batch: list[tuple[int, bool, bool]], sizes: tuple[int, int, int], ways: tuple[bool, bool, bool]
) -> None:
    """Batches that broadcast, either side a constant, shapes known or not."""
    rows, depth, columns = sizes
    constant, dynamic, activated = ways
    left = (*(size if here else 1 for size, here, _ in batch), rows, depth)
    right = (*(size if here else 1 for size, _, here in batch), depth, columns)
    arrays = {"x": _f(draw, *left), "w": _f(draw + 1, *right)}
    feeds = {"x": arrays["x"]} if constant else arrays
    constants = {"w": arrays["w"]} if constant else {}
    nodes = [node("MatMul", "x w", "m" if activated else "y")]
    if activated:
        nodes.append(node("Tanh", "m", "y"))
    _compare(model(nodes, feeds, constants, dynamic=dynamic), feeds)
