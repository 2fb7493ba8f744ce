"""Plans: the library's descriptors of a problem and the algorithm it chose, made once and kept in a bounded store.

The choice of an algorithm takes tens of microseconds, the product of a decoder's step about five, so it is made once
for each problem. A plan's descriptors are freed when it is no longer in use, even if the store dropped it during a
call. Comes between `binding` and `products`. Works with integer pointers and without arrays.
"""

from __future__ import annotations

import ctypes
import threading
import weakref
from collections import OrderedDict
from collections.abc import Callable
from ctypes import byref, c_double, c_float, c_int32
from typing import Any

from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.cublaslt.binding import CublasLt, DescField, LayoutField, PreferenceField
from ort_py_cuda.cublaslt.elements import Arithmetic, CudaType
from ort_py_cuda.cublaslt.layout import Matrix, Problem

__all__ = ["Operands", "Plan", "PlanKey", "PlanStore", "alignment_of"]

_WORKSPACE = 32 << 20
"""Bytes an algorithm may ask for: what NVIDIA recommends for Hopper; others ask for less."""

_PLANS = 1024
"""Plans kept. A plan takes some kilobytes, and a decoder with a growing cache makes new problems with each token."""

_ALIGNMENT = 256
"""Bytes: no algorithm asks for more."""

_ANY_REDUCTION, _WIDE_REDUCTION = 7, 2
"""``cublasLtReductionScheme_t``: how parts of a sum over k are added up; 2 does so in the type that is computed in,
others in the type of the result, which rounds each part."""

_SCALARS: dict[CudaType, Callable[[float], ctypes._SimpleCData[Any]]] = {
    CudaType.R_32F: c_float,
    CudaType.R_64F: c_double,
    CudaType.R_32I: lambda value: c_int32(int(value)),
}


def alignment_of(pointer: int) -> int:
    """The greatest power of two, 256 at most, that divides an address; 256 for none."""
    return min(pointer & -pointer, _ALIGNMENT) or _ALIGNMENT


@dataclass(frozen=True, slots=True)
class PlanKey:
    """The facts that a plan depends on.

    Attributes:
        problem: What is computed.
        arithmetic: In which types.
        alignments: Of the addresses of our A, of our B, of C and D together, and of the bias.
        scaled: Whether the operands have scales on the device (float8).
    """

    problem: Problem
    arithmetic: Arithmetic
    alignments: tuple[int, int, int, int]
    scaled: bool = False


@dataclass(frozen=True, slots=True)
class Operands:
    """Device addresses of one call.

    Attributes:
        a: Our A.
        b: Our B.
        added: C, in the layout of the result; not read where nothing is accumulated.
        result: D.
        bias: One entry per column of our result; 0 where there is none.
        a_scale: A float32 that A is multiplied by (float8); 0 where there is none.
        b_scale: The same for B.
    """

    a: int
    b: int
    added: int
    result: int
    bias: int = 0
    a_scale: int = 0
    b_scale: int = 0


