"""Regions with reductions over the last axes are right: rows in registers and read again, in warps and blocks."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_cuda.regions import compile_region
from ort_py_kit.graphs import model_from_text, reference_run
from providers.cuda.tests.drawing import rng
from providers.cuda.tests.emulation import host
from providers.cuda.tests.regions.parts import CONTEXT, agree, check, outputs_of, region_of


@pytest.fixture(autouse=True)
def device(monkeypatch: pytest.MonkeyPatch) -> host.HostDriver:
    """Kernels run on the host, with threads in an order of their own."""
    found = host.install(monkeypatch)
    found.seed = 7
    return found


def floats(*shape: int) -> np.ndarray[Any, Any]:
    return rng().standard_normal(shape, np.float32)


REDUCTIONS = ("Sum", "Mean", "Max", "Min", "Prod", "L1", "L2", "SumSquare", "LogSum", "LogSumExp")


@pytest.mark.parametrize("keeps", [0, 1])
@pytest.mark.parametrize("name", REDUCTIONS)
def test_each_reduction_of_the_last_axis(name: str, keeps: int) -> None:
    """Behind an expression that it is fused with."""
    text = f"""g (float[n, 37] x) => (float z) <int64[1] axes = {{-1}}> {{
        a = Abs(x) z = Reduce{name}<keepdims = {keeps}>(a, axes)
    }}"""
    check(text, {"x": floats(6, 37)})


@pytest.mark.parametrize("width", [1, 2, 31, 64, 500, 768, 4100, 20000])
def test_rows_of_every_length(width: int) -> None:
    """One warp a row, one block a row, and rows longer than registers; softmax behind a scale and a mask."""
    text = f"""g (float[n, {width}] x, float[{width}] mask) => (float[n, {width}] z) <float c = {{0.125}}> {{
        s = Mul(x, c) m = Add(s, mask) z = Softmax(m)
    }}"""
    mask = np.where(rng().integers(0, 4, width), 0, -np.inf).astype(np.float32)
    mask[0] = 0
    check(text, {"x": 3 * floats(5, width), "mask": mask})


LAYER_NORM = """g (float[b, s, 48] x, float[b, s, 48] r, float[48] w, float[48] v)
    => (float[b, s, 48] z, float[b, s, 48] t)
    <int64[1] axes = {-1}, float e = {0.00001}, float two = {2.0}> {
    t = Add(x, r) mean = ReduceMean(t, axes) d = Sub(t, mean) q = Pow(d, two) var = ReduceMean(q, axes)
    ve = Add(var, e) dev = Sqrt(ve) n = Div(d, dev) nw = Mul(n, w) z = Add(nw, v)
}"""


def test_layer_normalization_in_parts(device: host.HostDriver) -> None:
    """Ten nodes, two reductions behind each other, two results: one kernel."""
    feeds = {"x": floats(2, 5, 48), "r": floats(2, 5, 48), "w": floats(48), "v": floats(48)}
    check(LAYER_NORM, feeds)
    assert len(device.launched) == 1


def test_several_last_axes_with_an_operand_that_lies_across() -> None:
    """A row of two axes, an input that has one of them only."""
    text = """g (float[n, 6, 5] x, float[6, 1] y) => (float[n, 6, 5] z) <int64[2] axes = {1, 2}> {
        a = Mul(x, y) s = ReduceSum(a, axes) z = Div(a, s)
    }"""
    check(text, {"x": np.abs(floats(4, 6, 5)) + 1, "y": np.abs(floats(6, 1)) + 1})


def test_operands_that_lie_across_rows() -> None:
    """An attention mask: one row for all heads, another for each entry."""
    text = """g (float[2, 3, 4, 40] x, float[2, 1, 1, 40] m, float[4, 40] p) => (float[2, 3, 4, 40] z) {
        a = Add(x, m) b = Add(a, p) z = Softmax(b)
    }"""
    check(text, {"x": floats(2, 3, 4, 40), "m": floats(2, 1, 1, 40), "p": floats(4, 40)})


def test_integers() -> None:
    text = """g (int32[n, 50] x) => (int32[n, 1] z) <int64[1] axes = {1}> {
        a = Abs(x) m = ReduceMax(a, axes) s = ReduceSum(a, axes) z = Sub(s, m)
    }"""
    check(text, {"x": rng().integers(-99, 99, (3, 50)).astype(np.int32)})


def test_half_precision() -> None:
    """Sums are formed in float32, and results rounded once: as where all of the model is float32."""
    text = "g (float16[n, 300] x) => (float16[n, 300] z) { a = Mul(x, x) z = LogSoftmax(a) }"
    x = floats(4, 300).astype(np.float16)
    (wanted,) = reference_run(model_from_text(text.replace("float16", "float")), {"x": x.astype(np.float32)})
    agree(outputs_of(region_of(text), {"x": x})["z"], wanted.astype(np.float16))


def test_not_a_number_and_infinity_in_rows() -> None:
    """A row with one of them is NaN in softmax, and its neighbours are as ever."""
    text = """g (float[n, 20] x) => (float[n, 20] z, float[n, 1] m) <int64[1] axes = {-1}> {
        a = Neg(x) m = ReduceMax(a, axes) d = Sub(a, m) z = Softmax(d)
    }"""
    x = floats(4, 20)
    x[1, 3], x[2, 4], x[3, 5] = np.nan, -np.inf, np.inf
    check(text, {"x": x})


def test_rows_without_columns() -> None:
    """The sum of nothing is 0."""
    text = (
        "g (float[n, m] x) => (float[n, 1] z) <int64[1] axes = {-1}> { a = Neg(x) s = ReduceSum(a, axes) z = Exp(s) }"
    )
    check(text, {"x": floats(3, 0)})


def test_all_axes_are_one_row() -> None:
    """The result of ``keepdims=0`` has no axes."""
    check("g (float[5, 6] x) => (float z) { a = Exp(x) z = ReduceSum<keepdims = 0>(a) }", {"x": floats(5, 6)})


def test_arrays_that_do_not_begin_on_16_bytes() -> None:
    """Packs are as wide as addresses allow."""
    text = "g (float[n, 64] x) => (float[n, 64] z) { a = Neg(x) z = Softmax(a) }"
    compiled = compile_region(region_of(text), CONTEXT)
    whole = host.on_host(floats(3 * 64 + 1))
    moved = whole[1:].reshape(3, 64)
    (z,) = compiled.run(moved)
    powers = np.exp(-np.asarray(moved, np.float64))
    np.testing.assert_allclose(z, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_strided_arrays() -> None:
    """Every second column, as views have them."""
    text = "g (float[n, 24] x) => (float[n, 24] z) { a = Neg(x) z = Softmax(a) }"
    compiled = compile_region(region_of(text), CONTEXT)
    moved = host.on_host(floats(3, 48))[:, ::2]
    (z,) = compiled.run(moved)
    powers = np.exp(-np.asarray(moved, np.float64))
    np.testing.assert_allclose(z, powers / powers.sum(1, keepdims=True), rtol=1e-5)


def test_shapes_that_are_not_what_the_model_says() -> None:
    """A row that turns out shorter than its neighbour is refused, by its shape."""
    text = "g (float[n, m] x, float[n, m] y) => (float[n, m] z) { a = Softmax(x) z = Add(a, y) }"
    compiled = compile_region(region_of(text), CONTEXT)
    with pytest.raises(InvalidArgument, match=r"A result of shape \[2, 3\] comes of rows of \[1, 3\]"):
        compiled.run(host.on_host(floats(1, 3)), host.on_host(floats(2, 3)))


def test_two_rows_of_different_lengths() -> None:
    """Reductions of one kernel are over the same rows."""
    text = """g (float[n, m] x, float[n, m] y) => (float[n, 1] z) <int64[1] axes = {-1}> {
        a = ReduceSum(x, axes) b = ReduceSum(y, axes) z = Add(a, b)
    }"""
    compiled = compile_region(region_of(text), CONTEXT)
    with pytest.raises(InvalidArgument, match=r"over rows of \[2, 3\] and of \[2, 5\]"):
        compiled.run(host.on_host(floats(2, 3)), host.on_host(floats(2, 5)))
