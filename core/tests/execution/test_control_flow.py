"""If, Loop and Scan give what onnxruntime gives, on the host, on a device, and on both in turns."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
import onnxruntime
import pytest

from core.tests.driving import HostProvider, drive, floats, model_of, reference
from ort_py.contracts import IExecutionProvider, KernelDef
from ort_py.errors import InvalidArgument, LimitError, OrtPyError
from ort_py.limits import Limits
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider, fake_kernels

Oracle = Callable[[str, Mapping[str, Any]], list[Any]]
PROVIDERS = ["host", "device", "device regions", "some on the device", "others on the device"]


def providers(kind: str) -> list[IExecutionProvider]:
    """The providers to run on."""
    behaviour = {
        "device": FakeBehaviour(),
        "device regions": FakeBehaviour(compiles=True),
        "some on the device": FakeBehaviour(operators={"Neg", "Mul", "Identity", "Less", "Cast"}),
        "others on the device": FakeBehaviour(operators={"Add", "Abs", "Concat", "MatMul"}),
    }.get(kind)
    return [HostProvider()] if behaviour is None else [FakeProvider(behaviour=behaviour), HostProvider()]


def check(kind: str, text: str, feeds: Mapping[str, Any], oracle: Oracle | None = None) -> list[Any]:
    """Run twice, compare with the oracle, onnxruntime where none is named; returns the results."""
    driven = drive(text, *providers(kind))
    wanted = (oracle or onnxruntime_results)(text, feeds)
    for _ in range(2):
        results = driven.run(feeds)
        for got, want in zip(results, map(np.asarray, wanted), strict=True):
            assert (got.dtype, got.shape) == (want.dtype, want.shape)
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6)
    return results


def onnxruntime_results(text: str, feeds: Mapping[str, Any]) -> list[Any]:
    """The oracle here: onnx.reference gives scalar scan outputs an axis too many and cannot run a loop zero times."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3  # it warns about inputs a variant of the model does not read
    session = onnxruntime.InferenceSession(
        model_of(text).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, dict(feeds)))


IF = """
g (bool c, float[2] x) => (float[2] y, float[2] z) <float[2] w = {1, 2}> {
  a = Neg(x)
  y, z = If (c) <
    then_branch = t () => (float[2] r, float[2] a) { r = Add(a, w) },
    else_branch = e () => (float[2] w, float[2] s) { s = Mul(x, x) }
  >
}
"""


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("condition", [True, False])
def test_if_runs_the_chosen_branch(kind: str, condition: bool) -> None:
    """Branches read outer values, and return outer values and weights as they are."""
    # onnxruntime refuses branches that return an outer value as it is.
    check(kind, IF, {"c": np.array(condition), "x": floats(2)}, reference)


@pytest.mark.parametrize("condition", [np.array(True), np.array([False]), np.array([[True]]), np.bool_(True)])
def test_a_condition_is_one_bool(condition: Any) -> None:
    """A scalar, a NumPy scalar, or an array of any rank with one element."""
    driven = drive(IF)
    x = floats(2)
    y, _ = driven.run({"c": condition, "x": x})
    np.testing.assert_allclose(y, np.array([1, 2]) - x if np.all(condition) else [1, 2], rtol=1e-6)


@pytest.mark.parametrize("condition", [np.array([True, False]), np.zeros((0,), bool)])
def test_a_condition_of_another_size_is_refused(condition: Any) -> None:
    """Two truths are none; the error says what was found and where."""
    with pytest.raises(InvalidArgument, match="not one bool") as caught:
        drive(IF).run({"c": condition, "x": floats(2)})
    assert str(condition.shape) in str(caught.value)
    assert caught.value.location.op_type == "If"


VIEWS = """
g (bool c, float[2, 3] x, int64[k] shape) => (float[m, n] y, float[2, 3] z) {
  a = Neg(x)
  b, d = If (c) <
    then_branch = t () => (float[p, q] r, float[2, 3] u) { e = Reshape(a, shape) r = Identity(e) u = Identity(x) },
    else_branch = e () => (float[2, 3] a, float[2, 3] x) {}
  >
  y = Abs(b)
  z = Mul(d, d)
}
"""


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("condition", [True, False])
def test_branches_of_views(kind: str, condition: bool) -> None:
    """Branches that only reshape what is around them, or return it, also in turns."""
    check(kind, VIEWS, {"c": np.array(condition), "x": floats(2, 3), "shape": np.array([3, 2])}, reference)


def test_a_failing_view_is_named_with_its_branch() -> None:
    """A branch without a frame of its own has its place in errors all the same."""
    driven, x = drive(VIEWS), floats(2, 3)
    driven.run({"c": np.array(True), "x": x, "shape": np.array([6, 1])})
    with pytest.raises(OrtPyError) as caught:
        driven.run({"c": np.array(True), "x": x, "shape": np.array([4, 2])})
    assert caught.value.location.op_type == "Reshape"
    assert caught.value.location.path


