"""Trials in a process of their own: what fails, ends the process or computes something else is said, and not used."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py as ort
from ort_py.contracts import Availability, FrameResources, IExecutionProvider, ProviderFactory, SessionContext
from ort_py_kit.graphs import model_from_text
from ort_py_onnxruntime import provider, trials
from ort_py_onnxruntime.native import native
from ort_py_onnxruntime.provider import OnnxruntimeProvider
from ort_py_onnxruntime.routes import CPU, ROUTES
from ort_py_onnxruntime.sessions import Model, make_session
from ort_py_onnxruntime.settings import Settings, Used

PROGRAM = """
import os
import sys
from pathlib import Path

from ort_py_onnxruntime import trials

run = trials._compared


def compared(proto, settings, own):
    op_type = proto.graph.node[0].op_type
    if op_type == "Abs":
        os._exit(3)
    if op_type == "Neg":
        raise RuntimeError("no Neg here")
    if op_type == "Exp":
        own = settings
        proto.graph.node[0].op_type = "Tanh"
    answer = run(proto, own, own)
    return trials._WRONG if op_type == "Exp" else answer


trials._compared = compared
trials.settings_of_one = lambda name, _, threads: trials.Settings((trials.Used(name, {}),), threads, completes=True)
trials._child(Path(sys.argv[1]), int(sys.argv[2]))
"""
"""A child whose provider is onnxruntime's own, with three operators that go wrong."""

SETTINGS = Settings((Used("CPUExecutionProvider", {}),), 1, completes=True)


def _model(operator: str) -> Model:
    proto = onnx.ModelProto()
    proto.CopyFrom(model_from_text(f"g (float[2, 3] x) => (float[2, 3] y) {{ y = {operator}(x) }}"))
    return Model(proto, {})


