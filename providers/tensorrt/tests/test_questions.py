"""Questions to the parser in a process of its own, which also builds, and what a crash of the parser leaves."""

from __future__ import annotations

import os
import tempfile
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py as ort
from ort_py_kit.graphs import graph_view
from ort_py_kit.suites.threads import on_threads
from ort_py_kit.tolerances import assert_close
from ort_py_tensorrt import questions, workers
from ort_py_tensorrt.capability import refusals_of
from ort_py_tensorrt.engine_cache import EngineCache
from ort_py_tensorrt.jobs import run_build
from ort_py_tensorrt.parsing import Verdict, ask
from ort_py_tensorrt.questions import Asker, ParserEnded
from ort_py_tensorrt.region_model import RegionModel, model_of
from ort_py_tensorrt.toolkit import Toolkit
from providers.tensorrt.tests.asking import left_behind, region_of, request_of
from providers.tensorrt.tests.models import bert, cnn, mlp, with_weights

pytestmark = pytest.mark.usefixtures("toolkit")

NAME = "NvTensorRTRTXExecutionProvider"

_FRAGILE = """
import os, sys, time
folder = os.path.dirname(os.path.abspath(__file__))
sys.path = [one for one in sys.path if os.path.abspath(one) != folder]
del sys.modules["tensorrt_rtx"]
import tensorrt_rtx as real

class Parser:
    def __init__(self, network, logger, make=real.OnnxParser):
        self._parser = make(network, logger)

    def __getattr__(self, name):
        found = getattr(self._parser, name)
        if name not in {"supports_model_v2", "load_model_proto", "parse"}:
            return found

        def call(model):
            if b"Softsign" in model:
                {end}
            return found(model)

        return call

real.OnnxParser = Parser
"""
"""A library whose parser does not survive Softsign."""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of temporary files, of this test alone."""
    (tmp_path / "temporary").mkdir()
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path / "temporary"))
    monkeypatch.setenv("ORT_PY_CACHE", str(tmp_path / "cache"))
    return tmp_path / "temporary"


@pytest.fixture
def starts(monkeypatch: pytest.MonkeyPatch) -> list[Any]:
    """Devices that processes were started for."""
    found: list[Any] = []
    start = workers.Worker.__init__

    def starting(worker: workers.Worker, device: int | None) -> None:
        found.append(device)
        start(worker, device)

    monkeypatch.setattr(workers.Worker, "__init__", starting)
    return found


def _break(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, end: str) -> None:
    (tmp_path / "broken").mkdir()
    (tmp_path / "broken" / "tensorrt_rtx.py").write_text(_FRAGILE.replace("{end}", end), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path / "broken"))


def _asker(toolkit: Toolkit, folder: Path, limit: float | None = None) -> Asker:
    return Asker(toolkit, EngineCache(folder.parent / "answers"), None, limit, detailed=False)


def _open(model: onnx.ModelProto) -> ort.InferenceSession:
    chosen = ort.SessionOptions()
    chosen.pin_cpu, chosen.cost_model = True, "always"
    given: list[dict[str, Any]] = [{"claim_small": True}, {}]
    return ort.InferenceSession(
        model.SerializeToString(), chosen, providers=[NAME, "CPUExecutionProvider"], provider_options=given
    )


_MODELS = [
    region_of(mlp()),
    region_of(cnn("N")),
    region_of(bert("B", "L")),
    region_of("g (int32[4] x) => (int32[4] y) { a = Add(x, x) b = BitwiseNot(a) y = Mul(b, b) }"),
    region_of("g (float[2, 8] x, int64[2] s) => (float[N, M] y) { a = Relu(x) y = Reshape(a, s) }"),
]


def test_the_process_answers_what_the_parser_answers_here(toolkit: Toolkit, folder: Path, starts: list[Any]) -> None:
    """One process answers all, about weights by their addresses too; another asker finds the answers on disk."""
    asker = _asker(toolkit, folder)
    wanted = [ask(toolkit, model_of(region)) for region in _MODELS]
    assert [asker.ask(model_of(region)) for region in _MODELS] == wanted
    asker.close()
    assert len(starts) == 1
    again = _asker(toolkit, folder)
    assert [again.ask(model_of(region)) for region in _MODELS] == wanted
    assert len(starts) == 1
    again.close()
    assert not left_behind(folder)


def test_one_process_at_most_rests(toolkit: Toolkit, folder: Path, starts: list[Any]) -> None:
    """Askers may be closed or forgotten."""
    askers = [_asker(toolkit, folder / str(number)) for number in range(3)]
    for asker, region in zip(askers, _MODELS, strict=False):
        asker.ask(model_of(region))
    assert len(starts) == 1
    askers[0].close()
    assert len(left_behind(folder)) == 1
    del asker, askers
    assert not left_behind(folder)


def test_a_process_that_left_while_it_was_given_work_is_replaced(
    toolkit: Toolkit, folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It ends by itself after a while without work, which may be in the moment that it gets some."""

    def one_that_leaves() -> workers.Worker:
        with monkeypatch.context() as patch:
            patch.setattr(workers, "_CODE", "")
            return workers.Worker(None)

    monkeypatch.setattr(workers.Worker, "alive", True)
    workers.rest(one_that_leaves(), None)
    asker = _asker(toolkit, folder)
    assert asker.ask(model_of(_MODELS[0])) == Verdict({})
    asker.close()
    engine, _ = run_build(request_of(mlp()), resting=one_that_leaves)
    assert engine.startswith(b"vtrt")
    assert not left_behind(folder)


