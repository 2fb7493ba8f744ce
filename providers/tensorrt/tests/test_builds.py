"""Engines of whole models, built by TensorRT-RTX in a child process, and builds that end early and leave nothing."""

from __future__ import annotations

import contextlib
import json
import os
import subprocess
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

from ort_py.errors import EPFail
from ort_py_kit.graphs import model_from_text
from ort_py_tensorrt import workers
from ort_py_tensorrt.building import build
from ort_py_tensorrt.job_files import read_request, write_request
from ort_py_tensorrt.jobs import run_build
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.variants import RTX
from providers.tensorrt.tests.asking import left_behind, request_of
from providers.tensorrt.tests.models import bert, cnn, mlp, vit, with_weights

pytestmark = pytest.mark.usefixtures("toolkit")

MAGIC = b"vtrt"
"""What an engine of TensorRT-RTX begins with."""


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test alone."""
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    return tmp_path


class _Stopped(Exception):
    """The caller does not want the engine any longer."""


@pytest.mark.parametrize(
    ("model", "precision"),
    [
        (cnn(), "float32"),
        (cnn("N"), "float16"),
        (vit(), "float32"),
        (vit("N"), "bfloat16"),
        (mlp("N"), "float32"),
    ],
    ids=["cnn", "cnn of any batch in float16", "vit", "vit of any batch in bfloat16", "products of any batch"],
)
def test_models_are_built(model: onnx.ModelProto, precision: str, folder: Path) -> None:
    engine, times = run_build(request_of(model, precision))
    assert engine.startswith(MAGIC)
    assert times is None
    assert not left_behind(folder)


def test_an_engine_without_weights_is_smaller_or_needs_a_gpu(toolkit: Toolkit) -> None:
    """TensorRT-RTX prepares weights for a GPU that has to be there when it leaves them out."""
    model = with_weights("g (float[4, 512] x) => (float[4, 512] y) { y = MatMul(x, w) }", {"w": (512, 512)})
    request = request_of(model)
    whole, _ = build(toolkit, request.model, request.profile, request.wishes)
    refusal, without = "", b""
    try:
        without, _ = build(toolkit, request.model, request.profile, replace(request.wishes, stripped=True))
    except EPFail as error:
        refusal = str(error)
    assert "CUDA" in refusal or len(whole) - len(without) > 512 * 512 * 3


@pytest.mark.parametrize("precision", ["float32", "float16"])
def test_an_encoder_of_any_length_is_built(precision: str) -> None:
    """Without its embedding, which stays with the next provider."""
    model = bert("B", "L")
    del model.graph.node[0]
    table = next(one for one in model.graph.initializer if one.name == "table")
    model.graph.initializer.remove(table)
    model.graph.input[0].CopyFrom(onnx.helper.make_tensor_value_info("ex", onnx.TensorProto.FLOAT, ["B", "L", 32]))
    engine, _ = run_build(request_of(model, precision))
    assert engine.startswith(MAGIC)


def test_the_child_builds_what_this_process_would(toolkit: Toolkit) -> None:
    request = request_of(mlp("N"))
    here, _ = build(toolkit, request.model, request.profile, request.wishes)
    there, _ = run_build(request)
    assert here == there


def test_weights_reach_the_builder(toolkit: Toolkit) -> None:
    """By their addresses: engines of other weights differ, and those of the same weights do not."""
    first, again, other = (
        build(toolkit, request.model, request.profile, request.wishes)[0]
        for request in (request_of(mlp(seed=1)), request_of(mlp(seed=1)), request_of(mlp(seed=2)))
    )
    assert first == again
    assert first != other


def test_other_devices_can_be_named(toolkit: Toolkit) -> None:
    request = request_of(mlp(), compute_capabilities="SM86,SM120")
    assert build(toolkit, request.model, request.profile, request.wishes)[0].startswith(MAGIC)


def test_a_library_that_measures_gets_its_times_and_gives_them_back(toolkit: Toolkit) -> None:
    """TensorRT-RTX stands in for TensorRT: it takes times, and warns that it has no use for them."""
    measuring = Toolkit(replace(RTX, compiles_ahead=False), toolkit.module)
    request = request_of(mlp())
    with pytest.warns(DeprecationWarning, match="Timing cache operations are no-ops"):
        engine, times = build(measuring, request.model, request.profile, request.wishes, times=b"")
    assert engine.startswith(MAGIC)
    assert isinstance(times, bytes)


def test_settings_of_the_builder_are_taken(toolkit: Toolkit) -> None:
    """Every option that reaches it at once."""
    request = request_of(mlp(), use_tf32=True, nv_max_workspace_size=1 << 28, nv_max_shared_mem_size=48 << 10)
    wishes = replace(request.wishes, strict_nans=False, level=2, auxiliary_streams=0)
    engine, _ = build(toolkit, request.model, request.profile, wishes)
    assert engine.startswith(MAGIC)


def test_a_quantised_model_is_built(toolkit: Toolkit) -> None:
    """Its QuantizeLinear and DequantizeLinear say what is computed in 8 bits."""
    text = """g (float[4, 32] x) => (float[4, 16] y) {
        a = QuantizeLinear(x, s, z) b = DequantizeLinear(a, s, z) c = DequantizeLinear(w, t, z) y = MatMul(b, c) }"""
    weights = np.random.default_rng(1).integers(-128, 128, (32, 16), dtype=np.int8)
    scales: dict[str, Any] = {"s": np.float32(0.05), "t": np.float32(0.01)}
    request = request_of(with_weights(text, {}, w=weights, z=np.int8(0), **scales))
    engine, _ = build(toolkit, request.model, request.profile, request.wishes)
    assert engine.startswith(MAGIC)


def test_attention_that_no_single_kernel_computes_is_built(toolkit: Toolkit) -> None:
    """Heads have 8 numbers, in float32."""
    text = """g (float[2, 3, 4, 8] q, float[2, 3, 6, 8] k, float[2, 3, 6, 8] v) => (float[2, 3, 4, 8] y) {
        y = Attention(q, k, v) }"""
    request = request_of(model_from_text(text, 23))
    engine, _ = build(toolkit, request.model, request.profile, request.wishes)
    assert engine.startswith(MAGIC)


def test_steps_are_reported() -> None:
    steps: list[tuple[str, int, int]] = []
    run_build(request_of(mlp()), step=lambda *step: steps.append(step))
    names = {name for name, _, _ in steps}
    assert "Building engine" in names
    assert all(0 < step <= max(total, step) for _, step, total in steps)


def test_a_request_is_written_and_read(tmp_path: Path) -> None:
    """The child maps the weights, and gets the same bits."""
    request = replace(request_of(cnn(), "bfloat16"), times=b"times", detailed=True)
    write_request(tmp_path, request)
    found = read_request(tmp_path)
    assert (found.provider, found.profile, found.wishes) == (request.provider, request.profile, request.wishes)
    assert (found.times, found.detailed) == (b"times", True)
    assert found.model.proto == request.model.proto
    assert found.model.weights.keys() == request.model.weights.keys()
    for name, array in request.model.weights.items():
        there = found.model.weights[name]
        assert isinstance(there, np.memmap)
        assert (there.dtype, there.shape) == (array.dtype, array.shape)
        np.testing.assert_array_equal(there.view(np.uint8), array.view(np.uint8))


def test_a_cancelled_build_leaves_nothing(folder: Path) -> None:
    """The caller's check is called while the child works; what it raises comes out, and the child is gone."""
    started: list[subprocess.Popen[str]] = []
    popen = subprocess.Popen

    def starting(*arguments: object, **options: object) -> subprocess.Popen[str]:
        started.append(popen(*arguments, **options))  # type: ignore[call-overload]  # passed on as they are
        return started[-1]

    def check() -> None:
        if started:
            raise _Stopped

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(subprocess, "Popen", starting)
        with pytest.raises(_Stopped):
            run_build(request_of(cnn()), check=check)
    (child,) = started
    assert child.returncode not in {None, 0}
    assert not left_behind(folder)


