"""Depthwise convolutions over one dimension, which are computed as convolutions of pictures of one row."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest

from providers.onednn.tests.models import model, node, open_session, run_here, run_plain

CASES: Mapping[str, dict[str, Any]] = {
    "plain": {},
    "padded": {"pads": [3, 1]},
    "strided": {"strides": [2], "pads": [2, 2]},
    "dilated": {"dilations": [3], "pads": [4, 4]},
    "same": {"auto_pad": "SAME_LOWER", "strides": [2]},
}
RNG = np.random.default_rng(0)
CONSTANTS = {
    "w": RNG.uniform(-1, 1, (24, 1, 5)).astype(np.float32),
    "b": RNG.uniform(-1, 1, 24).astype(np.float32),
    "v": RNG.uniform(-1, 1, (6, 24, 1)).astype(np.float32),
}


def _rows(batch: int, length: int) -> dict[str, np.ndarray[Any, Any]]:
    return {"x": np.random.default_rng(length).uniform(-1, 1, (batch, 24, length)).astype(np.float32)}


@pytest.mark.parametrize("name", sorted(CASES))
def test_rows_agree(name: str) -> None:
    """With an activation behind it, and a convolution that reads the result as rows again."""
    conv = node("Conv", "x w b", "a", group=24, **CASES[name])
    feeds = _rows(2, 19)
    data = model([conv, node("Relu", "a", "r"), node("Conv", "r v", "y")], feeds, CONSTANTS, ["y", "r"])
    for actual, wanted in zip(run_here(data, feeds), run_plain(data, feeds), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


def test_a_sum_behind_keeps_its_shape() -> None:
    """The operand of a sum has the dimensions of a row; it is added all the same."""
    feeds = _rows(1, 16)
    nodes = [node("Conv", "x w b", "a", group=24, pads=[2, 2]), node("Add", "a x", "y")]
    data = model(nodes, feeds, {name: CONSTANTS[name] for name in ("w", "b")})
    for actual, wanted in zip(run_here(data, feeds), run_plain(data, feeds), strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)


def test_lengths_that_change() -> None:
    """The weight is packed once; each length is a plan of its own."""
    data = model(
        [node("Conv", "x w b", "y", group=24)], _rows(1, 9), {n: CONSTANTS[n] for n in ("w", "b")}, dynamic=True
    )
    with open_session(data) as session:
        for batch, length in ((1, 9), (3, 40), (1, 5), (1, 9)):
            feeds = _rows(batch, length)
            (actual,), (wanted,) = session.run(None, feeds), run_plain(data, feeds)
            np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=1e-6)
        assert not session.fallback_report
