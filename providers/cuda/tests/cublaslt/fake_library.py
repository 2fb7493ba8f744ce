"""A libcublasLt of our own: keeps what is set, records calls, and multiplies matrices in the host's memory.

It reads descriptors only, as the library does: a description that is not true gives a wrong result here too.
"""

from __future__ import annotations

import ctypes
import math
from dataclasses import dataclass, field, replace
from typing import Any

import ml_dtypes
import numpy as np

from ort_py_cuda.cublaslt.binding import DescField, LayoutField
from ort_py_cuda.cublaslt.elements import Compute, CudaType, Epilogue
from ort_py_cuda.cublaslt.layout import Matrix, Problem

from .column_major import interpret

__all__ = ["FakeLt"]

_DTYPES: dict[int, Any] = {
    CudaType.R_32F: np.float32,
    CudaType.R_64F: np.float64,
    CudaType.R_16F: np.float16,
    CudaType.R_8I: np.int8,
    CudaType.R_32I: np.int32,
    CudaType.R_16BF: ml_dtypes.bfloat16,
    CudaType.R_8F_E4M3: ml_dtypes.float8_e4m3fn,
    CudaType.R_8F_E5M2: ml_dtypes.float8_e5m2,
}
_SCALARS: dict[int, Any] = {
    CudaType.R_32F: ctypes.c_float,
    CudaType.R_64F: ctypes.c_double,
    CudaType.R_32I: ctypes.c_int32,
}


class _Function:
    """A function of the library: its prototype can be set, and its status be made to fail."""

    def __init__(self, owner: FakeLt, name: str, body: Any) -> None:
        self.argtypes: Any = None
        self.restype: Any = None
        self._owner, self._name, self._body = owner, name, body

    def __call__(self, *arguments: Any) -> Any:
        if self.argtypes is not None:
            assert len(arguments) == len(self.argtypes), f"{self._name} takes {len(self.argtypes)} arguments"
        self._owner.calls.append(self._name)
        status = self._owner.failing.get(self._name)
        if status is not None:
            return status
        found = self._body(*arguments)
        return 0 if found is None else found


@dataclass
class _Thing:
    kind: str
    made: tuple[Any, ...]
    fields: dict[int, bytes] = field(default_factory=dict)


def _number(raw: bytes | None, default: int = 0) -> int:
    return default if raw is None else int.from_bytes(raw, "little", signed=True)


