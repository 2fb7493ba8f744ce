"""The work of a soak: sessions that come and go, shapes that change, runs that fail, bound outputs, several threads.

One `Soak` is driven by `benchmarks.soak`, which measures the process around it. Everything is drawn from a seed. What a
round makes is dropped at its end, so that a round leaves nothing behind but what the runtime keeps for itself.
"""

from __future__ import annotations

import random
import threading
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from onnx import TensorProto, helper, numpy_helper

import ort_py
from examples.model_zoo import by_name, fetch
from tests.support.model_inputs import cases_of

__all__ = ["MADE", "Soak"]

MADE = "made"
"""A small graph of free sizes that is made here: it needs no download, and indices that are fed make it fail."""

_RUNS = 4
_THREADS = 2

Feeds = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class _Model:
    source: str | bytes
    draw: Callable[[random.Random], Feeds]


class Soak:
    """Rounds of work; each takes one model through all there is to do.

    Args:
        names: Models of the catalogue, or `MADE`.
        seed: Of everything that is drawn.

    Attributes:
        counts: How often each thing was done.
    """

    def __init__(self, names: Sequence[str], seed: int = 0) -> None:
        self.counts: Counter[str] = Counter()
        self._random = random.Random(seed)
        self._models = [_model(name) for name in names]
        self._kept = [self._session(model) for model in self._models]

    def round(self) -> None:
        """A session that lives on, a new one, and the errors of both.

        Raises:
            AssertionError: What should fail did not.
            Exception: What should not fail did.
        """
        place = self._random.randrange(len(self._models))
        model, kept = self._models[place], self._kept[place]
        self._run(kept, model)
        self._run_in_threads(kept, model)
        self._fail(kept, model)
        with self._session(model) as session:
            self.counts["sessions"] += 1
            self._run(session, model)
            self._run_bound(session, model)
            self._fail(session, model)
        self._refuse()

    def close(self) -> None:
        """Close the sessions that live on."""
        for session in self._kept:
            session.close()
        self._kept.clear()

    @staticmethod
    def _session(model: _Model) -> ort_py.InferenceSession:
        options = ort_py.SessionOptions()
        options.cache_dir = "off"  # files are not what is measured
        return ort_py.InferenceSession(model.source, options)

    def _run(self, session: ort_py.InferenceSession, model: _Model) -> None:
        for _ in range(_RUNS):
            session.run(None, model.draw(self._random))
            self.counts["runs"] += 1

    def _run_bound(self, session: ort_py.InferenceSession, model: _Model) -> None:
        """Outputs that the runtime allocates, then the same arrays as the targets of a second run."""
        feeds = model.draw(self._random)
        names = [output.name for output in session.get_outputs()]
        binding = session.io_binding()
        for name, array in feeds.items():
            binding.bind_cpu_input(name, array)
        for name in names:
            binding.bind_output(name)
        session.run_with_iobinding(binding)
        for name, value in zip(names, binding.get_outputs(), strict=True):
            binding.bind_ortvalue_output(name, value)
        session.run_with_iobinding(binding)
        self.counts["bound"] += 2

    def _run_in_threads(self, session: ort_py.InferenceSession, model: _Model) -> None:
        failures: list[BaseException] = []

        def work(feeds: Feeds) -> None:
            try:
                session.run(None, feeds)
            except BaseException as error:  # raised below, where somebody sees it
                failures.append(error)

        threads = [threading.Thread(target=work, args=(model.draw(self._random),)) for _ in range(_THREADS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        if failures:
            raise failures[0]
        self.counts["threads"] += _THREADS

    def _fail(self, session: ort_py.InferenceSession, model: _Model) -> None:
        """Runs with an input too few, of another type, that somebody stops, and with indices that are out of range."""
        feeds = dict(model.draw(self._random))
        first = next(iter(feeds))
        self._expect_error(session, {name: array for name, array in feeds.items() if name != first})
        self._expect_error(session, feeds | {first: np.asarray(feeds[first]).astype(np.complex64)})
        options = ort_py.RunOptions()
        options.terminate = True
        self._expect_error(session, feeds, options)
        if "indices" in feeds:
            self._expect_error(session, feeds | {"indices": np.full_like(feeds["indices"], 10**6)})

    def _expect_error(
        self, session: ort_py.InferenceSession, feeds: Feeds, options: ort_py.RunOptions | None = None
    ) -> None:
        try:
            session.run(None, feeds, options)
        except ort_py.OrtPyError:
            self.counts["errors"] += 1
        else:
            raise AssertionError("a run that should fail did not")

    def _refuse(self) -> None:
        """A file that is cut short is not a model."""
        data = _made_model()
        try:
            ort_py.InferenceSession(data[: self._random.randrange(1, len(data) // 2)]).close()
        except ort_py.OrtPyError:
            self.counts["refused"] += 1


def _model(name: str) -> _Model:
    if name == MADE:
        return _Model(_made_model(), _made_feeds)
    model = by_name(name)
    runs = [dict(case.runs[0]) for case in cases_of(model)]
    return _Model(str(fetch(model)), _DRAWN.get(name) or (lambda chosen: chosen.choice(runs)))


def _normal(chosen: random.Random, *shape: int) -> Any:
    return np.random.default_rng(chosen.getrandbits(32)).standard_normal(shape, np.float32)


def _lines(chosen: random.Random) -> Feeds:
    return {"x": _normal(chosen, chosen.randint(1, 2), 3, 48, 8 * chosen.randint(8, 40))}


def _sentences(chosen: random.Random) -> Feeds:
    shape = (chosen.randint(1, 3), chosen.randint(4, 40))
    numbers = np.random.default_rng(chosen.getrandbits(32)).integers(1000, 30000, shape)
    return {"input_ids": numbers, "attention_mask": np.ones_like(numbers), "token_type_ids": np.zeros_like(numbers)}


def _voices(chosen: random.Random) -> Feeds:
    count = chosen.randint(1, 6)
    return {
        "input": 0.1 * _normal(chosen, count, 576),
        "state": np.zeros((2, count, 128), np.float32),
        "sr": np.array(16000, np.int64),
    }


_DRAWN: Mapping[str, Callable[[random.Random], Feeds]] = {
    "ppocr-v4-rec": _lines,
    "minilm-int8": _sentences,
    "silero-vad": _voices,
}
"""Inputs of changing sizes; other models are fed those of the parity test."""


def _made_model() -> bytes:
    numbers = np.random.default_rng(0)
    weights = {
        "w": numbers.standard_normal((64, 64), np.float32),
        "k": 0.1 * numbers.standard_normal((8, 3, 3, 3), np.float32),
        "flat": np.array([0, -1], np.int64),
    }
    nodes = [
        helper.make_node("MatMul", ["x", "w"], ["a"]),
        helper.make_node("Split", ["a"], ["b", "c"], axis=-1, num_outputs=2),
        helper.make_node("Sigmoid", ["c"], ["gate"]),
        helper.make_node("Mul", ["b", "gate"], ["gated"]),
        helper.make_node("Gather", ["gated", "indices"], ["rows"], axis=0),
        helper.make_node("Softmax", ["rows"], ["y"], axis=-1),
        helper.make_node("Conv", ["picture", "k"], ["d"], pads=[1, 1, 1, 1]),
        helper.make_node("Relu", ["d"], ["e"]),
        helper.make_node("Reshape", ["e", "flat"], ["z"]),
    ]
    value, floating = helper.make_tensor_value_info, TensorProto.FLOAT
    inputs = [
        value("x", floating, ["n", 64]),
        value("indices", TensorProto.INT64, ["m"]),
        value("picture", floating, ["b", 3, "h", "w"]),
    ]
    outputs = [value("y", floating, None), value("z", floating, None)]
    initializers = [numpy_helper.from_array(array, name) for name, array in weights.items()]
    graph = helper.make_graph(nodes, "made", inputs, outputs, initializers)
    model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=8)
    return bytes(model.SerializeToString())


def _made_feeds(chosen: random.Random) -> Feeds:
    rows = chosen.randint(1, 60)
    return {
        "x": _normal(chosen, rows, 64),
        "indices": np.array([chosen.randrange(rows) for _ in range(chosen.randint(1, 20))], np.int64),
        "picture": _normal(chosen, chosen.randint(1, 3), 3, chosen.randint(3, 40), chosen.randint(3, 40)),
    }