LOOP = """
g (int64 n, bool go, float[2] x) => (float[2] y, float[k,2] s, int64[k] j) <float limit = {50}> {
  y, s, j = Loop (n, go, x) <body = b (int64 i, bool c, float[2] v) => (bool c2, float[2] w, float[2] t, int64 i2) {
    f = Cast<to = 1>(i)
    a = Add(v, f)
    w = Mul(a, a)
    t = Neg(v)
    m = ReduceSum<keepdims = 0>(w)
    c2 = Less(m, limit)
    i2 = Identity(i)
  }>
}
"""


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize(("trips", "go"), [(3, True), (100, True), (0, True), (-5, True), (4, False), (1, True)])
def test_loop_stops_by_count_and_by_condition(kind: str, trips: int, go: bool) -> None:
    """The body reads the iteration number, carries a value, and its scan outputs are stacked."""
    _, s, _ = check(kind, LOOP, {"n": np.array(trips), "go": np.array(go), "x": np.array([1, 0.5], np.float32)})
    if trips <= 0 or not go:
        assert s.shape == (0, 2)


@pytest.mark.parametrize("kind", PROVIDERS)
def test_a_loop_without_count_runs_until_its_condition(kind: str) -> None:
    """Trip count and condition are both optional."""
    check(kind, LOOP.replace("(n, go, x)", "( , go, x)"), {"n": np.array(0), "go": np.array(True), "x": floats(2)})
    check(kind, LOOP.replace("(n, go, x)", "(n, , x)"), {"n": np.array(2), "go": np.array(False), "x": floats(2)})


NESTED = """
g (int64 n, float[2] x) => (float[2] y, float[p,q] s) <bool go = {1}, float[2] w = {0.5, 0.25}> {
  o = Abs(x)
  y, s = Loop (n, go, x) <body = outer (int64 i, bool c, float[2] v) => (bool c2, float[2] u, float[q] t) {
    k = Add(n, n)
    u, t = Loop (k, go, v) <body = inner (int64 j, bool d, float[2] a) => (bool d2, float[2] b, float f) {
      m = Mul(a, w)
      b = Add(m, o)
      h = Cast<to = 1>(i)
      l = Cast<to = 1>(j)
      f = Add(h, l)
      d2 = Identity(d)
    }>
    c2 = Identity(c)
  }>
}
"""


@pytest.mark.parametrize("kind", PROVIDERS)
def test_loops_nest_and_capture_through_levels(kind: str) -> None:
    """The inner body reads the main graph's values, the outer body's iteration number, and its own."""
    check(kind, NESTED, {"n": np.array(3), "x": floats(2)})


SCAN = """
g (float[2] x, float[3,2] p, float[2,3] q) => (float[2] y, float[3,2] s, float[2,3] t) <float[2] w = {2, 3}> {
  y, s, t = Scan <
    num_scan_inputs = 2, scan_input_axes = [0, 1], scan_input_directions = [1, 0],
    scan_output_axes = [0, -1], scan_output_directions = [0, 1],
    body = b (float[2] v, float[2] e, float[2] f) => (float[2] u, float[2] g1, float[2] h) {
      a = Mul(e, w)
      u = Add(v, a)
      g1 = Add(u, f)
      h = Neg(f)
    }
  > (x, p, q)
}
"""

# Lengths that only a run knows.
LOOSE_SCAN = SCAN.replace("[3,2] p, float[2,3] q", "[n,2] p, float[2,m] q").replace(
    "[3,2] s, float[2,3] t", "[k,2] s, float[2,l] t"
)


@pytest.mark.parametrize("kind", PROVIDERS)
def test_scan_slices_along_any_axis_in_any_direction(kind: str) -> None:
    """Scan inputs from the back and along axis 1; scan outputs along the last axis and reversed."""
    p, q, x = floats(3, 2), floats(2, 3, seed=1), floats(2, seed=2)
    driven = drive(SCAN, *providers(kind))
    state = x.copy()
    first: list[Any] = []
    second: list[Any] = []
    for i in range(3):
        state = state + p[2 - i] * np.array([2, 3], np.float32)
        first.append(state + q[:, i])
        second.insert(0, -q[:, i])
    for _ in range(2):
        y, s, t = driven.run({"x": x, "p": p, "q": q})
        np.testing.assert_allclose(y, state, rtol=1e-5)
        np.testing.assert_allclose(s, np.stack(first), rtol=1e-5)
        np.testing.assert_allclose(t, np.stack(second, -1), rtol=1e-5)


def test_scan_of_nothing_gives_empty_outputs() -> None:
    """Zero slices: the state as it was, outputs of length zero along their axes."""
    y, s, t = drive(LOOSE_SCAN).run({"x": np.ones(2, np.float32), "p": floats(0, 2), "q": floats(2, 0)})
    assert (y.tolist(), s.shape, t.shape) == ([1, 1], (0, 2), (2, 0))


