"""Attention to a past in machine code, against float64: sizes of heads, shared keys, biases, hidden rows, NaN."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.calls import CallList
from ort_py_onednn.binding.constants import Argument, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.past_attention import PastAttention, has_past_attention
from ort_py_onednn.binding.past_table import Sizes

Array = np.ndarray[Any, Any]
MOST, FENCE = 64, 7.0


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where there is no code."""
    if not has_past_attention(engine().library):
        pytest.skip("the CPU has no AVX2, or the system allows no executable memory")


@dataclass
class Case:
    """An attention with its arrays."""

    batch: int = 2
    heads: int = 4
    groups: int = 4
    rows: int = 1
    size: int = 16
    each: int = 16
    past: int = 5
    causal: bool = False
    bias: Array | None = None
    scale: float = 0.3
    arrays: dict[int, Array] = field(default_factory=dict)

    def __post_init__(self) -> None:
        random = np.random.default_rng(3)
        shapes = {
            Argument.SRC: (self.batch, self.rows, self.heads * self.size),
            Argument.SRC_1: (self.batch, self.rows, self.groups * self.size),
            Argument.SRC_2: (self.batch, self.rows, self.groups * self.each),
            Argument.WEIGHTS: (self.batch, self.groups, self.past, self.size),
            Argument.WEIGHTS_1: (self.batch, self.groups, self.past, self.each),
        }
        self.arrays = {code: random.standard_normal(shape, np.float32) for code, shape in shapes.items()}

    def keys_and_values(self) -> tuple[Array, Array]:
        """The past and what is new."""
        found = []
        for old, new, wide in (
            (Argument.WEIGHTS, Argument.SRC_1, self.size),
            (Argument.WEIGHTS_1, Argument.SRC_2, self.each),
        ):
            split = self.arrays[new].reshape(self.batch, self.rows, self.groups, wide).swapaxes(1, 2)
            found.append(np.concatenate([self.arrays[old], split], axis=2))
        return found[0], found[1]

    def exact(self) -> Array:
        """The result in float64; rows that see no key are zeroes."""
        keys, values = (
            np.repeat(one.astype(np.float64), self.heads // self.groups, 1) for one in self.keys_and_values()
        )
        query = self.arrays[Argument.SRC].reshape(self.batch, self.rows, self.heads, self.size).swapaxes(1, 2)
        with np.errstate(all="ignore"):
            scores = query.astype(np.float64) @ keys.swapaxes(2, 3) * self.scale
            hidden = np.zeros(scores.shape, np.bool_)
            if self.bias is not None and self.bias.dtype == np.bool_:
                hidden |= ~self.bias
            elif self.bias is not None:
                scores = scores + self.bias
                hidden |= self.bias == -np.inf
            if self.causal:
                hidden |= np.arange(scores.shape[3]) > np.arange(self.rows)[:, None] + self.past
            scores[hidden] = -np.inf
            weights = np.where(hidden, 0, np.exp(scores - scores.max(3, keepdims=True)))
            weights /= weights.sum(3, keepdims=True)
            weights[np.broadcast_to(hidden.all(3, keepdims=True), hidden.shape)] = 0
            found = weights @ values
        joined = found.swapaxes(1, 2).reshape(self.batch, self.rows, self.heads * self.each)
        return np.asarray(joined, np.float32)

    def run(self, threads: int = 1) -> tuple[Array, Array, Array]:
        """The result, all keys and all values; nothing is written behind them."""
        boolean = self.bias is not None and self.bias.dtype == np.bool_
        b, h, r, _ = (1, 1, 1, 1) if self.bias is None else self.bias.shape
        steps = {
            "query": (self.rows * self.heads * self.size, self.size, self.heads * self.size),
            "bias": (h * r * (b > 1), r * (h > 1), int(r > 1)),
        }
        for name, heads, wide in (
            ("key", self.groups, self.size),
            ("value", self.groups, self.each),
            ("result", self.heads, self.each),
        ):
            steps[name] = (self.rows * heads * wide, wide, heads * wide)
        sizes = Sizes(
            self.batch,
            self.heads,
            self.groups,
            self.rows,
            self.size,
            self.each,
            MOST,
            steps,
            self.scale,
            self.causal,
            boolean,
        )
        total = self.past + self.rows
        made = [
            np.full((self.batch, self.rows, self.heads * self.each), FENCE, np.float32),
            np.full((self.batch, self.groups, total, self.size), FENCE, np.float32),
            np.full((self.batch, self.groups, total, self.each), FENCE, np.float32),
        ]
        arrays = dict(self.arrays)
        if self.bias is not None:
            arrays[Argument.BIAS] = self.bias
        descs = {code: Desc.plain(array.shape) for code, array in arrays.items()}
        if boolean:
            descs[Argument.BIAS] = Desc.plain(descs[Argument.BIAS].dims, Element.U8)
        fenced = [np.full(array.size + 16, FENCE, np.float32) for array in made]
        arrays |= dict(zip((Argument.DST, Argument.DST_1, Argument.DST_2), fenced, strict=True))
        descs |= {code: Desc.plain((arrays[code].size,)) for code in (Argument.DST, Argument.DST_1, Argument.DST_2)}
        attention = PastAttention(engine().library, descs, sizes, threads)
        scratch = attention.arguments[Argument.SCRATCHPAD]
        arrays[Argument.SCRATCHPAD] = np.full(scratch.nbytes // 4 + 16, FENCE, np.float32)
        calls = attention.calls({code: array.ctypes.data for code, array in arrays.items()}, threads)
        listed = CallList(calls, ["attention"] * len(calls))
        assert attention.length is not None
        said = np.array([self.past, total, self.past, total], np.intp)
        for _ in range(2):
            listed.words[CallList.place(0, attention.length)] = said.ctypes.data
            listed.run()
        for array in (*fenced, arrays[Argument.SCRATCHPAD]):
            assert np.all(array[-16:] == FENCE)
        found = [array[:-16].reshape(one.shape) for array, one in zip(fenced, made, strict=True)]
        return found[0], found[1], found[2]

    def check(self, threads: int = 1) -> None:
        """Compare with the exact result, and the present bit for bit."""
        result, keys, values = self.run(threads)
        assert_close(result, self.exact())
        for array, wanted in zip((keys, values), self.keys_and_values(), strict=True):
            assert array.tobytes() == wanted.tobytes()


@pytest.mark.parametrize(("size", "each"), [(1, 1), (3, 20), (8, 7), (20, 3), (32, 64), (80, 96), (96, 40)])
@pytest.mark.parametrize("past", [0, 1, 6, 7, 8, 30, MOST])
def test_sizes_of_heads(size: int, each: int, past: int) -> None:
    Case(size=size, each=each, past=past).check()


@pytest.mark.parametrize(("heads", "groups"), [(4, 2), (6, 1), (7, 7)])
@pytest.mark.parametrize("rows", [1, 3, 9, 20])
@pytest.mark.parametrize("threads", [1, 2])
def test_rows_and_shared_keys(heads: int, groups: int, rows: int, threads: int) -> None:
    """More rows than a piece of work has, for each head of keys."""
    Case(heads=heads, groups=groups, rows=rows, causal=rows == 9).check(threads)


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 1), (1, 4, 1), (1, 1, 3), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("causal", [False, True])
def test_a_bias_that_hides(shape: tuple[int, ...], causal: bool) -> None:
    random = np.random.default_rng(5)
    bias = random.standard_normal((*shape, 14), np.float32)
    bias[random.random(bias.shape) < 0.4] = -np.inf
    Case(rows=3, past=11, bias=bias, causal=causal).check()


@pytest.mark.parametrize("shape", [(1, 1, 1), (2, 1, 3), (1, 4, 1), (2, 4, 3)], ids=str)
@pytest.mark.parametrize("past", [0, 4, 5, 6, 13, 30])
def test_a_mask_that_hides(shape: tuple[int, ...], past: int) -> None:
    """Whole registers of scores, and a few behind them; some rows see nothing."""
    random = np.random.default_rng(6)
    mask = random.random((*shape, past + 3)) < 0.6
    mask[..., -1, :] &= random.random(shape[:2])[..., None] < 0.5
    Case(rows=3, past=past, bias=mask, causal=past == 13).check()


def test_an_overflow_of_keys_that_a_mask_shows() -> None:
    """There are no weights for keys that are seen and whose scores are all -infinity."""
    mask = np.zeros((1, 1, 1, 6), np.bool_)
    mask[..., 4] = True
    case = Case(bias=mask)
    case.arrays[Argument.SRC][...] = 3e38
    case.arrays[Argument.WEIGHTS][...] = -3e38
    assert np.all(np.isnan(case.run()[0]))


def test_a_row_that_sees_nothing_is_zero() -> None:
    bias = np.zeros((1, 1, 3, 8), np.float32)
    bias[0, 0, 1] = -np.inf
    case = Case(rows=3, past=5, bias=bias)
    case.check()
    assert not np.any(case.run()[0][:, 1])


def test_a_hidden_key_takes_no_part_whatever_its_score() -> None:
    bias = np.zeros((1, 1, 1, 6), np.float32)
    bias[..., 2] = -np.inf
    case = Case(bias=bias)
    wanted = case.run()[0]
    case.arrays[Argument.WEIGHTS][:, :, 2] = np.nan
    np.testing.assert_array_equal(case.run()[0], wanted)


def _unknown_key(arrays: dict[int, Array]) -> None:
    arrays[Argument.WEIGHTS][1, 2, 3, 4] = np.nan


def _payload(arrays: dict[int, Array]) -> None:
    arrays[Argument.WEIGHTS].view(np.uint32)[1, 2, 3, 4] = 0x7FC12345


def _infinite_key(arrays: dict[int, Array]) -> None:
    arrays[Argument.SRC_1][1, 0, 40] = np.inf


def _unknown_query(arrays: dict[int, Array]) -> None:
    arrays[Argument.SRC][1, 0, 40] = np.nan


def _overflow(arrays: dict[int, Array]) -> None:
    arrays[Argument.SRC][1, 0, 32:48] = 3e38
    arrays[Argument.WEIGHTS][1, 2] = -3e38
    arrays[Argument.SRC_1][1, 0, 32:48] = -3e38


@pytest.mark.parametrize("change", [_unknown_key, _payload, _infinite_key, _unknown_query, _overflow])
def test_scores_that_are_no_numbers_make_their_row_unknown(change: Callable[[dict[int, Array]], None]) -> None:
    """And no other one: an infinite score, one that is not a number, or -infinity for all keys that are seen."""
    case = Case()
    wanted = case.run()[0]
    change(case.arrays)
    found = case.run()[0].reshape(2, 1, 4, 16)
    assert np.all(np.isnan(found[1, 0, 2]))
    found[1, 0, 2] = wanted.reshape(found.shape)[1, 0, 2]
    np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)


