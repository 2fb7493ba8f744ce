"""One case on both runtimes: what each gives or raises, and the comparison of the two.

A case is a function of the runtime's module. A result is made plain first: numbers, texts, lists, and arrays with their
dtype. Exceptions agree when every ``except`` clause that catches onnxruntime's catches ours: by a class of the same
name among the bases.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from enum import Enum
from types import ModuleType
from typing import Any

import numpy as np
import onnx
import onnxruntime

import ort_py

__all__ = [
    "OURS",
    "THEIRS",
    "Case",
    "Outcome",
    "each",
    "expect_agreement",
    "expect_difference",
    "model",
    "outcome",
    "session",
]

OURS: ModuleType = ort_py
THEIRS: ModuleType = onnxruntime
onnxruntime.set_default_logger_severity(4)  # its refusals are the subject of these tests, not news

Case = Callable[[Any], Any]


@dataclass(frozen=True)
class Outcome:
    """A plain result, or the names of an exception's classes, its own first."""

    result: Any = None
    raised: tuple[str, ...] = ()
    text: str = ""


def outcome(case: Case, runtime: Any) -> Outcome:
    """Run a case."""
    try:
        return Outcome(plain(case(runtime)))
    except Exception as error:  # all of them are outcomes
        return Outcome(raised=tuple(kind.__name__ for kind in type(error).__mro__), text=str(error))


def plain(value: Any) -> Any:
    """A value in a form that `==` compares and that does not depend on the runtime."""
    if isinstance(value, np.ndarray | np.generic):
        array = np.asarray(value)
        items = array.astype(np.float32) if array.dtype.kind == "V" else array
        return ("array", str(array.dtype), array.shape, items.tolist())
    if isinstance(value, Mapping):
        return {key: plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, Enum) or hasattr(type(value), "__members__"):
        return (value.name, int(value))
    if value is None or isinstance(value, str | bytes | int | float | bool):
        return value
    return type(value).__name__


def each(label: str, items: Iterable[Any], function: Callable[[Any, Any], Any]) -> dict[str, Case]:
    """One case an item, by its label.

    Args:
        label: Text with a place for the item.
        items: What the cases differ in.
        function: Of the runtime's module and an item.
    """

    def case_of(item: Any) -> Case:
        return lambda ort: function(ort, item)

    return {label.format(item): case_of(item) for item in items}


def expect_agreement(case: Case) -> None:
    """Both runtimes give the same, or refuse with a class of the same name."""
    ours, theirs = outcome(case, OURS), outcome(case, THEIRS)
    if theirs.raised:
        assert theirs.raised[0] in ours.raised, f"onnxruntime raises {theirs.raised[0]}, ort-py: {ours}"
    else:
        assert ours == theirs


def expect_difference(case: Case, expected: Any) -> None:
    """The two differ, and ort-py does what the table says: gives a value, or raises a class of the name."""
    ours, theirs = outcome(case, OURS), outcome(case, THEIRS)
    agree = theirs.raised[0] in ours.raised if theirs.raised else ours == theirs
    assert not agree, "the two agree: this is no difference any more"
    if isinstance(expected, type) and issubclass(expected, Exception):
        assert expected.__name__ in ours.raised, ours
    else:
        assert ours == Outcome(plain(expected))


def model(text: str, *domains: str, ir_version: int = 10) -> bytes:
    """The bytes of a model written as ONNX text.

    Args:
        text: The graph.
        domains: Further imports, e.g. ``"ai.onnx.ml": 3``.
        ir_version: Its IR version.
    """
    imports = ", ".join(('"": 21', *domains))
    found = onnx.parser.parse_model(f"<ir_version: {ir_version}, opset_import: [{imports}]> {text}")
    return bytes(found.SerializeToString())


def session(runtime: Any, text: str, *domains: str) -> Any:
    """A session of a model written as ONNX text, on the CPU."""
    return runtime.InferenceSession(model(text, *domains), providers=["CPUExecutionProvider"])
