"""Caches bound as input and output in one memory, as decoders keep them: as in onnxruntime, and without a copy."""

from __future__ import annotations

import tracemalloc
from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

import ort_py
from ort_py.engine.runner import BoundMemory
from ort_py_kit.tolerances import assert_close

BATCH, HEADS, ROWS, SIZE = 2, 4, 300, 32
CACHE = (BATCH, HEADS, ROWS, SIZE)
Array = np.ndarray[Any, Any]


def model(text: str, opset: int) -> bytes:
    """A model of ONNX's text form."""
    contributed = ', "com.microsoft" : 1' if "com.microsoft" in text else ""
    whole = f'<ir_version: 10, opset_import: ["" : {opset}{contributed}]> {text}'
    return onnx.parser.parse_model(whole).SerializeToString()


GROUPED = model(
    "g (float[B, 1, 128] q, float[B, 1, 128] k, float[B, 1, 128] v, float[B, 4, S, 32] pk, float[B, 4, S, 32] pv, "
    "int32[B] ends, int32 total) => (float[B, 1, 128] y, float[B, 4, S, 32] nk, float[B, 4, S, 32] nv) "
    "{ y, nk, nv = com.microsoft.GroupQueryAttention <num_heads = 4, kv_num_heads = 4> "
    "(q, k, v, pk, pv, ends, total) }",
    21,
)
SCATTERED = model(
    "g (float[2, 4, 300, 32] pk, float[2, 4, 1, 32] k, int64[2, 1, 2] at) => (float[2, 4, 300, 32] nk) "
    "{ turned = Transpose <perm = [0, 2, 1, 3]> (pk) k_turned = Transpose <perm = [0, 2, 1, 3]> (k) "
    "put = ScatterND (turned, at, k_turned) nk = Transpose <perm = [0, 2, 1, 3]> (put) }",
    18,
)
ROWS_SET = model(
    "g (float[600, 128] pk, int64[2, 1] at, float[2, 128] k) => (float[600, 128] nk) { nk = ScatterND (pk, at, k) }", 18
)
ADDED = model(
    "g (float[600, 128] pk, int64[2, 1] at, float[2, 128] k) => (float[600, 128] nk) "
    '{ nk = ScatterND <reduction = "add"> (pk, at, k) }',
    18,
)
PLACED = model(
    "g (float[2, 4, 300, 32] pk, float[2, 4, 1, 32] k, int64[2] at) => (float[2, 4, 300, 32] nk) "
    "{ nk = TensorScatter (pk, k, at) }",
    24,
)
READ_AFTERWARDS = model(
    "g (float[600, 128] pk, int64[2, 1] at, float[2, 128] k) => (float[600, 128] nk, float sum) "
    "{ nk = ScatterND (pk, at, k) gone = Sub (pk, nk) sum = ReduceSum <keepdims = 0> (gone) }",
    18,
)
"""The former cache is read after it was updated."""


class Decoder:
    """A session of a runtime with caches in one memory.

    Args:
        caches: Arrays by (input, output); copied.
        others: Names of outputs that are bound without memory.
    """

    def __init__(self, runtime: Any, content: bytes, caches: Mapping[tuple[str, str], Array], *others: str) -> None:
        self._session = runtime.InferenceSession(content, providers=["CPUExecutionProvider"])
        self._binding = self._session.io_binding()
        self.caches = [runtime.OrtValue.ortvalue_from_numpy(array.copy()) for array in caches.values()]
        for (past, present), value in zip(caches, self.caches, strict=True):
            self._binding.bind_ortvalue_input(past, value)
            self._binding.bind_ortvalue_output(present, value)
        for name in others:
            self._binding.bind_output(name)

    def step(self, feeds: Mapping[str, Array]) -> list[Array]:
        """One run; the caches first, then the other outputs."""
        self.run(feeds)
        found: list[Array] = self._binding.copy_outputs_to_cpu()
        return found

    def run(self, feeds: Mapping[str, Array]) -> None:
        """One run."""
        for name, array in feeds.items():
            self._binding.bind_cpu_input(name, array)
        self._session.run_with_iobinding(self._binding)

    def contents(self) -> list[Array]:
        """Return what the caches hold now."""
        return [value.numpy().copy() for value in self.caches]


def numbers(*shape: int, seed: int = 0) -> Array:
    """Normally distributed numbers."""
    return np.random.default_rng(seed).standard_normal(shape).astype(np.float32)


def _outputs(reference: ReferenceEvaluator, feeds: dict[str, Array]) -> list[Any]:
    found = reference.run(None, feeds)
    assert isinstance(found, list)
    return found


@pytest.mark.parametrize("behind", [(0, 7), (0,)], ids=["two sequences", "one"])
def test_grouped_attention_keeps_its_cache_where_it_is(behind: tuple[int, ...]) -> None:
    """Steps of sequences of different lengths: results, and all rows that have a key, are onnxruntime's."""
    shape = (len(behind), *CACHE[1:])
    caches = {("pk", "nk"): numbers(*shape, seed=1), ("pv", "nv"): numbers(*shape, seed=2)}
    ours, peer = (Decoder(runtime, GROUPED, caches, "y") for runtime in (ort_py, onnxruntime))
    for place in range(20, 28):
        names = "qkv" if place % 2 else "vkq"
        feeds = {name: numbers(len(behind), 1, HEADS * SIZE, seed=place * 3 + at) for at, name in enumerate(names)}
        feeds["ends"] = np.array([place - less for less in behind], np.int32)
        feeds["total"] = np.array(place + 1, np.int32)
        assert_close(ours.step(feeds)[2], peer.step(feeds)[2])
    for found, wanted in zip(ours.contents(), peer.contents(), strict=True):
        for entry, end in enumerate(feeds["ends"]):
            np.testing.assert_array_equal(found[entry, :, : end + 1], wanted[entry, :, : end + 1])


