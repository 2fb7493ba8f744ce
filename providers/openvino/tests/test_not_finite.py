"""Not-a-number and infinities in regions: an instance declines what OpenVINO would lose, and answers all else."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ort_py
from ort_py.errors import OrtPyError
from ort_py_openvino.not_finite import Looks, looks_of
from providers.openvino.tests.models import NAME, check, opened, parsed, runners

pytestmark = pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy's, which computes what was declined

NAN, INF = np.nan, np.inf
LOSES = "g (float[n, 4] x, float[4, 4] w) => (float[n, 4] y) { a = MatMul(x, w) y = Relu(a) }"


def _run(text: str, **feeds: Any) -> np.ndarray[Any, Any]:
    with check(text, feeds) as session:
        assert NAME in runners(session).values()
        result: np.ndarray[Any, Any] = session.run(None, feeds)[0]
        return result


@pytest.mark.parametrize(
    "node", ["Relu(x)", "Exp(x)", "Max(x, x)", "Min(x, x)", "Clip(x)", "HardSigmoid(x)", "Celu(x)", "Softmax(x)"]
)
@pytest.mark.parametrize("value", [NAN, INF, -INF])
def test_elementwise(node: str, value: float) -> None:
    """The reference's result, also beside numbers."""
    _run(f"g (float[2, 3] x) => (float[2, 3] y) {{ y = {node} }}", x=np.array([[1, value, -2], [3, 4, 5]], np.float32))


def test_not_a_number_is_true() -> None:
    y = _run("g (float[3] x) => (bool[3] y) { y = Cast <to = 9> (x) }", x=np.array([NAN, 0, -2], np.float32))
    np.testing.assert_array_equal(y, [True, False, True])


@pytest.mark.parametrize("op_type", ["Gather", "GatherElements", "GatherND"])
def test_indices_out_of_range(op_type: str) -> None:
    """Are errors, as for every other provider, though OpenVINO would give zeros."""
    result = "float" if op_type == "GatherND" else "float[n]"
    text = f"g (float[3] x, int64[1] i) => ({result} y) {{ y = {op_type}(x, i) }}"
    with opened(text) as session:
        assert NAME in runners(session).values()
        for index in (7, -4):
            with pytest.raises(OrtPyError, match="out of range"):
                session.run(None, {"x": np.ones(3, np.float32), "i": np.array([index])})
        session.run(None, {"x": np.ones(3, np.float32), "i": np.array([-3])})


@pytest.mark.parametrize("value", [NAN, -INF])
def test_pools(value: float) -> None:
    """A window of nothing but minus infinity has that for its largest; one with not-a-number has none."""
    x = np.zeros((1, 1, 4, 4), np.float32)
    x[..., :2, :2] = value
    node = "MaxPool <kernel_shape = [2, 2], strides = [2, 2]> (x)"
    y = _run(f"g (float[1, 1, 4, 4] x) => (float[1, 1, 2, 2] y) {{ y = {node} }}", x=x)
    np.testing.assert_array_equal(y[0, 0, 0, 0], value)


def test_a_region_answers_again_after_a_run_that_it_declined() -> None:
    """Declining is for one run; its neighbours are OpenVINO's."""
    w = np.eye(4, dtype=np.float32)
    with check(LOSES, {"x": np.ones((1, 4), np.float32), "w": w}) as session:
        for value in (1, NAN, -2):
            x = np.full((2, 4), value, np.float32)
            expected = np.full((2, 4), NAN) if value is NAN else np.maximum(x, 0)
            np.testing.assert_array_equal(session.run(None, {"x": x, "w": w})[0], expected)


@pytest.mark.parametrize(
    "nodes",
    [
        "r = Sqrt(x) y = Relu(r)",
        "r = Sqrt(x) s = Sin(r) t = Mul(s, s) y = Max(t, x)",
        "r = Log(x) y = HardSigmoid(r)",
        "r = Acos(x) s = Neg(r) y = Exp(s)",
        "d = Sub(x, x) q = Div(d, d) y = Relu(q)",
        "r = Reciprocal(x) s = Sub(r, r) y = Relu(s)",
    ],
)
def test_what_is_made_inside_and_lost_there(nodes: str) -> None:
    """A flag of the region tells, however far it is from the operator that loses it; other runs are OpenVINO's."""
    text = f"g (float[2, 3] x) => (float[2, 3] y) {{ {nodes} }}"
    _run(text, x=np.array([[-1, 0, 0.5], [3, 4, 5]], np.float32))
    with check(text, {"x": np.full((2, 3), 0.5, np.float32)}) as session:
        assert set(runners(session).values()) == {NAME}


@pytest.mark.parametrize("node", ["Relu(d)", "Exp(d)", "Celu(d)", "HardSigmoid(d)", "LeakyRelu <alpha = 0.0> (d)"])
@pytest.mark.parametrize("maker", ["Sub(x, x)", "MatMul(x, w)", "Conv(x, k)"])
def test_what_is_made_of_infinities(maker: str, node: str) -> None:
    """Not-a-number of a difference of infinities, or of an infinity times 0, is kept."""
    shape = "float[1, 1, 2, 2]"
    text = f"""g ({shape} x) => ({shape} y) <float[2, 2] w = {{1, 0, 0, 1}}, float[1, 1, 1, 1] k = {{0}}> {{
        d = {maker} y = {node}
    }}"""
    _run(text, x=np.array([INF, 1, -INF, 2], np.float32).reshape(1, 1, 2, 2))


