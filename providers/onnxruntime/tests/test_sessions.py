"""Regions run in onnxruntime, only where somebody asks for it, without copies of weights, inputs and outputs."""

from __future__ import annotations

import gc
import os
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import numpy_helper

import ort_py as ort
from ort_py.contracts import FrameResources
from ort_py.errors import OptionError
from ort_py_kit.graphs import model_from_text
from ort_py_onnxruntime import settings
from ort_py_onnxruntime.binding import SMALL
from ort_py_onnxruntime.native import FORKS, native
from ort_py_onnxruntime.region import OnnxruntimeRegion
from ort_py_onnxruntime.routes import GENERAL

WEIGHT = np.random.default_rng(0).standard_normal((64, 64), np.float32)
X = np.random.default_rng(1).standard_normal((3, 64), np.float32)


def _model() -> bytes:
    model = model_from_text("g (float[N, 64] x) => (float[N, 64] y) { a = MatMul(x, w) y = Relu(a) }")
    model.graph.initializer.append(numpy_helper.from_array(WEIGHT, "w"))
    content: bytes = model.SerializeToString()
    return content


def _session(model: bytes, name: str = GENERAL, **options: Any) -> ort.InferenceSession:
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    return ort.InferenceSession(model, settings, providers=[(name, options)])


def _region(text: str) -> OnnxruntimeRegion:
    """A region that is one whole model."""
    real = native()
    model = model_from_text(text)
    model.ir_version = 10
    session = real.InferenceSession(real.SessionOptions(), model.SerializeToString(), False, False)
    session.initialize_session(["CPUExecutionProvider"], [{}], set())
    return OnnxruntimeRegion(session, {}, 1)


def test_a_region_runs_in_onnxruntime() -> None:
    """With weights that are not in the model it gets."""
    with _session(_model()) as session:
        assert session.placement.counts() == {GENERAL: 2}
        (y,) = session.run(None, {"x": X})
    np.testing.assert_allclose(y, np.maximum(X @ WEIGHT, 0), rtol=1e-4, atol=1e-4)


def test_runs_of_changing_shapes_are_right() -> None:
    """Each new shape gets bindings of its own, and results of earlier runs stay as they were."""
    results = []
    with _session(_model()) as session:
        for rows in (3, 3, 1, 5, 0, 3):
            x = np.random.default_rng(rows).standard_normal((rows, 64), np.float32)
            results.append((x, session.run(None, {"x": x})[0]))
    for x, y in results:
        np.testing.assert_allclose(y, np.maximum(x @ WEIGHT, 0), rtol=1e-4, atol=1e-4)


def test_nodes_that_are_not_read_are_no_error() -> None:
    """Unoptimised, they stay in the model, and may be a region without outputs."""
    text = "g (float[N] x, int64[1] k) => (int64[M, L] y) { a = Neg(x) b = Exp(a) y = NonZero(k) }"
    settings = ort.SessionOptions()
    settings.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    feeds = {"x": np.ones(3, np.float32), "k": np.array([5])}
    with ort.InferenceSession(model_from_text(text).SerializeToString(), settings, providers=[GENERAL]) as session:
        (y,) = session.run(None, feeds)
        assert not session.fallback_report
    np.testing.assert_array_equal(y, [[0]])


def test_sums_of_nothing_are_zero() -> None:
    """onnxruntime writes only those of the first product of a batch; such runs are left to NumPy."""
    model = model_from_text("g (float[N, M, K] x, float[N, K, L] z) => (float[N, M, L] y) { y = MatMul(x, z) }")
    with _session(model.SerializeToString()) as session:
        session.run(None, {"x": np.ones((8, 7, 2), np.float32), "z": np.ones((8, 2, 7), np.float32)})
        (y,) = session.run(None, {"x": np.ones((8, 7, 0), np.float32), "z": np.ones((8, 0, 7), np.float32)})
        assert session.placement.counts() == {GENERAL: 1}
    np.testing.assert_array_equal(y, np.zeros((8, 7, 7), np.float32))


def test_outputs_are_written_in_place() -> None:
    """An array that the engine gives is the array that onnxruntime writes to, in runs that bind and in others."""
    instance = _region("g (float[N] x) => (float[N] y) { y = Relu(x) }").instantiate(FrameResources())
    x, y = np.array([-1, 2], np.float32), np.empty(2, np.float32)
    for number in range(3):
        x[0] = number
        instance.bind([x], [y])
        assert instance()[0] is y
        np.testing.assert_array_equal(y, np.maximum(x, 0))


