"""MatMul and Gemm.

Everything ends in the array module's `matmul`, that is in BLAS, through `products`. Quantised products are in
`quantized_matmul`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE
from ort_py_array.precision import rounded, wide_constant, widened
from ort_py_array.products import SPLIT_FROM, product
from ort_py_array.two_forms import two_forms

__all__ = ["KERNELS", "gemm", "matmul", "matmul_shape"]


def matmul_shape(ctx: KernelContext, a: Array, b: Array) -> tuple[int, ...]:
    """Shape of ``a @ b``.

    Raises:
        InvalidArgument: The inner dimensions differ, the leading ones do not broadcast, or an operand is a scalar.
    """
    left, right = tuple(a.shape), tuple(b.shape)
    if left and right and left[-1] == right[-2 if len(right) > 1 else 0]:
        lead: list[int] = []
        for back in range(max(len(left), len(right), 2), 2, -1):
            sizes = {shape[-back] for shape in (left, right) if len(shape) >= back}
            if len(sizes - {1}) > 1:
                break
            lead.append((sizes - {1} or {1}).pop())
        else:
            return (*lead, *left[-2:-1], *(right[-1:] if len(right) > 1 else ()))
    raise InvalidArgument(
        f"Cannot multiply shapes {list(left)} and {list(right)}.",
        where=ctx.node.location,
        why="the last axis of the first and the last but one of the second must be equal, leading axes must broadcast",
        fix="Check the inputs' shapes; `ort-py info` shows what the model declares.",
    )


def _for_blas(xp: Any, x: Array) -> Array:
    """`x`, copied only if neither of its last two axes is contiguous, which BLAS cannot read."""
    if x.flags.c_contiguous or x.ndim < 2 or x.itemsize in x.strides[-2:]:
        return x
    return xp.ascontiguousarray(x)


def matmul(ctx: KernelContext, alpha: float = 1.0, *, as_given: bool = True) -> KernelCallable:
    """MatMul 1–13: NumPy's matmul on floats and 32- and 64-bit integers; narrow floats are summed in float32.

    With `alpha`, floating-point products are multiplied by it before they are rounded. Where the callable gets the
    node's inputs `as_given`, not transposed or otherwise changed, narrow constants are widened once.
    """
    xp = ctx.xp
    wide_b = wide_constant(ctx, 1) if as_given else None

    def run(a: Array, b: Array, out: Array | None = None) -> Array:
        if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[0]:
            ctx.check_allocation(matmul_shape(ctx, a, b), a.dtype)
        elif a.shape[0] * b.shape[1] > LARGE:
            ctx.check_allocation((a.shape[0], b.shape[1]), a.dtype)
        left, right = _for_blas(xp, widened(xp, a)), _for_blas(xp, widened(xp, b) if wide_b is None else wide_b)
        target = None if out is None or left.dtype != a.dtype else out
        if left.ndim > 2 and right.ndim == 2 and left.size and left.flags.c_contiguous:
            # One GEMM of many rows instead of one per batch entry.
            shape = (*left.shape[:-1], right.shape[1])
            rows = None if target is None else target.reshape(-1, shape[-1])
            y = product(ctx, left.reshape(-1, left.shape[-1]), right, rows)
            y = y.reshape(shape) if target is None else target
        else:
            y = product(ctx, left, right, target)
        if alpha != 1.0:
            y = xp.multiply(y, alpha, target)
        return rounded(y, a.dtype, out)

    return run


def gemm(ctx: KernelContext, finish: Callable[[Array], Any] | None = None) -> KernelCallable:
    """Gemm 1–13: ``alpha · A' · B' + beta · C``; narrow floats are summed in float32 and rounded once.

    Before version 7, C must have the result's shape unless ``broadcast`` is set. `finish` changes the result in place
    before it is rounded: the activation of a fused node.
    """
    xp = ctx.xp
    attributes = ctx.node.attributes
    alpha, beta = attributes.get("alpha", 1.0), attributes.get("beta", 1.0)
    exact_bias = not ctx.node.domain and ctx.node.since_version < 7 and not attributes.get("broadcast", 0)
    trans_a, trans_b = bool(attributes.get("transA", 0)), bool(attributes.get("transB", 0))

    checked: dict[Any, bool] = {}
    wide_b = wide_constant(ctx, 1)

    def check(a: Array, b: Array, c: Array | None) -> bool:
        """Return whether the product is so small that nothing would split it."""
        left, right = a.shape[::-1] if trans_a else a.shape, b.shape[::-1] if trans_b else b.shape
        if len(left) != 2 or len(right) != 2 or left[1] != right[0]:
            raise InvalidArgument(
                f"Cannot multiply shapes {list(a.shape)} and {list(b.shape)} with transA={int(trans_a)}, "
                f"transB={int(trans_b)}.",
                where=ctx.node.location,
                fix="Both must have rank 2 and the inner dimensions must be equal.",
            )
        shape = (left[0], right[1])
        ctx.check_allocation(shape, a.dtype)
        if c is not None and beta != 0.0 and c.shape != shape and (exact_bias or not _spreads_to(c.shape, shape)):
            raise InvalidArgument(
                f"C has shape {list(c.shape)}, which does not broadcast to {list(shape)}.",
                where=ctx.node.location,
                fix="Before opset 7, broadcasting needs the attribute broadcast=1."
                if exact_bias
                else "Give C a shape that broadcasts to the product's, e.g. one entry per column.",
            )
        return bool(left[0] * left[1] * right[1] < SPLIT_FROM)

    def run(a: Array, b: Array, c: Array | None = None, out: Array | None = None) -> Array:
        small = checked.get(key := (a.shape, b.shape, None if c is None else c.shape))
        if small is None:
            small = check(a, b, c)
            if len(checked) < _REMEMBERED:
                checked[key] = small
        wide = widened(xp, b) if wide_b is None else wide_b
        left, right = widened(xp, a.T if trans_a else a), wide.T if trans_b else wide
        target = out if left.dtype == a.dtype else None
        y = xp.dot(left, right, target) if small else product(ctx, left, right, target)
        if alpha != 1.0:
            y = xp.multiply(y, alpha, y) if y.dtype.kind == "f" else _scaled(xp, y, alpha)
        if c is not None and beta != 0.0:
            c = widened(xp, c)
            xp.add(y, c if beta == 1.0 else _scaled(xp, c, beta), y)
        if finish is not None:
            finish(y)
        return rounded(y, a.dtype, out)

    return two_forms(ctx, run)


_REMEMBERED = 16
"""Shapes a node remembers to have checked; a dictionary that stops growing is safe to share between threads."""


def _scaled(xp: Any, x: Array, factor: float) -> Array:
    """`x · factor` in the type of `x`; integers are scaled as float64 and cut, as a C++ cast does."""
    return x * factor if x.dtype.kind == "f" else (x.astype(xp.float64) * factor).astype(x.dtype)


def _spreads_to(shape: tuple[int, ...], target: tuple[int, ...]) -> bool:
    return len(shape) <= len(target) and all(
        s in (1, t) for s, t in zip(reversed(shape), reversed(target), strict=False)
    )


KERNELS = [
    KernelDef("MatMul", matmul, since=1, until=13, out=True, strided=True, implementation=f"{__name__}:matmul"),
    KernelDef("Gemm", gemm, since=1, until=13, out=True, strided=True, implementation=f"{__name__}:gemm"),
]
