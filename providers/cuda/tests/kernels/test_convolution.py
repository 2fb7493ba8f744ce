"""Conv and FusedConv through cuDNN: every way of computing them agrees with ONNX's reference, in both layouts.

Both doors to cuDNN have stand-ins behind them that compute on the host what cuDNN's documentation says, from the very
descriptors and addresses that the provider hands over: geometry, strides and order of arguments are proven here.
"""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import TensorProto, helper

from ort_py.errors import InvalidArgument
from ort_py_array import kernel_defs
from ort_py_cuda import libraries
from ort_py_cuda.cudnn.errors import CudnnError
from ort_py_cuda.kernels.convolution import KERNELS, prefers_channels_last
from ort_py_cuda.settings import Settings
from ort_py_kit.kernel_runner import make_node_spec, reference_outputs, run_kernel
from providers.cuda.tests.cudnn.host_module import to_device
from providers.cuda.tests.cudnn.on_host import Host, close, cudnn_on_host

LAST = "ort_py.channels_last"
DOORS = [(True, True), (False, True), (True, False), (False, False)]


def _values(rng: Any, shape: Any, dtype: Any = np.float32) -> Any:
    return rng.standard_normal(shape).astype(dtype)


def _both_layouts(host: Host, inputs: list[Any], constants: tuple[int, ...] = (), **attributes: Any) -> list[Any]:
    """Results of the standard node, and of the one with the channels last, channels first."""
    first = host.run(KERNELS, "Conv", inputs, constants=constants, **attributes)
    turned = [np.moveaxis(inputs[0], 1, -1), *inputs[1:]]
    last = host.run(KERNELS, "Conv", turned, domain=LAST, constants=constants, **attributes)
    return [first, np.moveaxis(last, -1, 1)]


@st.composite
def _problems(draw: Any) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))

    def axes(low: int, high: int) -> list[int]:
        return list(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    kernel, dilations = axes(1, 3), axes(1, 2)
    pads = axes(0, 2) + axes(0, 2)
    least = [(k - 1) * d + 1 - b - e for k, d, b, e in zip(kernel, dilations, pads[:rank], pads[rank:], strict=True)]
    sizes = [max(1, n) + extra for n, extra in zip(least, axes(0, 3), strict=True)]
    group = draw(st.sampled_from([1, 2, 3]))
    attributes: dict[str, Any] = {"strides": axes(1, 3), "dilations": dilations, "group": group}
    mode = draw(st.sampled_from(["pads", "SAME_UPPER", "SAME_LOWER"]))
    if mode == "pads":
        attributes["pads"] = pads
    else:
        attributes["auto_pad"] = mode
    return {
        "x": (draw(st.integers(1, 2)), group * draw(st.integers(1, 2)), *sizes),
        "m": group * draw(st.integers(1, 2)),
        "kernel": tuple(kernel),
        "attributes": attributes,
        "bias": draw(st.booleans()),
        "doors": draw(st.sampled_from(DOORS[:3])),
        "constant": draw(st.booleans()),
    }


def _inferred(x: Any, w: Any, attributes: dict[str, Any]) -> list[int]:
    """The result's shape as ONNX infers it."""
    node = helper.make_node("Conv", ["x", "w"], ["y"], **attributes)
    values = [helper.make_tensor_value_info(n, TensorProto.FLOAT, v.shape) for n, v in (("x", x), ("w", w))]
    graph = helper.make_graph([node], "g", values, [helper.make_empty_tensor_value_info("y")])
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 22)])
    (y,) = onnx.shape_inference.infer_shapes(model, strict_mode=True).graph.output
    return [one.dim_value for one in y.type.tensor_type.shape.dim]


def _on_numpy(inputs: list[Any], attributes: dict[str, Any]) -> list[Any]:
    """The array library on NumPy: ONNX's reference lacks groups in three axes and some automatic padding."""
    return run_kernel(kernel_defs(), "Conv", inputs, **attributes)


