"""StringConcat, StringSplit and StringNormalizer: what Python's own strings do, element by element.

Host only, because strings are. An object array has no joining, splitting or case of its own, so each element is one
call of a method of `str`; what surrounds these calls are array operations.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import numpy as np  # strings exist on the host only

from ort_py.contracts.graph_view import Array
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, kernel
from ort_py.errors import InvalidArgument
from ort_py_array.broadcasting import broadcast_shape
from ort_py_array.checks import LARGE

__all__ = ["KERNELS", "check_texts", "string_concat", "string_normalizer", "string_split", "text_array"]

_HOST = frozenset({0})

_EMPTY = sys.getsizeof("") + 8
"""Bytes of a string of no length, and of the pointer to it."""


def _sizes(x: Array) -> Array:
    """Bytes of each string."""
    return np.fromiter(map(sys.getsizeof, x.reshape(-1).tolist()), np.int64, x.size).reshape(x.shape)


def check_texts(ctx: KernelContext, texts: Sequence[str], overhead: int = 0) -> None:
    """Refuse to create as many new strings as are given, with their lengths, where they take too much memory.

    Args:
        ctx: The kernel's context.
        texts: The strings.
        overhead: Bytes beside them.

    Raises:
        LimitError: They take more than one allocation may.
    """
    ctx.check_allocation((sum(map(sys.getsizeof, texts)) + overhead,), np.uint8)


def text_array(texts: Sequence[str], shape: tuple[int, ...]) -> Array:
    """An object array of strings; NumPy would make one of fixed width, as wide as the longest, of a list."""
    y = np.empty(len(texts), object)
    y[:] = texts
    return y.reshape(shape)


@kernel(
    "StringConcat",
    since=20,
    strided=True,
    host_inputs=frozenset({0, 1}),
    host_outputs=_HOST,
    output_shape=broadcast_shape,
)
def string_concat(ctx: KernelContext, x: Array, y: Array) -> Array:
    """StringConcat-20: each string of `x` followed by that of `y`, broadcast."""
    sizes = np.add(_sizes(x), _sizes(y))
    ctx.check_allocation((int(sizes.sum()),), np.uint8)
    # NumPy's addition calls Python's for each pair of objects. Scalars come back bare.
    joined = np.add(x.astype(object, copy=False), y.astype(object, copy=False))
    return joined if isinstance(joined, np.ndarray) else text_array([joined], ())


@kernel("StringSplit", since=20, strided=True, outputs=2, host_inputs=_HOST, host_outputs=frozenset({0, 1}))
def string_split(
    ctx: KernelContext, x: Array, *, delimiter: str = "", maxsplit: int | None = None
) -> tuple[Array, Array]:
    """StringSplit-20: the parts of each string, ``(*shape, most parts)`` filled with "", and their numbers (int64).

    Without a delimiter, runs of Unicode white space separate, and none is kept at the ends.
    """
    if maxsplit is not None and maxsplit < 0:
        raise InvalidArgument(
            f"maxsplit is {maxsplit}.", where=ctx.node.location, fix="Leave it out to split as often as possible."
        )
    limit = -1 if maxsplit is None else min(maxsplit, 1 << 31)
    texts: list[str] = x.reshape(-1).tolist()
    # Each part is a string of its own. Without a delimiter, there are at most as many as every other character.
    pieces = sum(text.count(delimiter) + 1 for text in texts) if delimiter else sum(map(len, texts)) // 2 + x.size
    check_texts(ctx, texts, overhead=_EMPTY * min(pieces, x.size * (limit + 1) if limit >= 0 else pieces))
    parts = [text.split(delimiter or None, limit) for text in texts]
    counts = np.fromiter(map(len, parts), np.int64, len(parts))
    most = int(counts.max(initial=0))
    if x.size * most > LARGE:
        ctx.check_allocation((*x.shape, most), np.dtype(object))
    y = np.full((x.size, most), "", object)
    y[np.arange(most) < counts[:, None]] = [part for some in parts for part in some]
    return y.reshape((*x.shape, most)), counts.reshape(x.shape)


def string_normalizer(ctx: KernelContext) -> KernelCallable:
    """StringNormalizer 10: without the stop words, then in lower or upper case; ``[C]`` or ``[1, C]``.

    Case is changed as Unicode has it, by `str.lower` and `str.upper`: whole characters, whatever their number ("ß" is
    "SS" in upper case). The attribute `locale` has no effect, so no locale need be installed, and results are the
    same everywhere. Stop words that are not case sensitive are compared in lower case. Where nothing is left, one
    empty string is.
    """
    node = ctx.node
    attributes = node.attributes
    action = attributes.get("case_change_action", "NONE")
    changes = {"NONE": None, "LOWER": str.lower, "UPPER": str.upper}
    if action not in changes:
        raise InvalidArgument(
            f"case_change_action is '{action}'.", where=node.location, fix="Use LOWER, UPPER or NONE."
        )
    change = changes[action]
    exact = bool(attributes.get("is_case_sensitive", 0))
    words: Sequence[str] = attributes.get("stopwords", ())
    stop = frozenset(words if exact else map(str.lower, words))

    def run(x: Array) -> Array:
        if x.ndim not in (1, 2) or (x.ndim == 2 and x.shape[0] != 1):
            raise InvalidArgument(
                f"The input has shape {list(x.shape)}.", where=node.location, fix="Its shape must be [C] or [1, C]."
            )
        texts: list[str] = x.reshape(-1).tolist()
        if stop:
            texts = [text for text in texts if (text if exact else text.lower()) not in stop]
        if change is not None:
            check_texts(ctx, texts)
            texts = [change(text) for text in texts]
        texts = texts or [""]
        return text_array(texts, (*x.shape[:-1], len(texts)))

    return run


KERNELS: list[KernelDef] = [
    KernelDef(
        "StringNormalizer",
        string_normalizer,
        since=10,
        host_inputs=_HOST,
        host_outputs=_HOST,
        implementation=f"{__name__}:string_normalizer",
    )
]
