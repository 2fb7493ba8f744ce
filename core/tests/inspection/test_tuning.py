"""Measurement of placements: the fastest is found, remembered for the sessions of this model, and reported."""

from __future__ import annotations

import copy
import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest

import ort_py
from core.tests.slow_provider import SLOW, slow_factory
from core.tests.small_models import model_bytes
from ort_py.contracts import IExecutionProvider, ProviderFactory, SessionContext
from ort_py.devices import HOST, Device
from ort_py.engine.tuned_placement import TunedPlacement
from ort_py.inspection.tuning import tuning_orders
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

CPU = "CPUExecutionProvider"
FAKE = "FakeExecutionProvider"
TEXT = "g (float[3] x) => (float[3] y) { a = Relu(x) b = Neg(a) y = Abs(b) }"
QUICK = 0.05
"""Seconds that a tuning may measure: each provider here is faster or slower by a thousand times."""

Register = Callable[[ProviderFactory], None]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """A model's file, written some time ago."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes(TEXT))
    os.utime(path, ns=(10**18, 10**18))
    return path


@pytest.fixture
def options(tmp_path: Path) -> ort_py.SessionOptions:
    """Options with a cache of their own, and without optimisation, so that slow nodes stay."""
    options = ort_py.SessionOptions()
    options.cache_dir = tmp_path / "cache"
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    return options


def stages(session: ort_py.InferenceSession) -> dict[str, str]:
    """Notes of each stage."""
    return {stage.stage: "\n".join(stage.notes) for stage in session.load_report.stages}


def test_the_fastest_is_found_and_used_from_then_on(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    """Rank alone would keep the slow one; a session made after tuning leaves it out, says so, and computes the same."""
    register(slow_factory())
    with ort_py.InferenceSession(path, options) as before:
        assert before.placement.counts() == {SLOW: 2, CPU: 1}
        expected = before.run(None, {"x": np.array([1, -2, 3], np.float32)})
    told: list[str] = []
    report = ort_py.tune(path, options, seconds=QUICK, progress=told.append)
    assert report.chosen.providers == (CPU,)
    assert report.remembered
    assert report.gain > 2
    assert "trying CPUExecutionProvider alone" in told
    with ort_py.InferenceSession(path, options) as after:
        assert after.placement.counts() == {CPU: 3}
        assert "tuned on" in stages(after)["placement"]
        assert after.get_providers() == before.get_providers()
        np.testing.assert_array_equal(after.run(None, {"x": np.array([1, -2, 3], np.float32)})[0], expected[0])


def test_the_answer_is_for_this_model_and_these_options(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    """Another model, other options and other providers were not measured; a copy of the model was."""
    register(slow_factory())
    ort_py.tune(path, options, seconds=QUICK)
    other = path.with_name("other.onnx")
    model = onnx.load(path)
    model.doc_string = "another"
    other.write_bytes(model.SerializeToString())
    copied = path.with_name("copied.onnx")
    copied.write_bytes(path.read_bytes())
    with ort_py.InferenceSession(copied, options) as session:
        assert "placement" in stages(session)
    threads = copy.copy(options)
    threads.intra_op_num_threads = 7
    for source, chosen in ((other, options), (path, threads)):
        with ort_py.InferenceSession(source, chosen) as session:
            assert "placement" not in stages(session)
            assert SLOW in session.placement.counts()


def test_the_entry_ignores_what_was_measured(path: Path, options: ort_py.SessionOptions, register: Register) -> None:
    """`session.placement` = "order" places by rank; names place by names."""
    register(slow_factory())
    ort_py.tune(path, options, seconds=QUICK)
    options.add_session_config_entry("session.placement", "order")
    with ort_py.InferenceSession(path, options) as session:
        assert session.placement.counts() == {SLOW: 2, CPU: 1}
    options.add_session_config_entry("session.placement", CPU)
    with ort_py.InferenceSession(path, options) as session:
        assert session.placement.counts() == {CPU: 3}
        assert f"names {CPU}" in stages(session)["placement"]


def test_strict_sessions_keep_what_was_asked_for(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    """A measured order may leave a provider out that was asked for; strict mode forbids that."""
    register(slow_factory())
    ort_py.tune(path, options, seconds=QUICK)
    options.strict = "provider"
    with ort_py.InferenceSession(path, options, providers=[SLOW, CPU]) as session:
        assert session.placement.counts() == {SLOW: 2, CPU: 1}
    report = ort_py.tune(path, options, providers=[SLOW, CPU], seconds=QUICK)
    assert not report.remembered
    assert "strict" in report.remark


def test_nothing_is_kept_where_that_is_not_wanted(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    register(slow_factory())
    report = ort_py.tune(path, options, seconds=QUICK, remember=False)
    assert (report.remembered, report.remark) == (False, "as was asked")
    with ort_py.InferenceSession(path, options) as session:
        assert SLOW in session.placement.counts()


def test_bytes_are_remembered_only_where_the_cache_is_told_to(
    options: ort_py.SessionOptions, register: Register
) -> None:
    """Without a cache, a model that is not a file is neither written to disk nor remembered."""
    register(slow_factory())
    model = model_bytes(TEXT)
    assert not ort_py.tune(model, options, seconds=QUICK).remembered
    options.add_session_config_entry("session.model_cache", "1")
    assert ort_py.tune(model, options, seconds=QUICK).remembered
    with ort_py.InferenceSession(model, options) as session:
        assert session.placement.counts() == {CPU: 3}


def test_a_candidate_that_fails_is_a_row(path: Path, options: ort_py.SessionOptions, register: Register) -> None:
    """A provider that cannot compile alone does not end the tuning; its row says why."""
    register(FakeFactory(behaviour=FakeBehaviour(compiles=True, fail_compile=True, cost_us=-1e9)))
    report = ort_py.tune(path, options, seconds=QUICK)
    assert report.chosen.milliseconds is not None
    rows = {one.name: one for one in report.candidates}
    assert rows["in order"].milliseconds is not None
    assert "same placement as in order" in {one.remark for one in report.candidates}


def test_the_report_is_a_table_and_data(path: Path, options: ort_py.SessionOptions, register: Register) -> None:
    """One row for each placement, the chosen one marked; JSON has the same."""
    register(slow_factory())
    report = ort_py.tune(path, options, seconds=QUICK)
    text = str(report)
    assert text.splitlines()[0].split()[0] == "placement"
    assert f"* {CPU} alone" in text
    data = json.loads(json.dumps(report.to_json()))
    assert data["providers"] == [CPU]
    assert {one["name"] for one in data["candidates"]} >= {"in order", f"{CPU} alone"}


def test_inputs_may_be_given(path: Path, options: ort_py.SessionOptions) -> None:
    """Those of the program instead of made-up ones; a wrong one is refused as in a run."""
    ort_py.tune(path, options, inputs={"x": np.zeros(3, np.float32)}, seconds=QUICK)
    with pytest.raises(ort_py.InvalidArgument, match="x"):
        ort_py.tune(path, options, inputs={"x": np.zeros((2, 2), np.float32)}, seconds=QUICK)


def test_no_time_to_measure_is_refused(path: Path) -> None:
    with pytest.raises(ort_py.InvalidArgument, match="for 0 seconds"):
        ort_py.tune(path, seconds=0)


def test_options_that_name_a_placement_are_refused(path: Path) -> None:
    """There would be nothing to try."""
    options = ort_py.SessionOptions()
    options.add_session_config_entry("session.placement", CPU)
    with pytest.raises(ort_py.OptionError, match="name a placement"):
        ort_py.tune(path, options)


def test_an_entry_that_names_a_stranger_is_refused(path: Path, register: Register) -> None:
    """With those there are, and what was meant."""
    register(slow_factory())
    options = ort_py.SessionOptions()
    options.add_session_config_entry("session.placement", "SlowExecutionProvder")
    with pytest.raises(ort_py.OptionError, match="Did you mean 'SlowExecutionProvider'"):
        ort_py.InferenceSession(path, options)
    options.add_session_config_entry("session.placement", " , ")
    with pytest.raises(ort_py.OptionError, match="names no provider"):
        ort_py.InferenceSession(path, options)


def test_damaged_answers_are_ignored(path: Path, options: ort_py.SessionOptions, register: Register) -> None:
    """A file that does not fit is a miss."""
    register(slow_factory())
    ort_py.tune(path, options, seconds=QUICK)
    (file,) = Path(options.cache_dir).glob("*.placement")
    file.write_bytes(file.read_bytes()[:-1] + b"!")
    with ort_py.InferenceSession(path, options) as session:
        assert "placement" not in stages(session)


def test_what_was_left_out_for_speed_is_there_when_another_fails(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    """A placement that was named has no second chance of its own: all providers of the session are one."""
    register(FakeFactory(behaviour=FakeBehaviour(fail_runs={1}, cost_us=-1e9)))
    options.add_session_config_entry("session.placement", FAKE)
    with ort_py.InferenceSession(path, options) as session:
        assert session.placement.counts() == {FAKE: 3}
        session.run(None, {"x": np.ones(3, np.float32)})
        assert session.placement.counts() == {CPU: 3}


# -- engines that would fill the CPU role too ------------------------------------------------------------------------


class _Engine(FakeFactory):
    """A provider that fills the CPU role; one with an error cannot be created."""

    def __init__(self, name: str, rank: int, error: Exception | None = None) -> None:
        super().__init__(name, FakeBehaviour(cost_us=-1e9), rank=rank)
        self._error = error

    @property
    def stands_in_for(self) -> str:
        return CPU

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        if self._error is not None:
            raise self._error
        return super().create(options, context)


ENGINE, OTHER = "EngineExecutionProvider", "OtherExecutionProvider"
TOGETHER = TunedPlacement((OTHER, ENGINE, CPU), 1.0, 2.0, "2026-01-01")


def test_other_engines_are_tried_alone_and_beside(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    """A session has one of them, unless it was measured that two are faster."""
    register(_Engine(ENGINE, 2))
    register(_Engine(OTHER, 1))
    rows = {one.name: one for one in ort_py.tune(path, options, seconds=QUICK).candidates}
    assert rows["in order"].providers == (ENGINE, CPU)
    assert rows[f"{OTHER} alone"].nodes == {OTHER: 3}
    assert rows[f"{OTHER} beside the others"].providers == (ENGINE, OTHER, CPU)


def test_an_engine_that_was_measured_to_help_joins(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    """A remembered result of `tune` names it. Without that, the session has one engine."""
    register(_Engine(ENGINE, 2))
    register(_Engine(OTHER, 1))
    with ort_py.InferenceSession(path, options) as session:
        assert session.placement.counts() == {ENGINE: 3}
        assert f"{OTHER}: left out, {ENGINE} fills the role of {CPU}" in stages(session)["providers"]
        assert session.engine.providers.participants.remember("model", TOGETHER)
    with ort_py.InferenceSession(path, options) as session:
        assert session.placement.counts() == {OTHER: 3}
        assert session.explain_selection().taken == [ENGINE, OTHER, CPU]
        assert session.get_providers() == [CPU]
        session.run(None, {"x": np.ones(3, np.float32)})


def test_a_measured_engine_that_cannot_be_created_is_left_out(
    path: Path, options: ort_py.SessionOptions, register: Register
) -> None:
    """The session goes on as it would without the measurement, and its report says so."""
    register(_Engine(ENGINE, 2))
    register(_Engine(OTHER, 1, RuntimeError("no memory")))
    with ort_py.InferenceSession(path, options) as session:
        assert session.engine.providers.participants.remember("model", TOGETHER)
    with ort_py.InferenceSession(path, options) as session:
        assert session.placement.counts() == {ENGINE: 3}
        (record,) = session.fallback_report
        assert (record.provider, record.reason) == (OTHER, "RuntimeError: no memory")


def test_the_entry_lets_another_engine_join(path: Path, options: ort_py.SessionOptions, register: Register) -> None:
    """A name in `session.placement` is a request."""
    register(_Engine(ENGINE, 2))
    register(_Engine(OTHER, 1))
    options.add_session_config_entry("session.placement", f"{OTHER},{CPU}")
    with ort_py.InferenceSession(path, options) as session:
        assert session.placement.counts() == {OTHER: 3}


# -- candidates ----------------------------------------------------------------------------------------------------


def test_orders_are_each_alone_the_host_and_all_but_one() -> None:
    """Each order once, the session's own not among them."""
    device = Device("fake", 0)
    found = tuning_orders(["Fake", "Fast", "CPU"], {"Fake": device, "Fast": HOST, "CPU": HOST}, "CPU")
    assert found == {
        "Fake alone": ("Fake", "CPU"),
        "Fast alone": ("Fast", "CPU"),
        "CPU alone": ("CPU",),
    }
    assert tuning_orders(["CPU"], {"CPU": HOST}, "CPU") == {}
    others = tuning_orders(["A", "B", "C"], {"A": device, "B": device, "C": HOST}, "none")
    assert others["C alone"] == ("C",)
    assert others["without A"] == ("B", "C")
    beside = tuning_orders(["A", "CPU"], {"A": HOST, "CPU": HOST}, "CPU", ["B"])
    assert beside == {"CPU alone": ("CPU",), "B alone": ("B", "CPU"), "B beside the others": ("A", "B", "CPU")}
    two = tuning_orders(["A", "B", "C"], {"A": device, "B": HOST, "C": HOST}, "none")
    assert two["the host alone"] == ("B", "C")
