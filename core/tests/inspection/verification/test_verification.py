"""Verified runs: a planted wrong number is found, named and acted on; right results, ties and random ones are not."""

from __future__ import annotations

import logging
import os
import sys
import threading
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.inspection.comparison.wrong_kernels import CPU, WRONG, wrong_provider
from core.tests.small_models import model_bytes
from ort_py.discovery import default_catalog
from ort_py.engine.runner import Runner
from ort_py.engine.runs import run
from ort_py.errors import OptionError
from ort_py.hooks import VerifiedEvent, hookimpl
from ort_py.inspection.verification import background, verifier
from ort_py.inspection.verification.reference import open_reference
from ort_py.inspection.verification.report import VerificationReport
from ort_py.inspection.verification.runner import VerifiedRunner

CHAIN = "g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w) b = Relu(a) y = Add(b, w) }"
RELU = "g (float[N] x) => (float[N] y) { y = Relu(x) }"
SECONDS = 60.0


@pytest.fixture(autouse=True)
def _clean(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """No share from the environment, and none of a test's providers after it."""
    monkeypatch.delenv("ORT_PY_VERIFY", raising=False)
    yield
    default_catalog().reset()


def plus_one(xp: Any, x: Any) -> Any:
    """A Relu that is wrong."""
    return xp.maximum(x, 0) + 1


def right(xp: Any, x: Any) -> Any:
    """A Relu that is right."""
    return xp.maximum(x, 0)


def open_session(text: str, providers: list[str] | None = None, share: float | None = 1.0, **options: Any) -> Any:
    """A session that verifies a share of its runs."""
    settings = ort_py.SessionOptions()
    settings.verify = share
    settings.cache_dir = "off"
    for name, value in options.items():
        setattr(settings, name, value)
    return ort_py.InferenceSession(model_bytes(text), settings, providers=providers or [CPU])


def feed(rows: int = 2) -> dict[str, Any]:
    """A feed of `CHAIN`."""
    return {"x": np.random.default_rng(rows).standard_normal((rows, 3)).astype(np.float32)}


def counts(report: VerificationReport) -> dict[str, int]:
    """The outcomes that occurred."""
    names = ("agreed", "ties", "drifted", "mismatched", "failed", "dropped", "waiting")
    return {name: getattr(report, name) for name in names if getattr(report, name)}


class Observer:
    """A plug-in that records the events it receives."""

    def __init__(self) -> None:
        self.events: list[VerifiedEvent] = []

    @hookimpl
    def ort_py_run_verified(self, event: VerifiedEvent) -> None:
        self.events.append(event)


@pytest.fixture
def observer() -> Iterator[Observer]:
    """A registered observer."""
    one = Observer()
    default_catalog().hooks.register(one, "observer of verified runs")
    yield one
    default_catalog().hooks.unregister("observer of verified runs")


@pytest.fixture
def paused(monkeypatch: pytest.MonkeyPatch) -> Iterator[threading.Event]:
    """The background waits before it repeats a run until the event is set."""
    go = threading.Event()

    def slowly(session: Any) -> Any:
        assert go.wait(SECONDS)
        return open_reference(session)

    monkeypatch.setattr(verifier, "open_reference", slowly)
    yield go
    go.set()


def test_right_results_agree(observer: Observer) -> None:
    """On the default providers with share 1, every run is repeated and counted, and the hook is called."""
    with open_session(CHAIN) as session:
        for rows in range(1, 6):
            session.run(None, feed(rows))
        report = session.finish_verification(SECONDS)
        assert (report.seen, report.picked, report.verified) == (5, 5, 5)
        assert counts(report) == {"agreed": 5}
        assert report.worst <= 1
    assert [(event.outcome, event.run) for event in observer.events] == [("agreed", run) for run in range(1, 6)]


@pytest.mark.parametrize("compiles", [False, True], ids=["kernel", "region"])
def test_a_wrong_number_is_found_and_named(compiles: bool, observer: Observer, caplog: Any) -> None:
    """The report, the log and the hook name the first wrong node, also inside of a region; the session stays."""
    providers = wrong_provider("Relu", plus_one, "Mul", "Add", compiles=compiles)
    with caplog.at_level(logging.WARNING, "ort_py.verification"), open_session(CHAIN, providers) as session:
        wrong = session.run(None, feed())
        report = session.finish_verification(SECONDS)
        assert counts(report) == {"mismatched": 1}
        (mismatch,) = report.mismatches
        assert (mismatch.run, mismatch.outputs) == (1, ("y",))
        assert (mismatch.node, mismatch.value, mismatch.provider) == ("b", "b", WRONG)
        assert mismatch.region == (("a", "b", "y") if compiles else ())
        np.testing.assert_array_equal(session.run(None, feed())[0], wrong[0])
        assert session.state == "ready"
        session.finish_verification(SECONDS)
    assert "Relu 'b' on WrongExecutionProvider" in caplog.text
    first = observer.events[0]
    assert (first.outcome, first.node, first.value, first.provider) == ("mismatch", "b", "b", WRONG)
    assert (first.outputs, first.pinned) == (("y",), False)


def test_a_wrong_session_moves_to_numpy_on_request(observer: Observer) -> None:
    """`verify_action` "pin": later runs are right; state, placement, record and hook tell of it; nothing is picked."""
    providers = wrong_provider("Relu", plus_one, "Mul", "Add")
    with open_session(CHAIN, providers, verify_action="pin") as session:
        session.run(None, feed())
        report = session.finish_verification(SECONDS)
        x = feed()["x"]
        w = np.array([1, 2, 3], np.float32)
        np.testing.assert_allclose(session.run(None, {"x": x})[0], np.maximum(x * w, 0) + w, rtol=1e-6)
        assert set(session.placement.counts()) == {CPU}
        assert session.state == "degraded"
        (record,) = session.fallback_report
        assert (record.provider, record.node, record.replacement) == (WRONG, "b", CPU)
        assert "moved to the NumPy provider" in report.reason
        assert session.finish_verification(SECONDS).picked == 1
    assert [event.pinned for event in observer.events] == [True]


def test_a_session_that_is_right_is_not_moved() -> None:
    providers = wrong_provider("Relu", right, "Mul", "Add")
    with open_session(CHAIN, providers, verify_action="pin") as session:
        session.run(None, feed())
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 1}
        assert WRONG in session.placement.counts()