class Plan:
    """Descriptors and an algorithm for one problem. May be used from any thread.

    Attributes:
        workspace_size: Bytes of scratch it needs.
    """

    def __init__(self, library: CublasLt, handle: int, key: PlanKey, workspace: int = _WORKSPACE) -> None:
        made: list[tuple[str, int]] = []
        # All parts that were created are freed, also if creating the next one failed.
        self._finalizer = weakref.finalize(self, _destroy, library, made)
        self._library, self._handle = library, handle
        self._scalar = _SCALARS[key.arithmetic.scale]
        self._lock = threading.Lock()
        self._key = key
        self._description = self._describe(made)
        problem, types = key.problem, key.arithmetic
        self._first = self._layout(made, problem.first, types.right)  # its A is our B
        self._second = self._layout(made, problem.second, types.operand)
        self._result = self._layout(made, problem.result, types.result)
        chosen = self._choose(made, workspace)
        self._algorithm = chosen.algo
        self.workspace_size = int(chosen.workspace_size)

    def _describe(self, made: list[tuple[str, int]]) -> int:
        library, key = self._library, self._key
        problem = key.problem
        description = library.create_description(key.arithmetic.compute, key.arithmetic.scale)
        made.append(("cublasLtMatmulDescDestroy", description))
        library.set_description(description, DescField.TRANSA, int(problem.transpose_first))
        library.set_description(description, DescField.TRANSB, int(problem.transpose_second))
        library.set_description(description, DescField.EPILOGUE, int(problem.epilogue))
        if problem.epilogue.has_bias:  # choosing reads the alignment off an address
            library.set_description(description, DescField.BIAS_POINTER, key.alignments[3])
        if key.scaled:
            library.set_description(description, DescField.A_SCALE_POINTER, _ALIGNMENT)
            library.set_description(description, DescField.B_SCALE_POINTER, _ALIGNMENT)
        return description

    def _layout(self, made: list[tuple[str, int]], matrix: Matrix, kind: CudaType) -> int:
        library, batch = self._library, self._key.problem.batch
        layout = library.create_layout(kind, matrix.rows, matrix.columns, matrix.ld)
        made.append(("cublasLtMatrixLayoutDestroy", layout))
        if batch > 1:
            library.set_layout(layout, LayoutField.BATCH_COUNT, batch)
            library.set_layout(layout, LayoutField.STRIDED_BATCH_OFFSET, matrix.stride)
        return layout

    def _choose(self, made: list[tuple[str, int]], workspace: int) -> Any:
        library = self._library
        preference = library.create_preference()
        made.append(("cublasLtMatmulPreferenceDestroy", preference))
        a, b, result, _bias = self._key.alignments
        narrow = self._key.arithmetic.result.itemsize < 4
        for field, value in (
            (PreferenceField.MAX_WORKSPACE_BYTES, workspace),
            (PreferenceField.REDUCTION_SCHEME_MASK, _WIDE_REDUCTION if narrow else _ANY_REDUCTION),
            (PreferenceField.MIN_ALIGNMENT_A_BYTES, b),  # its A is our B
            (PreferenceField.MIN_ALIGNMENT_B_BYTES, a),
            (PreferenceField.MIN_ALIGNMENT_C_BYTES, result),
            (PreferenceField.MIN_ALIGNMENT_D_BYTES, result),
        ):
            library.set_preference(preference, field, value)
        return library.heuristic(self._handle, self._description, (self._first, self._second, self._result), preference)

    def run(self, operands: Operands, stream: int, workspace: int, *, alpha: float = 1.0, beta: float = 0.0) -> None:
        """Enqueue the product.

        Args:
            operands: Device addresses, aligned as the plan's key says.
            stream: Handle of the stream.
            workspace: Address of `workspace_size` bytes, which must not be used otherwise before the product is done in
                the order of the stream.
            alpha: Factor of the product.
            beta: Factor of what is added; 0 unless the problem accumulates.

        Raises:
            CublasLtError: The library refused.
        """
        library, description = self._library, self._description
        factors = self._scalar(alpha), self._scalar(beta)
        # The description holds the addresses of bias and scales: set and used as one, whoever else has the plan.
        with self._lock:
            if operands.bias:
                library.set_description(description, DescField.BIAS_POINTER, operands.bias)
            if self._key.scaled:
                library.set_description(description, DescField.A_SCALE_POINTER, operands.b_scale)
                library.set_description(description, DescField.B_SCALE_POINTER, operands.a_scale)
            status = library.matmul(
                self._handle,
                description,
                byref(factors[0]),
                operands.b,
                self._first,
                operands.a,
                self._second,
                byref(factors[1]),
                operands.added,
                self._result,
                operands.result,
                self._result,
                byref(self._algorithm),
                workspace,
                self.workspace_size,
                stream,
            )
        library.check(status, "cublasLtMatmul")


def _destroy(library: CublasLt, made: list[tuple[str, int]]) -> None:
    """Free descriptors, last made first. They are memory of the host: the device may be gone."""
    for name, pointer in reversed(made):
        library.call(name, pointer)
    made.clear()


class PlanStore:
    """The plans of one device, the least used dropped first. May be used from any thread.

    Args:
        library: The library.
        handle: Of the device.
        capacity: Plans kept.
    """

    def __init__(self, library: CublasLt, handle: int, capacity: int = _PLANS) -> None:
        self.library = library
        self._handle = handle
        self._capacity = capacity
        self._plans: OrderedDict[PlanKey, Plan] = OrderedDict()
        self._lock = threading.Lock()

    def __len__(self) -> int:
        return len(self._plans)

    def get(self, key: PlanKey) -> Plan:
        """The plan for a key, made where there is none.

        Raises:
            CublasLtError: The library has no algorithm for it.
        """
        with self._lock:
            plan = self._plans.get(key)
            if plan is not None:
                self._plans.move_to_end(key)
                return plan
        # Made outside of the lock: two threads may both make it, and the second one's stays.
        plan = Plan(self.library, self._handle, key)
        with self._lock:
            self._plans[key] = plan
            while len(self._plans) > self._capacity:
                self._plans.popitem(last=False)
        return plan
