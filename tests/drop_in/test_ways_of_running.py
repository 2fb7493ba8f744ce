"""Every way of running a model side by side with onnxruntime: forms of arrays, conversions, wrong feeds."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable
from typing import Any

import ml_dtypes
import numpy as np
import pytest

import ort_py
from tests.drop_in.both_runtimes import Case, each, expect_agreement, expect_difference, model, session

RELU = "g (float[N, 3] x) => (float[N, 3] y) { y = Relu(x) }"
STRINGS = "g (string[N] x) => (string[N] y) { y = Identity(x) }"
X = np.arange(6, dtype=np.float32).reshape(2, 3) - 2


def read_only(array: Any) -> Any:
    array = array.copy()
    array.flags.writeable = False
    return array


def unaligned(array: Any) -> Any:
    found = np.zeros(array.nbytes + 1, np.uint8)[1:].view(array.dtype).reshape(array.shape)
    found[...] = array
    return found


FORMS: dict[str, Any] = {
    "plain": X,
    "read-only": read_only(X),
    "zero size": np.zeros((0, 3), np.float32),
    "fortran order": np.asfortranarray(X),
    "strided": np.arange(24, dtype=np.float32).reshape(4, 6)[::2, ::2],
    "negative strides": X[::-1, ::-1],
    "broadcast": np.broadcast_to(np.float32(-2), (2, 3)),
    "masked": np.ma.masked_less(X, 0),
    "unaligned": unaligned(X),
}
FOREIGN = X.astype(">f4")

Run = Callable[[Any, Any], Any]


def with_run(ort: Any, array: Any) -> Any:
    return session(ort, RELU).run(None, {"x": array})[0]


def with_values(ort: Any, array: Any) -> Any:
    value = ort.OrtValue.ortvalue_from_numpy(array)
    return session(ort, RELU).run_with_ort_values(None, {"x": value})[0].numpy()


def with_value_as_feed(ort: Any, array: Any) -> Any:
    return session(ort, RELU).run(None, {"x": ort.OrtValue.ortvalue_from_numpy(array)})[0]


def with_binding(ort: Any, array: Any) -> Any:
    found = session(ort, RELU)
    binding = found.io_binding()
    binding.bind_cpu_input("x", array)
    binding.bind_output("y")
    found.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0]


def with_bound_value(ort: Any, array: Any) -> Any:
    found = session(ort, RELU)
    binding = found.io_binding()
    binding.bind_ortvalue_input("x", ort.OrtValue.ortvalue_from_numpy(array))
    binding.bind_output("y")
    found.run_with_iobinding(binding)
    return binding.copy_outputs_to_cpu()[0]


def with_callback(ort: Any, array: Any) -> Any:
    told: list[Any] = []
    done = threading.Event()

    def callback(results: Any, _data: Any, error: str) -> None:
        told.append((results, error))
        done.set()

    options = ort.SessionOptions()
    options.intra_op_num_threads = 2
    found = ort.InferenceSession(model(RELU), options, providers=["CPUExecutionProvider"])
    found.run_async(None, {"x": array}, callback, None)
    assert done.wait(30)
    results, error = told[0]
    if error:
        raise RuntimeError(error)
    return results[0]


WAYS: dict[str, Run] = {
    "run": with_run,
    "run_with_ort_values": with_values,
    "a value as feed": with_value_as_feed,
    "bound array": with_binding,
    "bound value": with_bound_value,
    "run_async": with_callback,
}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("form", FORMS)
def test_arrays_of_every_form(form: str, way: str) -> None:
    """The result is the same by every way, for all strides, flags and sizes."""
    expect_agreement(lambda ort: WAYS[way](ort, FORMS[form]))


@pytest.mark.parametrize("way", WAYS)
def test_foreign_byte_order(way: str) -> None:
    """onnxruntime takes the bytes as they are, by every way."""
    expect_difference(lambda ort: WAYS[way](ort, FOREIGN), np.maximum(X, 0))


# -- a wrong feed is named -----------------------------------------------------------------------------------------

WRONG: dict[str, Any] = {"type": X.astype(np.float64), "rank": X[0], "size": X[:, :2].copy()}


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("what", WRONG)
def test_a_wrong_feed_is_refused_and_named(what: str, way: str) -> None:
    """By the class onnxruntime has, and with the name of the input, which onnxruntime leaves out."""
    expect_agreement(lambda ort: WAYS[way](ort, WRONG[what]))
    with pytest.raises(Exception, match="Input 'x'") as caught:
        WAYS[way](ort_py, WRONG[what])
    assert {"type": "double", "rank": "(3,)", "size": "(2, 2)"}[what] in str(caught.value)


def test_a_wrong_feed_is_named_when_awaited() -> None:
    with pytest.raises(ort_py.InvalidArgument, match="Input 'x'"):
        asyncio.run(session(ort_py, RELU).run_asyncio(None, {"x": WRONG["type"]}))


def test_a_value_inside_the_model_is_no_output() -> None:
    """Nor by its name: only what the model declares comes out."""
    text = "g (float[N, 3] x) => (float[N, 3] y) { t = Relu(x) y = Abs(t) }"
    expect_agreement(lambda ort: session(ort, text).run(["t"], {"x": X}))


# -- lists and texts -----------------------------------------------------------------------------------------------


def identity(element: str, value: Any) -> Case:
    text = f"g ({element}[N] x) => ({element}[N] y) {{ y = Identity(x) }}"
    return lambda ort: session(ort, text).run(None, {"x": value})


def dictionaries(value: Any) -> Case:
    text = "g (map(int64, float) x) => (float[M, N] y) { y = ai.onnx.ml.CastMap(x) }"
    return lambda ort: session(ort, text, '"ai.onnx.ml": 3').run(None, {"x": value})


def lengths(element: str, value: Any) -> Case:
    text = f"g (seq({element}[N]) x) => (int64 y) {{ y = SequenceLength(x) }}"
    return lambda ort: session(ort, text).run(None, {"x": value})


def has_elements(value: Any) -> Case:
    text = "g (optional(seq(float[N])) x) => (bool y) { y = OptionalHasElement(x) }"
    return lambda ort: session(ort, text).run(None, {"x": value})


def types_of_rows(ort: Any) -> Any:
    text = "g (float[N, 2] x) => (seq(map(int64, float)) y) { y = ai.onnx.ml.ZipMap <classlabels_int64s = [4, 2]>(x) }"
    (rows,) = session(ort, text, '"ai.onnx.ml": 3').run(None, {"x": X[:, :2].copy()})
    return rows, [[type(key).__name__, type(value).__name__] for row in rows for key, value in row.items()]


CONVERTED: dict[str, Case] = {
    "booleans for floats": identity("float", [True, False]),
    "floats for integers": identity("int64", [1.7, -2.2]),
    "texts of numbers for floats": identity("float", ["1", "2.5"]),
    "a number too large": identity("int8", [300, 1]),
    "a negative number for an unsigned one": identity("uint8", [-1, 1]),
    "nothing for a sequence": lengths("float", None),
    "a sequence of texts": lengths("string", [np.array(["a"])]),
    "a sequence with nothing in it": lengths("float", [np.zeros(0, np.float32)]),
    "an optional sequence": has_elements([X[0]]),
    "an optional sequence that is not there": has_elements(None),
    "texts with None": identity("string", [None, "a"]),
    "texts and numbers": identity("string", np.array([True, 1.5], object)),
    "texts, strided": identity("string", np.array(["a", "b", "c", "d"])[::2]),
    "texts with a zero": identity("string", np.array(["a\0b"], object)),
    "texts beyond the first plane": identity("string", np.array(["😀", "é"])),
    "bytes for booleans": identity("bool", np.array([1, 0], np.uint8)),
    "booleans of other bits": identity("bool", np.array([2, 0, 1], np.uint8).view(bool)),
    "a map": dictionaries({2: 1.0, 1: 3.0}),
    "a map of NumPy's numbers": dictionaries({np.int64(2): np.float32(1)}),
    "a map of integers": dictionaries({2: 1}),
    "rows of dictionaries": types_of_rows,
}


@pytest.mark.parametrize("name", CONVERTED)
def test_feeds_are_converted_alike(name: str) -> None:
    """Lists, texts, sequences and dictionaries become the model's types, or are refused by the same class."""
    expect_agreement(CONVERTED[name])


