"""Products of float8 as regions on the host: bytes are made, and multiplied by the library's stand-in."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from ort_py.errors import InvalidArgument
from ort_py_cuda.cublaslt.layout import Problem
from ort_py_cuda.float8.patterns import find
from ort_py_cuda.float8.region import Float8Region, compile_region
from ort_py_kit.graphs import reference_run
from providers.cuda.tests.cublaslt.fake_library import FakeLt
from providers.cuda.tests.emulation.host import HostDriver, HostModule, install, on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host

from .models import bits, model, product, view_of

_DTYPES: dict[str, Any] = {"float": np.float32, "float16": np.float16, "bfloat16": ml_dtypes.bfloat16}


class _Host:
    """Stand-in for CuPy, cuBLASLt and the device."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.xp: HostModule
        self.library: FakeLt
        self.xp, self.library = on_the_host(monkeypatch)
        self.driver: HostDriver = install(monkeypatch)

    def compiled(self, made: onnx.ModelProto) -> Float8Region:
        """A model's nodes as the one region that they are found to be."""
        view = view_of(made)
        everything = range(len(view.nodes))
        found = find(view, everything, 90)
        assert found.groups == (tuple(everything),), found.refusals
        region = compile_region(view.region(everything), self.xp)
        assert isinstance(region, Float8Region)
        return region

    def run(self, made: onnx.ModelProto, *feeds: Any) -> list[Any]:
        """Its results."""
        return [np.asarray(one) for one in self.compiled(made).run(*(on_host(x) for x in feeds))]

    @property
    def problems(self) -> list[Problem]:
        """Requests to the library."""
        return [problem for problem, _ in self.library.problems]


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> _Host:
    """A host that runs what a device would."""
    return _Host(monkeypatch)


def _numbers(*shape: int, dtype: Any = np.float32, seed: int = 1) -> Any:
    return (8 * np.random.default_rng(seed).standard_normal(shape)).astype(dtype)


def _agree(found: Any, made: onnx.ModelProto, *feeds: Any) -> None:
    names = [value.name for value in made.graph.input]
    (wanted,) = reference_run(made, dict(zip(names, feeds, strict=True)))
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    rounding = {4: 1e-5, 2: 1e-2}[found.dtype.itemsize]  # the reference rounds what is dequantised, too
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=rounding, atol=8 * rounding)


@pytest.mark.parametrize("kind", ["float", "float16"])
@pytest.mark.parametrize(
    ("form", "weight_form"),
    [("float8e4m3fn", "float8e4m3fn"), ("float8e4m3fn", "float8e5m2"), ("float8e5m2", "float8e4m3fn")],
)
def test_products_of_each_form(host: _Host, form: str, weight_form: str, kind: str) -> None:
    """Sizes that are not multiples of 16 are filled up; both forms lie along the axis that is summed over."""
    made = product(form, weight_form, kind)
    x = _numbers(3, 20, dtype=_DTYPES[kind])
    _agree(host.run(made, x)[0], made, x)
    (problem,) = host.problems
    assert (problem.transpose_first, problem.transpose_second) == (True, False)
    assert (problem.depth, problem.result.rows, problem.result.columns) == (32, 16, 3)
    assert host.driver.names == ["float8_rows"]


