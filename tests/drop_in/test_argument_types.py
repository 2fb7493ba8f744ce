"""Arguments of wrong types, side by side with onnxruntime: refused at the call, by a class that catches the same."""

from __future__ import annotations

import contextlib
import io
import threading
import warnings
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import ort_py
from tests.drop_in.both_runtimes import OURS, Case, each, expect_agreement, expect_difference, model, session

RELU = "g (float[N] x) => (float[N] y) { y = Relu(x) }"
CPU = ["CPUExecutionProvider"]
X = np.arange(3, dtype=np.float32)
FEED = {"x": X}
JUNK: tuple[Any, ...] = (3, 1.5, True, "q", b"q", [3], (), {}, {"q": 1}, Path("q"))
"""Values that programs hand over by mistake."""


class Thing:
    """An object that is nothing."""

    def __repr__(self) -> str:
        return "a thing"


def value(runtime: Any) -> Any:
    """A value for the input."""
    return runtime.OrtValue.ortvalue_from_numpy(X)


def arrays(values: Any) -> Any:
    """The content of values."""
    return [found.numpy() for found in values]


def with_options(runtime: Any, options: Any) -> Any:
    return session(runtime, RELU).run(None, FEED, options)


def with_names(runtime: Any, names: Any) -> Any:
    return session(runtime, RELU).run(names() if callable(names) else names, FEED)


def with_feed(runtime: Any, feed: Any) -> Any:
    return session(runtime, RELU).run(None, feed)


def values_with_options(runtime: Any, options: Any) -> Any:
    return arrays(session(runtime, RELU).run_with_ort_values(None, {"x": value(runtime)}, options))


def values_with_names(runtime: Any, names: Any) -> Any:
    return arrays(session(runtime, RELU).run_with_ort_values(names, {"x": value(runtime)}))


def values_with_feed(runtime: Any, feed: Any) -> Any:
    return arrays(session(runtime, RELU).run_with_ort_values(None, feed))


def binding_with_options(runtime: Any, options: Any) -> Any:
    found = session(runtime, RELU)
    binding = found.io_binding()
    binding.bind_cpu_input("x", X)
    binding.bind_output("y")
    found.run_with_iobinding(binding, options)
    return binding.copy_outputs_to_cpu()


def with_session_options(runtime: Any, options: Any) -> Any:
    return runtime.InferenceSession(model(RELU), options, providers=CPU).get_providers()


def with_providers(runtime: Any, providers: Any) -> Any:
    return runtime.InferenceSession(model(RELU), providers=providers).get_providers()


def later(runtime: Any, names: Any = None, feed: Any = FEED, options: Any = None) -> Any:
    """The arguments of the callback of `run_async`, if the call itself is accepted."""
    told: list[Any] = []
    ended = threading.Event()

    def callback(results: Any, _data: Any, error: str) -> None:
        told.append((results, bool(error)))
        ended.set()

    runtime.InferenceSession(model(RELU), providers=CPU).run_async(names, feed, callback, None, options)
    assert ended.wait(30)
    return told


NAMES: tuple[Any, ...] = (
    *JUNK,
    0,
    False,
    "",
    "y",
    set(),
    {"y"},
    {"y": 1},
    ("y",),
    ["q"],
    [None],
    [["y"]],
    ["y", 3],
    np.array(["y"]),
    range(0),
)

