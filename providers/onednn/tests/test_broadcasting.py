"""Functions of two values that broadcast: several operands in a row, and gates that read their value again."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import ort_py as ort
from ort_py_kit.graphs import model_from_text
from ort_py_kit.tolerances import assert_close

_HERE = [("DnnlExecutionProvider", {"claim_small": "1"})]
"""Even what is too small to pay."""

_ONES = [(2, 17, 1, 1), (9, 4, 1, 1), (5, 5, 1), (2, 3, 4, 1), (3, 1, 5, 1)]


@pytest.mark.parametrize("shape", _ONES)
@pytest.mark.parametrize("form", ["a=Add(x,c) y=Mul(a,d)", "a=Mul(x,c) r=Relu(a) y=Max(r,d)", "a=Max(x,c) y=Min(a,d)"])
def test_operands_beside_axes_of_one_element(shape: tuple[int, ...], form: str) -> None:
    """Two operands with one number per channel each, or one per entry of any axis, are read at the right places."""
    rng = np.random.default_rng(0)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for axis in range(len(shape)):
        vector = tuple(size if place == axis else 1 for place, size in enumerate(shape))
        dims = [",".join(map(str, one)) for one in (shape, vector)]
        text = f"g (float[{dims[0]}] x, float[{dims[1]}] c, float[{dims[1]}] d) => (float[{dims[0]}] y) {{{form}}}"
        x, c, d = (rng.standard_normal(one).astype(np.float32) for one in (shape, vector, vector))
        session = ort.InferenceSession(
            model_from_text(text, 21).SerializeToString(),
            options,
            providers=[("DnnlExecutionProvider", {"claim_small": "1"})],
        )
        steps = {"Add": np.add, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum}
        first, last = (
            step.split("=")[1].split("(")[0] for step in (form.split(maxsplit=1)[0], form.rsplit(maxsplit=1)[-1])
        )
        between = steps[first](x, c)
        between = np.maximum(between, 0) if "Relu" in form else between
        assert_close(session.run(None, {"x": x, "c": c, "d": d})[0], steps[last](between, d))


def test_a_result_does_not_depend_on_earlier_sessions() -> None:
    """A transposed convolution's weights lie as the result of a Softmax of the same size does, but for the stride of a
    dimension of 1. The session of the Softmax is the same in a process that had one of the convolution before."""
    first = "g (float[1,1,5] x, float[1,3,5] w) => (float[?,?,?] y) {y=ConvTranspose(x,w)}"
    later = "g (float[3,1,5] x, float[1,1,1] c) => (float[3,1,5] y) {s=Softmax<axis=2>(x) y=Sub(s,c)}"
    rng = np.random.default_rng(2)
    weights = rng.standard_normal((1, 3, 5)).astype(np.float32)
    x = np.zeros((3, 1, 5), np.float32)
    for text, feeds in (
        (first, {"x": x[:1], "w": weights}),
        (later, {"x": x, "c": np.full((1, 1, 1), -1, np.float32)}),
    ):
        session = ort.InferenceSession(model_from_text(text, 21).SerializeToString(), providers=_HERE)
        found = session.run(None, feeds)[0]
    assert_close(found, np.full((3, 1, 5), 1.2, np.float32))


def test_a_gate_that_reads_its_value_again() -> None:
    """max(σ(x), x) · x is not a Swish, though its last factor is the sigmoid's input."""
    text = "g (float[N] x) => (float[N] y) {s=Sigmoid(x) m=Max(s,x) y=Mul(m,x)}"
    x = np.linspace(-4, 4, 33, dtype=np.float32)
    session = ort.InferenceSession(model_from_text(text, 21).SerializeToString(), providers=_HERE)
    assert_close(session.run(None, {"x": x})[0], np.maximum(1 / (1 + np.exp(-x)), x) * x)


def test_a_product_with_a_vector_and_what_follows() -> None:
    """The summand of a product with a vector broadcasts to a result with one axis less than a matrix."""
    rng = np.random.default_rng(1)
    x, w, c = (rng.standard_normal(shape).astype(np.float32) for shape in ((16, 7, 17), (17,), (7,)))
    text = "g (float[N,7,17] x, float[17] w, float[7] c) => (float[N,7] y) {m=MatMul(x,w) r=Relu(m) y=Add(r,c)}"
    session = ort.InferenceSession(model_from_text(text, 21).SerializeToString(), providers=_HERE)
    assert_close(session.run(None, {"x": x, "w": w, "c": c})[0], np.maximum(x @ w, 0) + c)


_HOSTS = {
    "scalar": ("float x", "Exp(x)"),
    "vector": ("float[4] x", "Exp(x)"),
    "row times matrix": ("float[5] x", "MatMul(x, m)"),
    "matrix": ("float[3,5] x", "MatMul(x, m)"),
    "batch": ("float[2,3,5] x", "MatMul(x, m)"),
    "batches of one": ("float[1,1,3,5] x", "MatMul(x, m)"),
    "gemm": ("float[3,5] x", "Gemm(x, m, c)"),
    "convolution": ("float[1,2,6] x", "Conv(x, w)"),
}
"""What an operand may be drawn into: signature of the input, and the call."""


