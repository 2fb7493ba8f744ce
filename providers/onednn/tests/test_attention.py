"""Attention-23 and RotaryEmbedding: the same results as onnxruntime, in one region."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.row_rotation import has_row_rotation
from ort_py_onednn.execution.instance import DnnlInstance
from ort_py_onednn.lowering import rotary
from providers.onednn.tests.checking import watched
from providers.onednn.tests.models import PROVIDER, model, node, open_session, run_here, run_plain

RNG = np.random.default_rng(23)


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return RNG.standard_normal(shape, np.float32)


def _check(data: bytes, feeds: dict[str, np.ndarray[Any, Any]]) -> None:
    for actual, wanted in zip(run_here(data, feeds), run_plain(data, feeds), strict=True):
        assert_close(actual, wanted)


def _attention(
    feeds: dict[str, np.ndarray[Any, Any]], inputs: str = "q k v", *, dynamic: bool = False, **attributes: Any
) -> bytes:
    return model([node("Attention", inputs, "y", **attributes)], feeds, opset=23, dynamic=dynamic)


def _heads(batch: int = 2, queries: int = 4, keys: int = 4, rows: int = 5, columns: int = 7) -> dict[str, Any]:
    return {"q": _f(batch, queries, rows, 8), "k": _f(batch, keys, columns, 8), "v": _f(batch, keys, columns, 6)}


@pytest.mark.parametrize("keys", [4, 2, 1])
def test_heads_of_queries_share_those_of_keys(keys: int) -> None:
    """Inputs have four dimensions, with as many heads of keys as of queries, half as many, or one."""
    feeds = _heads(keys=keys)
    _check(_attention(feeds), feeds)


@pytest.mark.parametrize("keys", [4, 2])
def test_heads_side_by_side(keys: int) -> None:
    """Inputs and the result have three dimensions, with the numbers of heads as attributes."""
    feeds = {"q": _f(2, 5, 4 * 8), "k": _f(2, 7, keys * 8), "v": _f(2, 7, keys * 6)}
    _check(_attention(feeds, q_num_heads=4, kv_num_heads=keys), feeds)


@pytest.mark.parametrize("shape", [(5, 7), (1, 1, 5, 7), (2, 1, 5, 7), (2, 1, 1, 7), (2, 4, 5, 7)])
@pytest.mark.parametrize("kind", [np.float32, np.bool_])
def test_masks_broadcast(shape: tuple[int, ...], kind: Any) -> None:
    """Added to scores where it is of floating point, and hiding what is false where it is of bool."""
    feeds = _heads()
    feeds["m"] = _f(*shape) if kind is np.float32 else RNG.random(shape) < 0.7
    wide = {**feeds, "m": np.broadcast_to(feeds["m"], (*shape[:-2], 5, 7)).copy()}  # onnxruntime wants all rows
    (actual,) = run_here(_attention(feeds, "q k v m"), feeds)
    (wanted,) = run_plain(_attention(wide, "q k v m"), wide)
    assert_close(actual, wanted)


def test_rows_that_see_nothing_give_zeroes() -> None:
    """And no not-a-number, where a mask of bool hides all keys."""
    feeds = _heads()
    feeds["m"] = np.tril(np.ones((5, 7), np.bool_), -1)
    data = _attention(feeds, "q k v m")
    _check(data, feeds)
    assert not run_here(data, feeds)[0][:, :, 0].any()


def test_rows_that_see_nothing_are_zeroes_whatever_they_hold() -> None:
    """Infinities in a query of which a mask of bool hides all keys are lost, as in onnxruntime."""
    feeds = _heads()
    feeds["m"] = np.tril(np.ones((5, 7), np.bool_), -1)
    feeds["q"][1, 2, 0] = np.inf
    _check(_attention(feeds, "q k v m"), feeds)


@pytest.mark.parametrize("causal", [False, True])
def test_a_key_that_is_hidden_may_be_nan(causal: bool) -> None:
    """Rows that do not see a key are as if it were a number; those that see it are NaN."""
    feeds = _heads(columns=5)
    if not causal:
        feeds["m"] = np.tril(np.ones((5, 5), np.bool_))
    data = _attention(feeds, "q k v" if causal else "q k v m", is_causal=int(causal))
    (wanted,) = run_plain(data, feeds)
    feeds["k"][:, :, 4] = np.nan
    (found,) = run_here(data, feeds)
    assert_close(found[:, :, :4], wanted[:, :, :4])
    assert np.isnan(found[:, :, 4]).all()


def test_a_constant_mask_of_bool() -> None:
    """Is converted as it is packed."""
    feeds = _heads()
    mask = RNG.random((1, 1, 5, 7)) < 0.7
    data = model([node("Attention", "q k v m", "y")], feeds, {"m": mask}, opset=23)
    _check(data, feeds)


@pytest.mark.parametrize("keys", [4, 2])
@pytest.mark.parametrize("inputs", ["q k v", "q k v m"])
def test_causal_attention(keys: int, inputs: str) -> None:
    """A row sees no column behind its own, with a mask besides or without; heads may be shared."""
    feeds = _heads(keys=keys, columns=5)
    if "m" in inputs:
        feeds["m"] = _f(5, 5)
    _check(_attention(feeds, inputs, is_causal=1), feeds)


def test_scores_are_scaled_and_capped() -> None:
    feeds = _heads()
    _check(_attention(feeds, scale=0.7, softcap=1.5), feeds)


def test_layers_share_a_mask() -> None:
    feeds = _heads(columns=5)
    feeds["v"] = _f(2, 4, 5, 8)
    feeds["m"] = np.tril(np.ones((1, 1, 5, 5), np.bool_))
    nodes = [node("Attention", "q k v m", "a"), node("Attention", "a k v m", "y")]
    _check(model(nodes, feeds, opset=23), feeds)


def test_what_is_kept_is_left() -> None:
    """A past with a causal mask, whose first row is not the first of the keys, is somebody else's."""
    feeds = _heads(columns=5)
    feeds |= {"a": _f(2, 4, 3, 8), "b": _f(2, 4, 3, 6)}
    data = model([node("Attention", "q k v - a b", "y p r", is_causal=1)], feeds, opset=23)
    with open_session(data) as session:
        (placed,) = session.placement.nodes
        assert placed.provider != PROVIDER
        assert "a past" in str(placed.refusals)


