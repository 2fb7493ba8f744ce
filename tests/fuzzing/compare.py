"""Comparing outputs: by the table of tolerances, widened by how far rounding errors of the graph's own nodes reach.

Only where two results differ by more than the table allows is a graph's conditioning asked: the NumPy provider runs it
several times with small errors planted behind every node that rounds as it likes. What such an error can move, is not
held against anybody; what it cannot move, must agree. Nodes whose result IEEE 754 fixes get no error.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Set
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

import ort_py
from ort_py_kit.tolerances import tolerance_of
from tests.fuzzing.cases import Case, Feeds
from tests.fuzzing.overflow import READ, SUMS, magnitudes, planted
from tests.fuzzing.runners import Outcome, Variant, guarded, options_of
from tests.fuzzing.subnormal import flushed

__all__ = ["Spread", "difference", "spread_of", "tolerance_in"]

_ROUNDED_ALIKE = """
Add Sub Mul Div Sqrt Neg Abs Relu Max Min Sign Floor Ceil Round Identity Where Clip Cast CastLike Not And Or Xor
Equal Greater Less GreaterOrEqual LessOrEqual Reshape Transpose Squeeze Unsqueeze Flatten Concat Split Slice
Gather GatherElements GatherND Scatter ScatterElements ScatterND Expand Tile Pad Trilu DepthToSpace SpaceToDepth
Compress ReverseSequence CenterCropPad ReduceMax ReduceMin MaxPool GlobalMaxPool ArgMax ArgMin TopK Shape Size
Range OneHot EyeLike ConstantOfShape Constant QuantizeLinear DequantizeLinear Dropout IsNaN IsInf Hardmax
BitwiseNot If Loop Optional OptionalGetElement Scan
"""
ROUNDED_ALIKE = frozenset(_ROUNDED_ALIKE.split())
"""Operators whose float results do not depend on who computes them."""

ARITHMETIC = frozenset({"Add", "Div", "Mean", "Mul", "Sqrt", "Sub", "Sum"})
"""Of these, those that are not rounded alike in types of 16 bits: regions compute them in float32."""

CONSTANTS_OF_FLOAT = frozenset({"Attention", "Gelu"})
"""Operators whose function bodies, which onnxruntime and the reference run for double, have constants of float32."""

_STANDARDISING = "GroupNormalization InstanceNormalization LayerNormalization MeanVarianceNormalization"
STANDARDISING = frozenset(_STANDARDISING.split())
"""Operators that subtract a mean and divide by what may be next to nothing. The mean is rounded, which is as much as an
error in what it is subtracted from: of equal elements that is all that is left."""

ERROR = {"float32": 1e-6, "float64": 1e-14, "float16": 1e-3, "bfloat16": 8e-3}
LEAST = {"float16": 2.0**-24, "bfloat16": 2.0**-133}
"""The smallest numbers of the types of 16 bits. Regions compute them in float32, where a result that is smaller is not
rounded to zero before the next node reads it."""
BEFORE = 0.125
"""Share of an error that is planted in front of a node which standardises: half a unit in the last place, or more."""
NONE = np.zeros(())
DRAWS = 8
ILL = 0.05
"""An output that planted errors move by more than this share of its size says nothing."""


@dataclass(slots=True)
class Spread:
    """The effect of planted errors on the outputs of a case.

    Attributes:
        drawn: The outputs with errors planted, one list a draw.
        pushed: The outputs with errors that are all of one direction. They show what becomes NaN or infinite only.
        finite: Whether everything fed is finite, so that what is not comes from overflows.
        overflowed: The outputs with sums that overflowed on their way, one list a draw.
        flushed: The outputs with zeroes for subnormal numbers, one list a draw.
    """

    drawn: list[list[Any]]
    pushed: list[list[Any]] = field(default_factory=list)
    finite: bool = False
    overflowed: list[list[Any]] = field(default_factory=list)
    flushed: list[list[Any]] = field(default_factory=list)

    def around(
        self, place: int, exact: np.ndarray[Any, Any]
    ) -> tuple[np.ndarray[Any, Any], np.ndarray[Any, Any], bool]:
        """Per element: how far it moves and whether it becomes NaN or infinite; and whether the output says nothing."""
        wide = exact.astype(np.float64)
        moved = np.zeros(wide.shape)
        changes = np.zeros(wide.shape, bool)
        for outputs in self.drawn:
            other = np.asarray(outputs[place])
            if other.shape != exact.shape:
                return moved, ~changes, True
            other = other.astype(np.float64)
            changes |= _of_another_kind(other, wide)
            with np.errstate(all="ignore"):
                gap = np.abs(other - wide)
            moved = np.maximum(moved, np.where(np.isfinite(gap), gap, 0.0))
        for outputs in self.pushed:
            other = np.asarray(outputs[place])
            if other.shape == exact.shape:
                changes |= _of_another_kind(other.astype(np.float64), wide)
        for outputs in self.overflowed:
            other = np.asarray(outputs[place])
            if other.shape == exact.shape:
                other = other.astype(np.float64)
                changes |= (other != wide) & ~(np.isnan(other) & np.isnan(wide))
        for outputs in self.flushed:
            other = np.asarray(outputs[place])
            if other.shape == exact.shape:
                changes |= ~np.isclose(other.astype(np.float64), wide, *tolerance_of(exact.dtype), equal_nan=True)
        finite = np.abs(wide[np.isfinite(wide)])
        size = float(np.sqrt(np.mean(finite**2))) if finite.size else 0.0
        typical = float(np.sqrt(np.mean(moved**2))) if moved.size else 0.0
        return moved + typical, changes, bool(size) and typical > ILL * size


def _of_another_kind(left: np.ndarray[Any, Any], right: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """Where only one of two arrays is NaN, or only one is infinite."""
    return np.asarray((np.isnan(left) != np.isnan(right)) | (np.isinf(left) != np.isinf(right)))


def spread_of(case: Case, feeds: Feeds, seed: int = 0) -> Spread | None:
    """Run a case with planted errors; None where it cannot be instrumented."""
    shown = onnx.ModelProto()
    shown.CopyFrom(case.model)
    alike = ROUNDED_ALIKE - ARITHMETIC if _is_narrow(case.model) else ROUNDED_ALIKE
    made_here = {name for node in case.model.graph.node for name in node.output}
    rounding = {name for node in case.model.graph.node if node.op_type not in alike for name in node.output if name}
    rounding |= set(_scaled_twice(case.model))
    candidates = sorted(rounding)
    candidates += [node.input[0] for node in case.model.graph.node if node.op_type in STANDARDISING]
    sums = [node for node in case.model.graph.node if node.op_type in READ or alike != ROUNDED_ALIKE]
    added = [name for node in sums for name in (*node.input, *node.output)]
    candidates = [name for name in dict.fromkeys([*candidates, *added]) if name in made_here]
    del shown.graph.output[:]
    shown.graph.output.extend([helper.make_empty_tensor_value_info(name) for name in candidates])
    plain = Variant("numpy", "ORT_DISABLE_ALL", ("CPUExecutionProvider",), plain=True)
    values: dict[str, Any] = {}
    if candidates:
        first = guarded(lambda: _once(shown, feeds, plain))
        if first.outputs is None:
            return None
        pairs = zip(candidates, first.outputs, strict=True)
        values = {name: value for name, value in pairs if hasattr(value, "dtype")}  # sequences get no errors
    constants = {one.name: onnx.numpy_helper.to_array(one) for one in case.model.graph.initializer}
    known = {**constants, **values, **feeds}
    noisy, plans = _noisy(case.model, known, rounding)
    numbers = np.random.default_rng(seed)
    made: list[Any] = []
    opened = guarded(lambda: made.append(_session(noisy, plain)) or [])  # type: ignore[func-returns-value]
    if opened.error is not None:
        return None
    noises = [{name: _noise(one, numbers) for name, one in plans.items()} for _ in range(DRAWS)]
    noises.append({name: _to_whole(one) for name, one in plans.items()})
    pushes = [{name: _outwards(one, sign) for name, one in plans.items()} for sign in (-1, 1)]
    drawn = []
    with made[0]:
        for noise in [*noises, *(pushes if alike != ROUNDED_ALIKE else [])]:
            ran: Outcome = guarded(lambda noise=noise: made[0].run(None, {**feeds, **noise}))  # type: ignore[misc]
            if ran.outputs is None:
                return None
            drawn.append(ran.outputs)
    finite = all(np.isfinite(array.astype(np.float64)).all() for array in feeds.values() if array.dtype.kind in "fV")
    zeroed = flushed(case.model, feeds, lambda model, fed: _once(model, fed, plain))
    summed = planted(case.model, known, feeds, seed)
    return Spread(drawn[: len(noises)], drawn[len(noises) :], bool(finite), summed, zeroed)


def _scaled_twice(model: onnx.ModelProto) -> Iterator[str]:
    """Products with a constant of products with another: regions multiply the constants, so the last place differs."""
    constants = {one.name for one in model.graph.initializer}
    constants |= {name for node in model.graph.node if node.op_type == "Constant" for name in node.output}
    scaled: set[str] = set()
    for node in model.graph.node:
        if node.op_type in {"Div", "Mul"} and constants.intersection(node.input):
            if scaled.intersection(node.input):
                yield node.output[0]
            scaled |= set(node.output)


def _session(model: onnx.ModelProto, variant: Variant) -> Any:
    return ort_py.InferenceSession(model.SerializeToString(), options_of(variant), providers=["CPUExecutionProvider"])


def _once(model: onnx.ModelProto, feeds: Feeds, variant: Variant) -> list[Any]:
    with _session(model, variant) as session:
        return list(session.run(None, feeds))


def _is_narrow(model: onnx.ModelProto) -> bool:
    """Whether a type of 16 bits is the narrowest."""
    tolerance = tolerance_in(model)
    return tolerance is not None and tolerance != tolerance_of(np.dtype(np.float32))


Planned = tuple[np.ndarray[Any, Any], float, np.ndarray[Any, Any]]
"""An array, the share of its error that is planted, and the magnitudes of the terms of its sums; 0 where it is none."""


def _noise(planned: Planned, numbers: np.random.Generator) -> np.ndarray[Any, Any]:
    """An error for each element."""
    array = planned[0]
    signs = numbers.uniform(-1, 1, array.shape)
    with np.errstate(all="ignore"):
        return np.asarray(np.nan_to_num((_reach(planned) * signs).astype(array.dtype)))


def _to_whole(planned: Planned) -> np.ndarray[Any, Any]:
    """Errors that make whole numbers of the elements which are that near to them: sums of integers cancel to 0 exactly,
    and functions reach 1 sooner or later."""
    array, share, _ = planned
    with np.errstate(all="ignore"):
        wide = array.astype(np.float64)
        gap = np.rint(wide) - wide
        near = (np.abs(gap) <= _reach(planned)) & (share == 1)
        return np.asarray(np.where(near, gap, 0.0).astype(array.dtype))


def _outwards(planned: Planned, sign: int) -> np.ndarray[Any, Any]:
    """Errors that take all elements away from zero, or with a sign of -1 towards it.

    They make numbers of zeroes to which smaller ones were rounded, and of a 1 what a function is defined for.
    """
    array = planned[0]
    wide = array.astype(np.float64)
    with np.errstate(all="ignore"):
        errors = np.where(wide == 0, LEAST.get(array.dtype.name, 0.0), np.sign(wide) * _reach(planned))
        return np.asarray(np.where(np.isfinite(errors), errors * sign, 0.0).astype(array.dtype))


def _reach(planned: Planned) -> np.ndarray[Any, Any]:
    """Differences that elements may have: relative to each, and to the largest of the array, as sums err by that; of
    sums also relative to their terms, which may cancel."""
    array, share, terms = planned
    wide = array.astype(np.float64)
    finite = np.abs(wide[np.isfinite(wide)])
    largest = float(finite.max()) if finite.size else 0.0
    own = (2 * np.abs(wide) + largest) * ERROR[array.dtype.name] + LEAST.get(array.dtype.name, 0.0)
    return np.asarray(np.maximum(own, terms * (min(ERROR[array.dtype.name], ERROR["float32"]) * BEFORE)) * share)


def _noisy(
    model: onnx.ModelProto, values: Mapping[str, Any], rounding: Set[str]
) -> tuple[onnx.ModelProto, dict[str, Planned]]:
    """The model with an Add behind each node that rounds as it likes, and before those that standardise.

    The second operands are inputs, each of them given with what its error depends on.
    """
    noisy = onnx.ModelProto()
    noisy.CopyFrom(model)
    del noisy.graph.node[:]
    plans: dict[str, Planned] = {}

    def add(source: str, noise: str, result: str, planned: Planned) -> None:
        plans[noise], array = planned, planned[0]
        noisy.graph.node.append(helper.make_node("Add", [source, noise], [result]))
        kind = helper.np_dtype_to_tensor_dtype(array.dtype)
        noisy.graph.input.append(helper.make_tensor_value_info(noise, kind, array.shape))

    for place, node in enumerate(model.graph.node):
        copy = onnx.NodeProto()
        copy.CopyFrom(node)
        if node.op_type in STANDARDISING and _errs(values.get(node.input[0])):
            copy.input[0] = f"{node.input[0]}_before_{place}"
            add(node.input[0], f"{copy.input[0]}_error", copy.input[0], (values[node.input[0]], BEFORE, NONE))
        noisy.graph.node.append(copy)
        copy = noisy.graph.node[-1]
        for index, name in enumerate(node.output):
            if name in rounding and _errs(values.get(name)):
                copy.output[index] = f"{name}_exact"
                add(copy.output[index], f"{name}_error", name, (values[name], 1.0, _terms(model, node, values)))
    return noisy, plans


def _terms(model: onnx.ModelProto, node: onnx.NodeProto, values: Mapping[str, Any]) -> np.ndarray[Any, Any]:
    """The sums of magnitudes of a node that adds up; 0 for others, and where it overflows."""
    if node.domain or node.op_type not in SUMS or any(name and name not in values for name in node.input):
        return NONE
    found = magnitudes(model, node, dict(values), set())
    fits = found is not None and found.shape == values[node.output[0]].shape
    return np.where(np.isfinite(found), found, 0.0) if found is not None and fits else NONE


def _errs(array: Any) -> bool:
    return array is not None and array.dtype.name in ERROR


def tolerance_in(model: onnx.ModelProto) -> tuple[float, float] | None:
    """The tolerance of the narrowest floating type that a model computes in: its results are no better, whatever they
    are cast to. None where that is float32."""
    kinds = {one.type.tensor_type.elem_type for one in model.graph.input} | {
        one.data_type for one in model.graph.initializer
    }
    for node in model.graph.node:
        kinds |= {one.i for one in node.attribute if one.name == "to"}
        kinds |= {one.t.data_type for one in node.attribute if one.type == onnx.AttributeProto.TENSOR}
    for kind in (onnx.TensorProto.BFLOAT16, onnx.TensorProto.FLOAT16):
        if kind in kinds:
            return tolerance_of(np.dtype(helper.tensor_dtype_to_np_dtype(kind)))
    constants_of_float = any(node.op_type in CONSTANTS_OF_FLOAT for node in model.graph.node)
    if onnx.TensorProto.DOUBLE in kinds and (onnx.TensorProto.FLOAT in kinds or constants_of_float):
        return tolerance_of(np.dtype(np.float32))
    return None


def difference(
    actual: Any,
    expected: Any,
    spread: Spread | None = None,
    place: int = 0,
    base: Any = None,
    tolerance: tuple[float, float] | None = None,
) -> str:
    """Describe the difference of an output from the expected one; ``""`` if there is none.

    Args:
        actual: What was computed.
        expected: What is expected.
        spread: How far errors reach; None for the table of tolerances alone.
        place: Which output it is.
        tolerance: Relative and absolute; None for that of the element type.
        base: What the NumPy provider computes, around which `spread` was drawn.
    """
    if isinstance(expected, list | tuple) or expected is None:
        return "" if type(actual) is type(expected) else f"{type(actual).__name__} instead of {type(expected).__name__}"
    left, right = np.asarray(actual), np.asarray(expected)
    if left.shape != right.shape:
        return f"shape {left.shape} instead of {right.shape}"
    if left.dtype != right.dtype:
        return f"{left.dtype} instead of {right.dtype}"
    if right.dtype.kind in "OUS":
        return "" if (left == right).all() else "other strings"
    relative, absolute = tolerance or tolerance_of(right.dtype)
    if right.dtype.kind not in "fV":
        relative, absolute = 0.0, 0.0
    with np.errstate(all="ignore"):
        a, b = left.astype(np.float64), right.astype(np.float64)
        same = (a == b) | (np.isnan(a) & np.isnan(b))
        if right.dtype.kind in "iu" and right.dtype.itemsize == 8:
            same = left == right
        close = same | (np.abs(a - b) <= absolute + relative * np.abs(b)) & np.isfinite(a) & np.isfinite(b)
        if close.all():
            return ""
        if spread is not None:
            moved, changes, ill = spread.around(place, np.asarray(base if base is not None else right))
            if ill or moved.shape != a.shape:
                return ""
            allowed = absolute + relative * np.abs(b) + 4 * moved
            close |= (np.abs(a - b) <= allowed) | changes
            # Whether a sum of the largest numbers overflows on its way depends on the order of its terms. Infinities of
            # both signs may meet there, unless it is what was fed that is not finite.
            for one, other in ((a, b), (b, a)):
                overflowed = ~np.isfinite(one) if spread.finite else np.isinf(one)
                close |= overflowed & (np.abs(other) > 0.001 * _largest(right.dtype))
            if spread.finite:
                close |= ~np.isfinite(a) & ~np.isfinite(b)
            if close.all():
                return ""
    wrong = np.argwhere(~close)
    first = tuple(wrong[0].tolist())
    return (
        f"{len(wrong)} of {close.size} elements differ, first at {first}: {left[first]!r} instead of {right[first]!r}"
    )


def _largest(dtype: Any) -> float:
    import ml_dtypes

    if dtype.kind not in "fV":
        return float("inf")
    return float(ml_dtypes.finfo(dtype).max)  # type: ignore[no-untyped-call]