def test_a_fault_that_comes_once_is_a_mismatch_without_a_node() -> None:
    """A bit flip in memory is such a fault: the search for the node repeats the run with the right result."""
    calls = iter([plus_one])

    def once(xp: Any, x: Any) -> Any:
        return next(calls, right)(xp, x)

    providers = wrong_provider("Relu", once, "Mul", "Add")
    with open_session(CHAIN, providers) as session:
        session.run(None, feed())
        report = session.finish_verification(SECONDS)
        assert counts(report) == {"mismatched": 1}
        assert report.mismatches[0].node == ""
        assert "another result for the same inputs" in report.mismatches[0].reason


@pytest.mark.parametrize("compiles", [False, True], ids=["kernels", "region"])
def test_errors_that_add_up_are_drift(compiles: bool) -> None:
    """Each node within the tolerance of its inputs, the outputs beyond it: no node is wrong, so nothing is pinned."""
    text = "g (float[N] x) => (float[N] y) { " + " ".join(
        f"{'y' if i == 19 else f'v{i}'} = Relu({'x' if i == 0 else f'v{i - 1}'})" for i in range(20)
    )
    providers = wrong_provider("Relu", lambda xp, x: xp.maximum(x, 0) * np.float32(1 + 5e-5), compiles=compiles)
    with open_session(
        text + " }", providers, verify_action="pin", graph_optimization_level=ort_py.GraphOptimizationLevel(0)
    ) as session:
        session.run(None, {"x": np.ones(4, np.float32)})
        report = session.finish_verification(SECONDS)
        assert counts(report) == {"drifted": 1}
        assert session.state == "ready"


TIED = "g (float[2, 3] x) => (int64[2] y) { r = Relu(x) y = ArgMax<axis = 1, keepdims = 0>(r) }"


def _nudged(index: int, by: float) -> Callable[[Any, Any], Any]:
    def compute(xp: Any, x: Any) -> Any:
        found = xp.maximum(x, 0)
        found[0, index] += np.float32(by)
        return found

    return compute


@pytest.mark.parametrize("compiles", [False, True], ids=["kernel", "region"])
def test_a_decision_about_values_that_agree_is_a_tie(compiles: bool, observer: Observer) -> None:
    """ArgMax of two values that are equal but for a rounding error may give either."""
    providers = wrong_provider("Relu", _nudged(2, 1e-6), compiles=compiles)
    with open_session(TIED, providers, verify_action="pin") as session:
        x = np.array([[1, 0, 1], [3, 2, 1]], np.float32)
        assert session.run(None, {"x": x})[0].tolist() == [2, 0]
        assert counts(session.finish_verification(SECONDS)) == {"ties": 1}
        assert session.state == "ready"
    assert [event.outcome for event in observer.events] == ["tie"]


