"""Run a model of the catalogue by two runtimes on the same cases and say how far their results are apart.

Used by `tests/models` and by the script that writes the table in `docs/models.md`, so that both mean the same by equal.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np

from ort_py_kit.tolerances import assert_close
from tests.support.exact_integers import with_unsigned_weights
from tests.support.model_inputs import Case

__all__ = ["LOOSER", "Difference", "Runnable", "assert_run_close", "difference", "open_peer", "run_case"]

_ROUNDING = (
    "the model rounds activations to 8 bits at run time, so a last-place difference before a tie moves one by a whole "
    "step, and a recurrent layer carries that on; onnxruntime differs from itself by as much when the model's scales "
    "are changed in the last place"
)

LOOSER: dict[str, tuple[float, float, str]] = {
    "tashkeel-bilstm": (1e-2, 1e-2, _ROUNDING),
    "tashkeel-rawi": (1e-2, 1e-1, _ROUNDING),
    "tashkeel-rawi-v3": (1e-2, 1e-1, _ROUNDING),
    "ppocr-v4-det": (
        2e-4,
        2e-5,
        "from the result in float64, on a Zen 4 without AVX-512, onnxruntime's is off by up to 0.69 and ours by up to "
        "0.65 of the table's tolerance, so that the two may differ by twice as much",
    ),
    "light-squeezenet": (
        0.0,
        1.0,
        "its constant weights make a thousand equal logits near 3e9, where neighbouring float32 numbers are 256 apart, "
        "and the softmax of those is decided by the order of summation: only type and shape mean "
        "something here, and a test of its own compares the logits",
    ),
}
"""Relative and absolute tolerance of the few models that need more than their element type's, and why."""


class Runnable(Protocol):
    """The interface of a session of either runtime."""

    def run(self, output_names: Sequence[str] | None, input_feed: dict[str, Any], /) -> Sequence[Any]:
        """Run the model."""

    def get_outputs(self) -> Sequence[Any]:
        """Outputs, with their names."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The largest differences between two lists of outputs.

    Attributes:
        absolute: Largest difference of two elements.
        relative: Largest difference divided by the larger of the expected element and one hundredth of the expected
            output's largest element, so that noise around zero does not hide what matters.
    """

    absolute: float = 0.0
    relative: float = 0.0

    def __or__(self, other: Difference) -> Difference:
        return Difference(max(self.absolute, other.absolute), max(self.relative, other.relative))


def open_peer(path: Path) -> Runnable:
    """onnxruntime's session on its CPU provider, silent and on two threads, with exact products of integers."""
    import onnxruntime

    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.intra_op_num_threads = 2
    data = with_unsigned_weights(path) or str(path)
    session: Runnable = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return session


def run_case(session: Runnable, case: Case) -> list[dict[str, Any]]:
    """Outputs by name of each run; the session's own outputs are carried on."""
    names = [output.name for output in session.get_outputs()]
    results: list[dict[str, Any]] = []
    for feeds in case.runs:
        carried = {name: results[-1][source] for name, source in case.carry.items()} if results else {}
        results.append(dict(zip(names, session.run(None, {**feeds, **carried}), strict=True)))
    return results


def difference(actual: Any, expected: Any) -> Difference:
    """The difference of two outputs, infinite if shape or kind differ. Maps and sequences are compared element by
    element.
    """
    if isinstance(expected, list | tuple):
        if not isinstance(actual, list | tuple) or len(actual) != len(expected):
            return Difference(np.inf, np.inf)
        worst = Difference()
        for left, right in zip(actual, expected, strict=True):
            worst |= difference(left, right)
        return worst
    if isinstance(expected, dict):
        if not isinstance(actual, dict) or list(actual) != list(expected):
            return Difference(np.inf, np.inf)
        return difference(list(actual.values()), list(expected.values()))
    left, right = np.asarray(actual), np.asarray(expected)
    if left.shape != right.shape or left.dtype != right.dtype:
        return Difference(np.inf, np.inf)
    if right.dtype.kind not in "fc":
        return Difference() if np.array_equal(left, right) else Difference(np.inf, np.inf)
    if not right.size:
        return Difference()
    left, right = left.astype(np.float64), right.astype(np.float64)
    same = (np.isnan(left) & np.isnan(right)) | (left == right)  # infinities have no difference
    apart = np.abs(np.where(same, 0.0, left) - np.where(same, 0.0, right))
    floor = max(float(np.nanmax(np.abs(right))) / 100, 1e-37)
    return Difference(float(apart.max()), float((apart / np.maximum(np.abs(right), floor)).max()))


def assert_run_close(actual: dict[str, Any], expected: dict[str, Any], *, model: str, context: str) -> None:
    """Assert that the outputs of one run are equal to the tolerance of their element type, or to the model's own.

    Raises:
        AssertionError: They are not; the message begins with model, context and output.
    """
    assert list(actual) == list(expected)
    for name, value in expected.items():
        where = f"{model}, {context}, output {name[:40]}"
        if model in LOOSER:
            rtol, atol, _ = LOOSER[model]
            assert actual[name].dtype == value.dtype, where
            np.testing.assert_allclose(actual[name], value, rtol=rtol, atol=atol, err_msg=where)
        else:
            assert_close(actual[name], value, context=where)
