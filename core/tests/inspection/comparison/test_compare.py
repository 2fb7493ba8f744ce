"""Comparing two ways of running a model: where a difference is made, whatever later nodes make of it."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.inspection.comparison.wrong_kernels import CPU, WRONG, wrong_provider
from core.tests.small_models import model_bytes
from ort_py.contracts import ProviderFactory
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

pytestmark = pytest.mark.usefixtures("register")

CHAIN = """g (float[N, 3] x) => (float[N, 3] y) <float big = {1000}> {
    a = Relu(x) ["bent"] t = Tanh(a) b = Mul(t, big) c = Exp(t) y = Mul(b, c)
}"""
X = {"x": np.linspace(0.1, 2, 6, dtype=np.float32).reshape(2, 3)}


def off(xp: Any, x: Any) -> Any:
    """Tanh, slightly wrong."""
    return xp.tanh(x) + x.dtype.type(1e-3)


def compare(text: str, a: Any, b: Any, inputs: Any = X, **arguments: Any) -> ort_py.ComparisonReport:
    """Compare on a model given as text."""
    return ort_py.compare(model_bytes(text), a=a, b=b, inputs=inputs, **arguments)


def test_equal_sides(register: Callable[[ProviderFactory], None]) -> None:
    """A provider that computes as it should, on a device of its own: every value is compared, none differs."""
    register(FakeFactory(behaviour=FakeBehaviour(cost_us=-1e9)))
    report = compare(CHAIN, [CPU], ["FakeExecutionProvider", CPU])
    assert report.equal
    assert (report.compared, report.steps, report.unmatched, report.first) == (5, 5, 0, None)
    assert report.b.nodes == {"FakeExecutionProvider": 5}
    assert "1 run(s), equal within the tolerance" in str(report)


def test_a_wrong_kernel_is_found_at_its_node() -> None:
    """Later nodes make the error a thousand times larger; it is still the only value that differs."""
    report = compare(CHAIN, [CPU], wrong_provider("Tanh", off, "Relu", "Mul", "Exp"))
    assert not report.equal
    assert [one.value for one in report.differences] == ["t"]
    assert report.first is not None
    node = report.first.node
    assert (node.name, node.op_type, node.provider) == ("bent", "Tanh", WRONG)
    assert report.first.reference_nodes[-1].provider == CPU
    assert report.first.deviation.absolute == pytest.approx(1e-3, rel=1e-3)
    (read,) = report.first.inputs
    assert (read.name, read.shape) == ("a", (2, 3))
    assert read.minimum == pytest.approx(0.1)
    (output,) = report.outputs
    assert output.deviation.absolute > 1


def test_a_wrong_kernel_of_the_expected_side() -> None:
    """Differences do not say who is right."""
    report = compare(CHAIN, wrong_provider("Tanh", off), [CPU])
    assert [one.value for one in report.differences] == ["t"]


def test_a_compiled_region_is_judged_by_its_outputs() -> None:
    """The nodes in it are named."""
    report = compare(CHAIN, [CPU], wrong_provider("Tanh", off, "Relu", compiles=True))
    assert report.first is not None
    assert report.first.value == "t"
    assert [node.op_type for node in report.first.nodes] == ["Relu", "Tanh"]
    assert report.first.node.region
    assert [read.name for read in report.first.inputs] == ["x"]
    assert "computed together with Relu" in str(report)


def test_nan_is_found_where_it_arises() -> None:
    """Though all that is computed from it has it too."""

    def without(xp: Any, x: Any) -> Any:
        return xp.sqrt(x - x.dtype.type(1))  # of negative numbers there is none

    report = compare(CHAIN, [CPU], wrong_provider("Tanh", without, "Mul", "Exp"))
    assert report.nan_origin is not None
    assert report.nan_origin.value == "t"
    assert report.nan_origin.deviation.nan_only_b > 0
    assert [(read.name, read.nan) for read in report.nan_origin.inputs] == [("a", 0)]
    assert [one.value for one in report.differences] == ["t"]
    assert "NaN first: value 't' of Tanh 'bent'" in str(report)


def test_an_element_type_that_is_another() -> None:
    """The difference is reported, and later nodes use the value that the side computed itself."""
    text = "g (float[N, 3] x) => (float[N, 3] y) { t = Neg(x) y = Tanh(t) }"
    providers = wrong_provider("Neg", lambda xp, x: (x * x.dtype.type(-1)).astype(np.float64))
    report = compare(text, [CPU], providers)
    assert report.first is not None
    assert str(report.first.deviation) == "element type float in a, double in b"


def test_levels_with_other_nodes_are_compared_by_common_values() -> None:
    """A value that optimising took away is skipped; what was computed from it is not."""
    text = """g (float[N, 3] x) => (float[N, 3] y) <float[3] one = {1, 1, 1}, float[3] two = {2, 2, 2}> {
        three = Add(one, two) same = Identity(x) a = Mul(same, three) y = Relu(a)
    }"""
    report = compare(text, "disable", "all")
    assert report.equal
    assert (sum(report.a.nodes.values()), report.steps, report.compared) == (4, 2, 2)


def test_unrolled_loops_are_compared_inside() -> None:
    """Nodes that transforms made in the same way on both sides have common values too."""
    text = """g (float[3] x) => (float[3] y) <int64 n = {3}, bool go = {1}> {
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[3] s) => (bool d, float[3] r) {
            d = Identity(c) t = Tanh(s) r = Neg(t)
        }>
    }"""
    feed = {"x": np.array([0.5, 1, 2], np.float32)}
    report = compare(text, [CPU], wrong_provider("Tanh", off), feed)
    assert report.first is not None
    assert (report.first.node.op_type, len(report.first.nodes)) == ("Tanh", 1)


BRANCH = """g (bool c, float[3] x) => (float[3] y) {
    a = Abs(x)
    y = If (c) <then_branch = t () => (float[3] p) { u = Tanh(a) p = Neg(u) },
                else_branch = e () => (float[3] q) { q = Neg(a) }>
}"""


def test_the_branch_that_ran_is_looked_into() -> None:
    """The If differs as a whole, and the node inside it is named."""
    feed = {"c": np.array(True), "x": np.array([0.5, -1, 2], np.float32)}
    report = compare(BRANCH, [CPU], wrong_provider("Tanh", off), feed)
    assert report.first is not None
    assert report.first.node.op_type == "If"
    (inside,) = report.first.inside
    assert inside.first is not None
    assert (inside.first.value, inside.first.node.op_type) == ("u", "Tanh")
    assert "value 'u' of Tanh" in str(report)
    feed["c"] = np.array(False)
    assert ort_py.compare(model_bytes(BRANCH), a=[CPU], b=[WRONG, CPU], inputs=feed).equal


def test_the_iteration_that_differs_is_looked_into() -> None:
    """Earlier ones are equal: the kernel is wrong for large numbers only."""
    text = """g (int64 n, float[1] x) => (float[1] y) <float[1] two = {2}> {
        y = Loop (n, , x) <body = b (int64 i, bool c, float[1] s) => (bool d, float[1] r) {
            d = Identity(c) t = Mul(s, two) r = Abs(t)
        }>
    }"""

    def wrong(xp: Any, x: Any) -> Any:
        return xp.where(x > x.dtype.type(10), x + x.dtype.type(1), xp.absolute(x))

    feed = {"n": np.array(6), "x": np.ones(1, np.float32)}
    report = compare(text, [CPU], wrong_provider("Abs", wrong), feed)
    assert report.first is not None
    (inside,) = report.first.inside
    assert inside.title.startswith("iteration 3 of Loop")  # 2, 4, 8, 16
    assert inside.first is not None
    assert (inside.first.value, inside.first.node.op_type) == ("r", "Abs")


def test_a_loop_that_ends_by_its_condition() -> None:
    """Iterations that do not run are not compared, and a body without a difference of its own is not listed."""
    text = """g (bool go, float[1] x) => (float[1] y, float[1] z) <
        int64 n = {9}, float[1] two = {2}, float[1] ten = {10}
    > {
        y = Loop (n, go, x) <body = b (int64 i, bool c, float[1] s) => (bool d, float[1] r) {
            r = Mul(s, two) e = Less(r, ten) d = Squeeze(e)
        }>
        z = Tanh(y)
    }"""
    feed = {"go": np.array(True), "x": np.ones(1, np.float32)}
    report = compare(text, [CPU], wrong_provider("Tanh", off), feed)
    assert [one.value for one in report.differences] == ["z"]
    assert report.first is not None
    assert report.first.inside == ()


def test_several_feeds() -> None:
    """Each is a run; differences and outputs have its number."""
    providers = wrong_provider("Tanh", lambda xp, x: xp.tanh(x) + xp.where(x > x.dtype.type(5), x, x * x.dtype.type(0)))
    report = compare(CHAIN, [CPU], providers, [X, {"x": X["x"] * 10}])
    assert (report.runs, report.first.run if report.first else None, len(report.outputs)) == (2, 1, 2)
    assert "y of run 1" in str(report)


def test_made_up_inputs_depend_on_the_seed() -> None:
    """Without inputs, values are made up from what the model declares."""
    ranges = []
    providers = wrong_provider("Tanh", off)
    for seed in (0, 0, 1):
        report = compare(CHAIN, [CPU], providers, None, seed=seed)
        assert report.first is not None
        ranges.append(report.first.inputs[0].maximum)
    assert ranges[0] == ranges[1] != ranges[2]


def test_values_drawn_at_random_are_not_compared() -> None:
    """Values computed from them are compared, since both sides use the same numbers."""
    text = "g (float[40] x) => (float[40] y) { r = RandomNormalLike(x) y = Tanh(r) }"
    report = compare(text, "disable", "all", {"x": np.zeros(40, np.float32)})
    assert (report.random, report.compared, report.differing) == (1, 1, 0)
    assert "1 values are drawn at random" in str(report)


def test_a_tolerance_of_the_callers() -> None:
    report = compare(CHAIN, [CPU], wrong_provider("Tanh", off), tolerances={"float": (1e-1, 1e-2)})
    assert report.equal
    assert report.nearest[0].value == "t"
    assert "closest to the tolerance" in str(report)


def test_errors_that_add_up_are_told_from_wrong_nodes() -> None:
    """No step is beyond its tolerance, an output is."""
    text = "g (float[3] x) => (float[3] y) { " + "".join(f"a{i + 1} = Tanh(a{i}) " for i in range(20))
    text = text.replace("(a0)", "(x)") + "y = Identity(a20) }"
    providers = wrong_provider("Tanh", lambda xp, x: xp.tanh(x) * x.dtype.type(1.00005))
    report = compare(text, [CPU], providers, {"x": np.full(3, 0.1, np.float32)})
    assert (report.equal, report.first) == (False, None)
    assert "no single step is beyond the tolerance: small errors add up" in str(report)


def test_progress() -> None:
    """The callback is called after each step, up to the number of steps in all runs."""
    seen: list[tuple[int, int]] = []
    compare(CHAIN, "disable", "all", [X, X], progress=lambda done, steps: seen.append((done, steps)))
    assert seen[0] == (1, seen[0][1])
    assert seen[-1][0] == seen[-1][1] == len(seen)


def test_a_step_that_fails_says_where() -> None:
    def fail(xp: Any, x: Any) -> Any:
        raise RuntimeError("out of order")

    with pytest.raises(ort_py.ExecutionError, match="out of order") as caught:
        compare(CHAIN, [CPU], wrong_provider("Tanh", fail), X)
    assert caught.value.location.node == "bent"


def test_a_feed_that_does_not_fit() -> None:
    """Is refused as by a run."""
    with pytest.raises(ort_py.MissingInputError, match="'x'"):
        compare(CHAIN, "disable", "all", {})


def test_a_closed_session_has_no_steps() -> None:
    """Nor has a run of it."""
    from ort_py.inspection.comparison.stepping import SteppedRun

    session = ort_py.InferenceSession(model_bytes(CHAIN), providers=[CPU])
    session.close()
    with pytest.raises(ort_py.InvalidArgument, match="The session is closed"):
        SteppedRun(session.engine, X)


def test_what_did_not_run_where_it_should_is_told() -> None:
    """A comparison with a provider that is not there is none with that provider."""
    with pytest.warns(ort_py.ProviderFallbackWarning):
        report = compare(CHAIN, [CPU], ["ROCMExecutionProvider", CPU])
    assert report.b.nodes == {CPU: 5}
    assert any("ROCMExecutionProvider" in line for line in report.b.fallbacks)
    assert "ROCMExecutionProvider" in str(report)


def test_the_report_is_plain_data() -> None:
    """All of it goes into JSON."""
    report = compare(CHAIN, [CPU], wrong_provider("Tanh", off))
    data = json.loads(json.dumps(report.to_dict()))
    assert data["equal"] is False
    assert data["differences"][0]["nodes"][-1]["name"] == "bent"
    assert data["differences"][0]["deviation"]["shape"] == [2, 3]