def test_a_decision_about_values_that_differ_is_a_mismatch() -> None:
    """The value in front of ArgMax is beyond the tolerance: its node is named."""
    providers = wrong_provider("Relu", _nudged(2, 0.1))
    with open_session(TIED, providers) as session:
        session.run(None, {"x": np.array([[1, 0, 1], [3, 2, 1]], np.float32)})
        report = session.finish_verification(SECONDS)
        assert counts(report) == {"mismatched": 1}
        assert report.mismatches[0].value == "r"


def test_outputs_that_are_random_are_not_compared() -> None:
    """The others are, and the report says which are not."""
    text = """g (float[3] x) => (float[3] y, float[3] z) {
        r = RandomNormalLike(x) y = Add(r, x) z = Relu(x)
    }"""
    with open_session(text) as session:
        session.run(None, {"x": np.ones(3, np.float32)})
        report = session.finish_verification(SECONDS)
        assert counts(report) == {"agreed": 1}
        assert report.not_compared == ("y",)


def test_a_wrong_output_beside_a_random_one_is_found() -> None:
    """Random operators excuse only what depends on them."""
    providers = wrong_provider("Relu", plus_one)
    text = "g (float[3] x) => (float[3] y, float[3] z) { r = RandomNormalLike(x) y = Add(r, x) z = Relu(x) }"
    with open_session(text, providers) as session:
        session.run(None, {"x": np.ones(3, np.float32)})
        assert session.finish_verification(SECONDS).mismatches[0].outputs == ("z",)


def test_a_session_of_random_outputs_only_says_so_once(caplog: Any) -> None:
    text = "g (float[3] x) => (float[3] y) { r = RandomUniformLike(x) y = Add(r, x) }"
    with caplog.at_level(logging.WARNING, "ort_py.verification"), open_session(text) as session:
        for _ in range(3):
            session.run(None, {"x": np.ones(3, np.float32)})
            report = session.finish_verification(SECONDS)
        assert (report.picked, report.dropped) == (1, 1)
        assert "random" in report.reason
    assert caplog.text.count("cannot be verified") == 1


def test_random_bodies_are_known() -> None:
    """Random numbers in a branch make the output of its node random."""
    text = """g (float[3] x, bool c) => (float[3] y) {
        y = If (c) <
            then_branch = t () => (float[3] p) { p = RandomNormalLike(x) },
            else_branch = e () => (float[3] q) { q = Relu(x) }
        >
    }"""
    with open_session(text) as session:
        session.run(None, {"x": np.ones(3, np.float32), "c": np.array(True)})
        assert "random" in session.finish_verification(SECONDS).reason


def test_outputs_bound_over_inputs_are_verified_with_what_was_fed() -> None:
    """The inputs are copied before the run overwrites them."""
    size = 1 << 16
    text = "g (float[N] x) => (float[N] y) { y = Neg(x) }"
    memory = np.arange(size, dtype=np.float32)
    with open_session(text) as session:
        binding = session.io_binding()
        binding.bind_cpu_input("x", memory)
        binding.bind_output("y", "cpu", 0, np.float32, [size], memory.ctypes.data)
        for _ in range(3):
            session.run_with_iobinding(binding)
        np.testing.assert_array_equal(memory, -np.arange(size, dtype=np.float32))
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 3}


def test_a_feed_and_a_result_may_be_overwritten_at_once(paused: threading.Event) -> None:
    """The caller owns both as soon as the run has returned."""
    with open_session(RELU) as session:
        x = np.ones(1000, np.float32)
        (y,) = session.run(None, {"x": x})
        x[...], y[...] = -5, 7
        paused.set()
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 1}


@pytest.mark.parametrize("value", [[1.0, -2.0], ort_py.OrtValue.ortvalue_from_numpy(np.ones(2, np.float32))])
def test_feeds_that_are_no_arrays(value: Any) -> None:
    """Lists and values are verified too; selected outputs in the order asked for."""
    text = "g (float[N] x) => (float[N] up, float[N] down) { up = Abs(x) down = Neg(x) }"
    with open_session(text) as session:
        assert len(session.run(["down", "up"], {"x": value})) == 2
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 1}


def test_runs_that_raise_are_not_verified() -> None:
    """They count as dropped, and their error is what it always is."""
    with open_session(RELU) as session:
        with pytest.raises(ort_py.errors.MissingInputError):
            session.run(None, {})
        with pytest.raises(ort_py.errors.InvalidArgument):
            session.run(["none"], {"x": np.ones(2, np.float32)})
        assert counts(session.finish_verification(SECONDS)) == {"dropped": 2}


