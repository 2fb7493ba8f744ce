"""TfIdfVectorizer: how often each n-gram of a pool occurs in sequences of integers or strings, weighted.

Items become numbers first (integers by table or search, strings by a dictionary, one look-up each), windows of them are
looked up in `ngram_table`, and what is found is counted. Sequences of strings run on the host.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import Array, NodeSpec
from ort_py.contracts.kernel import KernelCallable, KernelContext, KernelDef, tensors
from ort_py.dtypes import DataType
from ort_py.errors import InvalidArgument, InvalidGraph
from ort_py_array.checks import LARGE
from ort_py_array.key_places import place_finder
from ort_py_array.parts import by_parts
from ort_py_array.text.ngram_table import hits, ngram_table

__all__ = ["KERNELS", "tfidf_vectorizer"]

_TOGETHER = 1 << 20
"""Items that are looked up, sums that are held, and occurrences that are counted at a time."""


def tfidf_vectorizer(ctx: KernelContext) -> KernelCallable:
    """TfIdfVectorizer 9: ``[C]`` → ``[D]``, ``[N, C]`` → ``[N, D]``, float32; D is the greatest of `ngram_indexes` + 1.

    Weights belong to n-grams of the pool, as the specification says, and IDF counts each n-gram at most once.
    onnxruntime and the reference take the weight at the *output's* index, which is the same where `ngram_indexes`
    counts upwards from 0.
    """
    xp, node = ctx.xp, ctx.node
    where = node.location
    attributes = node.attributes
    mode = attributes.get("mode")
    if mode not in ("TF", "IDF", "TFIDF"):
        raise InvalidGraph(f"mode is {mode!r}.", where=where, fix="Use TF, IDF or TFIDF.")
    least, greatest, skips = (
        _integer(node, name, 1 - (name == "max_skip_count"))
        for name in ("min_gram_length", "max_gram_length", "max_skip_count")
    )
    if greatest < least:
        raise InvalidGraph(
            f"max_gram_length is {greatest}, and min_gram_length is {least}.",
            where=where,
            fix="The greatest length must not be less than the least.",
        )
    number, pool, items = _numbering(xp, node)
    columns = np.array(attributes.get("ngram_indexes", ()), np.int64)
    grams = _blocks(node, pool, columns.size, least, greatest)
    if not columns.size or columns.min() < 0:
        raise InvalidGraph(
            f"ngram_indexes has {columns.size} entries{', one of them negative' if columns.size else ''}.",
            where=where,
            fix="Give each n-gram of the pool its index in the output.",
        )
    weights = np.array(attributes.get("weights", ()), np.float32)
    if weights.size not in (0, columns.size):
        raise InvalidGraph(
            f"There are {weights.size} weights for {columns.size} n-grams.", where=where, fix="Give each n-gram one."
        )
    table = ngram_table(xp, grams, items, greatest)
    width = int(columns.max()) + 1
    place = xp.asarray(columns)
    weight = xp.asarray(weights) if weights.size and mode != "TF" else None
    once, count = mode == "IDF", columns.size

    def counted(x: Array) -> Array:
        """The sums of some sequences, float64."""
        rows = x.shape[0]
        sums = xp.zeros(rows * width, xp.float64)

        def add(row: Array, gram: Array) -> None:
            added = None if weight is None else weight.take(gram)
            xp.add(sums, xp.bincount(row * width + place.take(gram), weights=added, minlength=sums.size), out=sums)

        seen = xp.zeros(0, xp.int64)
        found = hits(xp, table, _numbers(ctx, number, x), (least, greatest), skips, ctx.check_time)
        for row, gram in _batches(xp, found):
            if once:
                seen = xp.unique(xp.concatenate([seen, row * count + gram]))
            else:
                add(row, gram)
        if once:
            add(seen // count, seen % count)
        return sums.reshape((rows, width))

    def run(x: Array) -> Array:
        if x.ndim > 2:
            raise InvalidArgument(
                f"The input has shape {list(x.shape)}.", where=where, fix="Its shape must be [C] or [N, C]."
            )
        rows = x.shape[0] if x.ndim == 2 else 1
        shape = (rows, width) if x.ndim == 2 else (width,)
        if rows * width > LARGE:
            ctx.check_allocation(shape, xp.float32)
        sequences = x.reshape((rows, x.shape[-1] if x.ndim else 1))
        y = xp.empty((rows, width), xp.float32)
        some = max(1, _TOGETHER // max(1, sequences.shape[1], width))
        for start in range(0, max(1, rows), some):
            ctx.check_time()
            y[start : start + some] = counted(sequences[start : start + some])
        return y.reshape(shape)

    return run


def _numbers(ctx: KernelContext, number: Callable[[Array], Array], x: Array) -> Array:
    """The numbers of all items."""

    def step(out: Array, items: Array) -> None:
        out[...] = number(items).reshape(items.shape)

    return by_parts(ctx, step, ctx.xp.empty(x.shape, ctx.xp.int64), x)


def _batches(xp: Any, found: Iterable[tuple[Array, Array]]) -> Iterator[tuple[Array, Array]]:
    """Join what is found until there is enough of it: skips make it many times the size of the sequences."""
    rows: list[Array] = []
    grams: list[Array] = []
    size = 0
    for row, gram in found:
        rows.append(row)
        grams.append(gram)
        size += row.size
        if size >= _TOGETHER:
            yield xp.concatenate(rows), xp.concatenate(grams)
            rows, grams, size = [], [], 0
    if rows:
        yield xp.concatenate(rows), xp.concatenate(grams)


def _integer(node: NodeSpec, name: str, least: int) -> int:
    value: int | None = node.attributes.get(name)
    if value is None or value < least:
        raise InvalidGraph(f"{name} is {value}.", where=node.location, fix=f"It must be at least {least}.")
    return value


def _numbering(xp: Any, node: NodeSpec) -> tuple[Callable[[Array], Array], Array, int]:
    """A function from items to their numbers (-1 for unknown ones), the pool in numbers, and the number of items."""
    texts, integers = (node.attributes.get(name, ()) for name in ("pool_strings", "pool_int64s"))
    if bool(len(texts)) == bool(len(integers)):
        raise InvalidGraph(
            f"There are {len(texts)} pool_strings and {len(integers)} pool_int64s.",
            where=node.location,
            fix="Set exactly one of the two attributes.",
        )

    def check(x: Array, *, want_text: bool) -> None:
        if (x.dtype.kind in "OUST") != want_text:
            raise InvalidArgument(
                f"The input is {x.dtype}, and the pool holds {'strings' if want_text else 'integers'}.",
                where=node.location,
                fix="Feed what the pool holds.",
            )

    if len(texts):
        numbers = {text: number for number, text in enumerate(dict.fromkeys(texts))}

        def by_dictionary(x: Array) -> Array:
            check(x, want_text=True)
            return np.array([numbers.get(text, -1) for text in x.reshape(-1).tolist()], np.int64)

        return by_dictionary, np.array([numbers[text] for text in texts], np.int64), len(numbers)
    known, pool = np.unique(np.array(integers, np.int64), return_inverse=True)
    find = place_finder(xp, known)

    def by_search(x: Array) -> Array:
        check(x, want_text=False)
        return find(x.reshape(-1).astype(xp.int64))

    return by_search, pool, known.size


def _blocks(node: NodeSpec, pool: Array, count: int, least: int, greatest: int) -> list[tuple[int, Array]]:
    """For each length from 1 on, its first n-gram's number and its n-grams; empty for lengths that do not count."""
    starts = [int(start) for start in node.attributes.get("ngram_counts", ())]
    if not starts or starts[0] != 0 or any(a > b for a, b in zip(starts, [*starts[1:], pool.size], strict=True)):
        raise InvalidGraph(
            f"ngram_counts is {starts[:10]}, and the pool has {pool.size} items.",
            where=node.location,
            fix="It must begin with 0, not decrease, and stay in the pool.",
        )
    if greatest > len(starts):
        raise InvalidGraph(
            f"max_gram_length is {greatest}, and ngram_counts ends at length {len(starts)}.",
            where=node.location,
            fix="Give the beginning of the n-grams of each length.",
        )
    blocks: list[tuple[int, Array]] = []
    first = 0
    for length, (start, stop) in enumerate(zip(starts, [*starts[1:], pool.size], strict=True), start=1):
        if (stop - start) % length:
            raise InvalidGraph(
                f"The {stop - start} items from {start} to {stop} of the pool do not make {length}-grams.",
                where=node.location,
                fix="Check ngram_counts.",
            )
        block = pool[start:stop].reshape(-1, length)
        blocks.append((first, block if least <= length <= greatest else block[:0]))
        first += len(block)
    if first != count:
        raise InvalidGraph(
            f"The pool has {first} n-grams, and ngram_indexes {count} entries.",
            where=node.location,
            fix="Give each n-gram of the pool its index in the output.",
        )
    return blocks


KERNELS: list[KernelDef] = [
    KernelDef(
        "TfIdfVectorizer",
        tfidf_vectorizer,
        since=9,
        types={"T": tensors(DataType.INT32, DataType.INT64)},
        implementation=f"{__name__}:tfidf_vectorizer",
    ),
    KernelDef(
        "TfIdfVectorizer",
        tfidf_vectorizer,
        since=9,
        types={"T": tensors(DataType.STRING)},
        host_inputs=frozenset({0}),
        host_outputs=frozenset({0}),
        implementation=f"{__name__}:tfidf_vectorizer",
    ),
]
