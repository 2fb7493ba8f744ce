"""MatMul, Gemm, FusedMatMul and FusedGemm on the host, against the array library on NumPy."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py.contracts import KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.contrib import schemas as _schemas  # noqa: F401 - the contrib operators are known from here on
from ort_py_array.contrib.fused_products import KERNELS as LIBRARY_FUSED
from ort_py_array.matmul import KERNELS as LIBRARY
from ort_py_cuda.kernels import fused_matmul, gemm, matmul
from ort_py_kit.kernel_runner import run_kernel
from providers.cuda.tests.emulation.host import HostModule, on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host

_OURS: list[KernelDef] = [*matmul.KERNELS, *gemm.KERNELS, *fused_matmul.KERNELS]
_CONTRIB = "com.microsoft"
_TYPES = [np.float32, np.float64, np.float16, ml_dtypes.bfloat16]


@pytest.fixture
def module(monkeypatch: pytest.MonkeyPatch) -> HostModule:
    """Stand-in for CuPy."""
    return on_the_host(monkeypatch)[0]


def _sample(*shape: int, dtype: Any = np.float32) -> Any:
    return np.random.default_rng(sum(shape)).integers(-4, 5, shape).astype(dtype)


def _agree(module: HostModule, op_type: str, inputs: list[Any], domain: str = "", **attributes: Any) -> None:
    """Both forms of ours give what the library gives."""
    (wanted,) = run_kernel(
        [*LIBRARY, *LIBRARY_FUSED], op_type, inputs, domain=domain, opset=1 if domain else None, **attributes
    )
    given = [None if x is None else on_host(x) for x in inputs]
    (found,) = run_kernel(_OURS, op_type, given, xp=module, domain=domain, opset=1 if domain else None, **attributes)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    tolerance = 1e-2 if found.dtype.itemsize == 2 else 1e-5
    np.testing.assert_allclose(found.astype(np.float64), wanted.astype(np.float64), rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize(
    ("left", "right"),
    [((3, 4), (4, 5)), ((2, 3, 4), (4, 5)), ((2, 1, 3, 4), (3, 4, 2)), ((4,), (2, 4, 3)), ((4,), (4,))],
)
def test_matmul(module: HostModule, left: tuple[int, ...], right: tuple[int, ...], dtype: Any) -> None:
    _agree(module, "MatMul", [_sample(*left, dtype=dtype), _sample(*right, dtype=dtype)])


def test_matmul_of_shapes_that_do_not_fit(module: HostModule) -> None:
    with pytest.raises(InvalidArgument, match="Cannot multiply shapes"):
        run_kernel(_OURS, "MatMul", [on_host(_sample(3, 4)), on_host(_sample(3, 4))], xp=module)


@pytest.mark.parametrize("dtype", _TYPES)
@pytest.mark.parametrize("c", [None, (), (1,), (5,), (1, 5), (3, 1), (3, 5), (1, 1)])
@pytest.mark.parametrize("beta", [1.0, 0.5, 0.0])
def test_gemm(module: HostModule, c: tuple[int, ...] | None, beta: float, dtype: Any) -> None:
    """The third input is a bias, a matrix, or a value that broadcasts."""
    inputs = [_sample(4, 3, dtype=dtype), _sample(5, 4, dtype=dtype), None if c is None else _sample(*c, dtype=dtype)]
    _agree(module, "Gemm", inputs, transA=1, transB=1, alpha=2.0, beta=beta)


def test_gemm_writes_where_it_is_told(module: HostModule) -> None:
    """The second form, with C spread over the very output."""
    from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

    a, b, c, out = (on_host(x) for x in (_sample(3, 4), _sample(4, 5), _sample(3, 1), np.empty((3, 5), np.float32)))
    call = gemm.gemm(LocalKernelContext(make_node_spec("Gemm", [a, b, c]), module))
    assert call(a, b, c, out) is out
    np.testing.assert_array_equal(out, a @ b + c)


@pytest.mark.parametrize(
    ("shapes", "message"),
    [([(3, 4), (5, 6)], "Cannot multiply matrices"), ([(3, 4), (4, 5), (2, 5)], "does not broadcast to")],
)
def test_gemm_of_shapes_that_do_not_fit(module: HostModule, shapes: list[tuple[int, ...]], message: str) -> None:
    with pytest.raises(InvalidArgument, match=message):
        run_kernel(_OURS, "Gemm", [on_host(_sample(*shape)) for shape in shapes], xp=module)


@pytest.mark.parametrize("dtype", [np.float32, np.float16])
@pytest.mark.parametrize(
    ("activation", "parameters"),
    [
        ("Relu", {}),
        ("Tanh", {}),
        ("Sigmoid", {}),
        ("LeakyRelu", {"activation_alpha": 0.1}),
        ("HardSigmoid", {"activation_alpha": 0.2, "activation_beta": 0.5}),
    ],
)
def test_fused_gemm(module: HostModule, activation: str, parameters: dict[str, float], dtype: Any) -> None:
    """Activations that the library has an epilogue for, and others."""
    inputs = [_sample(3, 4, dtype=dtype), _sample(4, 5, dtype=dtype), _sample(5, dtype=dtype)]
    _agree(module, "FusedGemm", inputs, _CONTRIB, activation=activation, **parameters)


@pytest.mark.parametrize("turned", range(4))
def test_fused_matmul(module: HostModule, turned: int) -> None:
    a = _sample(2, 4, 3) if turned & 1 else _sample(2, 3, 4)
    b = _sample(2, 5, 4) if turned & 2 else _sample(2, 4, 5)
    _agree(module, "FusedMatMul", [a, b], _CONTRIB, transA=turned & 1, transB=turned >> 1, alpha=0.5)


def test_fused_matmul_of_turned_batches(module: HostModule) -> None:
    """The first axis behind the batch."""
    _agree(module, "FusedMatMul", [_sample(3, 2, 4), _sample(4, 2, 5)], _CONTRIB, transBatchA=1, transBatchB=1)
