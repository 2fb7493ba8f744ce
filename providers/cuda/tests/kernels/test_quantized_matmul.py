"""Products of bytes on the host: packing, corrections and requantising against the array library."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py.errors import InvalidArgument
from ort_py_array.contrib.quantized_products import KERNELS as LIBRARY_CONTRIB
from ort_py_array.quantized_matmul import KERNELS as LIBRARY
from ort_py_cuda import libraries
from ort_py_cuda.kernels import quantized_matmul
from ort_py_cuda.kernels.byte_products import columns_of, results_kernel, rows_kernel
from ort_py_kit.kernel_runner import run_kernel
from providers.cuda.tests.architectures import ARCHITECTURES
from providers.cuda.tests.emulation.host import HostDriver, HostModule, install, on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host

_CONTRIB = "com.microsoft"


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> tuple[HostModule, HostDriver]:
    """The stand-in for CuPy, and the launches."""
    return on_the_host(monkeypatch)[0], install(monkeypatch)


def _bytes(dtype: Any, *shape: int) -> Any:
    return np.random.default_rng(sum(shape)).integers(0, 256, shape, dtype=np.uint8).view(dtype)


def _agree(module: HostModule, op_type: str, inputs: list[Any], domain: str = "", **options: Any) -> None:
    arguments: dict[str, Any] = {"domain": domain, "opset": 1 if domain else None, **options}
    (wanted,) = run_kernel([*LIBRARY, *LIBRARY_CONTRIB], op_type, inputs, **arguments)
    given = [None if x is None else on_host(x) for x in inputs]
    (found,) = run_kernel(quantized_matmul.KERNELS, op_type, given, xp=module, **arguments)
    assert (found.dtype, found.shape) == (wanted.dtype, wanted.shape)
    if found.dtype.kind == "f":
        np.testing.assert_allclose(found, wanted, rtol=1e-3 if found.itemsize == 2 else 1e-5, atol=1e-4)
    else:
        np.testing.assert_array_equal(found, wanted)


_SIGNS = [np.int8, np.uint8]


@pytest.mark.parametrize("constants", [(), (1, 3)])
@pytest.mark.parametrize("zeros", ["none", "one", "each"])
@pytest.mark.parametrize("right", _SIGNS)
@pytest.mark.parametrize("left", _SIGNS)
def test_matmul_integer(
    host: tuple[HostModule, HostDriver], left: Any, right: Any, zeros: str, constants: tuple[int, ...]
) -> None:
    """Signed and unsigned, zero points for all, for each row and column, or none; weights fed and known."""
    inputs = [_bytes(left, 5, 21), _bytes(right, 21, 7), None, None]
    if zeros != "none":
        inputs[2:] = [_bytes(left, 5 if zeros == "each" else 1), _bytes(right, 7 if zeros == "each" else 1)]
    known = [one for one in constants if inputs[one] is not None]
    _agree(host[0], "MatMulInteger", inputs, constants=known)
    assert host[1].names == ["quantized_rows", "quantized_results"]


def test_matmul_integer_of_batches(host: tuple[HostModule, HostDriver]) -> None:
    """Leading axes of A are rows, and a vector is one; batches of B are the library's."""
    b = _bytes(np.uint8, 21, 7)
    _agree(host[0], "MatMulInteger", [_bytes(np.uint8, 2, 3, 21), b, _bytes(np.uint8, 3), None])
    _agree(host[0], "MatMulInteger", [_bytes(np.uint8, 21), b])
    assert len(host[1].names) == 4
    _agree(host[0], "MatMulInteger", [_bytes(np.uint8, 2, 3, 21), _bytes(np.int8, 2, 21, 4)])
    _agree(host[0], "MatMulInteger", [_bytes(np.uint8, 2, 3, 21), _bytes(np.int8, 2, 21, 4)], constants=(1,))
    assert len(host[1].names) == 4