@pytest.mark.parametrize("size", [3, SMALL])
def test_an_array_elsewhere_is_bound_anew(size: int) -> None:
    """Other arrays of the same shapes in the next run are read and written, small ones and large ones."""
    instance = _region("g (float[N] x) => (float[N] y) { y = Relu(x) }").instantiate(FrameResources())
    kept = []
    for number in range(4):
        x, y = np.full(size, number, np.float32), np.empty(size, np.float32)
        instance.bind([x], [y])
        instance()
        kept.append((x, y))
    for x, y in kept:
        np.testing.assert_array_equal(x, y)


def test_large_values_are_not_copied(monkeypatch: pytest.MonkeyPatch) -> None:
    """onnxruntime gets the arrays' own memory, and only what is small has memory of its own here."""
    instance = _region("g (float[N] x, float[M] z) => (float[N] y) { s = ReduceSum(z) y = Add(x, s) }").instantiate(
        FrameResources()
    )
    x, z, y = np.ones(SMALL, np.float32), np.ones(8, np.float32), np.empty(SMALL, np.float32)
    binding = instance._binding  # type: ignore[attr-defined]
    seen: list[int] = []
    make = binding._value

    def value(array: Any, device: Any) -> Any:
        seen.append(array.ctypes.data)
        return make(array, device)

    monkeypatch.setattr(binding, "_value", value)
    for _ in range(3):
        instance.bind([x, z], [y])
        assert instance()[0] is y
    assert {x.ctypes.data, y.ctypes.data} < set(seen)
    assert z.ctypes.data not in seen
    assert instance.reserved_bytes() == z.nbytes
    assert y[0] == 9


def test_results_are_the_callers() -> None:
    """Later runs leave a result as it is, also if the engine gives no array to write to."""
    instance = _region("g (float[N] x) => (float[N] y) { y = Relu(x) }").instantiate(FrameResources())
    kept = []
    for number in range(4):
        instance.bind([np.full(3, number, np.float32)], [None])
        kept.append(instance()[0])
    assert [array.tolist() for array in kept] == [[number] * 3 for number in range(4)]


def test_values_that_decide_shapes() -> None:
    """An output of another shape than in the run before is made by onnxruntime."""
    instance = _region("g (float[N] x) => (int64[1, M] y) { y = NonZero(x) }").instantiate(FrameResources())
    instance.bind([np.array([1, 0, 1], np.float32)], [np.empty((1, 3), np.int64)])
    assert instance()[0].tolist() == [[0, 2]]
    instance.bind([np.array([1, 0, 0], np.float32)], [None])
    assert instance()[0].tolist() == [[0]]


def test_a_value_that_passes_through_is_an_array_of_its_own() -> None:
    instance = _region("g (float[N] x) => (float[N] y, float[N] z) { y = Identity(x) z = Identity(x) }").instantiate(
        FrameResources()
    )
    x = np.ones(4, np.float32)
    instance.bind([x], [None, None])
    y, z = instance()
    assert not np.may_share_memory(x, y)
    assert not np.may_share_memory(y, z)


def test_it_keeps_no_inputs_alive() -> None:
    """A feed belongs to the caller again after the run."""
    with _session(_model()) as session:
        x = X.copy()
        session.run(None, {"x": x})
        gc.collect()
        assert gc.get_referrers(x) == [] or not any("_Instance" in repr(one) for one in gc.get_referrers(x))


def test_sessions_of_another_process_are_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A forked child would wait for threads that it does not have."""
    region = _region("g (float[N] x) => (float[N] y) { y = Relu(x) }")
    several = OnnxruntimeRegion(region._session, {}, 2)
    monkeypatch.setattr(FORKS, "count", FORKS.count + 1)
    region.instantiate(FrameResources())  # one thread: the caller's
    with pytest.raises(ort.EPFail, match="forked process"):
        several.instantiate(FrameResources())


def test_it_is_never_chosen_by_itself() -> None:
    """It is usable, behind all others; sessions that name no provider do without."""
    assert ort.get_available_providers().index(GENERAL) > ort.get_available_providers().index("CPUExecutionProvider")
    with ort.InferenceSession(_model()) as session:
        assert GENERAL not in session.get_providers()
        assert GENERAL not in session.placement.counts()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"providers": "NoSuchExecutionProvider"}, "has no NoSuchExecutionProvider"),
        ({"provider_options": "{}"}, "not a list of objects"),
        ({"provider_options": "[{}, {}]"}, "not a list of objects"),
        ({"provider_options": "no JSON"}, "not a list of objects"),
    ],
)
def test_wrong_options_are_refused(options: dict[str, str], message: str) -> None:
    """Nothing else is used silently in their place."""
    with pytest.raises(OptionError, match=message):
        _session(_model(), **options)


def test_wrong_further_options_are_refused() -> None:
    with pytest.raises(OptionError, match="no JSON object"):
        _session(_model(), "AzureExecutionProvider", further_options="[]")


def test_nested_options_stay_json() -> None:
    """Some providers read an object of settings from one option."""
    given = '{"load_config": {"NPU": {"KEY": true}}, "count": 2, "half": 0.5, "on": true, "name": "a"}'
    assert settings._object("P", given) == {
        "load_config": '{"NPU": {"KEY": true}}',
        "count": "2",
        "half": "0.5",
        "on": "1",
        "name": "a",
    }


def test_options_reach_onnxruntime() -> None:
    """Options come as a list of objects; onnxruntime's provider reads text."""
    with _session(_model(), providers="CPUExecutionProvider", provider_options='[{"use_arena": false}]') as session:
        assert session.run(None, {"x": X})[0].shape == (3, 64)