def test_a_build_that_takes_too_long_leaves_nothing(folder: Path) -> None:
    with pytest.raises(EPFail, match=r"took longer than 0\.01 seconds") as caught:
        run_build(request_of(cnn()), limit=0.01)
    assert "build_seconds" in caught.value.fix
    assert not left_behind(folder)


def test_a_child_whose_parent_is_gone_ends_and_leaves_nothing(folder: Path) -> None:
    job = folder / "ort-py-tensorrt-orphan"
    job.mkdir()
    write_request(job, request_of(cnn()))
    code = "from pathlib import Path; import queue, time, sys, threading; from ort_py_tensorrt import child; "
    code += "given = Path(sys.argv[1]), queue.Queue(); "
    code += "threading.Thread(target=child._watch, args=given, daemon=True).start(); time.sleep(60)"
    with subprocess.Popen([sys.executable, "-c", code, str(job)], stdin=subprocess.PIPE) as child:
        assert child.stdin is not None
        child.stdin.close()  # as the system does when the parent ends
        assert child.wait(30) == 1
    assert not left_behind(folder)


@pytest.mark.parametrize(
    ("strides", "dilations", "fails"), [((2, 1), (1, 2), True), ((2, 2), (1, 1), False), ((1, 1), (2, 2), False)]
)
def test_steps_and_gaps_of_a_deconvolution_are_taken_and_not_built(
    strides: tuple[int, ...], dilations: tuple[int, ...], fails: bool, toolkit: Toolkit
) -> None:
    """The builder fails, so that `nodes` refuses both at once. If this fails, the library has learnt it."""
    more = f"strides = {list(strides)}, dilations = {list(dilations)}"
    text = f"g (float[1, 2, 5, 5] x) => (float[1, 3, N, M] y) {{ y = ConvTranspose<{more}>(x, w) }}"
    request = request_of(with_weights(text, {"w": (2, 3, 3, 3)}))
    with pytest.raises(EPFail, match="Strided & Dilated") if fails else contextlib.nullcontext():
        build(toolkit, request.model, request.profile, request.wishes)