def test_questions_of_threads(toolkit: Toolkit, folder: Path) -> None:
    """Each has a process of its own meanwhile; one rests afterwards."""
    found: dict[int, Verdict] = {}
    askers = [_asker(toolkit, folder / str(number)) for number in range(3)]

    def work(number: int) -> None:
        found[number] = askers[number].ask(model_of(_MODELS[number]))

    on_threads(work, 3)
    assert [found[number] for number in range(3)] == [ask(toolkit, model_of(region)) for region in _MODELS[:3]]
    assert len(left_behind(folder)) == 1
    for asker in askers:
        asker.close()
    assert not left_behind(folder)


def test_other_numbers_of_small_weights_are_asked_about_again(toolkit: Toolkit, folder: Path) -> None:
    """Only the shapes of large ones count."""
    small, other, large, shaped = (
        questions._key(toolkit, RegionModel(onnx.ModelProto(), {"w": np.full(size, number, np.float32)}))
        for size, number in ((9, 1), (9, 2), (1 << 20, 1), (1 << 20, 2))
    )
    assert small != other
    assert large == shaped


def test_one_process_answers_and_builds(gpu: Any, folder: Path, starts: list[Any]) -> None:
    """The next session starts none."""
    for _ in range(2):
        with _open(mlp()) as session:
            assert set(session.placement.counts()) == {NAME}
    assert len(starts) == 1
    assert not left_behind(folder)


@pytest.mark.skipif(os.name != "posix", reason="the name of the signal is in the reason")
def test_a_crash_of_the_parser_costs_the_node_at_which_it_happens(
    gpu: Any, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The session goes on, and what surrounds the node becomes engines."""
    _break(tmp_path, monkeypatch, "os.abort()")
    text = """g (float[2, 8] x) => (float[2, 8] y) {
        a = MatMul(x, w) b = Relu(a) c = Softsign(b) d = MatMul(c, v) y = Relu(d) }"""
    model = with_weights(text, {"w": (8, 8), "v": (8, 8)})
    feeds = {"x": np.random.default_rng(3).normal(0, 1, (2, 8)).astype(np.float32)}
    with _open(model) as session:
        left = [one for one in session.placement.nodes if one.provider != NAME]
        assert [one.op_type for one in left] == ["Softsign"]
        assert "parser gave no answer, in a process of its own: it was ended by SIGABRT" in str(left[0].refusals)
        with ort.InferenceSession(model.SerializeToString(), providers=["CPUExecutionProvider"]) as plain:
            assert_close(session.run(None, feeds), plain.run(None, feeds))
    assert not left_behind(folder)


def test_a_parser_that_does_not_answer_is_ended(
    toolkit: Toolkit, folder: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    _break(tmp_path, monkeypatch, "time.sleep(600)")
    asker = _asker(toolkit, folder, limit=3)
    with pytest.raises(ParserEnded, match="it took longer than 3 seconds"):
        asker.ask(model_of(region_of("g (float[4] x) => (float[4] y) { y = Softsign(x) }")))
    asker.close()
    assert not left_behind(folder)


def test_a_parser_that_always_ends_is_not_started_forever(
    toolkit: Toolkit, folder: Path, monkeypatch: pytest.MonkeyPatch, starts: list[Any]
) -> None:
    monkeypatch.setattr(workers, "_CODE", "raise SystemExit(7)")
    asker = _asker(toolkit, folder)
    for number in range(20):
        with pytest.raises(ParserEnded, match="its exit status is 7" if number < 16 else "is not asked again"):
            asker.ask(model_of(_MODELS[0]))
    assert len(starts) == 16


def test_a_group_is_halved_until_the_culprits_are_found() -> None:
    """Nodes of other halves are not refused, whatever the parser says of the borders that the halves have."""
    text = "g (float[2] x) => (float[2] y) { a = Relu(x) b = Exp(a) c = Sin(b) d = Cos(c) y = Neg(d) }"
    graph = graph_view(text)

    def ended(*operators: str) -> Any:
        def answer(model: RegionModel) -> Verdict:
            if set(operators) <= {one.op_type for one in model.proto.graph.node}:
                raise ParserEnded("it ended")
            return Verdict({0: "a border"})

        return answer

    assert refusals_of(ended("Cos"), graph, (0, 1, 2, 3, 4)) == {3: "it ended"}
    assert refusals_of(ended("Relu", "Neg"), graph, (0, 1, 2, 3, 4)) == dict.fromkeys(range(5), "it ended")


def test_without_an_interpreter_the_parser_is_asked_here(
    toolkit: Toolkit, folder: Path, monkeypatch: pytest.MonkeyPatch, starts: list[Any]
) -> None:
    """Nothing can be built then, but engines may be in the cache."""
    monkeypatch.setattr("sys.executable", "")
    assert _asker(toolkit, folder).ask(model_of(_MODELS[0])) == Verdict({})
    assert not starts
