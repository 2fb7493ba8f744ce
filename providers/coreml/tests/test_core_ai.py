"""Core AI itself, which runs on Linux: operators, networks, sizes, time limits and threads."""

from __future__ import annotations

import asyncio
import gc
import mmap
import subprocess
import sys
import tempfile
import threading
import time
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto
from onnx.reference import ReferenceEvaluator

import ort_py as ort
from ort_py.errors import LimitError
from ort_py_kit.graphs import model_from_text
from ort_py_kit.suites.threads import on_threads
from ort_py_kit.tolerances import assert_close
from providers.coreml.tests.cases import CASES
from providers.coreml.tests.models import PROVIDER, model, node, open_session, run_here
from providers.coreml.tests.networks import NETWORKS, bert, cnn, few_bits, grouped

pytest.importorskip("coreai", reason="Core AI is not installed: pip install coreai-core")

from ort_py_coreml.core_ai.runtime import LoadedAsset, Loop

X = np.random.default_rng(2).normal(0, 1, (3, 4)).astype(np.float32)
SPECIAL = np.array(
    [np.nan, np.inf, -np.inf, 0, -0.0, 1e-40, 3e38, -3e38, 0.5, -0.5, 1.5, -1.5, 2.5, -2.5, 88.8, -104], np.float32
)


def _expected(data: bytes, feeds: dict[str, Any]) -> list[Any]:
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, feeds))


def _check(data: bytes, feeds: dict[str, Any], context: str = "") -> None:
    assert_close(run_here(data, feeds, backend="coreai"), _expected(data, feeds), context=context)


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    data, feeds = case.model(), case.feeds()
    if case.nodes[0].op_type == "Swish":  # unknown to onnxruntime
        wanted = list(ReferenceEvaluator(data).run(None, feeds))
        assert_close(run_here(data, feeds, backend="coreai"), wanted, context=name)
    else:
        _check(data, feeds, name)


@pytest.mark.parametrize("make", NETWORKS)
def test_networks(make: Any) -> None:
    """Each runs as one region."""
    data, feeds = make()
    _check(data, feeds)


@pytest.mark.parametrize("make", [cnn, bert, grouped])
def test_sizes_may_change_with_each_run(make: Any) -> None:
    data, feeds = make()
    (name,) = feeds
    with open_session(data, backend="coreai", max_dimension=64) as session:
        for size in (1, 5, 64, 5):
            shape = list(feeds[name].shape)
            shape[2 if make is cnn else 1] = size
            more = {name: np.random.default_rng(size).normal(0, 1, shape).astype(np.float32)}
            assert_close(session.run(None, more), _expected(data, more))
        assert "declined" not in session.plan
        assert not session.fallback_report


@pytest.mark.parametrize(
    "name",
    [
        "Abs",
        "Atan",
        "Ceil",
        "Cos",
        "Erf",
        "Exp",
        "Floor",
        "HardSigmoid",
        "HardSwish",
        "LeakyRelu",
        "Log",
        "Neg",
        "Reciprocal",
        "Relu",
        "Round",
        "Selu",
        "Sigmoid",
        "Sign",
        "Softplus",
        "Softsign",
        "Sqrt",
        "Tanh",
    ],
)
def test_numbers_that_are_not_finite(name: str) -> None:
    _check(model([node(name, "x")], {"x": SPECIAL}), {"x": SPECIAL})


@pytest.mark.parametrize("more", [{}, {"min": -1.0}, {"max": 1.0}])
def test_bounds_that_old_models_leave_out_are_finite(more: dict[str, Any]) -> None:
    """Clip before version 11 makes the largest number of infinity."""
    _check(model([node("Clip", "x", **more)], {"x": SPECIAL}, opset=9), {"x": SPECIAL})


@pytest.mark.parametrize("name", ["Softmax", "LogSoftmax"])
def test_a_largest_element_that_is_infinite(name: str) -> None:
    """The whole row is NaN then, as is one that has a NaN or is minus infinity."""
    x = np.array([[np.inf, 1, 2], [np.inf, np.inf, 1], [1, -np.inf, 2], [np.nan, 1, 2], [-np.inf] * 3], np.float32)
    _check(model([node(name, "x")], {"x": x}), {"x": x})


@pytest.mark.parametrize("name", ["Add", "Div", "Max", "Min", "Mul", "Pow", "Sub"])
def test_pairs_of_numbers_that_are_not_finite(name: str) -> None:
    feeds = {"x": SPECIAL[:, None], "z": SPECIAL}
    _check(model([node(name, "x z")], feeds), feeds)


