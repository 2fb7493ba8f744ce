"""MatMulNBits on the host: our kernels and our tiles against the array library."""

from __future__ import annotations

from typing import Any

import ml_dtypes
import numpy as np
import pytest

from ort_py import errors
from ort_py.errors import InvalidArgument
from ort_py_array.contrib.block_quantized import KERNELS as LIBRARY
from ort_py_cuda import libraries
from ort_py_cuda.code import Kernel
from ort_py_cuda.kernels import matmul_nbits
from ort_py_cuda.kernels.matmul_nbits import dequantize_kernel, few_rows_kernel
from ort_py_kit.kernel_runner import run_kernel
from providers.cuda.tests.architectures import ARCHITECTURES, TYPES, share_of
from providers.cuda.tests.emulation.host import HostDriver, HostModule, install, on_host
from providers.cuda.tests.fixtures_cublaslt import on_the_host


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> tuple[HostModule, HostDriver]:
    """The stand-in for CuPy, and the launches."""
    return on_the_host(monkeypatch)[0], install(monkeypatch)


def _inputs(m: int, n: int, k: int, bits: int, block: int, zeros: str = "", dtype: Any = np.float32) -> list[Any]:
    rng = np.random.default_rng(m + n + k)
    blocks = -(-k // block)
    return [
        rng.standard_normal((m, k)).astype(dtype),
        rng.integers(0, 256, (n, blocks, block * bits // 8), dtype=np.uint8),
        rng.uniform(0.01, 0.2, (n, blocks)).astype(dtype),
        {
            "": None,
            "packed": rng.integers(0, 256, (n, -(-blocks * bits // 8)), dtype=np.uint8),
            "float": rng.uniform(0, 2**bits - 1, (n, blocks)).astype(dtype),
        }[zeros],
        None,
        rng.standard_normal(n).astype(dtype),
    ]


def _run(module: HostModule, inputs: list[Any], **attributes: Any) -> Any:
    given = [None if x is None else on_host(x) for x in inputs]
    (y,) = run_kernel(
        matmul_nbits.KERNELS, "MatMulNBits", given, xp=module, domain="com.microsoft", opset=1, **attributes
    )
    return y


def _agree(module: HostModule, inputs: list[Any], n: int, k: int, bits: int, block: int) -> None:
    attributes: dict[str, Any] = {"N": n, "K": k, "bits": bits, "block_size": block}
    y = _run(module, inputs, **attributes)
    wide = [None if x is None else x.astype(np.float32) if x.dtype != np.uint8 else x for x in inputs]
    (wanted,) = run_kernel(LIBRARY, "MatMulNBits", wide, domain="com.microsoft", opset=1, **attributes)
    assert (y.dtype, y.shape) == (inputs[0].dtype, wanted.shape)
    # Where the weights are dequantised to a narrow type first, each is rounded too.
    tolerance = {np.dtype(np.float32): 1e-4, np.dtype(np.float16): 2e-2}.get(y.dtype, 2e-1)
    np.testing.assert_allclose(y.astype(np.float32), wanted, rtol=tolerance, atol=tolerance)


@pytest.mark.parametrize("m", [1, 2, 3, 7, 12])
@pytest.mark.parametrize("zeros", ["", "packed", "float"])
@pytest.mark.parametrize(("bits", "block", "k"), [(4, 32, 128), (4, 16, 80), (4, 32, 50), (8, 16, 96), (8, 64, 70)])
def test_products(host: tuple[HostModule, HostDriver], bits: int, block: int, k: int, zeros: str, m: int) -> None:
    """Few rows by our kernel, more by tiles; blocks that are full and not; all kinds of zero points; an odd N."""
    _agree(host[0], _inputs(m, 5, k, bits, block, zeros), 5, k, bits, block)
    assert set(host[1].names) == {"nbits_few_rows" if m <= 8 else "nbits_dequantize"}


@pytest.mark.parametrize("m", [1, 12])
def test_weights_that_begin_anywhere(
    host: tuple[HostModule, HostDriver], monkeypatch: pytest.MonkeyPatch, m: int
) -> None:
    """They are copied to where they can be read sixteen bytes at a time: a device faults at other addresses."""
    launch, addresses = Kernel.__call__, list[int]()

    def noted(kernel: Kernel, grid: Any, block: Any, stream: int, *arguments: Any, shared: int = 0) -> None:
        addresses.append(arguments[1 if kernel.name == "nbits_few_rows" else 0])
        launch(kernel, grid, block, stream, *arguments, shared=shared)

    monkeypatch.setattr(Kernel, "__call__", noted)
    inputs = _inputs(m, 5, 64, 4, 32)
    given: list[Any] = [None if x is None else on_host(x) for x in inputs]
    memory = on_host(np.zeros(inputs[1].size + 4, np.uint8))
    memory[4:] = inputs[1].reshape(-1)
    given[1] = memory[4:].reshape(inputs[1].shape)
    assert given[1].data.ptr % 16 == 4
    attributes: dict[str, Any] = {"domain": "com.microsoft", "opset": 1, "N": 5, "K": 64, "bits": 4, "block_size": 32}
    (y,) = run_kernel(matmul_nbits.KERNELS, "MatMulNBits", given, xp=host[0], **attributes)
    (wanted,) = run_kernel(LIBRARY, "MatMulNBits", inputs, **attributes)
    np.testing.assert_allclose(y, wanted, rtol=1e-4, atol=1e-4)
    assert addresses
    assert all(address % 16 == 0 for address in addresses)


@pytest.mark.parametrize("m", [1, 12])
@pytest.mark.parametrize("dtype", [np.float16, ml_dtypes.bfloat16])
def test_narrow_types(host: tuple[HostModule, HostDriver], dtype: Any, m: int) -> None:
    """Added up in float32, rounded once."""
    _agree(host[0], _inputs(m, 6, 256, 4, 32, "packed", dtype), 6, 256, 4, 32)


def test_a_long_row_is_shared_by_four_warps(host: tuple[HostModule, HostDriver]) -> None:
    """4096 columns: each of 128 threads has one load."""
    _agree(host[0], _inputs(1, 3, 4096, 4, 32), 3, 4096, 4, 32)
    assert host[1].launched[0][1:] == ((2, 1, 1), (128, 1, 1))


def test_tiles_fill_columns_of_the_result(host: tuple[HostModule, HostDriver], monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights that do not fit one tile."""
    monkeypatch.setattr(matmul_nbits, "_TILE", 1)
    _agree(host[0], _inputs(9, 70, 64, 4, 32), 70, 64, 4, 32)
    assert host[1].names == ["nbits_dequantize"] * 3


def test_batches_and_no_rows(host: tuple[HostModule, HostDriver]) -> None:
    """Leading axes are rows; none are none."""
    inputs = _inputs(6, 4, 64, 4, 32)
    shaped = [inputs[0].reshape(2, 3, 64), *inputs[1:]]
    attributes = {"N": 4, "K": 64, "bits": 4, "block_size": 32}
    np.testing.assert_array_equal(
        _run(host[0], shaped, **attributes).reshape(6, 4), _run(host[0], inputs, **attributes)
    )
    assert _run(host[0], [inputs[0][:0], *inputs[1:]], **attributes).shape == (0, 4)


def test_what_the_library_runs(host: tuple[HostModule, HostDriver]) -> None:
    """2 bits, and groups of columns."""
    _agree(host[0], _inputs(2, 4, 64, 2, 32), 4, 64, 2, 32)
    inputs = _inputs(2, 4, 64, 4, 32)
    inputs[4] = np.arange(64, dtype=np.int32) % 2
    _agree(host[0], [x if i != 4 else inputs[4] for i, x in enumerate(inputs)], 4, 64, 4, 32)
    assert not host[1].launched


@pytest.mark.parametrize(
    ("place", "shape", "message"),
    [
        (0, (2, 60), "its last axis must have K=64"),
        (1, (4, 3, 16), "B has shape"),
        (2, (4, 3), "scales has shape"),
        (3, (5,), "zero_points has shape"),
        (5, (5,), "bias has shape"),
    ],
)
def test_sizes_that_do_not_fit(
    host: tuple[HostModule, HostDriver], place: int, shape: tuple[int, ...], message: str
) -> None:
    """Named, with the attributes that decide."""
    inputs = _inputs(2, 4, 64, 4, 32)
    inputs[place] = np.zeros(shape, np.uint8 if place in (1, 3) else np.float32)
    with pytest.raises(InvalidArgument, match=message):
        _run(host[0], inputs, N=4, K=64, bits=4, block_size=32)


def test_attributes_that_cannot_be(host: tuple[HostModule, HostDriver]) -> None:
    inputs = _inputs(2, 4, 64, 4, 32)
    with pytest.raises(errors.NotImplemented, match="weight_prepacked=1"):
        _run(host[0], inputs, N=4, K=64, bits=4, block_size=32, weight_prepacked=1)
    with pytest.raises(InvalidArgument, match="block_size is 33"):
        _run(host[0], inputs, N=4, K=64, bits=4, block_size=33)
    with pytest.raises(InvalidArgument, match="N is 0"):
        _run(host[0], inputs, N=0, K=64, bits=4, block_size=32)


@pytest.mark.skipif(libraries.find("nvrtc") is None, reason="needs NVRTC: pip install ort-py-cuda[cuda13]")
@pytest.mark.parametrize("arch", ARCHITECTURES)
@pytest.mark.parametrize("dtype", TYPES)
def test_kernels_compile(dtype: str, arch: str) -> None:
    """By NVIDIA's compiler: each form for each architecture, and for each type."""
    forms = [few_rows_kernel(dtype, 4, 32, 1, 0, False)]
    for bits, unit in ((4, 32), (4, 16), (8, 16)):
        forms += [few_rows_kernel(dtype, bits, unit, 4, zero, True) for zero in (0, 1, 2)]
        forms.append(dequantize_kernel(dtype, bits, unit, 1))
    for kernel in share_of(forms, dtype, arch):
        assert kernel.image(arch)[:4] == b"\x7fELF"