@pytest.mark.parametrize("result", _SIGNS)
@pytest.mark.parametrize("each", [False, True])
@pytest.mark.parametrize("right", _SIGNS)
def test_qlinear_matmul(host: tuple[HostModule, HostDriver], right: Any, each: bool, result: Any) -> None:
    """Scales for all, or for each row and column; results of both signs."""
    rng = np.random.default_rng(3)
    rows, columns = ((4,), (6,)) if each else ((1,), (1,))
    inputs = [
        _bytes(np.uint8, 4, 33),
        rng.uniform(0.01, 0.02, rows).astype(np.float32),
        _bytes(np.uint8, *rows),
        _bytes(right, 33, 6),
        rng.uniform(0.01, 0.02, columns).astype(np.float32),
        _bytes(right, *columns),
        np.array([0.05], np.float32),
        _bytes(result, 1),
    ]
    _agree(host[0], "QLinearMatMul", inputs)
    _agree(host[0], "QLinearMatMul", inputs, constants=(3, 5))


@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("each", [False, True])
def test_dynamic_quantize_matmul(host: tuple[HostModule, HostDriver], each: bool, bias: bool) -> None:
    """A is quantised on the device, with the scale that just fits."""
    rng = np.random.default_rng(4)
    columns = (6,) if each else (1,)
    inputs = [
        rng.standard_normal((2, 3, 20)).astype(np.float32),
        _bytes(np.int8, 20, 6),
        rng.uniform(0.01, 0.02, columns).astype(np.float32),
        _bytes(np.int8, *columns),
        rng.standard_normal(6).astype(np.float32) if bias else None,
    ]
    _agree(host[0], "DynamicQuantizeMatMul", inputs, _CONTRIB, constants=(1,))


@pytest.mark.parametrize("constants", [(), (1, 2, 4), (1,)])
@pytest.mark.parametrize("dtype", [np.float32, np.float16])
def test_matmul_integer_to_float(host: tuple[HostModule, HostDriver], dtype: Any, constants: tuple[int, ...]) -> None:
    """Scaled and biased in float32, rounded once."""
    rng = np.random.default_rng(5)
    inputs = [
        _bytes(np.uint8, 3, 20),
        _bytes(np.int8, 20, 6),
        np.array([0.02], dtype),
        rng.uniform(0.01, 0.02, 6).astype(dtype),
        _bytes(np.uint8, 1),
        None,
        rng.standard_normal(6).astype(dtype),
    ]
    _agree(host[0], "MatMulIntegerToFloat", inputs, _CONTRIB, constants=constants)
    assert host[1].names == ["quantized_rows", "quantized_results"]
    inputs[2] = rng.uniform(0.01, 0.02, 20).astype(dtype)
    _agree(host[0], "MatMulIntegerToFloat", inputs, _CONTRIB, constants=constants)
    assert len(host[1].names) == 2


def test_parameters_that_do_not_fit(host: tuple[HostModule, HostDriver]) -> None:
    a, b = on_host(_bytes(np.uint8, 5, 21)), on_host(_bytes(np.uint8, 21, 7))
    for zeros, message in (
        ([on_host(_bytes(np.uint8, 4)), None], "The first operand's scale or zero point has shape"),
        ([None, on_host(_bytes(np.uint8, 4))], "The second operand's scale or zero point has shape"),
    ):
        with pytest.raises(InvalidArgument, match=message):
            run_kernel(quantized_matmul.KERNELS, "MatMulInteger", [a, b, *zeros], xp=host[0])


@pytest.mark.parametrize("dtype", _SIGNS)
def test_columns_are_signed_and_filled_up(dtype: Any) -> None:
    """cuBLASLt needs whole units of 16 with zeros behind the end, and the sum of each column."""
    b = _bytes(dtype, 21, 7)
    packed, sums = columns_of(np, b)
    assert packed.shape == (16, 32)
    shifted = b.astype(np.int32) - (0 if dtype == np.int8 else 128)
    np.testing.assert_array_equal(packed[:7, :21], shifted.T)
    assert not packed[7:].any()
    assert not packed[:, 21:].any()
    np.testing.assert_array_equal(sums[:7], shifted.sum(0))


@pytest.mark.skipif(libraries.find("nvrtc") is None, reason="needs NVRTC: pip install ort-py-cuda[cuda13]")
@pytest.mark.parametrize("arch", ARCHITECTURES)
def test_kernels_compile(arch: str) -> None:
    """By NVIDIA's compiler, for each architecture."""
    for source in ("int8", "uint8", "float32"):
        assert rows_kernel(source).image(arch)[:4] == b"\x7fELF"
    for result in ("int32", "float32", "int8", "uint8"):
        assert results_kernel(result, "uint8", "int8").image(arch)[:4] == b"\x7fELF"
