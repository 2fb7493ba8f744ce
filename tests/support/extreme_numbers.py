"""Models whose numbers are extreme: the cases of ONNX's backend suite with one integer replaced.

An integer of a model is an attribute (an axis, a count, pads) or an element of a small integer input that operators
read sizes from. Each mutant replaces one of them by a value at the edge of its type, under one of three declarations of
the input shapes. Knows nothing of sessions: `child_trials` runs mutants in processes that may die.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, numpy_helper

from ort_py_kit.backend_cases import SuiteCase, suite_cases

__all__ = ["EXTREMES", "SHAPES", "Mutant", "Place", "draw", "mutated", "places"]

EXTREMES = (0, -1, 2**31 - 1, 2**31, 2**32, 2**62, 2**63 - 1, -(2**63), -(2**31), 65_536, 1_000_003)
"""Values that sizes, axes and counts are replaced by."""

SHAPES = ("known", "symbolic", "unknown")
"""How a mutant declares the shapes of its inputs: as the case does, as names, or not at all."""

_MOST_ELEMENTS = 64
"""Elements of an integer input up to which it may be a vector of sizes; larger ones are data."""


@dataclass(frozen=True, slots=True)
class Place:
    """An integer of a model.

    Attributes:
        node: Index of the node whose attribute it is; -1 for an input.
        name: Name of the attribute or input.
        index: Index in a list of integers or in the flattened input; -1 for a single integer.
    """

    node: int
    name: str
    index: int


@dataclass(frozen=True, slots=True)
class Mutant:
    """A case with one integer replaced.

    Attributes:
        case: Name of the case.
        place: The integer.
        value: What it is replaced by.
        shapes: One of `SHAPES`.
        constant: Whether integer inputs are constants of the model; they are fed otherwise.
    """

    case: str
    place: Place
    value: int
    shapes: str
    constant: bool


@cache
def _cases() -> dict[str, SuiteCase]:
    return {case.name: case for case in suite_cases() if case.kind == "node"}


def places(case: SuiteCase) -> Iterator[Place]:
    """Every integer of a case that an operator may take for a size, an axis or a count."""
    model = case.model
    for number, node in enumerate(model.graph.node):
        for attribute in node.attribute:
            if attribute.type == AttributeProto.INT:
                yield Place(number, attribute.name, -1)
            elif attribute.type == AttributeProto.INTS:
                yield from (Place(number, attribute.name, index) for index in range(min(len(attribute.ints), 8)))
    for feeds, _ in case.data_sets():
        for name, value in feeds.items():
            if _is_integer(value):
                yield from (Place(-1, name, index) for index in range(min(value.size, 8)))
        return


def _is_integer(value: Any) -> bool:
    kinds = (np.dtype(np.int64), np.dtype(np.int32))
    return isinstance(value, np.ndarray) and value.dtype in kinds and 0 < value.size <= _MOST_ELEMENTS


def draw(generator: random.Random, count: int, *, prefix: str = "") -> list[Mutant]:
    """Random mutants, each operator as often as any other.

    Args:
        generator: Source of the choices.
        count: How many.
        prefix: What the names of their cases begin with.
    """
    by_operator: dict[str, list[SuiteCase]] = {}
    for case in _cases().values():
        if case.name.startswith(prefix) and case.model.graph.node:
            by_operator.setdefault(case.model.graph.node[0].op_type, []).append(case)
    operators = sorted(by_operator)
    made: list[Mutant] = []
    while len(made) < count:
        case = generator.choice(by_operator[generator.choice(operators)])
        among = list(places(case))
        if not among:
            continue
        made.append(
            Mutant(
                case.name,
                generator.choice(among),
                generator.choice(EXTREMES),
                generator.choice(SHAPES),
                generator.random() < 0.7,
            )
        )
    return made


def mutated(mutant: Mutant) -> tuple[bytes, dict[str, Any]]:
    """The model of a mutant, and what to feed it."""
    case = _cases()[mutant.case]
    model = onnx.ModelProto.FromString(case.model.SerializeToString())
    feeds = dict(next(iter(case.data_sets()))[0])
    place = mutant.place
    if place.node >= 0:
        (attribute,) = [one for one in model.graph.node[place.node].attribute if one.name == place.name]
        if place.index < 0:
            attribute.i = mutant.value
        else:
            attribute.ints[place.index] = mutant.value
    else:
        changed = feeds[place.name].copy()
        low, high = np.iinfo(changed.dtype).min, np.iinfo(changed.dtype).max
        changed.reshape(-1)[place.index] = min(max(mutant.value, low), high)
        feeds[place.name] = changed
    if mutant.constant:
        _make_constants(model, feeds)
    for value in (*model.graph.input, *model.graph.output):
        _declare(value.type, mutant.shapes, output=value in model.graph.output)
    return model.SerializeToString(), feeds


def _make_constants(model: onnx.ModelProto, feeds: dict[str, Any]) -> None:
    for name in [name for name, value in feeds.items() if _is_integer(value)]:
        model.graph.initializer.append(numpy_helper.from_array(feeds.pop(name), name))
    kept = [value for value in model.graph.input if value.name in feeds]
    del model.graph.input[:]
    model.graph.input.extend(kept)


def _declare(known: onnx.TypeProto, shapes: str, *, output: bool) -> None:
    if not known.HasField("tensor_type"):
        return
    tensor = known.tensor_type
    if shapes == "unknown" or output:
        tensor.ClearField("shape")
    elif shapes == "symbolic":
        for axis, dim in enumerate(tensor.shape.dim):
            dim.dim_param = f"n{axis}_{dim.dim_value}"
