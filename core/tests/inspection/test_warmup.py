"""Warming up: which feeds shapes make, what is refused and why, progress, time limit, report."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.small_models import RELU, open_model, typed_identity
from ort_py import ArgumentTypeError, InvalidArgument, OrtValue
from ort_py.inspection.warmup_feeds import warmup_feeds

MASKED = """g (float[batch, length, 4] x, bool[batch, length] mask, string[2] tags) => (float[batch, length, 4] y,
    bool[batch, length] m, string[2] t) { y = Relu(x) m = Not(mask) t = Identity(tags) }"""


def feeds_of(session: ort_py.InferenceSession, shapes: Any) -> list[dict[str, Any]]:
    """Feeds that `warmup` would use."""
    found = warmup_feeds(session.get_inputs(), session.get_overridable_initializers(), shapes)
    return [dict(feed.values) for feed in found]


def test_sizes_of_dimensions_make_all_combinations() -> None:
    """Each list of sizes by each other; zeros, empty strings and False of the declared types."""
    session = open_model(MASKED)
    found = feeds_of(session, {"batch": [1, 8], "length": [16, 32]})
    assert [feed["x"].shape for feed in found] == [(1, 16, 4), (1, 32, 4), (8, 16, 4), (8, 32, 4)]
    assert [feed["mask"].shape for feed in found] == [(1, 16), (1, 32), (8, 16), (8, 32)]
    assert (found[0]["x"].dtype, found[0]["mask"].dtype, found[0]["tags"].tolist()) == ("float32", "bool", ["", ""])
    assert not found[0]["x"].any()
    assert len(session.warmup({"batch": [1, 8], "length": [16, 32]}).warmed) == 4


@pytest.mark.parametrize(
    "shapes",
    [
        {"x": (2, 5, 4)},
        {"x": (2, "length", 4), "length": 5},
        {"x": (2, None, None), "length": [5]},
        {"mask": (np.int64(2), 5)},
        {"batch": {2}, "length": 5},
        [{"x": np.zeros((2, 5, 4), np.float32)}],
        {"x": OrtValue.ortvalue_from_numpy(np.zeros((2, 5, 4), np.float32))},
    ],
)
def test_one_shape_tells_the_others(shapes: Any) -> None:
    """Symbolic dimensions have the same size in every input, from wherever it is known."""
    (found,) = feeds_of(open_model(MASKED), shapes)
    assert found["mask"].shape == (2, 5)
    assert getattr(found["x"], "shape", None) in ((2, 5, 4), None) or found["x"].shape() == [2, 5, 4]


def test_nothing_need_be_given_where_all_sizes_are_declared() -> None:
    report = open_model("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }").warmup()
    assert [dict(one.shapes) for one in report.warmed] == [{"x": (2, 3)}]


def test_values_are_fed_as_they_are() -> None:
    """A real value reaches the model: zeros would make this one fail."""
    text = "g (float[6] x, int64[2] shape) => (float[a, b] y) { y = Reshape(x, shape) }"
    session = open_model(text)
    assert session.warmup({"shape": np.array([2, 3])}).warmed
    with pytest.raises(ort_py.OrtPyError) as caught:
        session.warmup()
    assert "Generated inputs are zeros" in caught.value.__notes__[0]


def test_sequences_need_values() -> None:
    """A shape does not say what is in a sequence; a list of arrays does."""
    session = open_model(typed_identity("seq(float[2])"))
    with pytest.raises(InvalidArgument, match="The input 'x' cannot be generated") as caught:
        session.warmup()
    assert "seq(tensor(float))" in str(caught.value)
    assert "as you will feed it" in caught.value.fix
    assert session.warmup({"x": [np.zeros(2, np.float32)]}).warmed


def test_optional_inputs_stay_absent() -> None:
    session = open_model("g (optional(float[2]) x) => (bool y) { y = OptionalHasElement(x) }")
    assert feeds_of(session, None) == [{}]


def test_overridable_initializers_may_be_named() -> None:
    """Otherwise they keep the model's value."""
    text = "g (float[3] x, float[3] w) => (float[3] y) <float[3] w = {1, 2, 3}> { y = Add(x, w) }"
    session = open_model(text)
    assert [sorted(feed) for feed in feeds_of(session, [{}, {"w": (3,)}])] == [["x"], ["w", "x"]]