def test_a_provider_gets_what_onnxruntime_gives_to_it() -> None:
    """Azure's provider runs none of these nodes: onnxruntime says so, and its CPU provider is not used instead."""
    with _session(_model(), "AzureExecutionProvider") as session:
        assert session.placement.counts() == {"CPUExecutionProvider": 2}
        texts = [str(refusal) for node in session.placement for refusal in node.refusals]
        assert any("onnxruntime does not give it to AzureExecutionProvider" in text for text in texts), texts
        assert session.run(None, {"x": X})[0].shape == (3, 64)


@pytest.mark.parametrize(
    ("model", "reason"),
    [
        ("g (bfloat16[2] x) => (bfloat16[2] y) { y = Abs(x) }", "is not handed over"),
        ("g (string[2] x) => (string[2] y) { y = Identity(x) }", "is not handed over"),
    ],
)
def test_what_is_left_to_others(model: str, reason: str) -> None:
    """With the reason in the placement; the CPU provider runs it."""
    with _session(model_from_text(model).SerializeToString()) as session:
        texts = [str(refusal) for node in session.placement for refusal in node.refusals]
    assert any(reason in text for text in texts), texts


def test_models_of_newer_opsets_run() -> None:
    """Operators that did not change are the same in an opset that this onnxruntime does not know."""
    model = onnx.ModelProto.FromString(_model())
    model.opset_import[0].version = onnx.defs.onnx_opset_version()
    model.ir_version = onnx.IR_VERSION
    with _session(model.SerializeToString()) as session:
        assert session.placement.counts() == {GENERAL: 2}


def _twenty_regions() -> bytes:
    """Twenty sums, and between each two what only others take: numbers of a type that NumPy lacks."""
    lines, before = [], "x"
    for place in range(20):
        lines.append(
            f"a{place} = Add({before}, x) h{place} = Cast <to = 16> (a{place}) b{place} = Cast <to = 1> (h{place})"
        )
        before = f"b{place}"
    text = f"g (float[N, 8] x) => (float[N, 8] y) {{ {' '.join(lines)} y = Relu({before}) }}"
    content: bytes = model_from_text(text).SerializeToString()
    return content


def test_many_regions_between_those_of_others() -> None:
    """A session of both gives what NumPy's kernels give alone, run after run."""
    settings = ort.SessionOptions()
    settings.pin_cpu = True
    settings.add_session_config_entry("session.placement", "order")
    model = _twenty_regions()
    with (
        ort.InferenceSession(model, settings, providers=[GENERAL]) as mixed,
        ort.InferenceSession(model, settings, providers=["CPUExecutionProvider"]) as plain,
    ):
        assert mixed.placement.counts()[GENERAL] >= 20
        for seed in range(3):
            x = np.random.default_rng(seed).standard_normal((3, 8), np.float32)
            np.testing.assert_array_equal(mixed.run(None, {"x": x})[0], plain.run(None, {"x": x})[0])


@pytest.mark.nightly
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the memory of the process is read from /proc")
def test_many_regions_leak_nothing() -> None:
    """Ten thousand runs of twenty regions, with sizes that change, need no more memory than the first thousand."""
    with _session(_twenty_regions()) as session:
        used = []
        for number in range(10_000):
            session.run(None, {"x": np.full((1 + number % 5, 8), number % 7, np.float32)})
            if number % 1000 == 999:
                gc.collect()
                used.append(int(Path("/proc/self/statm").read_text().split()[1]) * os.sysconf("SC_PAGESIZE"))
    assert used[-1] - used[0] < 4 << 20, used
