"""Einsum: any equation; pairs of operands are contracted through BLAS where they can be.

Where the time of a run is limited, contractions are made one by one, each in blocks of one letter of its result, and
the clock is looked at between them. Comes after `matmul`.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import chain
from math import prod
from string import ascii_letters
from typing import Any

import numpy as np  # orders of contractions are found on the host

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef
from ort_py.devices import HOST
from ort_py.errors import InvalidArgument
from ort_py_array.durations import ahead_of_batch, ahead_of_loop, ahead_of_product
from ort_py_array.precision import is_narrow, rounded, widened

__all__ = ["KERNELS", "einsum", "einsum_shape"]


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


_PART = 1 << 22
"""Multiplications of a block at least."""


def _spelled_out(equation: str, shapes: Sequence[tuple[int, ...]]) -> str:
    """The equation with letters instead of dots, the same ones for the last axes that these stand for; the equation
    itself where it has no dots, does not fit, or leaves no letters for them.
    """
    inputs, _, output = equation.partition("->")
    terms = inputs.split(",")
    if "..." not in equation or len(terms) != len(shapes):
        return equation
    hidden = [
        len(shape) - len(term.replace("...", "")) if "..." in term else 0
        for term, shape in zip(terms, shapes, strict=True)
    ]
    free = [letter for letter in ascii_letters if letter not in equation]
    if min(hidden) < 0 or max(hidden) > len(free):
        return equation
    letters = "".join(free[: max(hidden)])
    spelled = ",".join(
        term.replace("...", letters[len(letters) - count :]) for term, count in zip(terms, hidden, strict=True)
    )
    if "->" not in equation:
        named = inputs.replace("...", "").replace(",", "")
        output = "..." + "".join(sorted(label for label in set(named) if named.count(label) == 1))
    return f"{spelled}->{output.replace('...', letters)}"


def _contractions(equation: str, shapes: Sequence[tuple[int, ...]]) -> list[tuple[tuple[int, ...], str]] | None:
    """The contractions of an equation in the order that NumPy chooses: the places of operands, and an equation for
    them, whose result is the last operand from then on. None where the equation does not fit.
    """
    equation = _spelled_out(equation, shapes)
    inputs, arrow, output = equation.partition("->")
    terms = inputs.split(",")
    if "..." in equation or len(terms) != len(shapes):
        return None
    if any(len(term) != len(shape) for term, shape in zip(terms, shapes, strict=True)):
        return None
    if not arrow:
        output = "".join(sorted(label for label in set(inputs) - {","} if inputs.count(label) == 1))
    # The shapes alone decide the order: these arrays take no memory.
    path = np.einsum_path(equation, *(np.broadcast_to(np.float32(0), shape) for shape in shapes), optimize=True)[0]
    found = []
    for chosen in path[1:]:
        taken = [terms[place] for place in chosen]
        terms = [term for place, term in enumerate(terms) if place not in chosen]
        kept = set("".join(taken)) & set(output).union(*terms)
        result = "".join(sorted(kept)) if terms else output
        found.append((tuple(chosen), f"{','.join(taken)}->{result}"))
        terms.append(result)
    return found


def _contracted(ctx: KernelContext, equation: str, operands: Sequence[Array]) -> Array:
    """One contraction, in blocks of the longest letter of its result where there is one.

    Raises:
        LimitError: The time of the run is over, or there is not enough for a contraction that cannot be cut.
    """
    xp = ctx.xp
    inputs, _, output = equation.partition("->")
    terms = inputs.split(",")
    sizes: dict[str, int] = {}
    for label, size in zip("".join(terms), chain.from_iterable(x.shape for x in operands), strict=True):
        sizes[label] = max(size, sizes.get(label, 0))
    work = prod(sizes.values())
    letter = max(output, key=sizes.__getitem__, default="")
    if work <= _PART:
        return xp.einsum(equation, *operands, optimize=len(operands) > 1)
    kept = set(output)
    # Of what is left, BLAS does what sums over a letter. Letters that both operands keep make many pairs of matrices.
    if len(terms) != 2 or len(sizes) == len(kept) or operands[0].dtype.kind != "f":
        ahead_of_loop(ctx, work)
    elif set(terms[0]) & set(terms[1]) & kept:
        ahead_of_batch(ctx, work)
    else:
        ahead_of_product(ctx, work)
    if not letter or sizes[letter] == 1:
        return xp.einsum(equation, *operands, optimize=len(operands) > 1)
    shape = [sizes[label] for label in output]
    ctx.check_allocation(shape, operands[0].dtype)
    y = xp.empty(shape, operands[0].dtype)
    others = _cut_letters(output, letter, sizes, work)

    def block(places: dict[str, slice]) -> None:
        some = [
            x[
                tuple(
                    places.get(label, slice(None)) if size > 1 else slice(None)
                    for label, size in zip(term, x.shape, strict=True)
                )
            ]
            for term, x in zip(terms, operands, strict=True)
        ]
        target = tuple(places.get(label, slice(None)) for label in output)
        y[target] = xp.einsum(equation, *some, optimize=len(some) > 1)

    def part(start: int, stop: int) -> None:
        for index in np.ndindex(*(sizes[label] for label in others)):
            if index:
                ctx.check_time()
            block({letter: slice(start, stop), **{o: slice(i, i + 1) for o, i in zip(others, index, strict=True)}})

    ctx.parallel_for(sizes[letter], max(1, _PART * sizes[letter] // work), part)
    return y


def _cut_letters(output: str, letter: str, sizes: dict[str, int], work: int) -> list[str]:
    """The letters of a result that are cut besides one, where its blocks of one entry would be long ones."""
    chosen: list[str] = []
    left = work // sizes[letter]
    for label in output:
        if left <= _PART:
            break
        if label != letter and sizes[label] > 1:
            chosen.append(label)
            left //= sizes[label]
    return chosen


def _stepwise(ctx: KernelContext, equation: str, operands: Sequence[Array]) -> Array:
    steps = _contractions(equation, [tuple(x.shape) for x in operands])
    if steps is None or ctx.device != HOST:
        return ctx.xp.einsum(equation, *operands, optimize=len(operands) > 1)
    pending = list(operands)
    for chosen, part in steps:
        taken = [pending[place] for place in chosen]
        pending = [x for place, x in enumerate(pending) if place not in chosen]
        pending.append(_contracted(ctx, part, taken))
    return pending[0]


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
            if ctx.is_timed:
                y: Any = _stepwise(ctx, equation, wide)
            else:
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


KERNELS = [KernelDef("Einsum", einsum, since=12, until=28, strided=True, implementation=f"{__name__}:einsum")]
