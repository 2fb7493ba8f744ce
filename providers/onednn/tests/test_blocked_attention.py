"""Long attention in blocks: the same results as all at once, with scores that are never all there."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.lowering import attention, blocked_attention
from providers.onednn.tests.models import model, node, open_session

Array = np.ndarray[Any, Any]


class _Seen:
    """Attentions that were computed in blocks."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.blocked: list[bool] = []
        original = blocked_attention.in_blocks

        def seen(*args: Any) -> Any:
            found = original(*args)
            self.blocked.append(found is not None)
            return found

        monkeypatch.setattr(attention, "in_blocks", seen)


@pytest.fixture(params=["keys as they lie", "packed keys"])
def seen(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> _Seen:
    """Blocks of 16 rows a thread, from the first score on; a processor that packs nothing reads keys as they lie."""
    packed = 1 if request.param == "packed keys" else 1 << 60
    _allow(monkeypatch, packed, 1)
    return _Seen(monkeypatch)


@pytest.fixture
def unpacked(monkeypatch: pytest.MonkeyPatch) -> _Seen:
    """The same, with keys as they lie on every processor."""
    _allow(monkeypatch, 1 << 60, 1)
    return _Seen(monkeypatch)


def _allow(monkeypatch: pytest.MonkeyPatch, packed: int, plain: int) -> None:
    """Attend in blocks of 16 rows from these numbers of scores on."""
    ways = {"_PACKED": {"scores": packed, "block": 1}, "_PLAIN": {"all_scores": plain, "block": 1}}
    for name, changes in ways.items():
        monkeypatch.setattr(blocked_attention, name, replace(getattr(blocked_attention, name), **changes))


def _model(feeds: dict[str, Array], inputs: str = "a b c", **attributes: Any) -> bytes:
    # What is attended to is computed, as in a model: it lies in the region's own memory.
    made = [node("Neg", "q", "a"), node("Neg", "k", "b"), node("Neg", "v", "c")]
    return model([*made, node("Attention", inputs, "y", **attributes)], feeds, opset=23)


def _feeds(random: np.random.Generator, batch: int, heads: int, rows: int, columns: int, size: int) -> dict[str, Array]:
    shapes = {"q": (batch, heads, rows, size), "k": (batch, heads, columns, size), "v": (batch, heads, columns, 36)}
    return {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}


def _wanted(feeds: dict[str, Array], cap: float = 0.0, bias: Array | float = 0.0) -> Array:
    """The definition, in float64."""
    q, k, v = (-feeds[name].astype(np.float64) for name in "qkv")
    scores = q @ k.swapaxes(2, 3) / np.sqrt(q.shape[3])
    scores = cap * np.tanh(scores / cap) if cap else scores
    scores = scores + bias
    weights = np.exp(scores - scores.max(3, keepdims=True))
    return np.asarray((weights / weights.sum(3, keepdims=True)) @ v, np.float32)


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize(("rows", "columns"), [(64, 48), (70, 48), (64, 51), (95, 33), (200, 16)])
def test_blocks_give_what_all_at_once_gives(seen: _Seen, rows: int, columns: int, threads: int) -> None:
    """Whether or not rows and columns are whole numbers of blocks and tiles."""
    feeds = _feeds(np.random.default_rng(rows), 2, 3, rows, columns, 40)
    (y,) = open_session(_model(feeds), threads=threads).run(None, feeds)
    assert seen.blocked == [True]
    assert_close(y, _wanted(feeds))


def test_heads_side_by_side(seen: _Seen) -> None:
    """Inputs have three dimensions, so the rows of a head are far apart."""
    feeds = _feeds(np.random.default_rng(1), 2, 4, 80, 56, 32)
    flat = {name: array.transpose(0, 2, 1, 3).reshape(2, array.shape[2], -1) for name, array in feeds.items()}
    (y,) = open_session(_model(flat, q_num_heads=4, kv_num_heads=4)).run(None, flat)
    assert seen.blocked == [True]
    assert_close(y, _wanted(feeds).transpose(0, 2, 1, 3).reshape(2, 80, -1))


def test_scores_that_are_capped(seen: _Seen) -> None:
    """Functions before the softmax also apply to the scores in blocks."""
    feeds = _feeds(np.random.default_rng(2), 1, 2, 64, 40, 32)
    (y,) = open_session(_model(feeds, softcap=2.0)).run(None, feeds)
    assert seen.blocked == [True]
    assert_close(y, _wanted(feeds, 2.0))


def test_large_scores_do_not_overflow(seen: _Seen) -> None:
    """The largest of a row is taken off before the exponential: it alone counts where others are far below."""
    feeds = _feeds(np.random.default_rng(3), 1, 2, 64, 40, 40)
    feeds["k"] = np.broadcast_to(np.eye(40, dtype=np.float32), (1, 2, 40, 40)).copy()
    chosen = np.random.default_rng(4).integers(40, size=64)
    feeds["q"] = np.broadcast_to(1e4 * np.eye(40, dtype=np.float32)[chosen], (1, 2, 64, 40)).copy()
    (y,) = open_session(_model(feeds)).run(None, feeds)
    assert seen.blocked == [True]
    assert_close(y, -feeds["v"][:, :, chosen])


def test_runs_agree_with_each_other(seen: _Seen) -> None:
    """State that passes from block to block starts again with each run."""
    feeds = _feeds(np.random.default_rng(4), 1, 2, 70, 40, 32)
    session = open_session(_model(feeds))
    first, second = (session.run(None, feeds)[0] for _ in range(2))
    assert seen.blocked == [True]
    np.testing.assert_array_equal(first, second)


@pytest.mark.parametrize("kind", [np.float32, np.bool_])
@pytest.mark.parametrize("shape", [(40,), (64, 40), (2, 1, 64, 40), (3, 1, 40), (2, 3, 64, 40)])
def test_masks_hide_columns(seen: _Seen, shape: tuple[int, ...], kind: Any) -> None:
    """A mask of numbers is added to scores, one of bool hides them; either broadcasts."""
    random = np.random.default_rng(5)
    feeds = _feeds(random, 2, 3, 64, 40, 32)
    mask = random.random(shape) < 0.7 if kind is np.bool_ else random.normal(0, 3, shape).astype(np.float32)
    masked = {**feeds, "m": mask}
    (y,) = open_session(_model(masked, "a b c m")).run(None, masked)
    assert seen.blocked == [True]
    assert_close(y, _wanted(feeds, bias=np.where(mask, 0, -np.inf) if kind is np.bool_ else mask))


@pytest.mark.parametrize("threads", [1, 2])
def test_rows_see_no_later_columns(seen: _Seen, threads: int) -> None:
    feeds = _feeds(np.random.default_rng(6), 1, 2, 70, 70, 32)
    (y,) = open_session(_model(feeds, is_causal=1), threads=threads).run(None, feeds)
    assert seen.blocked == [True]
    assert_close(y, _wanted(feeds, bias=np.triu(np.full((70, 70), -np.inf), 1)))


@pytest.mark.parametrize("kind", [np.float32, np.bool_])
def test_rows_that_see_nothing_give_zeroes(seen: _Seen, kind: Any) -> None:
    feeds = _feeds(np.random.default_rng(7), 1, 2, 64, 40, 32)
    sees = np.random.default_rng(8).random((64, 40)) < 0.7
    sees[[0, 17, 63]] = False
    masked = {**feeds, "m": sees if kind is np.bool_ else np.where(sees, 0, -np.inf).astype(np.float32)}
    (y,) = open_session(_model(masked, "a b c m")).run(None, masked)
    assert seen.blocked == [True]
    some = np.asarray(sees.any(1))
    assert not y[:, :, ~some].any()
    assert_close(y[:, :, some], _wanted(feeds, bias=np.where(sees | ~some[:, None], 0, -np.inf))[:, :, some])


def test_heads_of_queries_share_those_of_keys(seen: _Seen) -> None:
    """Each head of keys is packed once for the heads that read it."""
    random = np.random.default_rng(9)
    feeds = {**_feeds(random, 2, 6, 64, 40, 32), **{one: _feeds(random, 2, 2, 1, 40, 32)[one] for one in "kv"}}
    (y,) = open_session(_model(feeds)).run(None, feeds)
    assert seen.blocked == [True]
    assert_close(y, _wanted({**feeds, "k": feeds["k"].repeat(3, 1), "v": feeds["v"].repeat(3, 1)}))


@pytest.mark.parametrize("size", [3, 8, 20, 33])
@pytest.mark.parametrize("threads", [1, 2])
def test_heads_of_any_size(seen: _Seen, size: int, threads: int) -> None:
    """Also where a head does not fill a register."""
    feeds = _feeds(np.random.default_rng(size), 1, 2, 75, 50, size)
    (y,) = open_session(_model(feeds), threads=threads).run(None, feeds)
    assert len(seen.blocked) == 1
    assert_close(y, _wanted(feeds))


def test_short_attention_is_done_at_once(monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores that fit into the cache stay there anyway."""
    seen = _Seen(monkeypatch)
    feeds = _feeds(np.random.default_rng(6), 1, 2, 64, 40, 32)
    (y,) = open_session(_model(feeds)).run(None, feeds)
    assert seen.blocked == [False]
    assert_close(y, _wanted(feeds))


def test_narrow_heads_are_attended_to_at_once(unpacked: _Seen) -> None:
    """Products of blocks with few columns are slow where keys are not packed."""
    feeds = _feeds(np.random.default_rng(10), 1, 2, 64, 40, 16)
    (y,) = open_session(_model(feeds)).run(None, feeds)
    assert unpacked.blocked == [False]
    assert_close(y, _wanted(feeds))


def test_arrays_of_the_run_are_attended_to_at_once(seen: _Seen) -> None:
    """Their addresses change from run to run, and pieces of them cannot be followed."""
    feeds = _feeds(np.random.default_rng(7), 1, 2, 64, 40, 32)
    data = model([node("Attention", "q k v", "y")], feeds, opset=23)
    (y,) = open_session(data).run(None, feeds)
    assert seen.blocked == [False]
    assert_close(y, _wanted({name: -array for name, array in feeds.items()}))


def test_where_only_reference_code_is_had_all_is_done_at_once(seen: _Seen, monkeypatch: pytest.MonkeyPatch) -> None:
    """On processors, or in versions of oneDNN, that lack code for a piece."""
    monkeypatch.setattr(blocked_attention._Steps, "know", lambda *_: False)
    feeds = _feeds(np.random.default_rng(8), 1, 2, 64, 40, 32)
    (y,) = open_session(_model(feeds)).run(None, feeds)
    assert seen.blocked == [False]
    assert_close(y, _wanted(feeds))


def test_scores_are_never_all_there(monkeypatch: pytest.MonkeyPatch) -> None:
    """The memory of a run is less than they would take."""
    seen = _Seen(monkeypatch)
    feeds = _feeds(np.random.default_rng(9), 1, 2, 2048, 2048, 32)
    session = open_session(_model(feeds))
    (y,) = session.run(None, feeds)
    assert seen.blocked == [True]
    assert session.memory_report().workspace < 4 * 2 * 2048 * 2048
    assert_close(y, _wanted(feeds))
