"""GroupQueryAttention of one new position of one sequence, which has a kernel of its own, against onnxruntime."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_array.contrib import group_query_attention, one_position
from ort_py_kit.tolerances import assert_close

from .attention_oracle import agree, attended, f32, i32
from .closed_forms import contrib

OP = "GroupQueryAttention"
FLOAT3 = (np.float32,) * 3
TURNED = {"do_rotary": 1}
NEIGHBOURS = {"do_rotary": 1, "rotary_interleaved": 1}


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """Whether each call of the kernel for one position had an answer."""
    found: list[bool] = []

    def noted(*arguments: Any, **settings: Any) -> Any:
        result = one_position.one_position(*arguments, **settings)
        found.append(result is not None)
        return result

    monkeypatch.setattr(group_query_attention, "one_position", noted)
    return found


def call(
    place: int, heads: int, groups: int, size: int, pairs: int, *, packed: bool = False, seed: int = 0
) -> list[Any]:
    """Inputs of a node for a position behind a past."""
    parts: list[Any] = [f32((1, 1, count * size), seed + n) for n, count in enumerate((heads, groups, groups))]
    if packed:
        parts = [np.concatenate(parts, axis=2), None, None]
    past = [f32((1, groups, place, size), seed + n) for n in (3, 4)]
    angles = np.arange(80)[:, None] * 0.7 ** np.arange(pairs)
    tables = [np.cos(angles).astype(np.float32), np.sin(angles).astype(np.float32)]
    return [*parts, *past, i32(place), i32(place + 1), *(tables if pairs else [None, None])]


@pytest.mark.parametrize("packed", [False, True])
@pytest.mark.parametrize("more", [{}, TURNED, NEIGHBOURS, {"scale": 0.3}, {"local_window_size": 71}], ids=str)
@pytest.mark.parametrize(("heads", "groups", "size", "pairs"), [(6, 2, 16, 8), (4, 4, 32, 8), (3, 1, 48, 16)])
def test_agrees_with_onnxruntime(
    heads: int, groups: int, size: int, pairs: int, more: dict[str, Any], packed: bool, answers: list[bool]
) -> None:
    """Heads that share keys or do not, turned as a whole or in part, behind pasts of several lengths."""
    for place in (1, 2, 7, 31, 70):
        inputs = call(place, heads, groups, size, pairs, packed=packed, seed=place)
        agree(OP, inputs, FLOAT3, num_heads=heads, kv_num_heads=groups, **more)
    assert answers == [True] * 5


@pytest.mark.parametrize("more", [{"softcap": 2.0}, {"smooth_softmax": 1}], ids=str)
def test_an_unusual_node_has_the_general_kernel(more: dict[str, Any], answers: list[bool]) -> None:
    agree(OP, call(5, 4, 2, 16, 8), FLOAT3, num_heads=4, kv_num_heads=2, **more)
    assert not answers


@pytest.mark.parametrize(
    ("change", "more"),
    [({5: i32(4)}, {}), ({}, {"local_window_size": 3}), ({7: None, 8: None}, TURNED)],
    ids=["an earlier position", "a window", "no angles"],
)
def test_an_unusual_call_has_the_general_kernel(
    change: dict[int, Any], more: dict[str, Any], answers: list[bool]
) -> None:
    """A call that is not of the last position of a past that is as long is the general kernel's, to do or to refuse."""
    inputs = call(5, 4, 2, 16, 8)
    for index, value in change.items():
        inputs[index] = value
    if 7 in change:
        with pytest.raises(Exception, match="cos_cache"):
            contrib(OP, inputs, outputs=3, num_heads=4, kv_num_heads=2, **more)
    else:
        agree(OP, inputs, FLOAT3, num_heads=4, kv_num_heads=2, **more)
    assert not any(answers)


@pytest.mark.parametrize("factor", [300.0, -300.0])
def test_large_scores(factor: float, answers: list[bool]) -> None:
    """Scores whose exponentials would overflow or vanish."""
    inputs = call(9, 4, 2, 16, 0)
    inputs[0] = np.full_like(inputs[0], factor)
    inputs[3], inputs[1] = np.abs(inputs[3]), np.abs(inputs[1])
    y, keys, _ = contrib(OP, inputs, outputs=3, num_heads=4, kv_num_heads=2)
    values = np.concatenate((inputs[4], inputs[2].reshape(1, 2, 1, 16)), axis=2)
    assert_close(y, attended(inputs[0].reshape(1, 4, 1, 16), keys, values, 0.25).astype(np.float32))
    assert answers == [False]


@pytest.mark.parametrize("number", [np.nan, np.inf])
def test_numbers_that_are_not_finite(number: float) -> None:
    """NaN in a key makes the heads that read it NaN, and no others; in a value, its column."""
    inputs = call(9, 4, 2, 16, 0)
    inputs[3][0, 0, 4, 5] = np.nan
    inputs[4][0, 1, 2, 3] = number
    y, _, values = contrib(OP, inputs, outputs=3, num_heads=4, kv_num_heads=2)
    heads = y.reshape(4, 16)
    assert np.isnan(heads[:2]).all()
    assert np.isfinite(np.delete(heads[2:], 3, axis=1)).all()
    np.testing.assert_array_equal(heads[2:, 3], [number] * 2)
    np.testing.assert_array_equal(values[:, :, :9], inputs[4])
