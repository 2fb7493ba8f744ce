"""ConvTranspose through cuDNN: the gradient of a convolution, in both layouts, agrees with the array library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py_array import kernel_defs
from ort_py_cuda.kernels.convolution_transpose import KERNELS
from ort_py_kit.kernel_runner import reference_outputs, run_kernel
from providers.cuda.tests.cudnn.host_module import to_device
from providers.cuda.tests.cudnn.on_host import close, cudnn_on_host

LAST = "ort_py.channels_last"


@st.composite
def _problems(draw: Any) -> dict[str, Any]:
    rank = draw(st.integers(1, 3))

    def axes(low: int, high: int) -> list[int]:
        return list(draw(st.lists(st.integers(low, high), min_size=rank, max_size=rank)))

    sizes, kernel, strides, dilations = axes(1, 4), axes(1, 3), axes(1, 3), axes(1, 2)
    extra = [draw(st.integers(0, max(s, d) - 1)) for s, d in zip(strides, dilations, strict=True)]
    natural = [
        s * (n - 1) + o + (k - 1) * d + 1
        for n, k, s, d, o in zip(sizes, kernel, strides, dilations, extra, strict=True)
    ]
    begin = [draw(st.integers(0, (n - 1) // 2)) for n in natural]
    end = [draw(st.integers(0, (n - 1) // 2)) for n in natural]
    attributes: dict[str, Any] = {"strides": strides, "dilations": dilations, "output_padding": extra}
    mode = draw(st.sampled_from(["pads", "output_shape", "SAME_UPPER", "SAME_LOWER"]))
    if mode == "pads":
        attributes["pads"] = [*begin, *end]
    elif mode == "output_shape":
        attributes["output_shape"] = [max(1, n - b) for n, b in zip(natural, begin, strict=True)]
    else:
        attributes["auto_pad"] = mode
    group = draw(st.sampled_from([1, 2]))
    attributes["group"] = group
    return {
        "x": (draw(st.integers(1, 2)), 2 * group, *sizes),
        "w": (2 * group, draw(st.integers(1, 2)), *kernel),
        "attributes": attributes,
        "bias": draw(st.booleans()),
        "doors": draw(st.sampled_from([(True, True), (False, True), (True, False)])),
        "constant": draw(st.booleans()),
    }


@settings(max_examples=120, deadline=None)
@given(_problems())
def test_any_geometry(problem: dict[str, Any]) -> None:
    """Padding, output padding, wanted sizes and automatic padding; what cuDNN does not pad alike is cut out."""
    rng = np.random.default_rng(11)
    x, w = (rng.standard_normal(problem[one]).astype(np.float32) for one in "xw")
    attributes = problem["attributes"]
    bias = [rng.standard_normal(w.shape[1] * attributes["group"]).astype(np.float32)] if problem["bias"] else []
    (expected,) = run_kernel(kernel_defs(), "ConvTranspose", [x, w, *bias], **attributes)
    constants = (1,) if problem["constant"] else ()
    with pytest.MonkeyPatch.context() as patch:
        frontend, library = problem["doors"]
        host = cudnn_on_host(patch, with_frontend=frontend, with_library=library)
        first = host.run(KERNELS, "ConvTranspose", [x, w, *bias], constants=constants, **attributes)
        close(first, expected, "float32")
        turned = [np.moveaxis(x, 1, -1), w, *bias]
        last = host.run(KERNELS, "ConvTranspose", turned, domain=LAST, constants=constants, **attributes)
        close(np.moveaxis(last, -1, 1), expected, "float32")


@pytest.mark.parametrize(
    ("doors", "executed"),
    [((True, True), [0]), ((False, True), ["gradient 1", "add"]), ((False, False), [])],
)
def test_every_way_agrees_with_the_reference(
    doors: tuple[bool, bool], executed: list[Any], monkeypatch: pytest.MonkeyPatch
) -> None:
    """One plan, the older calls, or the array library where cuDNN is missing."""
    rng = np.random.default_rng(12)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((2, 3, 4, 5), (3, 2, 3, 3), (2,))]
    attributes: dict[str, Any] = {"strides": [2, 2], "pads": [1, 1, 1, 1], "output_padding": [1, 1]}
    (expected,) = reference_outputs("ConvTranspose", inputs, **attributes)
    host = cudnn_on_host(monkeypatch, with_frontend=doors[0], with_library=doors[1])
    close(host.run(KERNELS, "ConvTranspose", inputs, **attributes), expected, "float32")
    assert host.executed == executed


@pytest.mark.parametrize("pads", [[0, 0, 0, 0], [1, 0, 0, 1]])
def test_results_go_where_they_are_told(pads: list[int], monkeypatch: pytest.MonkeyPatch) -> None:
    """Directly, or as the inside of a larger result."""
    rng = np.random.default_rng(13)
    inputs = [rng.standard_normal(shape).astype(np.float32) for shape in ((1, 2, 3, 3), (2, 2, 3, 3))]
    host = cudnn_on_host(monkeypatch)
    call, arrays = host.kernel(KERNELS, "ConvTranspose", inputs, pads=pads)
    y = call(*arrays)
    out = to_device(np.zeros_like(y))
    assert call.into(*arrays, out) is out
    close(out, y, "float32")