def test_what_is_made_inside_and_reaches_an_output() -> None:
    """No input has it; a row of nothing but minus infinity has no softmax."""
    text = (
        """g (float[2, 2] x) => (float[2, 2] y) <float[2, 2] m = {-inf, -inf, 0, 0}> { a = Add(x, m) y = Softmax(a) }"""
    )
    y = _run(text, x=np.ones((2, 2), np.float32))
    np.testing.assert_array_equal(y, [[NAN, NAN], [0.5, 0.5]])


@pytest.mark.parametrize("value", [NAN, INF])
@pytest.mark.parametrize("maker", ["MatMul(x, w)", "Gemm(x, w)"])
def test_weights_that_are_not_finite(maker: str, value: float) -> None:
    """Products with such weights are not-a-number, which Relu keeps, though all inputs are finite."""
    weights = f"float[2, 2] w = {{1, {value}, 0, 1}}"
    y = _run(f"g (float[2, 2] x) => (float[2, 2] y) <{weights}> {{ a = {maker} y = Relu(a) }}", x=np.zeros((2, 2), "f"))
    np.testing.assert_array_equal(y, [[0, NAN], [0, NAN]])


@pytest.mark.parametrize("value", [2, -1])
def test_what_is_made_inside_may_be_an_output_itself(value: float) -> None:
    """The flag of a region looks at the value, and not at the end of the model that returns it."""
    text = "g (float[3] x) => (float[3] r, float[3] y) { r = Log(x) y = Relu(r) }"
    _run(text, x=np.array([1, value, 3], np.float32))


def test_integers_beyond_32_bits() -> None:
    """An end that is 'to the end' is that when it is fed, too."""
    text = "g (float[5] x, int64[1] a, int64[1] b) => (float[n] y) { y = Slice(x, a, b) }"
    feeds = {"x": np.arange(5, dtype=np.float32), "a": np.array([1]), "b": np.array([2**63 - 1])}
    np.testing.assert_array_equal(_run(text, **feeds), [1, 2, 3, 4])


def test_an_empty_batch() -> None:
    with opened(LOSES) as session:
        y = session.run(None, {"x": np.ones((0, 4), np.float32), "w": np.eye(4, dtype=np.float32)})[0]
        assert y.shape == (0, 4)
        assert not session.fallback_report


_LARGEST = {"float32": 3.4028235e38, "float16": 65504.0, "bfloat16": 3.3895314e38}


@pytest.mark.parametrize("dtype", [np.float32, np.float16, ml_dtypes.bfloat16])
@pytest.mark.parametrize(
    ("value", "nan", "both"), [(NAN, True, True), (INF, False, True), (-INF, False, True), (-1.0, False, False)]
)
def test_what_is_found(dtype: Any, value: float, nan: bool, both: bool) -> None:
    """Not-a-number always, infinities where they count, in each type; the largest numbers are none of both."""
    array = np.array([1, -2, 3, value], dtype)
    array[0] = _LARGEST[np.dtype(dtype).name]
    assert bool(Looks(nan=True).in_inputs([array])) is nan
    assert bool(Looks(nan=True, infinities=True).in_inputs([array])) is both
    assert bool(Looks(nan=True, infinities=True).in_outputs([array])) is nan
    assert not Looks().in_inputs([array])
    assert not Looks(nan=True, infinities=True).in_inputs([np.array([1, 2]), np.zeros((0,), dtype)])


def test_regions_that_lose_nothing_are_not_looked_at() -> None:
    """Sums and products keep them all."""
    assert looks_of([]) == Looks()
    assert Looks.from_json(Looks(nan=True, changed=True).to_json()) == Looks(nan=True, changed=True)


def test_a_bound_of_a_fused_clip_that_is_none() -> None:
    """The fused node is left to others when the session is made; nothing falls back."""
    text = """g (float[1, 1, 2, 2] x) => (float[1, 1, 2, 2] y)
    <float[1, 1, 1, 1] w = {1}, float lo = {nan}, float hi = {6}> {
        c = Conv(x, w) y = Clip(c, lo, hi)
    }"""
    session = ort_py.InferenceSession(
        parsed(text).SerializeToString(), providers=[(NAME, {"claim_small": True}), "CPUExecutionProvider"]
    )
    (y,) = session.run(None, {"x": np.ones((1, 1, 2, 2), np.float32)})
    assert np.isnan(y).all()
    assert not session.fallback_report


def test_divisors_that_are_no_normal_numbers() -> None:
    """Their reciprocals are infinite, the quotients are not: other providers answer such runs."""
    x = np.array([1e-40, 3e-39, 1, 3e38], np.float32)
    with opened("g (float[n] x) => (float[n] y) { y = Div(x, x) }") as session:
        assert set(runners(session).values()) == {NAME}
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], np.ones(4, np.float32))
        assert not session.fallback_report
