"""Scan of opset 8 gives what onnxruntime gives, on the host and on a device: batches, lengths, directions, padding."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from core.tests.driving import HostProvider, drive, floats, model_of
from ort_py.contracts import IExecutionProvider, KernelDef
from ort_py.errors import Fail, InvalidArgument, LimitError
from ort_py.execution.watch import RunWatch
from ort_py.limits import Limits
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

HEADER = '<ir_version: 8, opset_import: ["" : 8]>\n'
SCAN = (
    HEADER
    + """
g (int64[B] n, float[B,2] x, float[B,T,2] p, float[B,T] q) => (float[B,2] y, float[B,T,2] s, float[B,T] t)
<float[2] w = {2, 3}> {
  y, s, t = Scan <
    num_scan_inputs = 2, directions = [0, 1],
    body = b (float[2] v, float[2] e, float f) => (float[2] u, float[2] a, float r) {
      m = Mul(e, w)
      u = Add(v, m)
      a = Add(u, f)
      r = Neg(f)
    }
  > (n, x, p, q)
}
"""
)
WITHOUT_LENGTHS = SCAN.replace("(n, x, p, q)", "( , x, p, q)")
PROVIDERS = ["host", "device", "device regions", "some on the device"]


def providers(kind: str) -> list[IExecutionProvider]:
    """The providers to run on."""
    behaviour = {
        "device": FakeBehaviour(),
        "device regions": FakeBehaviour(compiles=True),
        "some on the device": FakeBehaviour(operators={"Mul"}),
    }.get(kind)
    return [HostProvider()] if behaviour is None else [FakeProvider(behaviour=behaviour), HostProvider()]


def feeds_for(batch: int, time: int, lengths: list[int]) -> dict[str, Any]:
    """Seeded inputs."""
    return {
        "n": np.array(lengths, np.int64),
        "x": floats(batch, 2),
        "p": floats(batch, time, 2, seed=1),
        "q": floats(batch, time, seed=2),
    }


def onnxruntime_results(text: str, feeds: dict[str, Any]) -> list[Any]:
    """The oracle: onnx.reference takes no batches."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    session = onnxruntime.InferenceSession(
        model_of(text).SerializeToString(), options, providers=["CPUExecutionProvider"]
    )
    return list(session.run(None, feeds))


@pytest.mark.parametrize("kind", PROVIDERS)
@pytest.mark.parametrize("text", [SCAN, WITHOUT_LENGTHS], ids=["lengths", "no lengths"])
def test_batches_are_scanned_one_by_one(kind: str, text: str) -> None:
    """Each sequence from its own start or end up to its own length; what lies behind is zero."""
    feeds = feeds_for(3, 4, [4, 1, 3])
    driven = drive(text, *providers(kind))
    wanted = onnxruntime_results(text, feeds)
    for _ in range(2):
        for got, want in zip(driven.run(feeds), wanted, strict=True):
            np.testing.assert_allclose(got, want, rtol=1e-5, atol=1e-6, strict=True)


@settings(max_examples=20, deadline=None, derandomize=True)
@given(st.data(), st.integers(1, 3), st.integers(1, 4))
def test_any_lengths(data: st.DataObject, batch: int, time: int) -> None:
    """Sequences of nothing too: their state stays what it was."""
    lengths = data.draw(st.lists(st.integers(0, time), min_size=batch, max_size=batch))
    feeds = feeds_for(batch, time, lengths)
    y, s, t = drive(SCAN).run(feeds)
    for entry, length in enumerate(lengths):
        p, q = feeds["p"][entry], feeds["q"][entry]
        state = feeds["x"][entry].copy()
        for step in range(length):
            state = state + p[step] * np.array([2, 3], np.float32)
            np.testing.assert_allclose(s[entry, step], state + q[length - 1 - step], rtol=1e-5, atol=1e-6)
            np.testing.assert_array_equal(t[entry, step], -q[length - 1 - step])
        np.testing.assert_allclose(y[entry], state, rtol=1e-5, atol=1e-6)
        assert not s[entry, length:].any()
        assert not t[entry, length:].any()
    assert (s.shape, t.shape) == ((batch, time, 2), (batch, time))


@pytest.mark.parametrize(("batch", "time"), [(2, 0), (0, 3), (0, 0)])
def test_nothing_to_scan(batch: int, time: int) -> None:
    """No sequence, or sequences of nothing: states as they were, scan outputs of the declared slices."""
    feeds = feeds_for(batch, time, [time] * batch)
    y, s, t = drive(SCAN).run(feeds)
    np.testing.assert_array_equal(y, feeds["x"])
    assert (s.shape, t.shape) == ((batch, time, 2), (batch, time))