@pytest.mark.parametrize("name", ["Equal", "Greater", "GreaterOrEqual", "Less", "LessOrEqual"])
def test_comparisons_with_numbers_that_are_not_finite(name: str) -> None:
    feeds = {"x": SPECIAL[:, None], "z": SPECIAL}
    _check(model([node(name, "x z")], feeds, kind=TensorProto.BOOL), feeds)


@pytest.mark.parametrize(
    ("through", "kind"), [(TensorProto.INT32, TensorProto.FLOAT), (TensorProto.BOOL, TensorProto.FLOAT)]
)
def test_conversions_and_back_are_not_taken_for_nothing(through: int, kind: int) -> None:
    """Core AI removes pairs of conversions."""
    feeds = {"x": np.array([0, -0.0, 1.5, -1.5, 2.7, -2.7, 100.2, -0.3, 0.9], np.float32)}
    _check(model([node("Cast", "x", "t", to=through), node("Cast", "t", to=kind)], feeds), feeds)


@pytest.mark.parametrize(
    ("kind", "block", "axis"),
    [(ml_dtypes.int4, 0, 0), (ml_dtypes.uint4, 4, 0), (ml_dtypes.int4, 3, 1), (np.int8, 2, 0)],
)
def test_weights_of_few_bits(kind: Any, block: int, axis: int) -> None:
    data, feeds = few_bits(kind, block, axis)
    _check(data, feeds)


@pytest.mark.parametrize("operator", ["Add", "Greater", "Min"])
def test_operands_of_fewer_axes(operator: str) -> None:
    """They have unknown sizes, and the other operand gets another shape before."""
    kind = "bool" if operator == "Greater" else "float"
    text = f"g (float[N, 1, 4] x, float[4] z) => ({kind}[1, N, 1, 4] y) <int64[4] s = {{1, 1, -1, 4}}>"
    data = model_from_text(f"{text} {{ a = Reshape(z, s) y = {operator}(x, a) }}").SerializeToString()
    _check(data, {"x": np.arange(20, dtype=np.float32).reshape(5, 1, 4), "z": X[0]})


def test_results_of_a_run_stay_as_they_are() -> None:
    """Also those that have the elements of an input."""
    nodes = [node("Reshape", "x shape", "y"), node("Relu", "x", "z"), node("Identity", "x", "w")]
    data = model(nodes, {"x": X}, {"shape": np.array([2, 6])}, ("y", "z", "w"))
    with open_session(data, backend="coreai") as session:
        first = session.run(None, {"x": X})
        second = session.run(None, {"x": -X})
    for found, x in ((first, X), (second, -X)):
        for result, wanted in zip(found, (x.reshape(2, 6), np.maximum(x, 0), x), strict=True):
            np.testing.assert_array_equal(result, wanted)


@pytest.mark.skipif(sys.platform != "linux", reason="reads the size of the process from Linux")
def test_runs_leave_no_outputs_behind() -> None:
    """Core AI's binding keeps a future for each run."""
    x = np.ones((1000, 1000), np.float32)
    with open_session(model([node("Neg", "x")], {"x": x}), backend="coreai") as session:
        sizes = []
        for count in (5, 30):
            for _ in range(count):
                session.run(None, {"x": x})
            gc.collect()
            sizes.append(int(Path("/proc/self/statm").read_text(encoding="ascii").split()[1]) * mmap.PAGESIZE)
    assert sizes[1] - sizes[0] < 10 * x.nbytes


def test_shapes_that_a_model_forbids_are_errors() -> None:
    """Core AI would end the process."""
    data = model([node("MatMul", "x z")], {"x": X, "z": X.T}, dynamic=frozenset({0, 1}))
    with open_session(data, backend="coreai") as session, pytest.raises(Exception, match="MatMul"):
        session.run(None, {"x": X, "z": X})


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            node("GRU", "x w r", hidden_size=5, linear_before_reset=1),
            "sizes of its data are not known, and Core AI's authoring interface has no loops",
        ),
        (
            node("RNN", "x v u", hidden_size=5),
            "sizes of its data are not known, and Core AI's authoring interface has no loops",
        ),
    ],
)
def test_what_core_ai_does_not_run_is_refused(made: NodeProto, reason: str) -> None:
    rng = np.random.default_rng(3)
    weights = {
        "w": rng.normal(0, 1, (1, 15, 3)).astype(np.float32), "r": rng.normal(0, 1, (1, 15, 5)).astype(np.float32),
        "v": rng.normal(0, 1, (1, 5, 3)).astype(np.float32), "u": rng.normal(0, 1, (1, 5, 5)).astype(np.float32),
    }  # fmt: skip
    feeds = {"x": rng.normal(0, 1, (4, 2, 3)).astype(np.float32)}
    used = {name: weights[name] for name in made.input if name in weights}
    data = model([made], feeds, used, dynamic=frozenset({0}))
    with open_session(data, backend="coreai") as session:
        assert reason in {dict(one.refusals).get(PROVIDER) for one in session.placement.nodes}
        assert_close(session.run(None, feeds), _expected(data, feeds))


