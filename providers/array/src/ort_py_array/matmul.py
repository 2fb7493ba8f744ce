"""MatMul, Gemm and Einsum.

Everything ends in the array module's `matmul`, that is in BLAS, through `products`. Quantised products are in
`quantized_matmul`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from itertools import chain
from math import prod
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.errors import InvalidArgument
from ort_py_array.checks import LARGE
from ort_py_array.durations import ahead_of_loop, ahead_of_product
from ort_py_array.precision import is_narrow, rounded, wide_constant, widened
from ort_py_array.products import SPLIT_FROM, product
from ort_py_array.two_forms import two_forms

__all__ = ["KERNELS", "einsum", "einsum_shape", "gemm", "matmul", "matmul_shape"]


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
            # One GEMM of many rows instead of one a batch entry.
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
                else "Give C a shape that broadcasts to the product's, e.g. one entry a column.",
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


def einsum_shape(equation: str, shapes: Sequence[tuple[int, ...]]) -> tuple[int, ...] | None:
    """Shape of an Einsum's result; None where equation and shapes do not fit, which `einsum` itself says best.

    Args:
        equation: Without blanks, e.g. ``"bij,bjk->bik"`` or ``"...ii"``.
        shapes: Shapes of the operands.
    """
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes):
        return None
    sizes: dict[str, int] = {}
    lead: tuple[int, ...] = ()
    for term, shape in zip(terms, shapes, strict=True):
        before, dots, after = term.partition("...")
        spread = len(shape) - len(before) - len(after)
        if spread < 0 or (spread and not dots):
            return None
        ends = [*zip(before, shape, strict=False), *zip(after, shape[len(before) + spread :], strict=False)]
        for label, size in ends:
            sizes[label] = max(size, sizes.get(label, 0))
        middle = shape[len(before) : len(before) + spread]
        if len(middle) > len(lead):
            lead, middle = middle, lead
        lead = (*lead[: len(lead) - len(middle)], *map(max, lead[len(lead) - len(middle) :], middle))
    if not arrow:
        letters = inputs.replace("...", "").replace(",", "")
        output = "..." + "".join(sorted(label for label in set(letters) if letters.count(label) == 1))
    before, dots, after = output.partition("...")
    if any(label not in sizes for label in before + after):
        return None
    return (*(sizes[label] for label in before), *(lead if dots else ()), *(sizes[label] for label in after))


def _ask_for_time(ctx: KernelContext, equation: str, shapes: Sequence[tuple[int, ...]]) -> None:
    """Ask whether there is time for all contractions of an equation.

    Pairs of operands are contracted in the order that NumPy chooses: by BLAS where letters are summed over and none of
    those that remain is in both operands, by a loop otherwise.

    Raises:
        LimitError: There is not.
    """
    if not ctx.is_timed or "..." in equation:
        return
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if len(terms) != len(shapes) or any(len(term) != len(shape) for term, shape in zip(terms, shapes, strict=True)):
        return
    if not arrow:
        output = "".join(label for label in inputs.replace(",", "") if inputs.count(label) == 1)
    sizes: dict[str, int] = {}
    for label, size in zip("".join(terms), chain.from_iterable(shapes), strict=True):
        sizes[label] = max(size, sizes.get(label, 0))
    path = np.einsum_path(equation, *(np.broadcast_to(np.float32(0), shape) for shape in shapes), optimize=True)[0]
    pending = [set(term) for term in terms]
    products = loops = 0.0
    for chosen in path[1:]:
        taken = [pending[place] for place in chosen]
        pending = [term for place, term in enumerate(pending) if place not in chosen]
        labels = set().union(*taken)
        kept = labels & set(output).union(*pending)
        work = prod(sizes[label] for label in labels)
        if len(taken) == 2 and labels - kept and not taken[0] & taken[1] & kept:
            products += work
        else:
            loops += work
        pending.append(kept)
    ahead_of_product(ctx, products)
    ahead_of_loop(ctx, loops)


def einsum(ctx: KernelContext) -> KernelCallable:
    """Einsum 12: any equation; pairs of operands are contracted through BLAS where they can be."""
    xp = ctx.xp
    equation = str(ctx.node.attributes["equation"]).replace(" ", "")

    def run(*operands: Array) -> Array:
        dtype = operands[0].dtype
        shape = einsum_shape(equation, [tuple(x.shape) for x in operands])
        if shape is not None:
            ctx.check_allocation(shape, dtype)
        wide = [widened(xp, x) for x in operands] if is_narrow(dtype) else list(operands)
        try:
            _ask_for_time(ctx, equation, [tuple(x.shape) for x in operands])
            y = xp.einsum(equation, *wide, optimize=len(wide) > 1)
        except ValueError as error:
            raise InvalidArgument(
                f"The equation '{equation}' does not fit operands of shapes {[list(x.shape) for x in operands]}.",
                where=ctx.node.location,
                why=str(error),
                fix="Give each operand as many letters as it has axes, and one letter axes of one size.",
            ) from error
        # With one operand it can be a view, with several a transposed array; outputs must be neither.
        return rounded(y.copy() if len(wide) == 1 or y.ndim == 0 else xp.ascontiguousarray(y), dtype)

    return run


KERNELS = [
    KernelDef("MatMul", matmul, since=1, until=13, out=True, strided=True, implementation=f"{__name__}:matmul"),
    KernelDef("Gemm", gemm, since=1, until=13, out=True, strided=True, implementation=f"{__name__}:gemm"),
    KernelDef("Einsum", einsum, since=12, until=28, strided=True, implementation=f"{__name__}:einsum"),
]