def test_strings_are_padded_with_empty_strings() -> None:
    """A scan of strings hands arrays to the body and fills up with nothing."""
    text = (
        HEADER
        + """
    g (int64[B] n, string[B,T] p) => (string[B,T] s) {
      s = Scan <num_scan_inputs = 1, body = b (string e) => (string f) { f = Identity(e) }> (n, p)
    }
    """
    )
    seen: list[Any] = []

    def identity(x: Any) -> Any:
        seen.append(x)
        return x

    kernels = [KernelDef("Identity", lambda _ctx: identity, since=1, until=99, views=((0, 0),))]
    words = np.array([["a", "b"], ["c", "d"]], object)
    (s,) = drive(text, HostProvider(kernels)).run({"n": np.array([1, 2]), "p": words})
    assert s.tolist() == [["a", ""], ["c", "d"]]
    assert all(isinstance(item, np.ndarray) for item in seen)


@pytest.mark.parametrize("lengths", [[1], [1, 5], [-1, 2], [[1, 2]]])
def test_lengths_that_do_not_fit_are_refused(lengths: Any) -> None:
    """One per sequence, from nothing to the longest."""
    feeds = feeds_for(2, 4, [0, 0]) | {"n": np.array(lengths, np.int64)}
    with pytest.raises(InvalidArgument, match="do not fit a batch of 2 sequences of at most 4") as caught:
        drive(SCAN).run(feeds)
    assert caught.value.location.op_type == "Scan"
    assert "in [0, 4]" in str(caught.value)


@pytest.mark.parametrize(
    ("name", "shape", "text"),
    [
        ("x", (3, 2), r"batch sizes \[3, 2, 2\]"),
        ("p", (2, 3, 2), r"lengths of the scan inputs \[3, 4\]"),
        ("q", (2,), r"shapes .*\(2,\)"),
        ("x", (), r"shapes \[\(\),"),
    ],
)
def test_inputs_that_do_not_agree_are_refused(name: str, shape: tuple[int, ...], text: str) -> None:
    """All have the same batch, the scan inputs the same time; the error lists what they have."""
    feeds = feeds_for(2, 4, [4, 4]) | {name: floats(*shape)}
    with pytest.raises(InvalidArgument, match=text):
        drive(SCAN).run(feeds)


_LOOP = """u, a = Loop(e, , v) <body = c (int64 i, bool g, float[q] s) => (bool h, float[r] t, float[w] o) {
    t = Neg(s) o = Neg(s) h = Identity(g)
}>"""


@pytest.mark.parametrize(
    ("body", "text"),
    [
        ("u = Concat<axis = 0>(v, v) a = Neg(v)", r"(?s)State 0 changes its shape.*\[\(1,\), \(2,\)\]"),
        (_LOOP, r"(?s)Scan output 0 changes its shape.*\[\(1, 1\), \(2, 1\)\]"),
    ],
)
def test_iterations_may_not_change_a_shape(body: str, text: str) -> None:
    """Neither that of a state nor that of what they leave."""
    model = f"""{HEADER}
        g (int64[B] n, float[B,C] x, int64[B,T,1] p) => (float[B,D] y, float[] s) {{
            y, s = Scan <num_scan_inputs = 1, body = b (float[k] v, int64[1] e) => (float[m] u, float[] a) {{ {body} }}>
                (n, x, p)
        }}"""
    with pytest.raises(InvalidArgument, match=text):
        drive(model).run({"n": np.array([2]), "x": floats(1, 1), "p": np.array([[[1], [2]]])})


def test_results_ask_the_limits() -> None:
    """Padding counts: what a length leaves out is allocated all the same."""
    feeds = feeds_for(2, 100, [1, 0])
    with pytest.raises(LimitError, match="2×100×2"):
        drive(SCAN, limits=Limits(single_allocation_bytes=1200)).run(feeds)


def test_a_run_can_be_stopped_and_measured() -> None:
    """Between any two elements the watch is asked; what waits to be stacked counts as memory."""
    asked = iter([False] * 30 + [True] * 1000)
    with pytest.raises(Fail, match="was stopped"):
        drive(SCAN).run(feeds_for(3, 50, [50] * 3), RunWatch(terminate=lambda: next(asked)))
    with pytest.raises(LimitError, match="The run holds"):
        drive(SCAN).run(feeds_for(3, 50, [50] * 3), RunWatch(memory_bytes=3600))