def test_what_the_parser_refuses_is_the_reason(folder: Path) -> None:
    request = request_of("g (int32[4] x) => (int32[4] y) { y = BitwiseNot(x) }")
    with pytest.raises(EPFail, match="ended without one") as caught:
        run_build(request)
    assert "parser refuses BitwiseNot" in str(caught.value)
    assert not left_behind(folder)


def test_a_crash_of_the_library_is_an_error(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It ends the child alone, and its last words are in the error."""
    monkeypatch.setattr(
        workers, "_CODE", "import os, sys; sys.stderr.write('it broke'); sys.stderr.flush(); os.abort()"
    )
    with pytest.raises(EPFail, match="ended without one") as caught:
        run_build(request_of(mlp()))
    assert f"{'it was ended by SIGABRT' if os.name == 'posix' else 'its exit status is 3'}; it broke" in str(
        caught.value
    )
    assert not left_behind(folder)


def test_lines_of_the_library_are_no_reports(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    told = [json.dumps({"severity": 2, "text": "a warning"}), "no JSON", json.dumps({"error": "it cannot", "why": "x"})]
    code = f"import sys; sys.stdout.write({chr(10).join(told)!r}); sys.exit(1)"
    monkeypatch.setattr(workers, "_CODE", code)
    with caplog.at_level("INFO", "ort_py_tensorrt.building"), pytest.raises(EPFail) as caught:
        run_build(request_of(mlp()))
    assert "ended without one: it cannot; x" in str(caught.value)
    assert [record.getMessage() for record in caplog.records] == ["a warning", "no JSON"]


def test_a_program_without_an_interpreter_says_so(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "executable", "")
    with pytest.raises(EPFail, match="does not say where its Python interpreter is"):
        run_build(request_of(mlp()))


def test_a_child_sees_the_one_gpu_that_it_measures_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """By its number among those that this process sees."""
    monkeypatch.setenv("CUDA_VISIBLE_DEVICES", "3, GPU-5")
    assert workers._environment(1)["CUDA_VISIBLE_DEVICES"] == "GPU-5"
    assert workers._environment(None)["CUDA_VISIBLE_DEVICES"] == "3, GPU-5"
    monkeypatch.delenv("CUDA_VISIBLE_DEVICES")
    assert workers._environment(2)["CUDA_VISIBLE_DEVICES"] == "2"


def test_a_profile_that_does_not_fit_is_refused(toolkit: Toolkit) -> None:
    request = request_of(mlp("N"))
    wrong = Profile.of(request.profile.names, [(2, 33)])
    with pytest.raises(EPFail):
        build(toolkit, request.model, wrong, request.wishes)


def test_a_build_takes_as_long_as_the_child(folder: Path) -> None:
    """A caller's check that raises nothing does not end it."""
    calls: list[float] = []
    engine, _ = run_build(request_of(mlp()), limit=600, check=lambda: calls.append(time.monotonic()))
    assert engine.startswith(MAGIC)
    assert len(calls) > 1
    assert not left_behind(folder)