@pytest.mark.parametrize(
    ("shapes", "what", "fix"),
    [
        ({"xs": (1, 3)}, "no input and no symbolic dimension 'xs'", "'x'"),
        ({"x": (1, 3, 3)}, "'x' has 2 dimensions, 3 are given", "each dimension"),
        ({"x": (1, 4)}, "'x' has size 3 along axis 1, 4 is given", "Give 3 there"),
        ({"x": 4}, "'x' cannot be warmed up with 4", "(1, 3, 224, 224)"),
        ({"N": -1}, "A size of 'N' is -1", "whole number"),
        ({"N": [1, 2.5]}, "A size of 'N' is 2.5", "whole number"),
        ({"N": True}, "A size of 'N' is True", "whole number"),
        ({"N": 2, "x": (5, 3)}, "'N' cannot be 2 and 5 at once", "pass arrays"),
        (None, "The size of the dimension 'N' of the input 'x' is not given", '{"N": [1, 8]}'),
        ({"x": ("M", 3)}, "The size of the dimension 'M' of the input 'x' is not given", '{"M": [1, 8]}'),
    ],
)
def test_what_contradicts_the_model_is_refused(shapes: Any, what: str, fix: str) -> None:
    """Before anything runs, with the declaration and what to write instead."""
    with pytest.raises(InvalidArgument) as caught:
        open_model(RELU).warmup(shapes)
    assert what in caught.value.what
    assert caught.value.why
    assert fix in caught.value.fix


def test_unnamed_sizes_are_asked_for() -> None:
    """A dimension without a name, and an input without a rank, need the whole shape."""
    with pytest.raises(InvalidArgument, match="size of axis 0 of the input 'x'") as caught:
        open_model("g (float[?, 3] x) => (float[?, 3] y) { y = Relu(x) }").warmup()
    assert "whole shape" in caught.value.fix
    session = open_model("g (float x) => (float y) { y = Relu(x) }".replace("float x", "float[] x"))
    assert session.warmup({"x": (2, 2)} if not session.get_inputs()[0].rank_known else None).warmed


@pytest.mark.parametrize("shapes", [3, "x", [3], [{"N": 1}, "x"]])
def test_shapes_are_mappings(shapes: Any) -> None:
    """One, or a list of them."""
    with pytest.raises(ArgumentTypeError, match="mapping or a list of mappings"):
        open_model(RELU).warmup(shapes)


def test_progress_is_told() -> None:
    """Before each shape and at the end."""
    told: list[tuple[int, int, str]] = []
    open_model(RELU).warmup({"N": [1, 8]}, progress=lambda *about: told.append(about))
    assert told == [(0, 2, "x 1x3"), (1, 2, "x 8x3"), (2, 2, "")]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, ValueError])
def test_a_warm_up_can_be_stopped(kind: type[BaseException]) -> None:
    """An exception of `progress`, or Ctrl-C, ends it; the session stays usable."""

    def stop(done: int, total: int, what: str) -> None:
        if done:
            raise kind

    session = open_model(RELU)
    with pytest.raises(kind):
        session.warmup({"N": [1, 8]}, progress=stop)
    assert session.run(None, {"x": np.zeros((1, 3), np.float32)})


def test_the_time_limit_leaves_shapes_out(caplog: pytest.LogCaptureFixture) -> None:
    """They are in the report, and in one warning."""
    report = open_model(RELU).warmup({"N": [1, 8]}, seconds=0)
    assert (report.warmed, report.left_out) == ((), ("x 1x3", "x 8x3"))
    assert "left out 2 of 2 shapes" in caplog.text
    assert "left out  x 8x3" in str(report)


def test_the_report_reads(caplog: pytest.LogCaptureFixture) -> None:
    """A line a shape with both times; the same in the log."""
    caplog.set_level("INFO", "ort_py.session")
    report = open_model(RELU).warmup({"N": 2})
    assert report.warmed[0].first > 0 < report.warmed[0].second
    assert report.seconds >= report.warmed[0].first + report.warmed[0].second
    assert "x 2x3" in str(report)
    assert "warm-up 1 of 1: x 2x3" in caplog.text


def test_warming_up_a_closed_session() -> None:
    session = open_model(RELU)
    session.close()
    with pytest.raises(InvalidArgument, match="session is closed"):
        session.warmup({"N": 1})