def test_bfloat16(host: _Host) -> None:
    """Quotients are rounded to the type of the model, as it says."""
    made, x = product(kind="bfloat16"), _numbers(3, 20, dtype=ml_dtypes.bfloat16)
    (y,) = host.run(made, x)
    quotient = (x.astype(np.float32) / 0.25).astype(ml_dtypes.bfloat16).astype(np.float32)
    rows = np.clip(quotient, -448, 448).astype(ml_dtypes.float8_e4m3fn).astype(np.float32) * 0.25
    wanted = rows @ (bits("float8e4m3fn", (20, 10)).astype(np.float32) * 0.5)
    assert y.dtype == ml_dtypes.bfloat16
    np.testing.assert_allclose(y.astype(np.float32), wanted, rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("shape", [(20,), (1, 20), (0, 20), (2, 3, 20)])
def test_leading_axes_are_rows(host: _Host, shape: tuple[int, ...]) -> None:
    """A vector, one row, none, and batches."""
    lead = ", ".join(str(size) for size in shape[:-1])
    made = product(shape=", ".join(map(str, shape)), result=f"{lead}{', ' if lead else ''}10")
    x = _numbers(*shape)
    _agree(host.run(made, x)[0], made, x)


def test_whole_units_are_not_cut(host: _Host) -> None:
    """Sizes of 16 are multiplied as they are."""
    made = product(shape="M, 32", result="M, 48", sizes=(32, 48))
    x = _numbers(5, 32)
    _agree(host.run(made, x)[0], made, x)


def test_a_transposed_weight(host: _Host) -> None:
    """Transpose between DequantizeLinear and MatMul, and Gemm that transposes: the constant as it lies."""
    turned = product(last="v = Transpose <perm = [1, 0]> (wd) y = MatMul (xd, v)", sizes=(10, 20))
    gemm = product(last="y = Gemm <transB = 1> (xd, wd)", sizes=(10, 20))
    both = product(last="v = Transpose (wd) y = Gemm <transB = 1> (xd, v)", sizes=(20, 10))
    x = _numbers(3, 20)
    for made in (turned, gemm, both):
        _agree(host.run(made, x)[0], made, x)


@pytest.mark.parametrize("kind", ["float", "float16"])
@pytest.mark.parametrize("shape", [(10,), (1, 10), (3, 1), (3, 10), ()])
def test_gemm_adds_what_broadcasts(host: _Host, shape: tuple[int, ...], kind: str) -> None:
    """With factors; fewer columns than are multiplied, and as many."""
    dtype = _DTYPES[kind]
    c = _numbers(*shape, dtype=dtype, seed=3) if shape else np.asarray(3, dtype)
    made = product(kind=kind, last="y = Gemm <alpha = 0.5, beta = 2.0> (xd, wd, c)", c=c)
    x = _numbers(3, 20, dtype=dtype)
    _agree(host.run(made, x)[0], made, x)


def test_what_the_core_fuses(host: _Host) -> None:
    """Relu behind the product, and a factor and a transposition in front of it."""
    x, c = _numbers(3, 20), _numbers(10, seed=4)
    last = 'y = com.microsoft.FusedGemm <activation = "Relu", transB = 1> (xd, wd, c)'
    (found,) = host.run(product(last=last, sizes=(10, 20), c=c), x)
    plain = product(last="v = Gemm <transB = 1> (xd, wd, c) y = Relu (v)", sizes=(10, 20), c=c)
    np.testing.assert_allclose(found, reference_run(plain, {"x": x})[0], rtol=1e-5, atol=1e-4)
    last = "y = com.microsoft.FusedMatMul <alpha = 0.5, transB = 1> (xd, wd)"
    (found,) = host.run(product(last=last, sizes=(10, 20)), x)
    plain = product(last="y = Gemm <alpha = 0.5, transB = 1> (xd, wd)", sizes=(10, 20))
    np.testing.assert_allclose(found, reference_run(plain, {"x": x})[0], rtol=1e-5, atol=1e-4)


def test_products_share_what_is_quantised(host: _Host) -> None:
    """Three weights, one quantisation: the region makes the bytes once."""
    text = """g (float[M, 16] x, float[M, 16] c) => (float[M, 16] a, float[M, 16] b, float[M, 16] d) {
        xq = QuantizeLinear (x, s, z) xd = DequantizeLinear (xq, s, z)
        u = DequantizeLinear (w1, t) v = DequantizeLinear (w2, t)
        a = MatMul (xd, u) b = MatMul (xd, v) d = Gemm (xd, v, c) }"""
    weights: dict[str, Any] = {
        "s": np.float32(0.5),
        "t": np.float32(0.25),
        "z": np.zeros((), ml_dtypes.float8_e4m3fn),
        "w1": bits("float8e4m3fn", (16, 16), 5),
        "w2": bits("float8e5m2", (16, 16), 6),
    }
    made = model(text, **weights)
    feeds = {"x": _numbers(2, 16), "c": _numbers(2, 16, seed=9)}
    found = host.run(made, *feeds.values())
    for one, wanted in zip(found, reference_run(made, feeds), strict=True):
        np.testing.assert_allclose(one, wanted, rtol=1e-5, atol=1e-4)
    assert host.driver.names == ["float8_rows"]


def test_scales_stay_on_the_device(host: _Host) -> None:
    """The description has their addresses, for both factors."""
    region = host.compiled(product())
    for seed in range(2):
        region.run(on_host(_numbers(3, 20, seed=seed)))
    assert len(host.problems) == 2
    assert host.library.calls.count("cublasLtMatmulAlgoGetHeuristic") == 1


def test_shapes_that_do_not_fit(host: _Host) -> None:
    """Named: what is fed, and what is added."""
    with pytest.raises(InvalidArgument, match=r"'x' has shape \[3, 21\]; its last axis must have 20"):
        host.run(product(shape="M, K"), _numbers(3, 21))
    made = product(last="y = Gemm (xd, wd, c)", c=_numbers(2, 10))
    with pytest.raises(InvalidArgument, match=r"'c' has shape \[2, 10\], which does not broadcast to \[3, 10\]"):
        host.run(made, _numbers(3, 20))
