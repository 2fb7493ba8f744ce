"""A plug-in that runs on processors, with two small models of fixed sizes.

The conformance kit is not run: onnxruntime-ggml 0.2.0 ends the process, with onnxruntime alone too, where a graph with
two outputs is run with changing sizes. Skipped where it is not installed: `tests/packaging` makes an environment that
has it, as it wants an onnxruntime of its own.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py as ort
from ort_py_kit.graphs import model_from_text

pytest.importorskip("onnxruntime_ggml", reason="onnxruntime-ggml is not installed")

pytestmark = pytest.mark.nightly

EXACT: dict[str, object] = {"weights": "f32"}
"""Weights as they are: it rounds them to float16 where it is not told otherwise."""


def _with(text: str, **shapes: tuple[int, ...]) -> bytes:
    """A model with random weights, none so large that rounding matters."""
    random = np.random.default_rng(0)
    model = model_from_text(text)
    for name, shape in shapes.items():
        array = (random.standard_normal(shape) / np.sqrt(np.prod(shape[1:]))).astype(np.float32)
        model.graph.initializer.append(numpy_helper.from_array(array, name))
    return onnx.ModelProto.SerializeToString(model)


def _compared(model: bytes, feeds: dict[str, Any]) -> None:
    """Equal to NumPy's kernels, and run by the plug-in as far as it takes nodes."""
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    with (
        ort.InferenceSession(model, settings, providers=[("ggml", EXACT)]) as ours,
        ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"]) as plain,
    ):
        assert ours.placement.counts().get("ggml", 0) > 0, ours.placement
        for _ in range(2):
            for left, right in zip(ours.run(None, feeds), plain.run(None, feeds), strict=True):
                np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)


def test_a_convolutional_network() -> None:
    """The convolutions have one axis: the plug-in has no others."""
    _compared(
        _with(
            """g (float[1, 8, 64] x) => (float[1, 10] y) {
                a = Conv <pads = [1, 1]> (x, w1) b = Relu(a) c = Conv <pads = [1, 1]> (b, w2) d = Relu(c)
                e = Flatten(d) f = MatMul(e, w3) y = Softmax <axis = -1> (f)
            }""",
            w1=(16, 8, 3),
            w2=(4, 16, 3),
            w3=(256, 10),
        ),
        {"x": np.random.default_rng(1).standard_normal((1, 8, 64), np.float32)},
    )


def test_a_layer_of_a_decoder() -> None:
    """Attention of one head over what came before, and a gated network behind it."""
    _compared(
        _with(
            """g (float[7, 64] x, float[7, 7] mask) => (float[7, 64] y) {
                q = MatMul(x, wq) k = MatMul(x, wk) v = MatMul(x, wv) t = Transpose <perm = [1, 0]> (k)
                s = MatMul(q, t) masked = Add(s, mask) p = Softmax <axis = -1> (masked) o = MatMul(p, v)
                r = Add(x, o) a = MatMul(r, w1) b = Sigmoid(a) c = Mul(a, b) d = MatMul(c, w2) y = Add(r, d)
            }""",
            wq=(64, 64),
            wk=(64, 64),
            wv=(64, 64),
            w1=(64, 128),
            w2=(128, 64),
        ),
        {
            "x": np.random.default_rng(1).standard_normal((7, 64), np.float32),
            "mask": np.triu(np.full((7, 7), -1e4, np.float32), 1),
        },
    )


def test_built_in_providers_are_not_mixed_with_plugins() -> None:
    """onnxruntime would leave them out without a word."""
    model = _with("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    options = {"providers": "ggml,AzureExecutionProvider"}
    with pytest.raises(ort.OptionError, match="AzureExecutionProvider would be left out"):
        ort.InferenceSession(model, providers=[("OnnxruntimeExecutionProvider", options)])


def test_the_processor_is_its_device() -> None:
    """Its name in listings is the one that it has in onnxruntime."""
    assert "ggml" in ort.get_available_providers()
    assert "ggml" in {device.ep_name for device in ort.get_ep_devices()}
