"""Many threads run one program: each has its own frame, stream and instances."""

from __future__ import annotations

import threading
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from core.tests.driving import HostProvider, drive, floats
from ort_py_kit.fake_device import FakeBehaviour, FakeProvider

TEXT = """
g (int64 n, float[8,8] x) => (float[8,8] y, float[k,8,8] s) <bool go = {1}, float[8,8] w> {
  h = MatMul(x, w)
  r = Relu(h)
  y, s = Loop (n, go, r) <body = b (int64 i, bool c, float[8,8] v) => (bool c2, float[8,8] u, float[8,8] t) {
    c2 = Identity(c)
    m = MatMul(v, w)
    u = Tanh(m)
    t = Transpose(u)
  }>
}
"""


@pytest.mark.parametrize("compiles", [False, True])
@pytest.mark.parametrize("operators", [None, {"MatMul", "Transpose"}])
def test_eight_threads_get_their_own_results(compiles: bool, operators: set[str] | None) -> None:
    """Results depend on each thread's feed alone; nothing is mixed up or poisoned."""
    weights = ", ".join(str(value) for value in floats(64).tolist())
    text = TEXT.replace("float[8,8] w>", f"float[8,8] w = {{{weights}}}>")
    driven = drive(text, FakeProvider(behaviour=FakeBehaviour(operators=operators, compiles=compiles)), HostProvider())
    single = drive(text)
    barrier = threading.Barrier(8, timeout=30)

    def work(seed: int) -> None:
        feeds = {"n": np.array(seed % 3 + 1), "x": floats(8, 8, seed=seed)}
        wanted = single.run(feeds)
        barrier.wait()
        for _ in range(8):
            for got, want in zip(driven.run(feeds), wanted, strict=True):
                np.testing.assert_allclose(got, want, rtol=1e-4, atol=1e-5)

    with ThreadPoolExecutor(8) as pool:
        for done in [pool.submit(work, seed) for seed in range(8)]:
            done.result()
