"""Runs: whose memory is written, what keeps it alive, what happens when shapes change, and with many threads."""

from __future__ import annotations

import gc
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from queue import Queue
from typing import Any

import numpy as np
import pytest

from ort_py.contracts import FrameResources, SessionContext
from ort_py_openvino.options import OPTIONS
from ort_py_openvino.properties import target_of
from providers.openvino.tests.models import NAME, check, opened, parsed, refusals, runners

NET = """g (float[n, 64] x) => (float[n, 64] y) {
    w = Constant <value_float = 0.5> () a = Mul(x, w) b = Sin(a) y = Add(b, a)
}"""


def wanted(x: np.ndarray) -> np.ndarray:
    return np.sin(x * np.float32(0.5)) + x * np.float32(0.5)


def test_outputs_are_the_callers() -> None:
    session = opened("g (float[4, 64] x) => (float[4, 64] y) { y = Sin(x) }")
    first_feed, second_feed = np.full((4, 64), 1, np.float32), np.full((4, 64), 2, np.float32)
    (first,) = session.run(None, {"x": first_feed})
    (second,) = session.run(None, {"x": second_feed})
    np.testing.assert_allclose(first, np.sin(first_feed), rtol=1e-6)
    np.testing.assert_allclose(second, np.sin(second_feed), rtol=1e-6)


def test_feeds_that_nobody_else_holds() -> None:
    """The tensor keeps the array alive for the run: OpenVINO's request alone does not."""
    session = opened(NET)
    for number in range(50):
        (result,) = session.run(None, {"x": np.full((8, 64), number, np.float32)})
        gc.collect()
        np.testing.assert_allclose(result, wanted(np.full((8, 64), number, np.float32)), rtol=1e-5, atol=1e-6)


def test_feeds_that_cannot_be_written_to() -> None:
    """They are read where they are."""
    x = np.arange(128, dtype=np.float32).reshape(2, 64) / 64
    x.flags.writeable = False
    (result,) = opened(NET).run(None, {"x": x})
    np.testing.assert_allclose(result, wanted(x), rtol=1e-5, atol=1e-6)


def test_shapes_that_grow_and_shrink() -> None:
    """A tensor of the last shape is never left in the request: OpenVINO would cut the result to it."""
    session = opened(NET)
    for rows in (3, 5, 2, 9, 1, 9):
        x = np.full((rows, 64), rows, np.float32)
        (result,) = session.run(None, {"x": x})
        np.testing.assert_allclose(result, wanted(x), rtol=1e-5, atol=1e-6)


@pytest.mark.parametrize("rows", ["n", "3"])
def test_an_array_for_the_output(rows: str) -> None:
    """It is written to and returned; one of another shape is left alone, though there is room in it."""
    from ort_py_openvino.region import OpenVINORegion
    from ort_py_openvino.runtime import core

    model = core().read_model(parsed(NET.replace("[n,", f"[{rows},")).SerializeToString())
    target_device = target_of({one.name: one.default for one in OPTIONS}, SessionContext())
    region = OpenVINORegion(core().compile_model(model, "CPU"), ["x"], 1, target_device)
    x = np.ones((3, 64), np.float32)
    instance = region.instantiate(FrameResources())
    for size in (3, 6):
        target = np.zeros((size, 64), np.float32)
        instance.bind([x], [target])
        (result,) = instance()
        np.testing.assert_allclose(result, wanted(x), rtol=1e-5, atol=1e-6)
        assert (result is target) == (size == 3)
        assert target.any() == (result is target)
    instance.close()


def test_outputs_that_are_inputs() -> None:
    """OpenVINO writes nothing where nothing is computed between them; the instance copies."""
    text = "g (float[3] x) => (float[3] y, float[3] z) { y = Sum(x) z = Sin(x) }"
    x = np.array([1, 2, 3], np.float32)
    session = check(text, {"x": x})
    assert set(runners(session).values()) == {NAME}
    y, _ = session.run(None, {"x": x})
    assert not np.shares_memory(x, y)


def test_two_names_of_one_tensor() -> None:
    """Each output has memory of its own."""
    text = "g (float[3] x) => (float[3] y, float[3] z) { a = Sin(x) y = Identity(a) z = Identity(a) }"
    y, z = check(text, {"x": np.array([1, 2, 3], np.float32)}).run(None, {"x": np.array([1, 2, 3], np.float32)})
    assert not np.shares_memory(y, z)


def test_half_precision_goes_in_and_comes_out() -> None:
    """float16 as NumPy has it, bfloat16 as ml_dtypes has it."""
    import ml_dtypes

    x = np.linspace(-2, 2, 64, dtype=np.float32)
    for name, dtype in (("float16", np.float16), ("bfloat16", ml_dtypes.bfloat16)):
        session = opened(f"g ({name}[64] x) => ({name}[64] y) {{ y = Tanh(x) }}")
        assert runners(session) == {"Tanh": NAME}
        (result,) = session.run(None, {"x": x.astype(dtype)})
        assert result.dtype == dtype
        np.testing.assert_allclose(result.astype(np.float32), np.tanh(x), atol=2e-2)


