"""Pools through cuDNN's older calls: what cuDNN is asked is what ONNX means, and the rest is the array library's."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import Location
from ort_py_array import kernel_defs
from ort_py_array.windows import Window
from ort_py_cuda.cudnn import legacy
from ort_py_cuda.kernels.pooling import KERNELS, refusal_of
from ort_py_kit.kernel_runner import reference_outputs, run_kernel
from providers.cuda.tests.cudnn.on_host import close, cudnn_on_host

LAST = "ort_py.channels_last"


@st.composite
def _problems(draw: Any) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))

    def axes(low: int, high: int) -> list[int]:
        return list(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    kernel = axes(1, 3)
    attributes: dict[str, Any] = {"kernel_shape": kernel, "strides": axes(1, 3)}
    mode = draw(st.sampled_from(["pads", "ceil", "SAME_UPPER", "SAME_LOWER"]))
    if mode in ("pads", "ceil"):
        attributes["pads"] = [draw(st.integers(0, k - 1)) for k in kernel + kernel]
        attributes["ceil_mode"] = int(mode == "ceil")
    else:
        attributes["auto_pad"] = mode
    operator = draw(st.sampled_from(["MaxPool", "AveragePool"]))
    if operator == "AveragePool":
        attributes["count_include_pad"] = draw(st.integers(0, 1))
    return {"x": (2, 3, *axes(3, 7)), "operator": operator, "attributes": attributes, "last": draw(st.booleans())}


@settings(max_examples=150, deadline=None)
@given(_problems())
def test_any_window(problem: dict[str, Any]) -> None:
    """The stand-in uses cuDNN's formula for sizes and its means: whatever goes there gives what ONNX wants."""
    x = np.random.default_rng(21).standard_normal(problem["x"]).astype(np.float32)
    operator, attributes = problem["operator"], problem["attributes"]
    expected = run_kernel(kernel_defs(), operator, [x], **attributes)[0]
    with pytest.MonkeyPatch.context() as patch:
        host = cudnn_on_host(patch)
        if problem["last"]:
            result = host.run(KERNELS, operator, [np.moveaxis(x, 1, -1)], domain=LAST, **attributes)
            result = np.moveaxis(result, -1, 1)
        else:
            result = host.run(KERNELS, operator, [x], **attributes)
            result = result[0] if operator == "MaxPool" else result
        close(result, expected, "float32")


@pytest.mark.parametrize(
    ("operator", "attributes"),
    [
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
        ("MaxPool", {"kernel_shape": [2, 2], "strides": [2, 2]}),
        ("MaxPool", {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 0, 0]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
        ("AveragePool", {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1], "count_include_pad": 1}),
        ("GlobalAveragePool", {}),
        ("GlobalMaxPool", {}),
    ],
)
@pytest.mark.parametrize("with_library", [True, False])
def test_usual_pools_are_cudnns(
    with_library: bool, operator: str, attributes: dict[str, Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Those of ResNet, VGG and Inception among them; without libcudnn they are the array library's."""
    x = np.random.default_rng(22).standard_normal((2, 3, 8, 10)).astype(np.float32)
    (expected,) = reference_outputs(operator, [x], **attributes)
    host = cudnn_on_host(monkeypatch, with_library=with_library)
    result = host.run(KERNELS, operator, [x], **attributes)
    close(result[0] if operator == "MaxPool" else result, expected, "float32")
    assert host.executed == (["pool"] if with_library else [])


def _refused(mode: int, size: int, **window: Any) -> str | None:
    given: dict[str, Any] = {
        name: (value,) for name, value in window.items() if name in ("kernel", "strides", "dilations")
    }
    made = Window(
        Location(), **given, pads=window.get("pads", ()), ceil_mode=window.get("ceil_mode", False), clipped=True
    )
    return refusal_of(made.placed((size,)), mode)


def test_what_cudnn_cannot_pool() -> None:
    """Each reason has an example. Padding after the picture that no window reaches is not a reason."""
    both = legacy.MAXIMUM, legacy.AVERAGE_OF_PICTURE, legacy.AVERAGE_INCLUDING
    for mode in both:
        assert "dilations" in (_refused(mode, 9, kernel=2, dilations=2) or "")
        assert "sees no picture" in (_refused(mode, 9, kernel=2, pads=(2, 2)) or "")
        assert "windows over" in (_refused(mode, 6, kernel=3, strides=2, ceil_mode=True) or "")
        assert _refused(mode, 7, kernel=3, strides=2, ceil_mode=True) is None
        assert _refused(mode, 7, kernel=3, strides=2, pads=(1, 1)) is None
    # Two positions of padding in front and none behind, and a last window that ends at the picture's end.
    assert _refused(legacy.MAXIMUM, 7, kernel=3, strides=3, pads=(2, 0)) is None


def test_indices_are_the_librarys(monkeypatch: pytest.MonkeyPatch) -> None:
    """cuDNN's pools do not tell where a maximum was."""
    x = np.random.default_rng(23).standard_normal((1, 2, 6, 6)).astype(np.float32)
    host = cudnn_on_host(monkeypatch)
    y, places = host.run(KERNELS, "MaxPool", [x], outputs=2, kernel_shape=[2, 2])
    expected = run_kernel(kernel_defs(), "MaxPool", [x], outputs=2, kernel_shape=[2, 2])
    np.testing.assert_array_equal(y, expected[0])
    np.testing.assert_array_equal(places, expected[1])
    assert host.executed == []


def test_a_refusal_while_running_is_remembered(monkeypatch: pytest.MonkeyPatch) -> None:
    """A type that a version does not pool is asked for once."""
    x = np.random.default_rng(24).standard_normal((1, 2, 6, 6)).astype(np.float16)
    host = cudnn_on_host(monkeypatch)
    host.library.statuses["cudnnPoolingForward"] = 3003
    call, arrays = host.kernel(KERNELS, "MaxPool", [x], kernel_shape=[2, 2])
    (expected,) = reference_outputs("MaxPool", [x], kernel_shape=[2, 2])
    first = call(*arrays)[0]
    host.library.statuses.clear()
    close(call(*arrays)[0], expected, "float16")
    close(first, expected, "float16")
    assert host.executed == []
