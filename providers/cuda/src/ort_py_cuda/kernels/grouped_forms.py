"""Arguments of the kernels of grouped heads: lengths, rotation, scoring, places; and the kernels by name.

Each record knows how it is laid out for `grouped.cuh`. Comes before `grouped_attention`; knows no node.
"""

from __future__ import annotations

from functools import cache
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.code import Kernel
from ort_py_cuda.code.sources import program

__all__ = ["IN_ORDER", "NEAR", "NOT_TURNED", "Lengths", "Places", "Rotary", "Scoring", "grouped_kernel"]

C_TYPES = {"float32": "float", "float16": "half_t", "bfloat16": "bfloat16_t"}
_ITEM = {"float32": 4, "float16": 2, "bfloat16": 2}

NEAR = 8
"""Lanes that share a key: heads have a multiple of as many elements."""

_LENGTHS, _ROTARY, _SCORING, _PLACES = "Piiii", "PPPPiiiifi", "PPqqqiiiiiiff", "PPPqqqiiii"
_ARGUMENTS = {
    "grouped_queries": f"PP{_LENGTHS}{_ROTARY}iiq",
    "grouped_cache": f"PPP{_LENGTHS}{_ROTARY}iiiiq",
    "grouped_pages": f"PPP{_LENGTHS}{_ROTARY}{_PLACES}iiq",
    "grouped_decode": f"PPPPPP{_LENGTHS}{_SCORING}{_PLACES}",
    "grouped_combine": f"PPP{_SCORING}{_PLACES}i",
    "grouped_probabilities": f"PP{_LENGTHS}{_SCORING}iii",
}


@cache
def grouped_kernel(name: str, dtype: str, head: int, queries: int = 1) -> Kernel:
    """A kernel of `grouped.cuh`.

    Args:
        name: Which.
        dtype: Of queries and caches.
        head: Elements of a head.
        queries: Query heads of a group that a block attends with.
    """
    few = 16 // _ITEM[dtype]
    step = next(size for size in (few, few // 2, 2, 1) if head // NEAR % size == 0) if head >= NEAR else 1
    options = (
        f"-DELEMENT={C_TYPES[dtype]}",
        f"-DHEAD={head}",
        f"-DFEW={few}",
        f"-DSTEP={step}",
        f"-DQUERIES={queries}",
        f"-DONLY_{name}",
    )
    return Kernel(program("reduce", "grouped"), name, _ARGUMENTS[name], options)


@dataclass(frozen=True, slots=True)
class Lengths:
    """First new position of each sequence, and its number of keys.

    Attributes:
        starts: Position of the first query of each.
        totals: Keys of each, the new ones included.
        each: Both as int32 on the device; None where all sequences are the same.
    """

    starts: tuple[int, ...]
    totals: tuple[int, ...]
    each: Array | None

    @classmethod
    def of(cls, xp: Any, starts: tuple[int, ...], totals: tuple[int, ...]) -> Lengths:
        """Uploaded only where sequences differ."""
        same = len(set(starts)) <= 1 and len(set(totals)) <= 1
        return cls(starts, totals, None if same else xp.asarray((*starts, *totals), dtype=xp.int32))

    @property
    def arguments(self) -> tuple[int, ...]:
        """For kernels."""
        first = (self.starts[0], self.totals[0]) if self.starts else (0, 0)
        return (0 if self.each is None else self.each.data.ptr, *first, len(self.starts), 0)


@dataclass(frozen=True, slots=True)
class Rotary:
    """The rotation of heads, and their normalisation before it. Absent values mean no such step.

    Attributes:
        cosines: Cache ``(positions, pairs)``.
        sines: The same of sines.
        positions: int64 on the device; None where they are counted from the start.
        first: Whether only the first of them counts.
        interleaved: Whether a pair is two neighbours.
        weight: Of the norm by root mean square, one entry per element of a head.
        epsilon: Of the norm.
        offset: The first element of a head that is turned.
    """

    cosines: Array | None = None
    sines: Array | None = None
    positions: Array | None = None
    first: bool = False
    interleaved: bool = False
    weight: Array | None = None
    epsilon: float = 0.0
    offset: int = 0

    @property
    def arguments(self) -> tuple[float, ...]:
        """For kernels."""
        pairs = 0 if self.cosines is None else self.cosines.shape[1]
        rows = 1 if self.cosines is None else self.cosines.shape[0]
        mode = 0 if self.positions is None or not pairs else 1 if self.first else 2
        addresses = [0 if x is None else x.data.ptr for x in (self.cosines, self.sines, self.weight, self.positions)]
        return (*addresses, pairs, int(self.interleaved), rows, mode, self.epsilon, self.offset)


NOT_TURNED = Rotary()


@dataclass(frozen=True, slots=True)
class Scoring:
    """The rule by which scores become probabilities.

    Attributes:
        heads: Query heads.
        group: Query heads a key head.
        scale: Factor of scores.
        softcap: Bound that scores are bent to; 0 for none.
        window: Keys that a query sees, itself included; 0 for all.
        causal: Whether it sees none behind its own.
        smooth: Whether the sum has 1 more.
        bias: Added to scores ``(batch or 1, heads or 1, rows, keys)``, of the queries' type.
        sinks: One logit a query head that the sum has and no value.
    """

    heads: int
    group: int
    scale: float
    softcap: float = 0.0
    window: int = 0
    causal: bool = True
    smooth: bool = False
    bias: Array | None = None
    sinks: Array | None = None

    def arguments(self, *, scaled: bool = True) -> tuple[float, ...]:
        """For kernels; without the scale where scores have it already."""
        steps = [0, 0, 0]
        if self.bias is not None:
            batch, heads, rows, keys = self.bias.shape
            steps = [heads * rows * keys if batch > 1 else 0, rows * keys if heads > 1 else 0, keys if rows > 1 else 0]
        return (
            0 if self.bias is None else self.bias.data.ptr,
            0 if self.sinks is None else self.sinks.data.ptr,
            *steps,
            self.heads,
            self.group,
            self.window,
            int(self.causal),
            int(self.smooth),
            0,
            self.scale if scaled else 1.0,
            self.softcap,
        )


@dataclass(frozen=True, slots=True)
class Places:
    """Rows of sequences in a cache, and places of queries in a batch. Indices are int32 on the device.

    Attributes:
        table: Pages of each sequence ``(sequences, pages)``, in order; None where a cache has no pages.
        owners: The sequence of each query; None where queries are numbered as sequences are.
        tokens: Where each query is in the batch, and its result; None where that is its number.
    """

    table: Array | None = None
    owners: Array | None = None
    tokens: Array | None = None

    def arguments(self, store: Array) -> tuple[int, ...]:
        """For kernels.

        Args:
            store: ``(pages or sequences, key heads, rows, size)``, any strides but 1 along the last axis.
        """
        addresses = [0 if x is None else x.data.ptr for x in (self.table, self.owners, self.tokens)]
        steps = [step // store.itemsize for step in store.strides[:3]]
        pages = 1 if self.table is None else self.table.shape[1]
        return (*addresses, *steps, store.shape[2], pages, store.shape[0], 0)


IN_ORDER = Places()
