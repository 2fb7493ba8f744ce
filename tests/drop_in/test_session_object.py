"""A session as a Python object, side by side with onnxruntime: subclasses, copies, private names, forks, threads."""

from __future__ import annotations

import copy
import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.drop_in.both_runtimes import OURS, THEIRS, Case, each, expect_agreement, model, session

CPU = ["CPUExecutionProvider"]
TEXT = "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"
RELU = model(TEXT)
X = np.array([[-1, 2, -3]], np.float32)


def opened(runtime: Any) -> Any:
    return runtime.InferenceSession(RELU, providers=CPU)


def subclassed(runtime: Any) -> Any:
    """A subclass with a constructor, an attribute and a `run` of its own."""

    class Mine(runtime.InferenceSession):  # type: ignore[misc]  # the base is a parameter
        def __init__(self, content: bytes) -> None:
            self.before = "before"
            super().__init__(content, providers=CPU)
            self._providers = "its own"

        def run(self, names: Any, feed: Any, options: Any = None) -> Any:
            return [array + 1 for array in super().run(names, feed, options)]

    mine = Mine(RELU)
    return mine.before, mine._providers, mine.run(None, {"x": X}), [found.name for found in mine.get_inputs()]


def asked_twice(runtime: Any, method: str) -> bool:
    found = opened(runtime)
    return getattr(found, method)() is getattr(found, method)()


def providers_changed(runtime: Any) -> Any:
    found = opened(runtime)
    found.set_providers(CPU)
    return [argument.name for argument in found.get_inputs()], found.run(None, {"x": X})


CASES: dict[str, Case] = {
    "subclass": subclassed,
    "shallow copy": lambda ort: copy.copy(opened(ort)).run(None, {"x": X}),
    "with": lambda ort: opened(ort).run(["y"], {"x": X}, None),
    "keywords": lambda ort: opened(ort).run(output_names=["y"], input_feed={"x": X}, run_options=None),
    "no arguments": lambda ort: opened(ort).run(),
    "no model": lambda ort: ort.InferenceSession(),
    "a subclass of bytes": lambda ort: ort.InferenceSession(np.bytes_(RELU), providers=CPU).run(None, {"x": X}),
    "providers changed": providers_changed,
    "private handle": lambda ort: opened(ort)._sess.run(["y"], {"x": X}, None),
    **each("same {} again", ("get_inputs", "get_outputs", "get_overridable_initializers"), asked_twice),
}


@pytest.mark.parametrize("name", CASES)
def test_sessions_are_objects_alike(name: str) -> None:
    """The same results, the same kinds of refusal."""
    expect_agreement(CASES[name])


PRIVATE: dict[str, Callable[[Any], Any]] = {
    "_model_path": lambda value: value,
    "_model_bytes": lambda value: value,
    "_providers": lambda value: value,
    "_provider_options": lambda value: value,
    "_sess_options": lambda value: value.logid,
    "_inputs_meta": lambda value: [str(argument) for argument in value],
    "_outputs_meta": lambda value: [str(argument) for argument in value],
    "_overridable_initializers": lambda value: [str(argument) for argument in value],
    "_model_meta": lambda value: value.graph_name,
}


@pytest.mark.parametrize("source", ["bytes", "path"])
@pytest.mark.parametrize("name", PRIVATE)
def test_private_names_that_programs_read(name: str, source: str, tmp_path: Path) -> None:
    """Private attributes that libraries read have the same values."""
    path = tmp_path / "model.onnx"
    path.write_bytes(RELU)

    def case(runtime: Any) -> Any:
        options = runtime.SessionOptions()
        options.logid = "mine"
        found = runtime.InferenceSession(RELU if source == "bytes" else str(path), options, providers=CPU)
        return PRIVATE[name](getattr(found, name))

    expect_agreement(case)


@pytest.mark.skipif(not hasattr(os, "fork"), reason="the system has no fork")
@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")  # that a forked child can run is the subject
def test_sessions_run_in_forked_children() -> None:
    """A session that ran before the fork gives its child the same result."""

    def case(runtime: Any) -> Any:
        found = opened(runtime)
        found.run(None, {"x": X})
        reading, writing = os.pipe()
        child = os.fork()
        if not child:
            try:
                os.write(writing, found.run(None, {"x": X})[0].tobytes())
            finally:
                os._exit(0)
        os.waitpid(child, 0)
        os.close(writing)
        with os.fdopen(reading, "rb") as pipe:
            return np.frombuffer(pipe.read(), np.float32)

    expect_agreement(case)


@pytest.mark.parametrize("runtime", [OURS, THEIRS], ids=lambda runtime: runtime.__name__)
def test_threads_share_a_session(runtime: Any) -> None:
    """Four threads, 600 products of varying shape, none wrong; `test_threads` does more."""
    found = session(runtime, "g (float[N, K] x, float[K, M] w) => (float[N, M] y) { y = MatMul(x, w) }")
    wrong: list[int] = []

    def work(seed: int) -> None:
        rng = np.random.default_rng(seed)
        for _ in range(150):
            rows, depth, columns = rng.integers(1, 9, 3)
            x = rng.integers(-9, 9, (rows, depth)).astype(np.float32)
            w = rng.integers(-9, 9, (depth, columns)).astype(np.float32)
            if not np.array_equal(found.run(None, {"x": x, "w": w})[0], x @ w):
                wrong.append(seed)

    threads = [threading.Thread(target=work, args=(seed,)) for seed in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