def _rotary(size: int = 8, rows: int = 5, batch: int = 2) -> dict[str, Any]:
    angles = RNG.random((batch, rows, size // 2)).astype(np.float32)
    return {"c": np.cos(angles), "s": np.sin(angles)}


@pytest.mark.parametrize("batch", [1, 2])
@pytest.mark.parametrize("packed", [False, True])
def test_rotary_embedding(batch: int, packed: bool) -> None:
    """Halves of heads are turned, of three or four dimensions, by an angle for each row."""
    feeds = {"x": _f(batch, 5, 24) if packed else _f(batch, 3, 5, 8), **_rotary(batch=batch)}
    nodes = [node("RotaryEmbedding", "x c s", "a", num_heads=3), node("RotaryEmbedding", "a c s", "y", num_heads=3)]
    _check(model(nodes, feeds, opset=23), feeds)


@pytest.mark.parametrize("packed", [False, True])
def test_rotary_embedding_of_a_table(packed: bool) -> None:
    """com.microsoft's, from the row on that a constant says."""
    table = {name: array[0] for name, array in _rotary(rows=12).items()}
    feeds = {"x": _f(2, 5, 24) if packed else _f(2, 3, 5, 8)}
    one = node("RotaryEmbedding", "x p c s", "y", domain="com.microsoft")
    _check(model([one], feeds, {"p": np.array([4]), **table}), feeds)


@pytest.mark.parametrize("rows", [1, 5])
@pytest.mark.parametrize("packed", [False, True])
def test_rotary_embedding_is_one_step(packed: bool, rows: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """With code of our own, tables are read as they are, and no half is moved."""
    if not has_row_rotation(engine().library):
        pytest.skip("this machine has no AVX2, or no executable memory")
    steps: list[str] = []
    original = DnnlInstance.bind

    def remember(self: DnnlInstance, *arguments: Any, **options: Any) -> Any:
        found = original(self, *arguments, **options)
        plans = [form.plan for form in self._forms.values()]
        steps[:] = [step.primitive.implementation for plan in plans for step in plan.steps if step.primitive]
        return found

    monkeypatch.setattr(DnnlInstance, "bind", remember)
    feeds = {"x": _f(1, rows, 24) if packed else _f(1, 3, rows, 8), **_rotary(batch=1, rows=rows)}
    data = model([node("RotaryEmbedding", "x c s", "y", num_heads=3)], feeds, opset=23)
    with watched():
        _check(data, feeds)
    assert steps == ["own:turn:avx2"]


def test_rotary_embedding_without_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Primitives do it on other processors, with tables of cosines of whole heads."""
    monkeypatch.setattr(rotary, "has_row_rotation", lambda library: False)
    for packed in (False, True):
        feeds = {"x": _f(1, 5, 24) if packed else _f(1, 3, 5, 8), **_rotary(batch=1)}
        _check(model([node("RotaryEmbedding", "x c s", "y", num_heads=3)], feeds, opset=23), feeds)


def test_neighbours_are_left() -> None:
    """Pairs that lie beside each other are refused, with the reason."""
    feeds = {"x": _f(2, 3, 5, 8), **_rotary()}
    with open_session(model([node("RotaryEmbedding", "x c s", "y", interleaved=1)], feeds, opset=23)) as session:
        assert "neighbours" in str(session.placement.nodes[0].refusals)
