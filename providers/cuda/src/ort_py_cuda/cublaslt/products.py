"""Products of device arrays by cuBLASLt: addresses, strides and types of arrays become calls, which are enqueued.

Everything that multiplies matrices in this provider comes here and never through CuPy's matmul, which CuPy refuses
while a graph is captured. Comes after `plans`; knows arrays, and no operator.
"""

from __future__ import annotations

import threading
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.errors import EPFail, InvalidArgument
from ort_py_cuda import libraries, modules
from ort_py_cuda.cublaslt.binding import NOT_SUPPORTED, CublasLt, CublasLtError
from ort_py_cuda.cublaslt.elements import Arithmetic, Epilogue, arithmetic_of
from ort_py_cuda.cublaslt.layout import Call, Problem, calls_of, matrix_view, product_shape, tn_refusal
from ort_py_cuda.cublaslt.plans import Operands, Plan, PlanKey, PlanStore, alignment_of

__all__ = ["multiply", "store_of"]

_stores: dict[int, PlanStore] = {}
_lock = threading.Lock()


def store_of(device: int) -> PlanStore:
    """The plans of a device, which must be the current one. The library is loaded when it is first asked for.

    Raises:
        EPFail: The library is not there, or does not start.
    """
    store = _stores.get(device)
    if store is None:
        with _lock:
            store = _stores.get(device)
            if store is None:
                library = CublasLt(libraries.load("cublasLt"))
                store = _stores[device] = PlanStore(library, library.create_handle())
    return store


