"""A result never shares memory with a feed, a weight or another result."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py.contracts import IExecutionProvider
from ort_py_kit.fake_device import FakeProvider

CASES = {
    "a feed is a result": ("g (float[2,3] x) => (float[2,3] x)", "", [True]),
    "a view of a feed": ("g (float[2,3] x) => (float[2,3] y)", "y = Flatten(x)", [True]),
    "a feed through Identity": ("g (float[2,3] x) => (float[2,3] y)", "y = Identity(x)", [True]),
    "a weight": ("g (float[2,3] x) => (float[2] w, float[2,3] y) <float[2] w = {1, 2}>", "y = Neg(x)", [True, False]),
    "a value and its view": (
        "g (float[2,3] x) => (float[2,3] y, float[3,2] z)",
        "y = Neg(x) z = Transpose(y)",
        [False, True],
    ),
    "two views of one value": (
        "g (float[2,3] x) => (float[3,2] y, float[2,3] z)",
        "n = Neg(x) y = Transpose(n) z = Identity(n)",
        [False, True],
    ),
    "something of its own": (
        "g (float[2,3] x) => (float[2,3] y, float[2,3] z)",
        "y = Neg(x) z = Abs(x)",
        [False, False],
    ),
    "what an If returns": (
        "g (float[2,3] x) => (float[2,3] y) <bool c = {1}>",
        "y = If (c) <then_branch = t () => (float[2,3] x) {}, else_branch = e () => (float[2,3] n) { n = Neg(x) }>",
        [True],
    ),
}


@pytest.mark.parametrize("name", CASES)
@pytest.mark.parametrize("provider", [HostProvider(name="First"), FakeProvider()], ids=["host", "device"])
def test_results_belong_to_the_caller(name: str, provider: IExecutionProvider) -> None:
    """No two of feeds, weights and results share memory; only what might is copied."""
    header, body, copied = CASES[name]
    driven = drive(f"{header} {{ {body} }}", provider, HostProvider())
    x = floats(2, 3)
    results = driven.run({"x": x})
    weights = [slot for slot in driven.plan.template if isinstance(slot, np.ndarray)]
    arrays = [x, *weights, *results]
    for left, right in itertools.combinations(range(len(arrays)), 2):
        if left >= 1 and right < 1 + len(weights):
            continue
        assert not np.shares_memory(arrays[left], arrays[right])
    assert all(result.flags.carray for result in results)
    assert [value.copy for value in driven.plan.outputs] == copied
