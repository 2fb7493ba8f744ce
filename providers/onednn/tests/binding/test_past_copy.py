"""Presents of attention, and queries and keys that it turns: buffers, entries that differ, borders."""

from __future__ import annotations

import ctypes
import itertools
import mmap
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.calls import CallList
from ort_py_onednn.binding.constants import Argument
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.past_attention import PastAttention, has_past_attention
from ort_py_onednn.binding.past_table import Sizes

Array = np.ndarray[Any, Any]
FENCE = 7.0


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where there is no code."""
    if not has_past_attention(engine().library):
        pytest.skip("the CPU has no AVX2, or the system allows no executable memory")


def plain(array: Array) -> Array:
    return array.copy()


@dataclass
class Case:
    """An attention to a past in a buffer, of which each entry has filled some.

    Attributes:
        starts: Rows of the past that count, for each entry.
        held: Rows of the past.
        length: Rows of the present.
        pairs: Pairs that are turned.
        window: Keys that a query sees at most; 0 for all.
        first: Whether the new rows are the first, of which an entry has fewer than there are: so many.
    """

    starts: tuple[int, ...] = (5,)
    heads: int = 4
    groups: int = 2
    rows: int = 1
    size: int = 16
    held: int = 9
    length: int = 9
    pairs: int = 8
    neighbours: bool = False
    shared: bool = False
    window: int = 0
    first: tuple[int, ...] = ()
    seed: int = 3
    place: Callable[[Array], Array] = plain
    arrays: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = np.random.default_rng(self.seed)
        batch, positions = len(self.starts), max(self.starts) + self.rows
        shapes = {
            Argument.SRC: (batch, self.rows, self.heads * self.size),
            Argument.SRC_1: (batch, self.rows, self.groups * self.size),
            Argument.SRC_2: (batch, self.rows, self.groups * self.size),
            Argument.WEIGHTS: (batch, self.groups, self.held, self.size),
            Argument.WEIGHTS_1: (batch, self.groups, self.held, self.size),
        }
        if self.pairs:
            shapes |= dict.fromkeys((Argument.SCALE, Argument.SHIFT), (positions, self.pairs))
        self.arrays = {code: random.standard_normal(shape, np.float32) for code, shape in shapes.items()}

    @property
    def counts(self) -> tuple[int, ...]:
        """Keys of each entry."""
        return self.first or tuple(start + self.rows for start in self.starts)

    def turned(self, code: int, heads: int) -> Array:
        """Queries or new keys in float64, ``(batch, heads, rows, size)``."""
        x = self.arrays[code].reshape(len(self.starts), self.rows, heads, self.size).astype(np.float64)
        if self.pairs:
            at = np.array(self.starts)[:, None] + np.arange(self.rows)
            cos, sin = (self.arrays[table][at][:, :, None].astype(np.float64) for table in (51, 52))
            end = 2 * self.pairs
            one = np.s_[..., 0:end:2] if self.neighbours else np.s_[..., : self.pairs]
            two = np.s_[..., 1:end:2] if self.neighbours else np.s_[..., self.pairs : end]
            left, right = x[one].copy(), x[two].copy()
            x[one], x[two] = left * cos - right * sin, right * cos + left * sin
        return np.asarray(x.swapaxes(1, 2))

    def presents(self) -> tuple[Array, Array]:
        """All keys and values: what counts of the past, what is new, and zeroes or what was there."""
        values = self.arrays[Argument.SRC_2].reshape(len(self.starts), self.rows, self.groups, self.size)
        found = []
        for old, new in (
            (self.arrays[Argument.WEIGHTS], self.turned(Argument.SRC_1, self.groups)),
            (self.arrays[Argument.WEIGHTS_1], values.swapaxes(1, 2)),
        ):
            made = old.astype(np.float64) if self.shared else np.zeros((*old.shape[:2], self.length, self.size))
            for entry, start in enumerate(self.starts):
                made[entry, :, :start] = old[entry, :, :start]
                made[entry, :, start : start + self.rows] = new[entry]
            found.append(made)
        return found[0], found[1]

    def exact(self) -> Array:
        """The result in float64."""
        keys, values = (np.repeat(one, self.heads // self.groups, 1) for one in self.presents())
        scores = self.turned(Argument.SRC, self.heads) @ keys.swapaxes(2, 3) / 4
        place = np.arange(self.rows)[:, None]
        for entry, (start, count) in enumerate(zip(self.starts, self.counts, strict=True)):
            at = np.arange(scores.shape[3])
            hidden = (at > start + place) | (at >= count)
            if self.window:
                hidden |= at <= start + place - self.window
            scores[entry][:, hidden] = -np.inf
            values[entry, :, count:] = 0  # what is behind takes no part
            values[entry, :, : max(0, start + 1 - self.window) if self.window else 0] = 0
        weights = np.exp(scores - scores.max(3, keepdims=True))
        found = weights / weights.sum(3, keepdims=True) @ values
        return np.asarray(found.swapaxes(1, 2).reshape(len(self.starts), self.rows, -1), np.float32)

    def run(self, threads: int = 1) -> tuple[Array, Array, Array]:
        """The result, all keys and all values."""
        batch = len(self.starts)
        wide, narrow = self.heads * self.size, self.groups * self.size
        steps = {"bias": (0, 0, 0)}
        for name, columns in (("query", wide), ("result", wide), ("key", narrow), ("value", narrow)):
            steps[name] = (self.rows * columns, self.size, columns)
        sizes = Sizes(
            batch,
            self.heads,
            self.groups,
            self.rows,
            self.size,
            self.size,
            max(self.held, self.length),
            steps,
            0.25,
            causal=True,
            pairs=self.pairs,
            neighbours=self.neighbours,
            positions=max(self.starts) + self.rows,
            counted=True,
            window=self.window,
        )
        arrays = {code: self.place(array) for code, array in self.arrays.items()}
        present = (batch, self.groups, self.length, self.size)
        codes = Argument.DST_1, Argument.DST_2
        if self.shared:
            arrays |= dict(zip(codes, (arrays[code] for code in (Argument.WEIGHTS, Argument.WEIGHTS_1)), strict=True))
        else:
            arrays |= {code: self.place(np.full(present, FENCE, np.float32)) for code in codes}
        arrays[Argument.DST] = self.place(np.full((batch, self.rows, wide), FENCE, np.float32))
        descs = {code: Desc.plain(array.shape or (1,)) for code, array in arrays.items()}
        attention = PastAttention(engine().library, descs, sizes, threads)
        scratch = attention.arguments[Argument.SCRATCHPAD]
        arrays[Argument.SCRATCHPAD] = self.place(np.full(scratch.nbytes // 4, FENCE, np.float32))
        entries = itertools.chain.from_iterable(zip(self.starts, self.counts, strict=True))
        said = np.array([self.held, self.length, *entries], np.intp)
        calls = attention.calls({code: array.ctypes.data for code, array in arrays.items()}, threads)
        listed = CallList(calls, ["attention"] * len(calls))
        assert attention.length is not None
        listed.words[CallList.place(0, attention.length)] = said.ctypes.data
        for _ in range(2):
            listed.run()
        return arrays[Argument.DST], arrays[Argument.DST_1], arrays[Argument.DST_2]

    def check(self, threads: int = 1) -> None:
        """Compare with the exact result and presents."""
        wanted = self.presents()
        result, *presents = self.run(threads)
        valid = [entry for entry, count in enumerate(self.counts) if count >= self.rows]
        assert_close(result[valid], self.exact()[valid])
        for array, one in zip(presents, wanted, strict=True):
            assert_close(array, one.astype(np.float32))


@pytest.mark.parametrize("neighbours", [False, True])
@pytest.mark.parametrize(
    ("size", "pairs"),
    [(2, 1), (6, 3), (7, 2), (16, 8), (18, 8), (20, 10), (24, 12), (64, 32), (64, 20), (80, 40), (256, 128), (1, 0)],
)
def test_heads_are_turned(size: int, pairs: int, neighbours: bool) -> None:
    """Whole registers of pairs, a few behind them, and numbers that are not turned."""
    Case(size=size, pairs=pairs, neighbours=neighbours, rows=2).check()


@pytest.mark.parametrize(("heads", "groups"), [(1, 1), (9, 3), (16, 1), (8, 8)])
@pytest.mark.parametrize("rows", [1, 2, 5, 11])
@pytest.mark.parametrize("threads", [1, 2])
def test_one_piece_of_work_for_a_head_and_several(heads: int, groups: int, rows: int, threads: int) -> None:
    """The present is made with the former, and ahead of the latter."""
    Case((3, 0, 7), heads, groups, rows, held=8, length=19).check(threads)


@pytest.mark.parametrize("shared", [False, True])
@pytest.mark.parametrize("starts", [(0,), (8,), (3, 8, 0)])
@pytest.mark.parametrize("rows", [1, 9])
def test_a_past_in_a_buffer(starts: tuple[int, ...], rows: int, shared: bool) -> None:
    """Rows behind the new ones stay in the buffer, and are zero in an array of its own."""
    Case(starts, rows=rows, held=20, length=20, shared=shared).check()


def test_a_present_that_is_longer_than_the_past() -> None:
    Case((9,), held=9, length=10).check()
    Case((9,), held=9, length=14).check()


@pytest.mark.parametrize("count", [1, 4, 11])
def test_a_prompt_that_is_padded(count: int) -> None:
    """Queries behind the last key have no meaning; all others are those of a shorter prompt."""
    case = Case((0, 0), rows=11, held=0, length=11, first=(count, 11))
    result, _, _ = case.run()
    assert_close(result[:, :count], case.exact()[:, :count])
    assert_close(result[1], case.exact()[1])


@pytest.mark.parametrize("window", [1, 2, 7, 8, 9, 64, 65, 500])
@pytest.mark.parametrize("rows", [1, 5, 9, 90])
def test_a_window_of_keys(rows: int, window: int) -> None:
    """Rows of one piece of work begin at different keys, also where they begin behind those that are mixed at once."""
    Case((70, 0, 3), 4, 1, rows, held=170, length=170, window=window).check()


@pytest.mark.parametrize("rows", [1, 4])
def test_nothing_in_front_of_the_window_takes_part(rows: int) -> None:
    """Whatever its number is, also where one row of a piece of work sees what another does not."""
    case = Case((40,), 4, 1, rows, held=60, length=60, window=3)
    wanted = case.run()[0]
    for code in (Argument.WEIGHTS, Argument.WEIGHTS_1):
        case.arrays[code][:, :, :38] = np.nan
    np.testing.assert_array_equal(case.run()[0], wanted)
    case.arrays[Argument.WEIGHTS_1][:, :, 38] = np.nan  # the first row alone sees it
    found = case.run()[0]
    assert np.all(np.isnan(found[:, 0]))
    np.testing.assert_array_equal(found[:, 1:], wanted[:, 1:])


@pytest.mark.parametrize("what", [np.nan, np.inf])
@pytest.mark.parametrize("rows", [1, 4])
def test_nothing_behind_the_last_key_takes_part(what: float, rows: int) -> None:
    case = Case((3, 6), rows=rows, held=30, length=30, shared=True)
    for code in (Argument.WEIGHTS, Argument.WEIGHTS_1):
        for entry, start in enumerate(case.starts):
            case.arrays[code][entry, :, start:] = what
    result, _, _ = case.run()
    assert np.all(np.isfinite(result))


def between_pages(array: Array) -> Array:
    """A copy of an array that ends where memory that may not be touched begins, if it has whole words."""
    page = mmap.PAGESIZE
    size = -(-array.nbytes // page) * page
    memory = mmap.mmap(-1, size + 2 * page)
    start = ctypes.addressof(ctypes.c_char.from_buffer(memory))
    for fence in (start, start + page + size):
        assert not ctypes.CDLL(None).mprotect(ctypes.c_void_p(fence), page, 0)
    found: Array = np.frombuffer(memory, array.dtype, array.size, page + size - array.nbytes).reshape(array.shape)
    found[...] = array
    return found


@pytest.mark.skipif(sys.platform == "win32", reason="memory is protected by another function there")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("seed", range(60))
def test_nothing_is_touched_outside(seed: int, threads: int) -> None:
    """Any sizes, with memory behind each array that may not be touched."""
    random = np.random.default_rng(seed)
    groups, batch = int(random.integers(1, 5)), int(random.integers(1, 4))
    size = int(random.integers(1, 257)) if seed % 3 else 64
    held = int(random.choice([0, 1, 7, 31, 100, 300]))
    starts = tuple(int(one) for one in random.integers(0, held + 1, batch))
    rows = int(random.choice([1, 1, 1, 2, 9]))
    shared = bool(seed % 2) and held >= max(starts) + rows
    length = held if shared else max(held, max(starts) + rows)
    pairs = int(random.integers(0, size // 2 + 1))
    heads = groups * int(random.integers(1, 5))
    window = int(random.choice([0, 0, 1, 5, 40]))
    case = Case(
        starts, heads, groups, rows, size, held, length, pairs, bool(random.integers(2)), shared, window, seed=seed,
        place=between_pages,
    )  # fmt: skip
    case.check(threads)


def test_several_threads_at_once() -> None:
    """Each with memory of its own."""
    cases = [Case((start, 2), rows=1 + start % 3, held=40, length=40, seed=start) for start in range(12)]
    with ThreadPoolExecutor(4) as pool:
        list(pool.map(lambda case: [case.check(2) for _ in range(5)], cases))
