"""A plug-in that runs on processors: the conformance kit, and two small models.

Skipped where it is not installed: `tests/packaging` makes an environment that has it, as it wants an onnxruntime of its
own. onnxruntime-ggml 0.2.0 ends the process for some graphs, and fails in the first run for others: nodes and regions
are tried before they are used, and sizes have to be known. So the kit's samples have fixed sizes here. Trials take a
second or two for each model, so that some of ONNX's cases run only; all of them were run once, and passed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py as ort
from ort_py_kit import ProviderSuite, sample_from_text
from ort_py_kit.graphs import model_from_text
from ort_py_kit.samples import Sample

pytest.importorskip("onnxruntime_ggml", reason="onnxruntime-ggml is not installed")

pytestmark = pytest.mark.nightly

EXACT: dict[str, object] = {"weights": "f32"}
"""Weights as they are: it rounds them to float16 where it is not told otherwise."""


SAMPLES: dict[str, Any] = {
    "layers": (
        "g (float[3, 8] x) => (float[3, 5] y) { m = MatMul(x, v) s = Add(m, b) h = Relu(s) y = MatMul(h, w) }",
        {"v": (8, 8), "b": (8,), "w": (8, 5)},
    ),
    "two outputs": (
        "g (float[3, 8] x) => (float[3, 5] y, float[3, 8] h) { m = MatMul(x, v) h = Relu(m) y = MatMul(h, w) }",
        {"v": (8, 8), "w": (8, 5)},
    ),
    "diamond": (
        """g (float[3, 8] x) => (float[3, 8] y, float[3, 8] a) {
            a = Relu(x) t = Tanh(a) n = Neg(a) p = Add(t, n) y = Mul(p, a)
        }""",
    ),
    "Conv": (
        "g (float[2, 8, 16] x) => (float[2, 4, 16] y) { y = Conv <pads = [1, 1]> (x, w, b) }",
        {"w": (4, 8, 3), "b": (4,)},
    ),
    "LayerNormalization": (
        "g (float[3, 8] x) => (float[3, 8] y) { y = LayerNormalization(x, s, b) }",
        {"s": (8,), "b": (8,)},
    ),
    "Softmax": ("g (float[3, 8] x) => (float[3, 8] y) { y = Softmax <axis = -1> (x) }",),
}


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


class TestGgml(ProviderSuite):
    """The nodes that it keeps are right, and the others are refused: nothing is known to fail."""

    provider = "ggml"
    options: ClassVar[dict[str, object]] = EXACT | {"claim_small": True}
    graphs = 5
    cases = (
        *("test_add", "test_conv_", "test_layer_normalization", "test_max_", "test_relu", "test_softmax"),
        *("test_where", "test_wrap_pad"),
    )

    def samples(self) -> Sequence[Sample]:
        """Graphs of fixed sizes. The second one ends the process that tries it, so that it is run in parts."""
        return [sample_from_text(name, *given) for name, given in SAMPLES.items()]


def test_a_graph_that_ends_the_process_runs_in_parts() -> None:
    """Its nodes run alone; together, with two outputs, they do not."""
    text = "g (float[3, 8] x) => (float[3, 5] y, float[3, 8] h) { m = MatMul(x, v) h = Relu(m) y = MatMul(h, w) }"
    model = _with(text, v=(8, 8), w=(8, 5))
    feeds = {"x": np.random.default_rng(0).standard_normal((3, 8), np.float32)}
    options = EXACT | {"claim_small": True}
    with (
        ort.InferenceSession(model, providers=[("ggml", options), "CPUExecutionProvider"]) as ours,
        ort.InferenceSession(model, providers=["CPUExecutionProvider"]) as plain,
    ):
        for left, right in zip(ours.run(None, feeds), plain.run(None, feeds), strict=True):
            np.testing.assert_allclose(left, right, rtol=1e-3, atol=1e-4)
        assert ours.placement.counts() == {"ggml": 3}
        assert not ours.fallback_report


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


LAYER = """
    s$ = Mul(h$, h$) m$ = ReduceMean <axes = [-1]> (s$) r$ = Sqrt(m$) g$ = Div(h$, r$)
    q$ = MatMul(g$, wq$) k$ = MatMul(g$, wk$) v$ = MatMul(g$, wv$)
    qh$ = Reshape(q$, heads) key$ = Reshape(k$, heads) value$ = Reshape(v$, heads)
    ka$ = Concat <axis = 1> (keys$, key$) va$ = Concat <axis = 1> (values$, value$)
    kt$ = Transpose <perm = [0, 2, 1]> (ka$) a$ = MatMul(qh$, kt$) am$ = Add(a$, masked)
    p$ = Softmax <axis = -1> (am$) o$ = MatMul(p$, va$) of$ = Reshape(o$, flat)
    oo$ = MatMul(of$, wo$) hh$ = Add(h$, oo$)
    u$ = MatMul(hh$, wu$) z$ = Sigmoid(u$) f$ = Mul(u$, z$) d$ = MatMul(f$, wd$) h> = Add(hh$, d$)