@pytest.mark.parametrize("content", [ROWS_SET, ADDED], ids=["set", "added"])
def test_scattered_rows_are_set_where_they_are(content: bytes) -> None:
    """Rows of a cache set or added to: the whole buffer is onnxruntime's after each step."""
    caches = {("pk", "nk"): numbers(600, 128)}
    ours, peer = (Decoder(runtime, content, caches) for runtime in (ort_py, onnxruntime))
    for place in range(8):
        feeds = {"at": np.array([[place], [400 - place]]), "k": numbers(2, 128, seed=place)}
        ours.step(feeds)
        peer.step(feeds)
        assert_close(ours.contents()[0], peer.contents()[0])


@pytest.mark.parametrize("content", [GROUPED, PLACED, ROWS_SET, ADDED], ids=["grouped", "placed", "set", "added"])
def test_a_step_makes_no_second_cache(content: bytes) -> None:
    """Once the shapes are known, a step takes less memory than a quarter of a cache."""
    feeds: dict[str, Array] = {"k": numbers(BATCH, HEADS, 1, SIZE), "at": np.array([5, 9])}
    caches, others = {("pk", "nk"): numbers(*CACHE)}, list[str]()
    if content is GROUPED:
        feeds = {name: numbers(BATCH, 1, HEADS * SIZE) for name in "qkv"}
        feeds |= {"ends": np.array([5, 9], np.int32), "total": np.array(10, np.int32)}
        caches, others = caches | {("pv", "nv"): numbers(*CACHE)}, ["y"]
    elif content is not PLACED:
        feeds = {"k": numbers(2, 128), "at": np.array([[5], [9]])}
        caches = {("pk", "nk"): numbers(600, 128)}
    ours = Decoder(ort_py, content, caches, *others)
    for _ in range(3):
        ours.step(feeds)
    tracemalloc.start()
    try:
        ours.run(feeds)
        _, peak = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert peak < numbers(*CACHE).nbytes // 4


def test_placed_rows_are_what_the_specification_says() -> None:
    """TensorScatter over its cache, against ONNX's reference with a cache of its own."""
    cache = numbers(*CACHE)
    ours, reference = Decoder(ort_py, PLACED, {("pk", "nk"): cache}), ReferenceEvaluator(PLACED)
    for place in range(8):
        feeds = {"k": numbers(BATCH, HEADS, 1, SIZE, seed=place), "at": np.array([place, 299 - place])}
        cache = np.asarray(_outputs(reference, {"pk": cache, **feeds})[0])
        ours.step(feeds)
        np.testing.assert_array_equal(ours.contents()[0], cache)


@pytest.mark.parametrize("content", [SCATTERED, READ_AFTERWARDS], ids=["transposed", "read afterwards"])
def test_a_cache_that_cannot_be_updated_in_place(content: bytes) -> None:
    """The results are those of separate memory, run after run."""
    transposed = content is SCATTERED
    shape = CACHE if transposed else (600, 128)
    cache = numbers(*shape)
    ours = Decoder(ort_py, content, {("pk", "nk"): cache}, *([] if transposed else ["sum"]))
    reference = ReferenceEvaluator(content)
    for place in range(6):
        if transposed:
            feeds = {"k": numbers(2, 4, 1, 32, seed=place), "at": np.array([[[0, place]], [[1, 9]]])}
        else:
            feeds = {"k": numbers(2, 128, seed=place), "at": np.array([[place], [400 - place]])}
        wanted = _outputs(reference, {"pk": cache, **feeds})
        cache = wanted[0]
        for found, expected in zip(ours.step(feeds), wanted, strict=True):
            assert_close(found, np.asarray(expected))


def test_a_run_that_failed_is_not_repeated() -> None:
    """What it added to the cache would be added twice: the error says so, and the cache holds it at most once."""
    cache = numbers(600, 128)
    ours = Decoder(ort_py, ADDED, {("pk", "nk"): cache})
    good = {"at": np.array([[1], [2]]), "k": np.ones((2, 128), np.float32)}
    for _ in range(3):
        ours.step(good)
    with pytest.raises(ort_py.BindingError):
        ours.step({"at": np.array([[1], [900]]), "k": np.ones((2, 128), np.float32)})
    expected = cache.copy()
    expected[1:3] += 3
    assert_close(ours.contents()[0], expected)


def test_a_run_that_did_not_begin_is_made_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    """The session gets other providers just before a run, which has written nothing: only those before it have."""
    cache, at, rows = numbers(600, 128), np.array([[1], [2]]), np.ones((2, 128), np.float32)
    session = ort_py.InferenceSession(ADDED, providers=["CPUExecutionProvider"])
    binding = session.io_binding()
    for name, array in {"pk": cache, "at": at, "k": rows}.items():
        binding.bind_cpu_input(name, array)
    binding.bind_ortvalue_output("nk", ort_py.OrtValue.ortvalue_from_numpy(cache))
    expected = cache.copy()
    expected[1:3] += 4
    for _ in range(3):
        session.run_with_iobinding(binding)
    writing = BoundMemory.writing

    def late(memory: BoundMemory, runner: Any) -> Any:
        found = writing(memory, runner)
        monkeypatch.undo()
        session.set_providers(["CPUExecutionProvider"])
        return found

    monkeypatch.setattr(BoundMemory, "writing", late)
    session.run_with_iobinding(binding)
    assert_close(cache, expected)