def test_a_session_that_names_no_provider_does_not_use_it() -> None:
    data, _ = cnn()
    with ort.InferenceSession(data) as session:
        assert PROVIDER not in session.placement.counts()


def _slow() -> tuple[bytes, dict[str, Any]]:
    """A few large products, about a second of work."""
    x = np.ones((600, 600), np.float32)
    nodes = [node("MatMul", "x x", "t0")] + [node("MatMul", f"t{i} x", f"t{i + 1}") for i in range(12)]
    nodes.append(node("Neg", "t12", "y"))
    return model(nodes, {"x": x}), {"x": x}


def test_a_run_that_is_over_its_time_ends() -> None:
    """The session can run, and be closed, while Core AI still computes what is not read."""
    data, feeds = _slow()
    options = ort.SessionOptions()
    options.limits = ort.Limits(run_seconds=0.2)
    given = [{"backend": "coreai"}]
    with ort.InferenceSession(data, options, providers=[PROVIDER], provider_options=given) as session:
        assert set(session.placement.counts()) == {PROVIDER}
        begin = time.monotonic()
        with pytest.raises(LimitError, match=r"0\.2 s"):
            session.run(None, feeds)
        late = time.monotonic() - begin
    whole = time.monotonic() - begin
    assert late < max(1.0, whole / 2)


_ENDING = """
import threading, time
from providers.coreml.tests.models import open_session
from providers.coreml.tests.networks import cnn

data, feeds = cnn()

def work(session):
    while True:
        session.run(None, feeds)

for _ in range(3):
    threading.Thread(target=work, args=(open_session(data, backend="coreai"),), daemon=True).start()
time.sleep(0.3)
"""


def test_a_program_may_end_while_its_threads_run_sessions() -> None:
    """Swift ends a process with an error if the interpreter ends a thread of Core AI that calls Python."""
    done = subprocess.run([sys.executable, "-c", _ENDING], check=False, capture_output=True, text=True, timeout=120)
    assert done.returncode == 0, done.stderr


def test_runs_inside_a_loop_of_the_caller() -> None:
    data, feeds = cnn()

    async def run() -> list[Any]:
        with open_session(data, backend="coreai") as session:
            return list(session.run(None, feeds))

    assert_close(asyncio.run(run()), _expected(data, feeds))


def test_threads_take_turns() -> None:
    data, feeds = cnn()
    wanted = _expected(data, feeds)
    with open_session(data, backend="coreai") as session:

        def work(_: int) -> None:
            for _ in range(5):
                assert_close(session.run(None, feeds), wanted)

        on_threads(work, 3)


def test_closed_sessions_leave_no_threads_and_no_assets(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data, feeds = cnn()
    with open_session(data, backend="coreai") as session:
        session.run(None, feeds)
        assert [one for one in threading.enumerate() if one.name == "ort-py-coreai"]
        assert list(tmp_path.iterdir())
    gc.collect()
    assert not [one for one in threading.enumerate() if one.name == "ort-py-coreai"]
    assert not list(tmp_path.iterdir())


def test_a_region_comes_back_from_the_cache(tmp_path: Path) -> None:
    data, feeds = cnn()
    options = ort.SessionOptions()
    options.cache_dir = str(tmp_path)
    given = [{"claim_small": True, "backend": "coreai"}]
    for _ in range(2):
        with ort.InferenceSession(data, options, providers=[PROVIDER], provider_options=given) as session:
            assert_close(session.run(None, feeds), _expected(data, feeds))


def test_a_model_is_written_as_an_asset(tmp_path: Path) -> None:
    """Its inputs and outputs have the names of the model, in letters that Core AI takes."""
    w = np.random.default_rng(5).normal(0, 1, (4, 6)).astype(np.float32)
    data = model([node("MatMul", "data.in w", "a"), node("Relu", "a", "y")], {"data.in": X}, {"w": w})
    (tmp_path / "m.onnx").write_bytes(data)
    target = tmp_path / "m.aimodel"
    command = [sys.executable, "-m", "ort_py.cli", "compile", str(tmp_path / "m.onnx"), "-o", str(target)]
    subprocess.run([*command, "--provider", "coreml"], check=True, capture_output=True)
    loop = Loop()
    asset = LoadedAsset(target, loop)
    assert_close([asset.predict({"data_in": X}, None)["y"]], _expected(data, {"data.in": X}))
    asset.close()
    loop.close()
