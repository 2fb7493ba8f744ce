"""Graphs as data, and the real front end's opinion of them, which needs no device.

`pygraph.validate()` infers and checks shapes of convolutions, their gradients, pointwise steps and norms without a
driver. It cannot do so for attention, whose rules depend on the device's architecture: it asks the driver for it.
"""

from __future__ import annotations

import ctypes
from dataclasses import replace
from typing import Any

import pytest

from ort_py.errors import EPFail
from ort_py_cuda.cudnn import frontend, graphs
from ort_py_cuda.cudnn.graphs import Activation, Graph, Tensor, WindowOf, channels_first, channels_last
from ort_py_cuda.cudnn.lowering import lowered


def _cudnn() -> Any:
    try:
        return frontend.frontend()
    except EPFail as missing:
        pytest.skip(f"the real front end validates these graphs: {missing.what} {'; '.join(missing.why)}")


def _tensor(name: str, dims: tuple[int, ...], dtype: str, last: bool) -> Tensor:
    return Tensor(name, dims, (channels_last if last else channels_first)(dims), dtype)


def test_strides() -> None:
    """Dense strides of both orders, in elements, for axes named (N, C, space…)."""
    assert channels_first((2, 3, 4, 5)) == (60, 20, 5, 1)
    assert channels_last((2, 3, 4, 5)) == (60, 1, 15, 3)
    assert channels_last((2, 3, 4, 5, 6)) == (360, 1, 90, 18, 3)


def test_equal_graphs_are_one_key() -> None:
    """A graph is its own key: equal ones are equal, and the smallest difference counts."""
    x, w, y = (_tensor(name, (1, 8, 4, 4), "float16", True) for name in "xwy")
    window = WindowOf((1, 1), (1, 1), (0, 0), (0, 0))
    one, other = (graphs.convolution(x, w, y, window) for _ in range(2))
    assert one == other
    assert hash(one) == hash(other)
    assert graphs.convolution(x, w, y, replace(window, strides=(1, 2))) != one
    assert graphs.convolution(x, w, y, window, tf32=True) != one


def test_what_is_in_memory() -> None:
    """Intermediate results and scalars are given no address."""
    x, w, y, bias = (_tensor(name, (1, 8, 4, 4), "float16", True) for name in ("x", "w", "y", "bias"))
    window = WindowOf((1, 1), (1, 1), (0, 0), (0, 0))
    graph = graphs.convolution(x, w, y, window, bias=bias, activation=Activation("Relu"))
    assert [one.name for one in graph.in_memory] == ["x", "w", "bias", "y"]
    assert [one.method for one in graph.operations] == ["conv_fprop", "bias", "relu"]
    assert all(one.strides == y.strides for one in graph.tensors if one.virtual)
    assert [one.name for one in graphs.instance_norm(x, bias, w, y, 0.5).in_memory] == ["x", "bias", "w", "y"]


_ACTIVATIONS = (
    None,
    Activation("Relu"),
    Activation("LeakyRelu", 0.1),
    Activation("Clip", low=0.0, high=6.0),
    Activation("Sigmoid"),
    Activation("Tanh"),
)


@pytest.mark.parametrize("activation", _ACTIVATIONS)
@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_convolutions_validate(dtype: str, last: bool, activation: Activation | None) -> None:
    """Convolution, residual, bias and activation in one graph; groups, strides and dilations among them."""
    cudnn = _cudnn()
    x, w = _tensor("x", (2, 8, 9, 10), dtype, last), _tensor("w", (16, 4, 3, 3), dtype, last)
    y, z = (_tensor(name, (2, 16, 5, 8), dtype, last) for name in "yz")
    bias = _tensor("bias", (1, 16, 1, 1), dtype, last)
    window = WindowOf((2, 1), (1, 2), (1, 1), (1, 1))
    lowered(cudnn, graphs.convolution(x, w, y, window, bias=bias, z=z, activation=activation)).validate()
    lowered(cudnn, graphs.convolution(x, w, y, window, activation=activation)).validate()