@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize(
    "form", ["Sum(h, k)", "Max(h, k, one)", "Min(h, one, k)", "Add(h, k)", "Mul(k, h)", "Div(h, k)"]
)
@pytest.mark.parametrize("host", sorted(_HOSTS))
def test_an_operand_that_adds_an_axis(host: str, form: str, constant: bool) -> None:
    """The result has the axes of the operand with the most, also where they have one element each."""
    given, call = _HOSTS[host]
    rng = np.random.default_rng(3)
    dims = [int(size) for size in given.partition("[")[2].partition("]")[0].split(",") if size]
    weights = {"m": rng.standard_normal((5, 4)), "w": rng.standard_normal((3, 2, 2)), "c": rng.standard_normal(4)}
    x = np.asarray(rng.standard_normal(dims), np.float32)
    text = f"g ({given}, float[5,4] m, float[3,2,2] w, float[4] c) => (float[?] h) {{h={call}}}"
    feeds = {name: array.astype(np.float32) for name, array in weights.items()}
    plain = model_from_text(text, 21).SerializeToString()
    (before,) = ort.InferenceSession(plain, providers=["CPUExecutionProvider"]).run(None, {"x": x, **feeds})
    shape = (*(1,) * before.ndim, before.shape[-1] if constant and before.ndim else 1)
    k, one = rng.uniform(0.5, 2, shape).astype(np.float32), np.ones(1, np.float32)
    operand = f"float[{','.join(map(str, shape))}] k"
    held = f"<{operand} = {{{','.join(map(str, k.ravel()))}}}>" if constant else ""
    inputs = ", ".join([given, "float[5,4] m, float[3,2,2] w, float[4] c, float[1] one", *[operand][constant:]])
    text = f"g ({inputs}) => (float[?] y) {held} {{h={call} y={form}}}"
    wanted = {
        "Sum": lambda: before + k,
        "Add": lambda: before + k,
        "Mul": lambda: before * k,
        "Div": lambda: before / k,
        "Max": lambda: np.maximum(np.maximum(before, k), one),
        "Min": lambda: np.minimum(np.minimum(before, k), one),
    }[form[:3]]()
    session = ort.InferenceSession(model_from_text(text, 21).SerializeToString(), providers=_HERE)
    found = session.run(None, {"x": x, "one": one, **feeds, **({} if constant else {"k": k})})[0]
    assert not session.fallback_report
    assert found.shape == wanted.shape
    assert_close(found, wanted)


@pytest.mark.parametrize("alpha", [-0.5, 0.5, 2.0])
def test_celu_of_any_alpha(alpha: float) -> None:
    """max(0, x) + min(0, α (exp(x / α) − 1)), which an α below 0 makes no exponential linear unit."""
    x = np.linspace(-2, 2, 33, dtype=np.float32)
    text = f"g (float[N] x) => (float[N] y) {{y=Celu<alpha: float = {alpha}>(x)}}"
    session = ort.InferenceSession(model_from_text(text, 21).SerializeToString(), providers=_HERE)
    assert_close(session.run(None, {"x": x})[0], np.maximum(x, 0) + np.minimum(0, alpha * (np.exp(x / alpha) - 1)))


def test_a_layer_without_time_steps_keeps_its_state() -> None:
    """An LSTM of no steps gives the initial states: the region leaves empty inputs to the kernels."""
    rng = np.random.default_rng(2)
    w, r, h, c = (
        rng.standard_normal(shape).astype(np.float32) for shape in ((1, 12, 2), (1, 12, 3), (1, 5, 3), (1, 5, 3))
    )
    text = (
        "g (float[T,5,2] x, float[1,12,2] w, float[1,12,3] r, float[1,5,3] h, float[1,5,3] c) "
        "=> (float[1,5,3] yh, float[1,5,3] yc) {y, yh, yc = LSTM<hidden_size=3>(x,w,r,,,h,c)}"
    )
    session = ort.InferenceSession(model_from_text(text, 21).SerializeToString(), providers=_HERE)
    found = session.run(None, {"x": np.zeros((0, 5, 2), np.float32), "w": w, "r": r, "h": h, "c": c})
    assert_close(found[0], h)
    assert_close(found[1], c)


@pytest.mark.parametrize(
    "order", [(1, 0), (1, 0, 2), (2, 0, 1), (1, 0, 2, 3), (2, 1, 0, 3), (3, 2, 1, 0), (1, 2, 3, 0)]
)
def test_operands_of_values_whose_axes_are_exchanged(order: tuple[int, ...]) -> None:
    """Behind a Transpose the second operand that broadcasts is read where it lies, along any of the axes."""
    rng = np.random.default_rng(2)
    shape = (5, 7, 8, 3)[: len(order)]
    x = rng.standard_normal([shape[order.index(axis)] for axis in range(len(order))]).astype(np.float32)
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    for kept in itertools.product((False, True), repeat=len(order)):
        narrow = tuple(size if stays else 1 for size, stays in zip(shape, kept, strict=True))
        c = rng.standard_normal(narrow).astype(np.float32)
        dims = [",".join(map(str, one)) for one in (x.shape, narrow, shape)]
        text = f"""g (float[{dims[0]}] x, float[{dims[1]}] c) => (float[{dims[2]}] y)
        {{ t = Transpose<perm = [{",".join(map(str, order))}]>(x) a = Add(t, t) b = Mul(a, c) y = Sigmoid(b) }}"""
        session = ort.InferenceSession(model_from_text(text, 21).SerializeToString(), options, providers=_HERE)
        assert {one.provider for one in session.placement.nodes} == {"DnnlExecutionProvider"}
        wanted = 1 / (1 + np.exp(-2 * x.transpose(order) * c))
        assert_close(session.run(None, {"x": x, "c": c})[0], wanted, context=f"{narrow}")