def test_too_much_that_waits_is_dropped(paused: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """Runs go on at their pace, and the report counts those without verification."""
    monkeypatch.setattr(background, "MOST_WAITING", 2)
    with open_session(RELU) as session:
        for _ in range(5):
            session.run(None, {"x": np.ones(8, np.float32)})
        assert counts(session.verification) == {"dropped": 3, "waiting": 2}
        paused.set()
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 2, "dropped": 3}


def test_many_bytes_that_wait_are_dropped(paused: threading.Event, monkeypatch: pytest.MonkeyPatch) -> None:
    """A run beyond the bytes is taken where nothing else waits, and only there."""
    monkeypatch.setattr(background, "MOST_BYTES", 100)
    with open_session(RELU) as session:
        for _ in range(3):
            session.run(None, {"x": np.ones(1000, np.float32)})
        paused.set()
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 1, "dropped": 2}


def test_closing_drops_what_waits(paused: threading.Event) -> None:
    """Closing waits for no verification; the report can still be asked for."""
    session = open_session(RELU)
    session.run(None, {"x": np.ones(8, np.float32)})
    session.close()
    paused.set()
    report = session.finish_verification(SECONDS)
    assert counts(report) == {"dropped": 1}
    assert report.reason == "the session is closed"


def test_closing_while_the_reference_is_opened(monkeypatch: pytest.MonkeyPatch) -> None:
    """The model is released meanwhile, so that the reference cannot be opened. The run counts as dropped."""
    started, go = threading.Event(), threading.Event()

    def slowly(engine: Any) -> Any:
        started.set()
        assert go.wait(SECONDS)
        return open_reference(engine)

    monkeypatch.setattr(verifier, "open_reference", slowly)
    session = open_session(RELU)
    session.run(None, {"x": np.ones(8, np.float32)})
    assert started.wait(SECONDS)
    session.close()
    go.set()
    report = session.finish_verification(SECONDS)
    assert counts(report) == {"dropped": 1}
    assert report.reason == "the session is closed"


def test_closing_while_a_run_is_repeated(monkeypatch: pytest.MonkeyPatch) -> None:
    """The repetition ends, and the session that repeats is closed, whichever of them comes first."""
    opened: list[Any] = []
    started, go = threading.Event(), threading.Event()

    def watched(engine: Any) -> Any:
        opened.append(open_reference(engine))
        return opened[0]

    def slowly(*arguments: Any) -> Any:
        started.set()
        assert go.wait(SECONDS)
        return run(*arguments)

    monkeypatch.setattr(verifier, "open_reference", watched)
    monkeypatch.setattr(verifier, "run", slowly)
    session = open_session(RELU)
    session.run(None, {"x": np.ones(8, np.float32)})
    assert started.wait(SECONDS)
    session.close()
    go.set()
    assert not session.finish_verification(SECONDS).waiting
    for _ in range(1000):
        if opened[0].state == "closed":
            break
        threading.Event().wait(0.01)
    assert opened[0].state == "closed"


def test_a_model_that_cannot_be_loaded_again_is_told_once(caplog: Any) -> None:
    """Runs go on; the report says why none is verified."""
    settings = ort_py.SessionOptions()
    settings.verify = 1.0
    settings.add_session_config_entry("session.keep_model_bytes", "0")
    with (
        caplog.at_level(logging.WARNING, "ort_py.verification"),
        ort_py.InferenceSession(model_bytes(RELU), settings, providers=[CPU]) as session,
    ):
        for _ in range(3):
            session.run(None, {"x": np.ones(8, np.float32)})
            report = session.finish_verification(SECONDS)
        assert counts(report) == {"failed": 1}
        assert "cannot be loaded again" in report.reason
    assert caplog.text.count("cannot be verified") == 1


