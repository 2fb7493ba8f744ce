"""Not-a-number and infinities: what OpenVINO loses of them, and how a region keeps them all the same.

Several of OpenVINO's operators give a number where an operand is not-a-number (Relu gives 0, Exp infinity, MaxPool the
largest of the others), and some give another number for an infinity. Four things keep what the specification says:

* A node that would lose them is refused where it reads a constant that has them (`refusal_of_not_finite`).
* An instance of a region with such a node looks for them in its inputs, and declines the run where it finds them: the
  kernels of other providers answer it (`Looks`). Infinities count, because differences of them are not-a-number.
* Values inside of the region that may be not-a-number though all inputs are finite, as results of Log and Sqrt, are
  looked at by the region itself (`made_inside`).
* It looks for not-a-number in its outputs as well.

What is not covered: a number that overflows inside of a region, becomes not-a-number by a difference of infinities, and
is lost in the same region before any output has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ort_py.contracts import FunctionBody, GraphView, NodeSpec
from ort_py.dtypes import DataType
from ort_py.lazy_dataclass import dataclass

__all__ = ["NO_LOOKS", "Looks", "has", "looks_of", "refusal_of_not_finite"]

Array = np.ndarray[Any, Any]

_CHANGES_INFINITIES = frozenset(
    {"Clip", "Gelu", "GlobalMaxPool", "MaxPool", "Mod", "ReduceMin", "Shrink", "ThresholdedRelu"}
)
_TO_BOOL = "a cast to bool"
"""Stands for Cast and CastLike where they give bool, for which not-a-number is true and OpenVINO's is false."""

_LOSES_IT_INSIDE = _CHANGES_INFINITIES | frozenset(
    {
        *(
            _TO_BOOL,
            "ArgMax",
            "ArgMin",
            "BiasGelu",
            "Celu",
            "Exp",
            "FastGelu",
            "FusedConv",
            "GRU",
            "HardSigmoid",
            "LSTM",
            "Max",
        ),
        *("Min", "QuickGelu", "RNN", "ReduceLogSumExp", "Relu", "TopK"),
    }
)
_LOSES_NAN = _LOSES_IT_INSIDE | frozenset({"Hardmax", "LogSoftmax", "Softmax"})
"""The last three keep some not-a-number of each row that has one, so an output shows it."""


def refusal_of_not_finite(node: NodeSpec, graph: GraphView) -> str | None:
    """Explain why a node would lose NaN or infinities of a constant that it reads, or return None.

    Args:
        node: A node; not one with a body, of which `looks_of` takes care.
        graph: Its graph.
    """
    kind = kind_of(node)
    if node.domain or kind not in _LOSES_NAN:
        return None
    for value in node.inputs:
        constant = None if value is None else graph.constant(value.name)
        if value is not None and constant is not None and has(constant, infinities=kind in _CHANGES_INFINITIES):
            return f"OpenVINO's result would be different: '{value.name}' is not finite, and it computes with numbers"
    return None


def kind_of(node: NodeSpec) -> str:
    """The operator, or `_TO_BOOL`."""
    result = node.outputs[0] if node.outputs else None
    to_bool = node.op_type in {"Cast", "CastLike"} and result is not None and result.data_type is DataType.BOOL
    return _TO_BOOL if to_bool else node.op_type


@dataclass(frozen=True, slots=True)
class Looks:
    """The checks that an instance makes.

    Attributes:
        nan: Not-a-number in inputs and outputs.
        infinities: Infinities in inputs.
        inside: Whether a node of the region loses not-a-number without leaving any of it in its results.
        changed: Whether a node of the region changes infinities.
    """

    nan: bool = False
    infinities: bool = False
    inside: bool = False
    changed: bool = False

    @classmethod
    def from_json(cls, data: Mapping[str, bool]) -> Looks:
        """Read the result of `to_json`."""
        return cls(**{name: bool(data[name]) for name in ("nan", "infinities", "inside", "changed")})

    def to_json(self) -> dict[str, bool]:
        """Plain data."""
        return {"nan": self.nan, "infinities": self.infinities, "inside": self.inside, "changed": self.changed}

    def in_inputs(self, arrays: Iterable[Array]) -> str:
        """Describe the non-finite values found; ``""`` if none matters."""
        if self.nan and any(has(array, infinities=self.infinities) for array in arrays):
            return "an input is not finite, and OpenVINO would not carry that through all operators of the region"
        return ""

    def in_outputs(self, arrays: Sequence[Array]) -> str:
        """The same of results."""
        if self.nan and any(has(array, infinities=False) for array in arrays):
            return "a result is not-a-number, which OpenVINO may have lost in other places"
        return ""


NO_LOOKS = Looks()


def looks_of(nodes: Iterable[NodeSpec]) -> Looks:
    """The checks that the instances of a region of these nodes make."""
    kinds: set[str] = set()
    for node in nodes:
        kinds.add(kind_of(node))
        if node.body is not None:
            kinds |= _inside(node.body)
    inside = bool(kinds & _LOSES_IT_INSIDE)
    return Looks(bool(kinds & _LOSES_NAN), inside, inside, bool(kinds & _CHANGES_INFINITIES))


def _inside(body: FunctionBody) -> set[str]:
    pending, kinds = [body], set[str]()
    while pending:
        for node in pending.pop().nodes:
            kinds.add(node.op_type)
            if node.body is not None:
                pending.append(node.body)
    return kinds


def has(array: Array, *, infinities: bool) -> bool:
    """Return whether an array contains not-a-number, or an infinity where that counts; False for integers.

    The largest element tells both: it is not-a-number where any is, and NumPy finds it at the speed of memory.
    """
    look = _LOOKS.get(array.dtype)
    return look is not None and array.size > 0 and look(array, infinities)


def _look_at_singles(array: Array, infinities: bool) -> bool:
    largest = array.max()
    return bool(np.isnan(largest) or (infinities and (np.isinf(largest) or np.isinf(array.min()))))


def _look_at_halves(exponent: int) -> Callable[[Array, bool], bool]:
    """For types of 16 bits, which NumPy compares one by one: their bits are compared as integers."""

    def look(array: Array, infinities: bool) -> bool:
        largest = int((array.view(np.uint16) & 0x7FFF).max())
        return largest >= exponent if infinities else largest > exponent

    return look


_LOOKS: dict[np.dtype[Any], Callable[[Array, bool], bool]] = {
    np.dtype(np.float32): _look_at_singles,
    np.dtype(np.float64): _look_at_singles,
    np.dtype(np.float16): _look_at_halves(0x7C00),
    np.dtype(ml_dtypes.bfloat16): _look_at_halves(0x7F80),
}