@settings(max_examples=120, deadline=None)
@given(_problems())
def test_any_geometry(problem: dict[str, Any]) -> None:
    """One to three spatial axes, groups, strides, dilations and padding of every kind, by every way and layout."""
    rng = np.random.default_rng(7)
    group = problem["attributes"]["group"]
    x = _values(rng, problem["x"])
    w = _values(rng, (problem["m"], problem["x"][1] // group, *problem["kernel"]))
    inputs = [x, w, *([_values(rng, problem["m"])] if problem["bias"] else [])]
    (expected,) = _on_numpy(inputs, problem["attributes"])
    with pytest.MonkeyPatch.context() as patch:
        frontend, library = problem["doors"]
        host = cudnn_on_host(patch, with_frontend=frontend, with_library=library)
        for result in _both_layouts(host, inputs, (1,) if problem["constant"] else (), **problem["attributes"]):
            assert list(result.shape) == _inferred(x, w, problem["attributes"])
            close(result, expected, "float32")
        assert len(host.executed) >= 2


@pytest.mark.parametrize("doors", DOORS)
def test_every_way_agrees_with_the_reference(doors: tuple[bool, bool], monkeypatch: pytest.MonkeyPatch) -> None:
    """One plan, a plan and older calls, older calls alone, and the array library where cuDNN is missing."""
    rng = np.random.default_rng(1)
    inputs = [_values(rng, (2, 4, 7, 6)), _values(rng, (6, 2, 3, 3)), _values(rng, 6)]
    attributes: dict[str, Any] = {"group": 2, "pads": [1, 0, 1, 2], "strides": [2, 1]}
    (expected,) = reference_outputs("Conv", inputs, **attributes)
    host = cudnn_on_host(monkeypatch, with_frontend=doors[0], with_library=doors[1])
    for result in _both_layouts(host, inputs, **attributes):
        close(result, expected, "float32")
    older = ["convolution 1", "add"] if doors[1] else []
    assert host.executed == ([0] if doors[0] else older) * 2


@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize("doors", DOORS)
def test_halves(doors: tuple[bool, bool], dtype: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Sums are formed in float32; weights that are constant are turned once."""
    rng = np.random.default_rng(2)
    inputs = [_values(rng, (1, 8, 5, 5), dtype), _values(rng, (4, 8, 3, 3), dtype), _values(rng, 4, dtype)]
    (expected,) = _on_numpy([one.astype(np.float32) for one in inputs], {"pads": [1] * 4})
    host = cudnn_on_host(monkeypatch, with_frontend=doors[0], with_library=doors[1])
    for result in _both_layouts(host, inputs, (1,), pads=[1] * 4):
        assert result.dtype == dtype
        close(result, expected, dtype)


_ACTIVATIONS = [
    ("Relu", []),
    ("Sigmoid", []),
    ("Tanh", []),
    ("LeakyRelu", [0.25]),
    ("Clip", [0.0, 0.5]),
    ("Clip", [-0.5, 0.5]),
    ("HardSigmoid", [0.2, 0.5]),
    (None, []),
]


@pytest.mark.parametrize(("name", "parameters"), _ACTIVATIONS)
@pytest.mark.parametrize("doors", DOORS)
def test_fused_nodes(
    doors: tuple[bool, bool], name: str | None, parameters: list[float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Bias, residual and activation in one node, in both layouts, whatever of it cuDNN has."""
    rng = np.random.default_rng(3)
    x, w, bias, z = (_values(rng, shape) for shape in ((2, 4, 6, 5), (8, 4, 3, 3), (8,), (2, 8, 4, 3)))
    attributes: dict[str, Any] = {} if name is None else {"activation": name, "activation_params": parameters}
    (expected,) = run_kernel(kernel_defs(), "FusedConv", [x, w, bias, z], domain="com.microsoft", **attributes)
    host = cudnn_on_host(monkeypatch, with_frontend=doors[0], with_library=doors[1])
    result = host.run(KERNELS, "FusedConv", [x, w, bias, z], domain="com.microsoft", **attributes)
    close(result, expected, "float32")
    turned = [np.moveaxis(x, 1, -1), w, bias, np.moveaxis(z, 1, -1)]
    result = host.run(KERNELS, "FusedConv", turned, domain=LAST, constants=[1], **attributes)
    close(np.moveaxis(result, -1, 1), expected, "float32")


def test_views_at_odd_addresses_are_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """A part of a batch, or memory of a caller, need not begin where plans may read."""
    host = cudnn_on_host(monkeypatch)
    rng = np.random.default_rng(4)
    x, w, bias = (rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 5, 5), (4, 3, 3, 3), (4,)))
    (expected,) = reference_outputs("Conv", [x[1:], w, bias])
    call, given = host.kernel(KERNELS, "Conv", [x[1:], w, bias])
    whole, shifted = to_device(x), to_device(np.concatenate([bias[:1], bias]))[1:]
    assert whole[1:].data.ptr % 16
    assert shifted.data.ptr % 16
    close(call(whole[1:], given[1], shifted), expected, "float32")
    assert host.executed == [0]


def test_what_has_no_fused_plan_is_computed_in_steps(monkeypatch: pytest.MonkeyPatch) -> None:
    """The convolution keeps its plan; residual, bias and activation follow by the older calls, remembered so."""
    rng = np.random.default_rng(4)
    inputs = [_values(rng, shape) for shape in ((1, 2, 4, 4), (3, 2, 3, 3), (3,), (1, 3, 2, 2))]
    host = cudnn_on_host(monkeypatch)
    host.frontend.refused = {("conv_fprop", "relu")}
    call, arrays = host.kernel(KERNELS, "FusedConv", inputs, domain="com.microsoft", activation="Relu")
    first = np.array(call(*arrays))
    assert host.executed == [0, "add", "add", "activation"]
    close(call(*arrays), first, "float32")
    assert len(host.frontend.graphs) == 2


def test_what_has_no_plan_at_all_goes_to_the_older_calls(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where those refuse too, to the array library."""
    rng = np.random.default_rng(5)
    inputs = [_values(rng, (1, 2, 4, 4)), _values(rng, (3, 2, 3, 3))]
    (expected,) = reference_outputs("Conv", inputs)
    host = cudnn_on_host(monkeypatch)
    host.frontend.refused = {"conv_fprop"}
    close(host.run(KERNELS, "Conv", inputs), expected, "float32")
    assert host.executed == ["convolution 1"]
    host.library.statuses["cudnnGetConvolutionForwardAlgorithm_v7"] = 3000
    close(host.run(KERNELS, "Conv", inputs), expected, "float32")
    assert host.executed == ["convolution 1"]


def test_a_failure_is_no_refusal(monkeypatch: pytest.MonkeyPatch) -> None:
    """A kernel that fails on the device ends the run: another way would fail too, or hide it."""
    rng = np.random.default_rng(6)
    host = cudnn_on_host(monkeypatch)
    host.frontend.fails = True
    with pytest.raises(CudnnError, match="could not run a plan"):
        host.run(KERNELS, "Conv", [_values(rng, (1, 2, 4, 4)), _values(rng, (3, 2, 3, 3))])


def test_results_go_where_they_are_told(monkeypatch: pytest.MonkeyPatch) -> None:
    """The second form writes to the array it is given, and asks for a plan once a shape."""
    rng = np.random.default_rng(8)
    inputs = [_values(rng, (1, 2, 4, 4)), _values(rng, (3, 2, 3, 3))]
    host = cudnn_on_host(monkeypatch)
    call, arrays = host.kernel(KERNELS, "Conv", inputs)
    y = call(*arrays)
    out = to_device(np.zeros_like(y))
    assert call.into(*arrays, out) is out
    close(out, y, "float32")
    assert host.frontend.builds == 1


def test_a_residual_of_another_shape_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """Before anything runs: cuDNN would broadcast it or read behind its end."""
    rng = np.random.default_rng(9)
    inputs = [_values(rng, shape) for shape in ((1, 2, 4, 4), (3, 2, 3, 3), (3,), (1, 3, 1, 1))]
    host = cudnn_on_host(monkeypatch)
    with pytest.raises(InvalidArgument, match=r"Z has shape \[1, 3, 1, 1\] instead of \[1, 3, 2, 2\]"):
        host.run(KERNELS, "FusedConv", inputs, domain="com.microsoft")
    assert host.executed == []


def test_tf32_is_asked_for(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only where the session's option allows it may plans use tensor cores for float32."""
    rng = np.random.default_rng(10)
    inputs = [_values(rng, (1, 2, 4, 4)), _values(rng, (3, 2, 3, 3))]
    host = cudnn_on_host(monkeypatch)
    host.run(KERNELS, "Conv", inputs)
    host.run(KERNELS, "Conv", inputs, wishes=Settings(tf32=True))
    assert ["TENSOR_CORE" in one.barred for one in host.frontend.graphs] == [True, False]


def test_empty_pictures_are_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN knows no tensor without elements."""
    host = cudnn_on_host(monkeypatch)
    result = host.run(KERNELS, "Conv", [np.zeros((0, 2, 4, 4), np.float32), np.ones((3, 2, 3, 3), np.float32)])
    assert result.shape == (0, 3, 2, 2)
    assert host.executed == []


@pytest.mark.parametrize(
    ("dtype", "shape", "preferred"),
    [
        (np.float16, (1, 8, 4, 4), True),
        (ml_dtypes.bfloat16, (1, 8, 4, 4), True),
        (np.float32, (1, 8, 4, 4), False),
        (np.float16, (1, 8, 4), False),
    ],
)
def test_who_prefers_channels_last(
    dtype: Any, shape: tuple[int, ...], preferred: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Halves of two or three axes, where cuDNN is installed."""
    x, w = np.zeros(shape, dtype), np.zeros((4, 8, *(1 for _ in shape[2:])), dtype)
    node = make_node_spec("Conv", [x, w])
    monkeypatch.setattr(libraries, "find", lambda name: libraries.__file__)
    assert prefers_channels_last(node) is preferred
    monkeypatch.setattr(libraries, "find", lambda name: None)
    assert prefers_channels_last(node) is False