def test_each_failure_is_told_apart(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The child goes on behind a model that ended it; the same models are not tried again."""
    program = tmp_path / "child.py"
    program.write_text(PROGRAM)
    monkeypatch.setattr(trials, "_COMMAND", (sys.executable, str(program)))
    monkeypatch.setattr(trials, "_known", {})
    models = [_model(operator) for operator in ("Relu", "Abs", "Neg", "Exp", "Sigmoid")]
    found = trials.failures(models, SETTINGS)
    assert found == {
        1: "tried once, it ends the process (3)",
        2: "tried once, it fails: no Neg here",
        3: "tried once, it gives other numbers than onnxruntime's own provider",
    }
    monkeypatch.setattr(trials, "_COMMAND", ("no program",))
    assert trials.failures(models[::-1], SETTINGS) == {4 - number: reason for number, reason in found.items()}


class _Factory(ProviderFactory):
    @property
    def name(self) -> str:
        return "TriedExecutionProvider"

    def probe(self) -> Availability:
        return Availability(True)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        settings = Settings(SETTINGS.providers, 1, completes=False)
        return OnnxruntimeProvider(self.name, settings, claims_small=True)


@pytest.fixture
def tried(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[int]]:
    """Numbers of nodes of the models that were tried. Neg and pairs with Exp fail; onnxruntime's own kernels run."""
    seen: list[int] = []

    def failures(models: Sequence[Model], settings: Settings) -> dict[int, str]:
        seen.extend(len(model.proto.graph.node) for model in models)
        operators = [[node.op_type for node in model.proto.graph.node] for model in models]
        return {
            number: "it was tried"
            for number, one in enumerate(operators)
            if "Neg" in one or ("Exp" in one and len(one) > 1)
        }

    monkeypatch.setitem(ROUTES, CPU, ROUTES["ggml"])
    monkeypatch.setattr(provider, "failures", failures)
    monkeypatch.setattr(provider, "taken_by_providers", lambda graph, nodes, settings: set(nodes))
    monkeypatch.setattr(provider, "make_kept_session", lambda model, settings: (make_session(model, SETTINGS), b""))
    ort.register_provider(_Factory())
    yield seen
    ort.discovery.default_catalog().unregister_provider("TriedExecutionProvider")


def _placed(text: str) -> tuple[dict[str, str], str]:
    """Provider of each operator, and why others do not have it."""
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    names = ["TriedExecutionProvider", CPU]
    with ort.InferenceSession(model_from_text(text).SerializeToString(), settings, providers=names) as session:
        reasons = " ".join(str(refusal) for node in session.placement for refusal in node.refusals)
        feeds = {"x": np.ones((2, 3), np.float32)}
        plain = ort.InferenceSession(model_from_text(text).SerializeToString(), providers=[CPU])
        np.testing.assert_allclose(session.run(None, feeds)[0], plain.run(None, feeds)[0], rtol=1e-6)
        return {node.op_type: node.provider for node in session.placement}, reasons


def test_nodes_that_fail_are_left_to_others(tried: list[int]) -> None:
    placed, reasons = _placed("g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) b = Neg(a) y = Abs(b) }")
    assert placed == {"Relu": "TriedExecutionProvider", "Neg": CPU, "Abs": "TriedExecutionProvider"}
    assert "it was tried" in reasons
    assert tried[:3] == [1, 1, 1]


def test_regions_that_fail_run_in_parts(tried: list[int], caplog: pytest.LogCaptureFixture) -> None:
    """Each node alone did not fail; together they do, so that they are regions of their own."""
    text = "g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) b = Exp(a) c = Cos(b) d = Sin(c) y = Tanh(d) }"
    placed, _ = _placed(text)
    assert set(placed.values()) == {"TriedExecutionProvider"}
    assert tried == [1, 1, 1, 1, 1, 5, 2, 3, 3]
    assert "does not run" not in caplog.text


def test_regions_that_fail_later_are_left_to_others(
    tried: list[int], monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    """A region that was claimed is tried again as it is compiled, and the session says that it fails."""
    pairs = iter([{}, {0: "it was tried"}])

    def failures(models: Sequence[Model], settings: Settings) -> dict[int, str]:
        return next(pairs) if len(models[0].proto.graph.node) > 1 else {}

    monkeypatch.setattr(provider, "failures", failures)
    placed, _ = _placed("g (float[2, 3] x) => (float[2, 3] y) { a = Relu(x) y = Exp(a) }")
    assert "does not run a region of 2 nodes" in caplog.text
    assert set(placed.values()) == {CPU}


def test_sizes_have_to_be_known(tried: list[int]) -> None:
    placed, reasons = _placed("g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }")
    assert set(placed.values()) == {CPU}
    assert "its sizes are not known" in reasons
    assert tried == []


def test_a_trial_writes_the_weights_into_the_model() -> None:
    """The child has no arrays of ort-py."""
    weight = np.arange(6, dtype=np.float32).reshape(3, 2)
    model = _model("Relu")
    tensor = model.proto.graph.initializer.add(name="w", data_type=onnx.TensorProto.FLOAT, dims=weight.shape)
    tensor.data_location = onnx.TensorProto.EXTERNAL
    tensor.external_data.add(key="location", value="weights")
    real = native()
    host = real.OrtDevice(real.OrtDevice.cpu(), real.OrtDevice.default_memory(), 0)
    held = Model(model.proto, {"w": real.OrtValue.ortvalue_from_numpy(weight, host)})
    whole = trials._whole(held)
    np.testing.assert_array_equal(numpy_helper.to_array(whole.graph.initializer[0]), weight)
    assert model.proto.graph.initializer[0].external_data


def test_models_that_cannot_be_tried_are_not_used(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that protobuf does not write, and all of a program that has no Python to start."""

    def whole(model: Model) -> onnx.ModelProto:
        if model.proto.graph.node[0].op_type == "Relu":
            raise ValueError("too large")
        return model.proto

    models = [_model("Relu"), _model("Abs")]
    monkeypatch.setattr(trials, "_whole", whole)
    monkeypatch.setattr(trials, "_known", {})
    monkeypatch.setattr(trials, "_COMMAND", (sys.executable, "-c", "pass"))
    assert trials.failures(models, SETTINGS) == {
        0: "it is too large to be tried: models of onnxruntime end at 2 GB",
        1: "tried once, it ends the process (0)",
    }
    monkeypatch.setattr(sys, "frozen", True, raising=False)
    assert list(trials.failures(models, SETTINGS)) == [0, 1]


def test_integers_are_what_the_reference_takes() -> None:
    """Those of a byte; indices of the shortest axis; 0 where there is no other; truth values are both."""
    proto = model_from_text(
        """g (float[5, 7] x, int64[40] i, int8[40] n, bool[40] c) => (float[40, 7] y, int8[40] m, bool[40] d) {
            y = Gather(x, i) m = Neg(n) d = Not(c)
        }"""
    )

    def feeds(most: float) -> dict[str, Any]:
        def reference(feeds: dict[str, Any]) -> None:
            if abs(feeds["i"]).max() > most:
                raise IndexError

        return trials._answered(proto, 0, reference)[0]

    assert 50 < abs(feeds(np.inf)["i"]).max() <= 128
    assert set(feeds(4)["i"]) == {0, 1, 2, 3, 4}
    assert set(feeds(0)["i"]) == {0}
    assert feeds(np.inf)["n"].min() < -50
    assert set(feeds(4)["c"]) == {False, True}
    with pytest.raises(IndexError):
        feeds(-1)


def test_a_choice_between_infinities_must_be_finite(monkeypatch: pytest.MonkeyPatch) -> None:
    """A product with a mask of 0 and 1 is none; a result that is not finite may be another such number."""

    class Session:
        def __init__(self, compute: Callable[..., Any]) -> None:
            self._compute = compute

        def instantiate(self, frame: FrameResources) -> Session:
            return self

        def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
            self._inputs = inputs

        def __call__(self) -> list[Any]:
            with np.errstate(invalid="ignore"):
                return [self._compute(*self._inputs)]

    def tried(text: str, compute: Callable[..., Any]) -> str:
        monkeypatch.setattr(trials, "OnnxruntimeRegion", lambda session, weights, threads: Session(compute))
        return trials._compared(model_from_text(text), SETTINGS, SETTINGS)

    where = "g (bool[4, 5] c, float[4, 5] x, float[4, 5] z) => (float[4, 5] y) { y = Where(c, x, z) }"
    assert tried(where, np.where) == ""
    assert tried(where, lambda c, x, z: c * x + ~c * z) == trials._WRONG
    halves = "g (float[4, 5] x) => (float[4, 5] y) { n = Neg(x) y = Add(x, n) }"
    assert tried(halves, np.zeros_like) == ""


def test_values_that_decide_sizes_are_left_to_others() -> None:
    """The model declares the size that one run of it has; others would not have been tried."""
    pad = model_from_text("g (float[3, 4] x, int64[4] p) => (float[3, 6] y) { y = Pad(x, p) }")
    assert trials._compared(pad, SETTINGS, SETTINGS) == trials._VARIES
    kept = model_from_text("g (float[3, 4] x, int64[2] i) => (float[2, 4] y) { y = Gather(x, i) }")
    assert trials._compared(kept, SETTINGS, SETTINGS) == ""
