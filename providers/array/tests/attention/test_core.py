"""Scaled dot-product attention without an operator: against a loop over batch entries and heads in float64."""

from __future__ import annotations

from collections.abc import Sequence
from math import prod
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py.errors import InvalidArgument, LimitError
from ort_py_array.attention import core, plain
from ort_py_array.attention.core import Rule, attend, grown, split_heads
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec
from ort_py_kit.tolerances import assert_close

from ..oracle import BF16, sample
from ..standin import array_module, to_device, to_host


def context(xp: Any = np) -> LocalKernelContext:
    """A context of some node."""
    return LocalKernelContext(make_node_spec("Attention", []), xp)


def naive(
    q: Any, k: Any, v: Any, rule: Rule, mask: Any, offsets: Sequence[int], lengths: Sequence[int], sinks: Any
) -> tuple[Any, Any]:
    """Result and probabilities, one row at a time."""
    batch, heads, rows, _ = q.shape
    keys, group = k.shape[2], heads // k.shape[1]
    y = np.zeros((batch, heads, rows, v.shape[3]))
    p = np.zeros((batch, heads, rows, keys))
    full = None if mask is None else np.broadcast_to(mask, p.shape)
    for b, h, i in np.ndindex(batch, heads, rows):
        scores = k[b, h // group].astype(np.float64) @ q[b, h, i].astype(np.float64) * rule.scale
        if rule.softcap:
            scores = rule.softcap * np.tanh(scores / rule.softcap)
        seen = np.arange(keys) < lengths[b]
        place = i + offsets[b]
        if rule.right is not None:
            seen &= np.arange(keys) <= place + rule.right
        if rule.left is not None:
            seen &= np.arange(keys) >= place - rule.left
        if full is not None:
            added = np.where(full[b, h, i], 0.0, -np.inf) if full.dtype == bool else full[b, h, i].astype(np.float64)
            scores = scores + added
            seen &= added > -np.inf
        if seen.any():
            sink = [] if sinks is None else [float(sinks[h])]
            top = max([*scores[seen], *sink])
            e = np.where(seen, np.exp(np.where(seen, scores, top) - top), 0)
            p[b, h, i] = e / (e.sum() + sum(np.exp(s - top) for s in sink))
            y[b, h, i] = p[b, h, i] @ v[b, h // group]
    return y, p


@st.composite
def problems(draw: Any) -> dict[str, Any]:
    """Shapes, limits and masks of every kind, and how small the blocks are."""
    size = st.integers(1, 3)
    batch, key_heads, group = draw(size), draw(size), draw(size)
    rows, keys = draw(st.integers(1, 7)), draw(st.integers(1, 9))
    per_entry = st.lists(st.integers(-3, 6), min_size=batch, max_size=batch)
    full = (batch, key_heads * group, rows, keys)
    shape = tuple(dim if draw(st.booleans()) else 1 for dim in full)[-draw(st.integers(1, 4)) :]
    return {
        "shape": (batch, key_heads, group, rows, keys),
        "offsets": tuple(draw(per_entry)) if draw(st.booleans()) else draw(st.integers(-2, 4)),
        "lengths": None if draw(st.booleans()) else tuple(min(abs(n), keys) for n in draw(per_entry)),
        "left": draw(st.sampled_from([None, 0, 2])),
        "right": draw(st.sampled_from([None, 0, 1])),
        "softcap": draw(st.sampled_from([0.0, 1.5])),
        "mask": (draw(st.sampled_from(["none", "bool", "float", "-inf"])), shape),
        "sinks": draw(st.booleans()),
        "packed": draw(st.booleans()),
        "block": draw(st.sampled_from([1, 20, 200, 1 << 17])),
        "few": draw(st.sampled_from([0, plain.FEW])),
        "seed": draw(st.integers(0, 99)),
    }


def mask_of(kind: str, shape: tuple[int, ...], seed: int) -> Any:
    """A mask of a kind."""
    values = sample(shape, np.float32, seed)
    if kind == "none":
        return None
    if kind == "bool":
        return values > 0
    return np.where(values > 1, -np.inf, values).astype(np.float32) if kind == "-inf" else values


@settings(max_examples=25, deadline=None, derandomize=True)
@given(problems())
def test_every_combination_agrees_with_a_loop_over_rows(problem: dict[str, Any]) -> None:
    """Blocks of any size, grouped heads, masks, limits, caps, sinks and both layouts give what a loop gives."""
    batch, key_heads, group, rows, keys = problem["shape"]
    seed = problem["seed"]
    q = sample((batch, key_heads * group, rows, 4), np.float32, seed)
    k = sample((batch, key_heads, keys, 4), np.float32, seed + 1)
    v = sample((batch, key_heads, keys, 3), np.float32, seed + 2)
    kind, shape = problem["mask"]
    mask = mask_of(kind, shape, seed + 3)
    sinks = sample((key_heads * group,), np.float32, seed + 4) if problem["sinks"] else None
    rule = Rule(0.6, problem["left"], problem["right"], problem["softcap"])
    offsets, lengths = problem["offsets"], problem["lengths"]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(core, "_SCORES", problem["block"])
        patch.setattr(core, "_ROWS", 1)
        patch.setattr(plain, "FEW", problem["few"])
        y, kept = attend(
            context(),
            q,
            k,
            v,
            rule,
            mask=mask,
            offsets=offsets,
            lengths=lengths,
            sinks=sinks,
            packed=problem["packed"],
        )
    each = (offsets,) * batch if isinstance(offsets, int) else offsets
    expected, _ = naive(q, k, v, rule, mask, each, lengths or (keys,) * batch, sinks)
    if problem["packed"]:
        expected = expected.swapaxes(1, 2).reshape(batch, rows, -1)
    assert kept is None
    assert y.flags.c_contiguous
    assert_close(y, expected.astype(np.float32))


@pytest.mark.parametrize("stage", ["raw", "capped", "biased", "probabilities"])
def test_the_matrix_of_each_stage(stage: core.Stage) -> None:
    """The product, the capped product, that with the mask and -inf where hidden, and the probabilities."""
    q, k, v = (sample((2, 2, 3, 4), np.float32, seed) for seed in range(3))
    mask = sample((3, 3), np.float32, 4)
    y, kept = attend(context(), q, k, v, Rule(0.5, right=0, softcap=2.0, stage=stage), mask=mask)
    expected, p = naive(q, k, v, Rule(0.5, right=0, softcap=2.0), mask, (0, 0), (3, 3), None)
    raw = np.einsum("bhsd,bhtd->bhst", q, k) * np.float32(0.5)
    capped = 2 * np.tanh(raw / 2)
    biased = np.where(np.tri(3, dtype=bool), capped + mask, -np.inf)
    wanted = {"raw": raw, "capped": capped, "biased": biased, "probabilities": p}[stage]
    assert_close(kept, wanted.astype(np.float32))
    assert_close(y, expected.astype(np.float32))


def test_a_query_that_sees_no_key_gives_zeros() -> None:
    """Whether a mask, the causal frontier or a length hides all keys: zeros, in the probabilities too, never NaN."""
    q, k, v = (sample((2, 1, 3, 4), np.float32, seed) for seed in range(3))
    rule = Rule(1.0, right=0, stage="probabilities")
    several: list[dict[str, Any]] = [
        {"mask": np.array([[True] * 3, [False] * 3, [True] * 3])[None, None]},
        {"mask": np.array([[0] * 3, [-np.inf] * 3, [0] * 3], np.float32)},
        {"offsets": (-2, -2)},
        {"lengths": (0, 0)},
    ]
    for arguments in several:
        y, p = attend(context(), q, k, v, rule, **arguments)
        assert not y[:, :, 1].any()
        assert p is not None
        assert not p[:, :, 1].any()
        assert np.isfinite(y).all()


@pytest.mark.parametrize("mask", [np.array([True, False, True]), np.array([0, -np.inf, 0], np.float32)])
def test_a_hidden_key_takes_no_part_whatever_its_score(mask: Any) -> None:
    """A score of infinity or NaN at a hidden key changes nothing, for either kind of mask."""
    q, k, v = (sample((1, 1, 2, 3), np.float32, seed) for seed in range(3))
    k = np.concatenate((k[:, :, :1], np.full((1, 1, 1, 3), np.nan, np.float32), k[:, :, 1:]), axis=2)
    v = np.concatenate((v[:, :, :1], np.ones((1, 1, 1, 3), np.float32), v[:, :, 1:]), axis=2)
    y, _ = attend(context(), q, k, v, Rule(1.0), mask=mask)
    kept = [0, 2]
    expected, _ = attend(context(), q, k[:, :, kept], v[:, :, kept], Rule(1.0))
    assert_close(y, expected)


@pytest.mark.parametrize("dtype", [np.dtype(np.float16), BF16])
def test_narrow_floats_are_rounded_once(dtype: Any) -> None:
    """The result is the float32 result of the same inputs, rounded."""
    q, k, v = (sample((1, 2, 5, 8), dtype, seed) for seed in range(3))
    y, _ = attend(context(), q, k, v, Rule(0.3))
    wide, _ = attend(context(), q.astype(np.float32), k.astype(np.float32), v.astype(np.float32), Rule(0.3))
    assert y.dtype == dtype
    np.testing.assert_array_equal(y, wide.astype(dtype))


@pytest.mark.parametrize("kind", [np.dtype(np.float16), BF16, np.dtype(np.float64)])
def test_the_softmax_has_a_precision_of_its_own(kind: Any) -> None:
    """The softmax is that of the type, each of its steps rounded; the product with the values is not."""
    q, k, v = (sample((1, 1, 3, 4), np.float32, seed) for seed in range(3))
    y, p = attend(context(), q, k, v, Rule(1.0, softmax_type=kind, stage="probabilities"))
    scores = np.matmul(q, k.swapaxes(2, 3)).astype(kind)
    e = np.exp(scores - scores.max(-1, keepdims=True))
    expected = (e / e.sum(-1, keepdims=True, dtype=kind)).astype(np.float32)
    assert p is not None
    assert_close(p.astype(kind), expected.astype(kind))
    assert_close(y.astype(kind), np.matmul(expected, v).astype(kind))
    np.testing.assert_array_equal(p, p.astype(kind).astype(np.float32))


def test_each_step_can_be_rounded() -> None:
    """With a type of steps, products, caps, masks and the softmax give what a chain of operators of that type does."""
    half = np.float16
    q, k, v = (sample((1, 2, 5, 8), half, seed, -1, 1) for seed in range(3))
    mask = sample((5, 5), half, 4)
    y, p = attend(context(), q, k, v, Rule(0.25, softcap=2.0, stage="probabilities", step_type=half), mask=mask)
    root = half(0.5)
    scores = np.matmul((q * root).astype(np.float32), (k * root).swapaxes(2, 3).astype(np.float32)).astype(half)
    scores = np.tanh(scores / half(2)) * half(2) + mask
    e = np.exp(scores - scores.max(-1, keepdims=True))
    expected = e / e.sum(-1, keepdims=True, dtype=np.float32).astype(half)
    assert p is not None
    assert_close(p, expected)
    assert_close(y, np.matmul(expected.astype(np.float32), v.astype(np.float32)).astype(half))


def test_no_matrix_of_all_scores_is_made() -> None:
    """The scratch memory of a call does not grow with queries times keys."""
    import tracemalloc

    q, k, v = (sample((1, 2, 2048, 8), np.float32, seed) for seed in range(3))
    tracemalloc.start()
    attend(context(), q, k, v, Rule(1.0))
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    assert peak < 2 * 2048 * 2048 * 4 / 8


@pytest.mark.parametrize("shape", [(0, 2, 3, 4), (2, 2, 0, 4), (2, 0, 3, 4), (2, 2, 3, 0)])
def test_empty_tensors(shape: tuple[int, ...]) -> None:
    """No batch entries, no queries and keys, no heads, or heads of no elements: a result of the right shape."""
    x = np.zeros(shape, np.float32)
    v = np.ones((*shape[:3], 5), np.float32)
    y, _ = attend(context(), x, x, v, Rule(1.0))
    np.testing.assert_array_equal(y, np.ones((*shape[:3], 5), np.float32))


def test_no_keys() -> None:
    """Without keys every query sees none: zeros, and an empty matrix."""
    q, k = sample((2, 2, 3, 4), np.float32), np.zeros((2, 2, 0, 4), np.float32)
    y, p = attend(context(), q, k, k, Rule(1.0, stage="probabilities"))
    assert p is not None
    assert p.shape == (2, 2, 3, 0)
    np.testing.assert_array_equal(y, np.zeros((2, 2, 3, 4), np.float32))


def test_a_mask_shorter_than_the_keys_hides_the_rest() -> None:
    """For both kinds of mask, with and without the matrix."""
    q, k, v = (sample((2, 2, 4, 4), np.float32, seed) for seed in range(3))
    for mask in (np.ones((4, 2), bool), np.zeros((4, 2), np.float32)):
        for rule in (Rule(1.0), Rule(1.0, stage="biased")):
            y, kept = attend(context(), q, k, v, rule, mask=mask)
            expected, _ = attend(context(), q, k[:, :, :2], v[:, :, :2], Rule(1.0))
            assert_close(y, expected)
            if kept is not None:
                assert np.isneginf(kept[..., 2:]).all()


def test_several_masks_are_applied_one_after_the_other() -> None:
    """One of rows, one of heads and a boolean one of entries give what their sum gives."""
    q, k, v = (sample((2, 2, 3, 4), np.float32, seed) for seed in range(3))
    rows, heads = sample((3, 3), np.float32, 4), sample((1, 2, 1, 3), np.float32, 5)
    entries = np.array([[True, True, False], [False, True, True]]).reshape(2, 1, 1, 3)
    y, _ = attend(context(), q, k, v, Rule(1.0), mask=(rows, heads, entries))
    together = rows + heads + np.where(entries, np.float32(0), np.float32(-np.inf))
    assert_close(y, attend(context(), q, k, v, Rule(1.0), mask=together)[0])


_HIDDEN = np.where(np.arange(6) < [[0], [6], [3]], np.float32(-np.inf), np.float32(0))
"""Of six keys the first row sees all, the second none, the third half."""


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("spoilt", [0.0, np.inf, np.nan], ids=str)
@pytest.mark.parametrize(
    "mask",
    [
        None,
        sample((6,), np.float32, 4),
        sample((3, 1), np.float32, 5),
        sample((2, 1, 6), np.float32, 6),
        sample((2, 2, 3, 6), np.float32, 7),
        _HIDDEN,
        _HIDDEN == 0,
        sample((3, 1), np.float32, 5) > 0,
        sample((2, 1, 6), np.float32, 6) > 0,
    ],
    ids=lambda mask: "none" if mask is None else f"{mask.dtype} {'x'.join(map(str, mask.shape))}",
)
@pytest.mark.parametrize("groups", [1, 2])
def test_few_scores_are_computed_as_many(
    groups: int, mask: Any, spoilt: float, packed: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call that is over before blocks pay gives what blocks give, for masks of each form and scores of each kind."""
    q = sample((2, 2, 3, 4), np.float32, 0)
    k, v = (sample((2, groups, 6, 4), np.float32, seed) for seed in (1, 2))
    k[0, -1, 0] += np.float32(spoilt)
    with np.errstate(invalid="ignore"):
        few, _ = attend(context(), q, k, v, Rule(0.5), mask=mask, packed=packed)
        monkeypatch.setattr(plain, "FEW", 0)
        many, _ = attend(context(), q, k, v, Rule(0.5), mask=mask, packed=packed)
    assert_close(few, many)


@pytest.mark.parametrize("mask", [None, np.arange(6) > 2, np.zeros((2, 1, 1, 6), np.float32)])
@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("groups", [1, 2, 4])
def test_one_row_that_reads_grouped_keys(groups: int, packed: bool, mask: Any) -> None:
    """The heads of a group read the same keys, also where they lie side by side as a projection gives them."""
    q = split_heads(context(), sample((2, 1, 16), np.float32), 4)
    k, v = (sample((2, groups, 6, size), np.float32, size) for size in (4, 3))
    y, _ = attend(context(), q, k, v, Rule(0.5), mask=mask, packed=packed)
    expected, _ = naive(q, k, v, Rule(0.5), mask, (0, 0), (6, 6), None)
    assert_close(y, expected.astype(np.float32).reshape(y.shape))


@pytest.mark.parametrize(("offset", "rows"), [(5, 1), (7, 1), (5, 3), (3, 1), (2, 3), (0, 6)])
def test_a_frontier_behind_the_last_key_hides_none(offset: int, rows: int) -> None:
    """The position decoded last sees all keys, earlier ones do not, whichever way is taken."""
    q, k, v = (sample((1, 2, count, 4), np.float32, seed) for seed, count in enumerate((rows, 6, 6)))
    rule = Rule(0.5, right=0)
    y, _ = attend(context(), q, k, v, rule, offsets=offset)
    expected, _ = naive(q, k, v, rule, None, (offset,), (6,), None)
    assert_close(y, expected.astype(np.float32))


def test_it_runs_on_another_array_module() -> None:
    """With a mask, a window, lengths and sinks, on arrays that refuse NumPy."""
    q, k, v = (sample((2, 2, 3, 4), np.float32, seed) for seed in range(3))
    mask, sinks = sample((3, 3), np.float32, 4), sample((2,), np.float32, 5)
    rule = Rule(0.5, left=1, right=0, softcap=1.0)
    expected, _ = naive(q, k, v, rule, mask, (0, 1), (3, 2), sinks)
    q, k, v, mask, sinks = (to_device(x) for x in (q, k, v, mask, sinks))
    y, _ = attend(context(array_module), q, k, v, rule, mask=mask, offsets=(0, 1), lengths=(3, 2), sinks=sinks)
    assert_close(to_host(y), expected.astype(np.float32))


def test_heads_are_split_without_a_copy() -> None:
    """`split_heads` is a view; what cannot be split is refused."""
    x = sample((2, 3, 8), np.float32)
    heads = split_heads(context(), x, 2)
    assert heads.shape == (2, 2, 3, 4)
    assert np.shares_memory(heads, x)
    with pytest.raises(InvalidArgument, match="cannot be split into 3 heads"):
        split_heads(context(), x, 3)


Q = np.zeros((2, 4, 3, 8), np.float32)


@pytest.mark.parametrize(
    ("k", "v", "arguments", "message"),
    [
        (Q[..., :4], Q, {}, "do not belong together"),
        (Q, Q[:, :, :2], {}, "do not belong together"),
        (Q[:, :3], Q[:, :3], {}, "4 query heads cannot share 3 key heads"),
        (Q, Q, {"mask": np.zeros((2, 3), np.float32)}, "does not broadcast to"),
        (Q, Q, {"mask": np.zeros((1, 1, 1, 3, 3), np.float32)}, "does not broadcast to"),
        (Q, Q, {"mask": np.zeros((3, 4), np.float32)}, "does not broadcast to"),
        (Q, Q, {"lengths": (1,)}, "1 lengths do not fit a batch of 2"),
        (Q, Q, {"offsets": (1, 2, 3)}, "3 offsets do not fit a batch of 2"),
        (Q, Q, {"sinks": np.zeros(3, np.float32)}, "sinks are not one per query head"),
    ],
)
def test_what_does_not_fit_is_refused(k: Any, v: Any, arguments: dict[str, Any], message: str) -> None:
    """The message says what does not fit, the node and the shapes."""
    with pytest.raises(InvalidArgument, match=message) as caught:
        attend(context(), Q, k, v, Rule(1.0), **arguments)
    assert "Attention_under_test" in str(caught.value)
    assert caught.value.fix


def test_a_matrix_that_is_too_large_is_refused_before_it_is_made() -> None:
    """The matrix of a stage and the result are announced."""

    class Capped(LocalKernelContext):
        def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
            if prod(shape) > 1 << 20:
                raise LimitError(f"too large: {tuple(shape)}")

    ctx = Capped(make_node_spec("Attention", []))
    q = np.broadcast_to(np.float32(1), (1, 1, 4096, 1))
    with pytest.raises(LimitError, match="4096, 4096"):
        attend(ctx, q, q, q, Rule(1.0, stage="raw"))
    with pytest.raises(LimitError, match="4096, 512"):
        attend(ctx, q, q[:, :, :1], np.broadcast_to(np.float32(1), (1, 1, 1, 512)), Rule(1.0))


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("boolean", [False, True])
def test_rows_of_overflowing_scores_are_nan(many: bool, boolean: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Softmax of -infinity throughout is NaN; zeros are for rows that see no key."""
    if many:
        monkeypatch.setattr(core, "fits", lambda *_: False)
    q = np.array([1e30, 1.0, 1.0], np.float32).reshape(1, 1, 3, 1)
    k = np.array([-1e30, -1e30], np.float32).reshape(1, 1, 2, 1)
    mask = np.array([[True, False], [True, True], [False, False]])
    given = mask if boolean else np.where(mask, 0, -np.inf).astype(np.float32)
    y, _ = attend(context(), q, k, np.ones((1, 1, 2, 1), np.float32), Rule(1.0), mask=given)
    np.testing.assert_array_equal(y.reshape(-1), [np.nan, 1, 0])


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("many", [False, True])
def test_means_of_the_largest_values_are_finite(many: bool, packed: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Weights add up to 1, so no result is larger than the largest value."""
    if many:
        monkeypatch.setattr(core, "fits", lambda *_: False)
    q, k = np.zeros((1, 2, 3, 4), np.float32), np.zeros((1, 2, 5, 4), np.float32)
    v = np.full((1, 2, 5, 4), 3e38, np.float32)
    y, _ = attend(context(), q, k, v, Rule(1.0), packed=packed)
    assert_close(y, np.full((1, 3, 8) if packed else (1, 2, 3, 4), 3e38, np.float32))


@pytest.mark.parametrize("held", [0, 1, 2])
def test_the_present_is_contiguous(held: int) -> None:
    """Also behind a past of one row, whose layout is as much that of new heads, a view of columns, as its own."""
    ctx = context()
    past, new = sample((1, 3, held, 4), np.float32, 0), split_heads(ctx, sample((1, 5, 12), np.float32, 1), 3)
    present = grown(ctx, past, new)
    assert present.flags.c_contiguous
    np.testing.assert_array_equal(present[:, :, :held], past)
    np.testing.assert_array_equal(present[:, :, held:], new)


@pytest.mark.parametrize("many", [False, True])
@pytest.mark.parametrize("values", [1, 2])
def test_packed_results_are_contiguous(values: int, many: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Also where heads of one column could be joined without moving anything."""
    if many:
        monkeypatch.setattr(core, "fits", lambda *_: False)
    q, k = (sample((2, 3, rows, 4), np.float32, rows) for rows in (2, 5))
    y, _ = attend(context(), q, k, sample((2, 3, 5, values), np.float32, 1), Rule(1.0), packed=True)
    assert y.shape == (2, 2, 3 * values)
    assert y.flags.c_contiguous