def test_eight_threads() -> None:
    """Each frame has a request of its own."""
    session = opened(NET)

    def work(number: int) -> bool:
        x = np.full((1 + number % 5, 64), number, np.float32)
        return all(np.allclose(session.run(None, {"x": x})[0], wanted(x), atol=1e-5) for _ in range(20))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(64)))


@pytest.mark.parametrize(
    "options",
    [
        {"num_streams": 2, "num_of_threads": 2},
        {"device_type": "AUTO:CPU"},
        {"device_type": "HETERO:CPU"},
        {"device_type": "MULTI:CPU"},
        {"device_type": "AUTO"},
    ],
)
def test_streams_and_lists_of_devices(options: dict[str, Any]) -> None:
    """Run side by side on one session, with right results."""
    session = opened(NET, **options)
    assert set(runners(session).values()) <= {NAME, "CPUExecutionProvider"}
    assert NAME in runners(session).values()

    def work(number: int) -> bool:
        x = np.full((1 + number % 5, 64), number, np.float32)
        return all(np.allclose(session.run(None, {"x": x})[0], wanted(x), atol=1e-5) for _ in range(5))

    with ThreadPoolExecutor(8) as pool:
        assert all(pool.map(work, range(32)))
    assert not session.fallback_report


def test_asynchronous_runs() -> None:
    """`run_async` calls back with what `run` gives."""
    session = opened(NET)
    done: Queue[tuple[Any, Any, str]] = Queue()
    feeds = [np.full((size, 64), size, np.float32) for size in range(1, 9)]
    for x in feeds:
        session.run_async(None, {"x": x}, lambda results, data, error: done.put((results, data, error)), x)
    for _ in feeds:
        results, x, error = done.get(timeout=60)
        assert error == ""
        np.testing.assert_allclose(results[0], wanted(x), rtol=1e-5, atol=1e-6)


@pytest.mark.slow
@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="resident memory is read from Linux's /proc")
def test_memory_stays_flat_over_changing_shapes() -> None:
    """Ten thousand runs of forty sizes."""

    def resident() -> int:
        return int(Path("/proc/self/statm").read_text().split()[1]) * 4096

    session = opened(NET)
    feeds = [np.ones((1 + size, 64), np.float32) for size in range(40)]

    def run(count: int) -> int:
        for number in range(count):
            session.run(None, {"x": feeds[number % 40]})
        gc.collect()
        return resident()

    before = run(2_000)
    assert run(8_000) - before < 8 * 2**20


@pytest.mark.parametrize(
    ("node", "wanted"),
    [
        ("w = ReduceMean <axes = [1, 2]> (v)", np.nan),
        ("w = ReduceSum (v, axes)", 0.0),
        ("w = AveragePool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (v)", np.nan),
        ("w = MaxPool <kernel_shape = [2, 2], pads = [1, 1, 1, 1]> (v)", -np.inf),
    ],
)
def test_values_that_are_empty_inside(node: str, wanted: float) -> None:
    """They are left to kernels in the runs that have them, and to no other run; nothing falls back."""
    session = opened(
        f"""g (float[a, b, c, d] x) => (float[e, f, g, h] y)
        <int64[1] s = {{5}}, int64[1] e = {{9}}, int64[1] axes = {{2}}>
        {{ u = Abs(x) v = Slice(u, s, e, axes) {node} y = Neg(w) }}""",
        opset=17,
    )
    assert set(runners(session).values()) == {NAME}
    for rows in (4, 9, 4):
        (y,) = session.run(None, {"x": np.full((2, 3, rows, 6), 2, np.float32)})
        assert y.size
        if rows == 4:
            np.testing.assert_array_equal(y, np.full(y.shape, -wanted, np.float32))
        else:
            assert np.isfinite(y).all()
    assert not session.fallback_report


def test_results_that_may_be_empty_are_not_taken() -> None:
    """The number of nonzero elements is unknown before the run."""
    session = opened("g (float[n] x) => (int64[1, m] y) { b = Cast <to = 9> (x) y = NonZero(b) }")
    assert "the size of 'y' depends on the data of a run" in refusals(session, "NonZero")
    for numbers in ([1, 0, 1, 1], [0, 0, 0, 0], [1, 0, 0, 0, 0, 1]):
        x = np.array(numbers, np.float32)
        (result,) = session.run(None, {"x": x})
        np.testing.assert_array_equal(result, np.stack(np.nonzero(x)))


def test_operands_that_are_repeated_in_some_runs() -> None:
    """A product with one column, to which a row is added, has as many as the row; OpenVINO's has room for one."""
    constants = "float[4] c = {1, 2, 3, 4}"
    text = f"g (float[3, 16] x, float[16, n] w) => (float[3, m] y) <{constants}> {{ p = MatMul(x, w) y = Add(p, c) }}"
    session = opened(text)
    assert set(runners(session).values()) == {NAME}
    x = np.full((3, 16), 0.5, np.float32)
    for columns in (4, 1, 4, 1):
        (y,) = session.run(None, {"x": x, "w": np.ones((16, columns), np.float32)})
        np.testing.assert_array_equal(y, np.tile(np.array([9, 10, 11, 12], np.float32), (3, 1)))
    assert not session.fallback_report
    assert "a size that only the run shows repeats an operand" in session.plan