AGREE: dict[str, Case] = {
    **each("options of a run: {!r}", (*JUNK, Thing()), with_options),
    "options of a run: those of a session": lambda ort: with_options(ort, ort.SessionOptions()),
    **each("names: {!r}", (*NAMES, Thing()), with_names),
    "names: a generator": lambda ort: with_names(ort, (name for name in ["y"])),
    "names: the feed": lambda ort: session(ort, RELU).run(FEED, None),
    **each("feed: {!r}", (3, 1.5, True, "x", b"x", [3], (), {}, Path("x"), None, [("x", X)], Thing()), with_feed),
    **each("values, options: {!r}", (*JUNK, Thing()), values_with_options),
    **each("values, names: {!r}", (*JUNK, 0, [None], None, ["q"], ("y",)), values_with_names),
    **each("values, feed: {!r}", (3, 1.5, True, "q", b"q", [3], (), {}, None, [("x", X)], Thing()), values_with_feed),
    "values, feed: arrays": lambda ort: values_with_feed(ort, FEED),
    **each("binding: {!r}", (*JUNK, None, Thing()), lambda ort, given: session(ort, RELU).run_with_iobinding(given)),
    **each("binding, options: {!r}", (*JUNK, Thing()), binding_with_options),
    **each("options of a session: {!r}", (3, 1.5, True, "q", b"q", [3], {"q": 1}, Path("q")), with_session_options),
    "options of a session: those of a run": lambda ort: with_session_options(ort, ort.RunOptions()),
    **each("providers: {!r}", (3, 1.5, True, Thing(), np.array(CPU)), with_providers),
    **each("set providers: {!r}", (3, True), lambda ort, given: session(ort, RELU).set_providers(given)),
    **each("later, names: {!r}", (3, "y", [3], [None], Thing(), ("y",), None), later),
    **each("later, feed: {!r}", (3, "x", None, [X], {}), lambda ort, feed: later(ort, feed=feed)),
    **each("later, options: {!r}", (3, "x", {}), lambda ort, options: later(ort, options=options)),
    "no arguments": lambda ort: session(ort, RELU).run(),
    "no feed": lambda ort: session(ort, RELU).run(None),
    "an unknown keyword": lambda ort: session(ort, RELU).run(None, FEED, options=None),
    "no model": lambda ort: ort.InferenceSession(),
    "too many arguments": lambda ort: session(ort, RELU).get_inputs(3),
}


@pytest.mark.parametrize("name", AGREE)
def test_arguments_are_refused_as_by_onnxruntime(name: str) -> None:
    """The same results, or an error that each `except` clause for onnxruntime's catches."""
    with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
        warnings.simplefilter("ignore")  # onnxruntime's, about providers
        expect_agreement(AGREE[name])


DIFFER: dict[str, tuple[Case, Any, str]] = {
    "names as bytes": (lambda ort: with_names(ort, [b"y"]), ort_py.ArgumentTypeError, "names are texts"),
    "a number for a value": (
        lambda ort: with_feed(ort, {"x": 1}),
        ort_py.InvalidArgument,
        "numbers are tensors without axes, and this one lacks an axis",
    ),
    "no session options, said oddly": (lambda ort: with_session_options(ort, {}), CPU, "alike without providers"),
}


@pytest.mark.parametrize("name", DIFFER)
def test_deliberate_differences_of_arguments(name: str) -> None:
    """The table gives the reason for each argument that ort-py treats differently."""
    case, expected, _reason = DIFFER[name]
    expect_difference(case, expected)


REFUSALS: dict[str, tuple[Case, str]] = {
    "options of a run": (lambda ort: with_options(ort, 3), "run_options must be a RunOptions, not int"),
    "options of a binding": (lambda ort: binding_with_options(ort, 3), "run_options must be a RunOptions, not int"),
    "options of a session": (
        lambda ort: with_session_options(ort, 3),
        "sess_options must be a SessionOptions, not int",
    ),
    "one name": (lambda ort: with_names(ort, "y"), "output_names must be a list of names, not the string 'y'"),
    "names a number": (lambda ort: with_names(ort, 3), "output_names must be a list of names, not int"),
    "names a feed": (lambda ort: with_names(ort, FEED), "the feed is the second argument"),
    "a name a number": (lambda ort: with_names(ort, ["y", 3]), "output_names contains 3, which is not a name"),
    "a name a number, later": (lambda ort: later(ort, [3]), "output_names contains 3, which is not a name"),
    "feed": (lambda ort: with_feed(ort, 3), "The feed of a run must be a mapping of input names to values, not int"),
    "feed of values": (lambda ort: values_with_feed(ort, FEED), "The feed of 'x' must be an OrtValue, not ndarray"),
    "providers": (lambda ort: with_providers(ort, 3), "providers is 3"),
    "callback": (lambda ort: session(ort, RELU).run_async(None, FEED, 3, None), "is a int, which cannot be called"),
}


@pytest.mark.parametrize("name", REFUSALS)
def test_refusals_say_what_is_wanted(name: str) -> None:
    """The message contains the argument, its value, and a valid replacement."""
    case, text = REFUSALS[name]
    with pytest.raises(ort_py.ArgumentTypeError) as caught:
        case(OURS)
    assert text in str(caught.value)
    assert caught.value.fix


def test_options_of_a_later_run_are_refused_at_the_call() -> None:
    """onnxruntime's binding has a RuntimeError here, so ours is one too."""
    with pytest.raises(ort_py.UsageError, match="run_options must be a RunOptions, not int"):
        later(OURS, options=3)