class FakeLt:
    """The functions that the binding uses.

    Args:
        workspace: Bytes each algorithm asks for.
        algorithms: Whether there are any.
        epilogues: Whether there are any with an epilogue.

    Attributes:
        calls: Names, in order.
        failing: Status by name of what is to fail.
        alive: Descriptors by address.
        alignments: What preferences said, in the order of the questions: of A, B, C and D.
        reductions: Which ways to add up parts of sums they allowed.
        streams: Stream of each product.
        workspaces: (address, size) of each product.
    """

    def __init__(self, workspace: int = 0, *, algorithms: bool = True, epilogues: bool = True) -> None:
        self.calls: list[str] = []
        self.failing: dict[str, int] = {}
        self.alive: dict[int, _Thing] = {}
        self.alignments: list[tuple[int, ...]] = []
        self.reductions: list[int] = []
        self.streams: list[int] = []
        self.workspaces: list[tuple[int, int]] = []
        self.problems: list[tuple[Problem, int]] = []
        self._workspace, self._algorithms, self._epilogues = workspace, algorithms, epilogues
        self._next = 0x1000
        for name in [
            "cublasLtCreate",
            "cublasLtDestroy",
            "cublasLtMatmulDescCreate",
            "cublasLtMatmulDescDestroy",
            "cublasLtMatmulDescSetAttribute",
            "cublasLtMatrixLayoutCreate",
            "cublasLtMatrixLayoutDestroy",
            "cublasLtMatrixLayoutSetAttribute",
            "cublasLtMatmulPreferenceCreate",
            "cublasLtMatmulPreferenceDestroy",
            "cublasLtMatmulPreferenceSetAttribute",
            "cublasLtMatmulAlgoGetHeuristic",
            "cublasLtMatmul",
        ]:
            short = name.removeprefix("cublasLt")
            if short.endswith("Create"):
                body: Any = self._creator(short.removesuffix("Create"))
            elif short.endswith("Destroy"):
                body = self._destroy
            elif short.endswith("SetAttribute"):
                body = self._set
            else:
                body = getattr(self, f"_{short}")
            setattr(self, name, _Function(self, name, body))
        self.cublasLtGetStatusString = _Function(self, "cublasLtGetStatusString", lambda status: b"as the fake says")
        self.cublasLtGetVersion = _Function(self, "cublasLtGetVersion", lambda: 131000)

    def _creator(self, kind: str) -> Any:
        def create(pointer: Any, *made: Any) -> None:
            self._next += 16
            pointer._obj.value = self._next
            self.alive[self._next] = _Thing(kind, made)

        return create

    def _destroy(self, pointer: int) -> None:
        del self.alive[pointer]

    def _set(self, pointer: int, name: int, value: Any, size: int) -> None:
        self.alive[pointer].fields[name] = bytes(value._obj)[:size]

    def _MatmulAlgoGetHeuristic(self, *arguments: Any) -> None:  # noqa: N802 - the library's name
        preference, result, found = arguments[6], arguments[8]._obj, arguments[9]._obj
        fields = self.alive[preference].fields
        self.alignments.append(tuple(_number(fields[one]) for one in (5, 6, 7, 8)))
        self.reductions.append(_number(fields[3]))
        plain = _number(self.alive[arguments[1]].fields.get(DescField.EPILOGUE), 1) == Epilogue.DEFAULT
        found.value = int(self._algorithms and (self._epilogues or plain))
        result.workspace_size = self._workspace

    def _matrix(self, layout: int) -> tuple[Matrix, int, int]:
        thing = self.alive[layout]
        kind, rows, columns, ld = thing.made
        stride = _number(thing.fields.get(LayoutField.STRIDED_BATCH_OFFSET))
        return Matrix(rows, columns, ld, stride), kind, _number(thing.fields.get(LayoutField.BATCH_COUNT), 1)

    def _Matmul(self, *arguments: Any) -> None:  # noqa: N802 - the library's name
        _, desc, alpha, a, a_layout, b, b_layout, beta, c, c_layout, d, d_layout, _, space, size, stream = arguments
        thing = self.alive[desc]
        compute, scale = thing.made
        fields = thing.fields
        first, kind, batch = self._matrix(a_layout)
        second, second_kind, _ = self._matrix(b_layout)
        result, result_kind, _ = self._matrix(d_layout)
        assert c_layout == d_layout
        factors = [ctypes.cast(one, ctypes.POINTER(_SCALARS[scale])).contents.value for one in (alpha, beta)]
        epilogue = Epilogue(_number(fields.get(DescField.EPILOGUE), 1))
        problem = Problem(
            first,
            second,
            result,
            bool(_number(fields.get(DescField.TRANSA))),
            bool(_number(fields.get(DescField.TRANSB))),
            batch,
            epilogue,
            factors[1] != 0,
        )
        self.problems.append((problem, compute))
        self.streams.append(stream)
        self.workspaces.append((space, size))
        assert compute in list(Compute)
        operand, output = np.dtype(_DTYPES[kind]), np.dtype(_DTYPES[result_kind])
        bias = None
        if epilogue.has_bias:
            bias = _memory(_number(fields[DescField.BIAS_POINTER]), result.rows, output).astype(np.float64)
        for name in (DescField.A_SCALE_POINTER, DescField.B_SCALE_POINTER):
            if name in fields:
                factors[0] *= float(_memory(_number(fields[name]), 1, np.dtype(np.float32))[0])
        wide = np.dtype(np.int64 if operand.kind == "i" else np.float64)
        space_of = {one: _extent(matrix, batch) for one, matrix in (("a", first), ("b", second), ("d", result))}
        left = _memory(a, space_of["a"], operand).astype(wide)
        right = _memory(b, space_of["b"], np.dtype(_DTYPES[second_kind])).astype(wide)
        with np.errstate(invalid="ignore"):  # memory to which nothing was written may hold a signalling NaN
            base = _memory(c, space_of["d"], output).astype(wide)
            made = _memory(d, space_of["d"], output).astype(wide)
        interpret(problem, left, right, made, added=base, bias=bias, alpha=factors[0], beta=factors[1])
        _memory(d, space_of["d"], output)[...] = made.astype(output)


def _extent(matrix: Matrix, batch: int) -> int:
    """Elements from the first of a batch's to its last."""
    one = replace(matrix)
    return (batch - 1) * one.stride + (one.columns - 1) * one.ld + one.rows


def _memory(address: int, count: int, dtype: Any) -> Any:
    """The host's memory at an address."""
    assert address % math.gcd(dtype.itemsize, 8) == 0
    raw = (ctypes.c_char * (count * dtype.itemsize)).from_address(address)
    return np.frombuffer(raw, np.uint8).view(dtype)
