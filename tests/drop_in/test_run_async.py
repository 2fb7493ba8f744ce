"""`run_async` side by side with onnxruntime: immediate errors, and the callback's arguments."""

from __future__ import annotations

import threading
from typing import Any

import numpy as np
import onnx.parser
import onnxruntime
import pytest

import ort_py

X = np.array([[-1.0, 2.0, -3.0]], np.float32)
MODEL = onnx.parser.parse_model(
    '<ir_version: 10, opset_import: ["" : 21]> '
    "g (float[N, 3] x) => (float[N, 3] up, float[N, 3] down) { up = Relu(x) down = Neg(x) }"
).SerializeToString()

CASES: dict[str, tuple[Any, Any]] = {
    "all outputs": (None, {"x": X}),
    "empty names": ([], {"x": X}),
    "chosen": (["down"], {"x": X}),
    "tuple of names": (("down", "up"), {"x": X}),
    "list as feed": (["up"], {"x": [[1, 2, 3]]}),
    "unknown output": (["nope"], {"x": X}),
    "unknown input": (None, {"x": X, "z": X}),
    "wrong dtype": (None, {"x": X.astype(np.float64)}),
    "wrong rank": (None, {"x": X[0]}),
    "wrong size": (None, {"x": X[:, :2]}),
    "missing input": (None, {}),
    "bare name": ("up", {"x": X}),
}


def outcome(module: Any, names: Any, feed: Any, options: Any = None) -> tuple[str, Any]:
    """The outcome of a call: an immediate error, an error in the callback, or the results with the user's object."""
    settings = module.SessionOptions()
    settings.intra_op_num_threads = 2
    session = module.InferenceSession(MODEL, settings, providers=["CPUExecutionProvider"])
    told: list[tuple[Any, Any, str, bool]] = []
    done = threading.Event()
    caller = threading.get_ident()

    def callback(results: Any, data: Any, error: str) -> None:
        told.append((results, data, error, threading.get_ident() != caller))
        done.set()

    try:
        returned = session.run_async(names, feed, callback, "mine", options)
    except (ValueError, RuntimeError, TypeError) as raised:
        builtin = next(kind for kind in (ValueError, RuntimeError, TypeError) if isinstance(raised, kind))
        return "raised", builtin.__name__
    assert returned is None
    assert done.wait(30)
    results, data, error, elsewhere = told[0]
    assert (data, elsewhere) == ("mine", True)
    assert isinstance(error, str)
    return ("told", results) if error else ("results", [array.tolist() for array in results])


@pytest.mark.parametrize("case", CASES)
def test_same_outcome(case: str) -> None:
    """Both raise in the same `except` clause, pass an error without results, or give the same results."""
    assert outcome(ort_py, *CASES[case]) == outcome(onnxruntime, *CASES[case])


def test_ragged_list_is_raised_at_once() -> None:
    """An input that cannot become an array is not left for the callback."""
    for module in (ort_py, onnxruntime):
        session = module.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
        with pytest.raises(Exception, match=r"(?i)cannot be converted to a tensor|could not create tensor"):
            session.run_async(None, {"x": [[1, 2, 3], [4]]}, lambda *_: None, None)


def test_terminated() -> None:
    found = []
    for module in (ort_py, onnxruntime):
        options = module.RunOptions()
        options.terminate = True
        found.append(outcome(module, None, {"x": X}, options))
    assert found == [("told", [])] * 2


def test_terminate_raises_fail() -> None:
    """`run` raises the class of the same name."""
    names = []
    for module in (ort_py, onnxruntime):
        options = module.RunOptions()
        options.terminate = True
        session = module.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
        try:
            session.run(None, {"x": X}, options)
        except Exception as error:
            names.append(type(error).__name__)
    assert names == ["Fail", "Fail"]


def test_one_thread() -> None:
    """A deliberate difference: with one thread onnxruntime refuses, here it works."""
    done = threading.Event()
    sessions = []
    for module in (ort_py, onnxruntime):
        settings = module.SessionOptions()
        settings.intra_op_num_threads = 1
        sessions.append(module.InferenceSession(MODEL, settings, providers=["CPUExecutionProvider"]))
    mine, other = sessions
    mine.run_async(None, {"x": X}, lambda *_: done.set(), None)
    assert done.wait(30)
    with pytest.raises(Exception, match="intra op thread pool"):
        other.run_async(None, {"x": X}, lambda *_: None, None)


def test_sessions_pickle() -> None:
    """A deliberate difference: sessions pickle and copy deeply here, and raise a TypeError there."""
    import copy
    import pickle

    other = onnxruntime.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    with pytest.raises(TypeError):
        pickle.dumps(other)
    with pytest.raises(TypeError):
        copy.deepcopy(other)
    mine = ort_py.InferenceSession(MODEL, providers=["CPUExecutionProvider"])
    for twin in (pickle.loads(pickle.dumps(mine)), copy.deepcopy(mine), copy.copy(mine)):
        np.testing.assert_array_equal(twin.run(["up"], {"x": X})[0], np.maximum(X, 0))