def test_values_that_are_no_numbers() -> None:
    case = Case()
    case.arrays[Argument.WEIGHTS_1][0, 1, 2, 3] = np.nan
    case.arrays[Argument.SRC_2][0, 0, 16 + 5] = np.inf
    case.check()


@pytest.mark.parametrize("scale", [1e-30, 40.0, -0.5])
def test_scales(scale: float) -> None:
    """Weights that are all alike, one that is all, and a factor below zero."""
    Case(scale=scale, past=MOST).check()


@pytest.mark.parametrize("size", [16, 20])
def test_scores_that_are_finite_with_their_factor(size: int) -> None:
    """Products of queries and keys overflow without it."""
    case = Case(size=size, scale=2.0**-10)
    for code in (Argument.SRC, Argument.WEIGHTS, Argument.SRC_1):
        case.arrays[code] *= 1e20
    assert np.all(np.isfinite(case.run()[0]))
    case.check()


def test_no_result_depends_on_the_number_of_threads() -> None:
    case = Case(heads=8, groups=8, rows=17, size=64, each=64, past=50)
    for one, other in zip(case.run(1), case.run(3), strict=True):
        assert one.tobytes() == other.tobytes()


@pytest.mark.parametrize("rows", [2, 9, 70])
@pytest.mark.parametrize("past", [0, 55, MOST])
@pytest.mark.parametrize("causal", [False, True])
def test_more_keys_than_are_mixed_at_once(rows: int, past: int, causal: bool) -> None:
    """Sums of several rows go on with the next keys; of a row that sees none of these they stay as they are."""
    Case(rows=rows, past=past, causal=causal, size=24, each=44).check()