def test_scan_inputs_of_different_lengths_are_refused() -> None:
    with pytest.raises(InvalidArgument, match=r"different lengths: \[2, 3\]") as caught:
        drive(LOOSE_SCAN).run({"x": floats(2), "p": floats(2, 2), "q": floats(2, 3)})
    assert caught.value.location.op_type == "Scan"


def test_a_scan_axis_outside_the_input_is_refused() -> None:
    """The axis and the rank are in the error."""
    driven = drive(SCAN)
    with pytest.raises(InvalidArgument, match="Scan axis 1 is outside an input of rank 1"):
        driven.run({"x": floats(2), "p": floats(3, 2), "q": floats(3)})


def test_slices_of_a_vector_are_arrays() -> None:
    """A scanned vector gives arrays of rank 0, of strings too: kernels never meet a bare `str`."""
    seen: list[Any] = []

    def identity(x: Any) -> Any:
        seen.append(x)
        return x

    kernels = [KernelDef("Identity", lambda _ctx: identity, since=1, until=99, views=((0, 0),))]
    text = """
    g (string[2] x) => (string[2] y) {
      y = Scan <num_scan_inputs = 1, body = b (string e) => (string f) { f = Identity(e) }> (x)
    }
    """
    (y,) = drive(text, HostProvider(kernels)).run({"x": np.array(["a", "b"], object)})
    assert all(isinstance(item, np.ndarray) and item.shape == () for item in seen)
    assert y.tolist() == ["a", "b"]


def test_a_scan_output_may_not_change_its_shape() -> None:
    """Iterations that make different shapes cannot be stacked; the error lists the shapes."""
    text = """
    g (int64 n, float[1] x) => (float[m] y, float[k,m] s) <bool go = {1}> {
      y, s = Loop (n, go, x) <body = b (int64 i, bool c, float[u] v) => (bool c2, float[p] w, float[p] t) {
        w = Concat<axis = 0>(v, v)
        t = Neg(w)
        c2 = Identity(c)
      }>
    }
    """
    with pytest.raises(InvalidArgument, match="changes its shape") as caught:
        drive(text).run({"n": np.array(2), "x": floats(1)})
    assert "[(2,), (4,)]" in str(caught.value)


def test_the_states_of_a_scan_may_not_change_their_shape() -> None:
    """The specification forbids it, and the types behind the Scan are those of the initial states."""
    text = """
    g (float[A,2] x, float[T,B,2] p) => (float[a,b] y, float[c,d,e] s) {
      y, s = Scan <num_scan_inputs = 1, body = b (float[k,2] v, float[m,2] e) => (float[l,2] u, float[m,2] t) {
        u = Add(v, e)
        t = Neg(e)
      }> (x, p)
    }
    """
    with pytest.raises(InvalidArgument, match="State 0 changes its shape") as caught:
        drive(text).run({"x": floats(1, 2), "p": floats(2, 3, 2)})
    assert "[(1, 2), (3, 2)]" in str(caught.value)


def test_stacking_asks_the_limits() -> None:
    """A scan output larger than one allocation may be is refused before it is made."""
    text = LOOP.replace("w = Mul(a, a)", "w = Abs(a)").replace("{50}", "{1e9}")
    with pytest.raises(LimitError, match="100×2"):
        drive(text, limits=Limits(single_allocation_bytes=700)).run(
            {"n": np.array(100), "go": np.array(True), "x": np.zeros(2, np.float32)}
        )


@pytest.mark.parametrize("trip", [np.array([1, 2])])
def test_a_trip_count_is_one_integer(trip: Any) -> None:
    """An array of several is refused with its shape."""
    with pytest.raises(InvalidArgument, match=r"trip count is an array of shape \(2,\)"):
        drive(LOOP).run({"n": trip, "go": np.array(True), "x": floats(2)})


def test_an_absent_condition_result_is_refused() -> None:
    """The error names the body that computes no condition."""
    # Believed, as the project's own kernels are: a plug-in's would be refused for what it returns.
    none = KernelDef("Less", lambda _ctx: lambda _a, _b: None, since=7, until=99, implementation="ort_py:believed")
    kernels = [none, *[kernel for kernel in fake_kernels() if kernel.op_type != "Less"]]
    with pytest.raises(InvalidArgument, match="The condition is absent"):
        drive(LOOP, HostProvider(kernels)).run({"n": np.array(2), "go": np.array(True), "x": floats(2)})


@pytest.mark.parametrize("kind", PROVIDERS)
def test_carried_values_may_change_places(kind: str) -> None:
    """Two carried values swapped in each iteration, one of them a view of the other's past."""
    text = """
    g (int64 n, float[2,2] x, float[2,2] z) => (float[2,2] p, float[2,2] q) <bool go = {1}> {
      p, q = Loop (n, go, x, z) <body = b (int64 i, bool c, float[2,2] v, float[2,2] u)
        => (bool c2, float[2,2] u2, float[2,2] t) {
        c2 = Identity(c) t = Transpose(v) u2 = Add(u, v)
      }>
    }
    """
    check(kind, text, {"n": np.array(4), "x": floats(2, 2), "z": floats(2, 2, seed=3)})