def test_a_file_that_was_changed_is_not_compared_with(tmp_path: Any) -> None:
    """Another model would make right results look wrong."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes(RELU))
    settings = ort_py.SessionOptions()
    settings.verify = 1.0
    with ort_py.InferenceSession(path, settings, providers=[CPU]) as session:
        path.write_bytes(model_bytes(RELU.replace("Relu", "Tanh")))
        session.run(None, {"x": np.ones(8, np.float32)})
        report = session.finish_verification(SECONDS)
        assert counts(report) == {"failed": 1}
        assert "changed" in report.reason


def test_an_observer_that_raises_changes_nothing() -> None:
    class Broken:
        @hookimpl
        def ort_py_run_verified(self, event: VerifiedEvent) -> None:
            raise RuntimeError("broken")

    default_catalog().hooks.register(Broken(), "broken observer")
    try:
        with open_session(RELU) as session:
            session.run(None, {"x": np.ones(8, np.float32)})
            assert counts(session.finish_verification(SECONDS)) == {"agreed": 1}
    finally:
        default_catalog().hooks.unregister("broken observer")


def test_a_share_picks_about_that_many() -> None:
    """2,000 runs at a tenth: 200, give or take six standard deviations."""
    with open_session(RELU, share=0.1) as session:
        for _ in range(2000):
            session.run(None, {"x": np.ones(1, np.float32)})
        report = session.finish_verification(SECONDS)
        assert report.seen == 2000
        assert 120 <= report.picked <= 280


@pytest.mark.parametrize("share", [None, 0.0, 0])
def test_without_a_share_nothing_is_in_the_way(share: float | None) -> None:
    """The runner is the plain one, and the report is empty."""
    with open_session(RELU, share=share) as session:
        assert type(session.engine.runner) is Runner
        session.run(None, {"x": np.ones(1, np.float32)})
        assert session.verification == VerificationReport()
        assert session.finish_verification() == VerificationReport()


def test_the_environment_gives_the_share(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable counts where the option is not set; the session that repeats is not verified itself."""
    monkeypatch.setenv("ORT_PY_VERIFY", "1")
    with open_session(RELU, share=None) as session:
        assert type(session.engine.runner) is VerifiedRunner
        session.run(None, {"x": np.ones(1, np.float32)})
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 1}
        assert type(session._verification.verifier._reference.runner) is Runner
    with open_session(RELU, share=0.0) as session:
        assert type(session.engine.runner) is Runner


@pytest.mark.parametrize("text", ["often", "-0.1", "1.5", "nan", "inf"])
def test_the_environment_is_checked(monkeypatch: pytest.MonkeyPatch, text: str) -> None:
    """A share that is none is an error when a session is made, with the variable's name."""
    monkeypatch.setenv("ORT_PY_VERIFY", text)
    with pytest.raises(OptionError, match="ORT_PY_VERIFY"):
        open_session(RELU, share=None)


@pytest.mark.parametrize("share", [-0.1, 1.5, float("nan"), float("inf"), 2])
def test_the_option_is_checked(share: float) -> None:
    """A wrong share is refused as it is set, and the one before it stays."""
    options = ort_py.SessionOptions()
    options.verify = 0.25
    with pytest.raises(OptionError, match=r"SessionOptions\.verify"):
        options.verify = share
    assert options.verify == 0.25


def test_types_of_the_options_are_checked() -> None:
    """Neither a text nor a yes is a share, and there are two actions."""
    options = ort_py.SessionOptions()
    for value in ("0.1", True):
        with pytest.raises(TypeError):
            setattr(options, "verify", value)  # noqa: B010 - a plain assignment is an error for mypy
    with pytest.raises(OptionError):
        options.verify_action = "stop"


@pytest.mark.skipif(not hasattr(os, "fork") or sys.platform == "darwin", reason="needs fork")
def test_a_forked_child_verifies_its_own_runs(paused: threading.Event) -> None:
    """The parent verifies its waiting runs, and the child has threads of its own."""
    with open_session(RELU) as session:
        session.run(None, {"x": np.ones(8, np.float32)})
        child = os.fork()
        if child == 0:
            status = 1
            try:
                paused.set()
                before = session.verification.waiting
                session.run(None, {"x": np.ones(8, np.float32)})
                report = session.finish_verification(SECONDS)
                status = 0 if (before, report.agreed, report.waiting) == (0, 1, 0) else 2
            finally:
                os._exit(status)
        paused.set()
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
        assert counts(session.finish_verification(SECONDS)) == {"agreed": 1}


def test_threads_are_counted_exactly() -> None:
    """Runs of several threads at once are all seen and, at share 1, end in some count."""
    with open_session(RELU) as session:

        def work() -> None:
            for _ in range(50):
                session.run(None, {"x": np.ones(8, np.float32)})

        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        report = session.finish_verification(SECONDS)
        assert (report.seen, report.picked, report.waiting) == (200, 200, 0)
        assert report.agreed + report.dropped == 200
        assert report.agreed


def test_the_report_is_text_and_data() -> None:
    with open_session(RELU) as session:
        session.run(None, {"x": np.ones(8, np.float32)})
        report = session.finish_verification(SECONDS)
    assert str(report).startswith("1 of 1 runs picked (share 1): 1 agreed")
    assert report.to_dict()["verified"] == 1
    assert str(VerificationReport()) == "runs are not verified"