def _steps(x: Array) -> tuple[int, ...]:
    """Strides in elements."""
    size = x.itemsize
    return tuple(step // size for step in x.strides)


def multiply(
    a: Array,
    b: Array,
    out: Array | None = None,
    *,
    bias: Array | None = None,
    added: Array | None = None,
    alpha: float = 1.0,
    beta: float = 1.0,
    epilogue: Epilogue = Epilogue.DEFAULT,
    result: Any = None,
    tf32: bool = False,
    elements: tuple[str, str] | None = None,
    a_scale: Array | None = None,
    b_scale: Array | None = None,
) -> Array:
    """``epilogue(alpha · a @ b + beta · added + bias)``, enqueued on the current stream.

    Args:
        a: As of `numpy.matmul`, any strides.
        b: The same, of the same type.
        out: Array to write to, C-contiguous or some columns of a matrix that is; a new one where None. It may be
            `added`.
        bias: One entry per column of the result, of its type, contiguous.
        added: C-contiguous, of the shape and type of the result.
        alpha: Factor of the product.
        beta: Factor of what is added.
        epilogue: What follows; a bias is put in front of it.
        result: dtype of the result where it is not that of the operands (`arithmetic_of`).
        tf32: Multiply float32 as TF32.
        elements: Names of what the bytes of `a` and `b` are, which are uint8 then: CuPy has no float8.
        a_scale: float32 of one element that `a` is multiplied by, for float8.
        b_scale: The same for `b`.

    Returns:
        `out`, or a new array.

    Raises:
        InvalidArgument: Shapes do not fit.
        EPFail: cuBLASLt has no such product, or is not there, or failed.
        MemoryError: Memory of the device is short.
    """
    xp = modules.cupy()
    left, right = elements or (a.dtype.name, b.dtype.name)
    arithmetic = arithmetic_of(left, None if result is None else xp.dtype(result).name, right=right, tf32=tf32)
    if arithmetic is None:
        raise EPFail(
            f"cuBLASLt has no product of {left} and {right} as {result or left}.",
            fix="Convert the operands to one floating-point type first.",
        )
    shape = product_shape(a.shape, b.shape)
    if shape is None:
        raise InvalidArgument(f"Cannot multiply shapes {list(a.shape)} and {list(b.shape)}.")
    y = xp.empty(shape, result or _result_type(xp, a, arithmetic)) if out is None else out
    if y.size == 0:
        return y
    if bias is not None:
        epilogue = epilogue.with_bias
    if a.shape[-1] == 0:
        return _of_nothing(xp, y, bias, added, beta, epilogue)
    accumulates = added is not None and beta != 0.0
    row_step = None if y.flags.c_contiguous else y.strides[0] // y.itemsize
    a, b, calls = _readable(xp, a, b, (epilogue, accumulates, row_step))
    refusal = tn_refusal(calls[0].problem, arithmetic)
    if refusal is not None:
        raise EPFail(f"cuBLASLt has no such product of {left}.", why=refusal)
    store = store_of(int(xp.cuda.runtime.getDevice()))
    stream = int(xp.cuda.get_current_stream().ptr)
    base = y if added is None else added
    starts = (a.data.ptr, b.data.ptr, base.data.ptr, y.data.ptr)
    others = tuple(0 if x is None else x.data.ptr for x in (bias, a_scale, b_scale))
    work: list[tuple[Plan, Operands]] = []
    for call in calls:
        operands = _operands(call, starts, others, a.itemsize, y.itemsize)
        alignments = _alignments(call.problem, operands, a.itemsize, y.itemsize)
        key = PlanKey(call.problem, arithmetic, alignments, a_scale is not None and b_scale is not None)
        try:
            work.append((store.get(key), operands))
        except CublasLtError as error:
            if error.status != NOT_SUPPORTED or epilogue is Epilogue.DEFAULT:
                raise
            # There is such a product, but not with what follows it: that is computed by itself then.
            multiply(
                *(a, b, y),
                added=added,
                alpha=alpha,
                beta=beta,
                result=result,
                tf32=tf32,
                elements=elements,
                a_scale=a_scale,
                b_scale=b_scale,
            )
            return _finished(xp, y, bias, epilogue)
    for plan, operands in work:
        # Dropped when the product is enqueued: the pool hands it to what follows on this stream, which is later.
        scratch = xp.empty((plan.workspace_size,), xp.uint8) if plan.workspace_size else None
        address = 0 if scratch is None else scratch.data.ptr
        plan.run(operands, stream, address, alpha=alpha, beta=beta if accumulates else 0.0)
    return y


def _result_type(xp: Any, a: Array, arithmetic: Arithmetic) -> Any:
    if arithmetic.result.name == "R_32I":
        return xp.int32
    return a.dtype if arithmetic.result == arithmetic.operand else xp.dtype("bfloat16")


def _readable(
    xp: Any, a: Array, b: Array, how: tuple[Epilogue, bool, int | None]
) -> tuple[Array, Array, tuple[Call, ...]]:
    """Operands as the library can read them, and its calls: the operand that it cannot read is copied."""
    calls = _calls(a, b, *how)
    if calls is None:
        a, b = (x if _can_be_read(x) else xp.ascontiguousarray(x) for x in (a, b))
        calls = _calls(a, b, *how)
    assert calls is not None  # contiguous matrices can be read
    return a, b, calls


def _can_be_read(x: Array) -> bool:
    if x.ndim < 2:
        return bool(x.ndim == 0 or x.size < 2 or x.strides[0] > 0)
    steps = _steps(x)
    view = matrix_view(x.shape[-2], x.shape[-1], steps[-2], steps[-1])
    return view is not None


def _calls(a: Array, b: Array, epilogue: Epilogue, accumulates: bool, row_step: int | None) -> tuple[Call, ...] | None:
    return calls_of(
        a.shape, _steps(a), b.shape, _steps(b), epilogue=epilogue, accumulates=accumulates, row_step=row_step
    )


def _operands(
    call: Call, starts: tuple[int, int, int, int], others: tuple[int, ...], size: int, result_size: int
) -> Operands:
    a, b, added, y = starts
    return Operands(
        a + call.a * size,
        b + call.b * size,
        added + call.y * result_size,
        y + call.y * result_size,
        *others,
    )


def _alignments(problem: Problem, operands: Operands, size: int, result_size: int) -> tuple[int, int, int, int]:
    """Alignments of A, of B, of C and D together, and of the bias, common to all matrices of a batch."""
    return (
        alignment_of(operands.a | problem.second.stride * size),
        alignment_of(operands.b | problem.first.stride * size),
        alignment_of(operands.result | operands.added | problem.result.stride * result_size),
        alignment_of(operands.bias),
    )


def _of_nothing(xp: Any, y: Array, bias: Array | None, added: Array | None, beta: float, epilogue: Epilogue) -> Array:
    """A sum over no elements: zeros, and what is added to them."""
    if added is not None and beta != 0.0:
        xp.multiply(added, xp.asarray(beta, dtype=y.dtype), out=y)
    else:
        y.fill(0)
    return _finished(xp, y, bias, epilogue)


def _finished(xp: Any, y: Array, bias: Array | None, epilogue: Epilogue) -> Array:
    """Apply an epilogue in place."""
    if bias is not None:
        xp.add(y, bias, out=y)
    if epilogue & Epilogue.RELU:
        xp.maximum(y, xp.zeros((), y.dtype), out=y)
    elif epilogue & Epilogue.GELU:
        wide = y.astype(xp.float32)
        y[...] = 0.5 * wide * (1 + xp.tanh(0.7978845608028654 * (wide + 0.044715 * wide**3)))
    return y