"""
"""A layer: a normalisation, attention of four heads over what came before, and a gated network."""


def _decoder(layers: int, words: int, room: int) -> bytes:
    """A model of one word: logits, and what the caches of the layers get."""
    inputs = f"int64[1, 1] word, float[1, 64] place, float[1, {room}] mask"
    outputs, body = f"float[1, {words}] logits", "e = Gather(embedding, word) f = Reshape(e, flat) h0 = Add(f, place)"
    body += " masked = Concat <axis = 1> (mask, seen)"
    shapes: dict[str, tuple[int, ...]] = {"embedding": (words, 64), "head": (64, words)}
    for layer in range(layers):
        inputs += f", float[4, {room}, 16] keys{layer}, float[4, {room}, 16] values{layer}"
        outputs += f", float[4, 1, 16] key{layer}, float[4, 1, 16] value{layer}"
        body += LAYER.replace("$", str(layer)).replace("h>", f"h{layer + 1}")
        shapes |= {f"w{name}{layer}": (64, 64) for name in "qkvo"} | {f"wu{layer}": (64, 128), f"wd{layer}": (128, 64)}
    text = f"g ({inputs}) => ({outputs}) {{ {body} logits = MatMul(h{layers}, head) }}"
    model = onnx.ModelProto.FromString(_with(text, **shapes))
    constants = {"flat": np.array([1, 64]), "heads": np.array([4, 1, 16]), "seen": np.zeros((1, 1), np.float32)}
    model.graph.initializer.extend(numpy_helper.from_array(array, name) for name, array in constants.items())
    model.opset_import[0].version = 17  # the axes of sums are attributes
    return onnx.ModelProto.SerializeToString(model)


def test_a_small_decoder_writes_the_same_words() -> None:
    """Two layers with caches; what is not seen yet is masked with infinity."""
    room, model = 8, _decoder(2, 50, 8)
    places = np.random.default_rng(1).standard_normal((room, 64)).astype(np.float32)
    settings = ort.SessionOptions()
    settings.pin_cpu = True

    def written(*providers: Any) -> list[int]:
        words, mask = [7], np.full((1, room), -np.inf, np.float32)
        caches = {
            f"{name}s{layer}": np.zeros((4, room, 16), np.float32) for layer in (0, 1) for name in ("key", "value")
        }
        with ort.InferenceSession(model, settings, providers=[*providers, "CPUExecutionProvider"]) as session:
            assert not providers or session.placement.counts().get("ggml", 0) >= 30, session.placement
            names = [output.name for output in session.get_outputs()]
            for step in range(room):
                feeds = {"word": np.array([[words[-1]]]), "place": places[step : step + 1], "mask": mask, **caches}
                found = dict(zip(names, session.run(None, feeds), strict=True))
                words.append(int(found["logits"].argmax()))
                mask[0, step] = 0
                for name, cache in caches.items():
                    cache[:, step] = found[name.replace("s", "")][:, 0]
        return words

    assert written(("ggml", EXACT)) == written()


def test_built_in_providers_are_not_mixed_with_plugins() -> None:
    """onnxruntime would leave them out without a word."""
    model = _with("g (float[2] x) => (float[2] y) { y = Relu(x) }")
    options = {"providers": "ggml,AzureExecutionProvider"}
    with pytest.raises(ort.OptionError, match="AzureExecutionProvider would be left out"):
        ort.InferenceSession(model, providers=[("OnnxruntimeExecutionProvider", options)])


def test_the_processor_is_its_device() -> None:
    """Its name in listings is the one that it has in onnxruntime."""
    assert "ggml" in ort.get_available_providers()
    kinds = {device.device.type for device in ort.get_ep_devices() if device.ep_name == "ggml"}
    assert kinds == {ort.OrtHardwareDeviceType.CPU}