@pytest.mark.parametrize("last", [False, True])
def test_three_spatial_axes_validate(last: bool) -> None:
    x, w, y = (
        _tensor("x", (1, 4, 5, 6, 7), "float16", last),
        _tensor("w", (8, 4, 3, 3, 3), "float16", last),
        _tensor("y", (1, 8, 3, 4, 5), "float16", last),
    )
    lowered(_cudnn(), graphs.convolution(x, w, y, WindowOf((1,) * 3, (1,) * 3, (0,) * 3, (0,) * 3))).validate()


@pytest.mark.parametrize("last", [False, True])
@pytest.mark.parametrize("dtype", ["float32", "float16", "bfloat16"])
def test_gradients_and_norms_validate(dtype: str, last: bool) -> None:
    """ConvTranspose's graph with its bias, and InstanceNormalization's."""
    cudnn = _cudnn()
    x, w = _tensor("x", (2, 16, 5, 10), dtype, last), _tensor("w", (16, 4, 3, 3), dtype, last)
    y, bias = _tensor("y", (2, 8, 9, 10), dtype, last), _tensor("bias", (1, 8, 1, 1), dtype, last)
    window = WindowOf((2, 1), (1, 1), (1, 1), (1, 1))
    lowered(cudnn, graphs.transposed_convolution(x, w, y, window, bias=bias)).validate()
    scale, shift = (_tensor(name, (1, 8, 1, 1), "float32", last) for name in ("scale", "bias"))
    lowered(cudnn, graphs.instance_norm(_tensor("x", y.dims, dtype, last), scale, shift, y, 1e-5)).validate()


def test_sizes_that_do_not_follow_are_refused() -> None:
    """The stand-in of the other tests checks sizes against the front end's formula, which the front end itself has.

    Where a result states its sizes it believes them, so this asks what it infers by itself.
    """
    cudnn = _cudnn()
    graph = graphs.convolution(
        _tensor("x", (2, 8, 9, 10), "float32", False),
        _tensor("w", (16, 4, 3, 3), "float32", False),
        _tensor("y", (2, 16, 5, 8), "float32", False),
        WindowOf((2, 1), (1, 2), (1, 1), (1, 1)),
    )
    built = cudnn.pygraph(io_data_type=cudnn.data_type.FLOAT, compute_data_type=cudnn.data_type.FLOAT)
    x, w = (
        built.tensor(name=one.name, dim=list(one.dims), stride=list(one.strides), data_type=cudnn.data_type.FLOAT)
        for one in graph.tensors[:2]
    )
    y = built.conv_fprop(x, w, **{name: list(value) for name, value in graph.operations[0].attributes})
    y.set_output(True).set_data_type(cudnn.data_type.FLOAT)
    built.validate()
    assert tuple(y.get_dim()) == graph.tensors[2].dims


def _has_driver() -> bool:
    try:
        driver = ctypes.CDLL("libcuda.so.1")
    except OSError:
        return False
    return bool(driver.cuInit(0) == 0)


@pytest.mark.skipif(not _has_driver(), reason="the front end asks the driver which attention the device has")
def test_attention_validates() -> None:
    """Grouped heads with a causal frontier, and a bias; only where there is a device."""
    cudnn = _cudnn()
    q, y = (_tensor(name, (2, 8, 64, 64), "float16", False) for name in "qy")
    k, v = (_tensor(name, (2, 2, 64, 64), "float16", False) for name in "kv")
    lowered(cudnn, graphs.attention(q, k, v, y, scale=0.125, causal="top_left")).validate()
    bias = _tensor("bias", (1, 1, 64, 64), "float16", False)
    lowered(cudnn, graphs.attention(q, k, v, y, scale=0.125, bias=bias)).validate()


def test_attention_graph() -> None:
    """The description of the request is tested, since the front end itself is not available."""
    q, k, v, y = (_tensor(name, (1, 1, 16, 8), "float16", False) for name in "qkvy")
    graph: Graph = graphs.attention(q, k, v, y, scale=0.5, causal="bottom_right")
    (operation,) = graph.operations
    assert dict(operation.attributes) == {
        "attn_scale": 0.5,
        "generate_stats": False,
        "diagonal_alignment": "BOTTOM_RIGHT",
        "diagonal_band_right_bound": 0,
    }