def test_nothing_for_a_map() -> None:
    with pytest.raises(ort_py.AbsentInputError, match="Input 'x'"):
        dictionaries(None)(ort_py)


DIFFERENT: dict[str, tuple[Case, Any, str]] = {
    "a list of bfloat16": (identity("bfloat16", [1.0]), [np.ones(1, ml_dtypes.bfloat16)], "every type goes out"),
    "a list of bytes": (
        identity("string", [b"a", b"bc"]),
        [np.array(["a", "bc"], object)],
        "bytes are read as UTF-8, not shown as Python shows them",
    ),
    "texts in foreign byte order": (
        identity("string", np.array(["ab", "c"]).astype(">U2")),
        [np.array(["ab", "c"], object)],
        "byte order is converted",
    ),
    "a sequence in foreign byte order": (
        lambda ort: session(ort, "g (seq(float[N]) x) => (seq(float[N]) y) { y = Identity(x) }").run(
            None, {"x": [FOREIGN[0]]}
        ),
        [[X[0]]],
        "byte order is converted",
    ),
    "texts for the numbers of a map": (
        dictionaries({2: "a"}),
        ort_py.InvalidArgument,
        "onnxruntime's message is about another type",
    ),
}


@pytest.mark.parametrize("name", DIFFERENT)
def test_deliberate_differences_of_conversions(name: str) -> None:
    """The table gives the reasons for conversions that onnxruntime refuses or gets wrong."""
    case, expected, _reason = DIFFERENT[name]
    expect_difference(case, expected)


WRONG_NAMES: dict[str, Callable[[Any], Any]] = {
    "array": lambda binding: binding.bind_cpu_input(3, X),
    "output": lambda binding: binding.bind_output(3),
    "None": lambda binding: binding.bind_output(None),
}

UNBINDABLE = {"None": None, "object": object(), "complex array": X.astype(complex)}

BINDINGS: dict[str, Case] = {
    **each(
        "a name that is none: {}", WRONG_NAMES, lambda ort, kind: WRONG_NAMES[kind](session(ort, RELU).io_binding())
    ),
    **each("no {} to bind", UNBINDABLE, lambda ort, kind: with_binding(ort, UNBINDABLE[kind])),
}


@pytest.mark.parametrize("name", BINDINGS)
def test_bindings_refuse_alike(name: str) -> None:
    """Names that are not texts, and values that are not arrays."""
    expect_agreement(BINDINGS[name])
