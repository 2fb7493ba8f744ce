"""A case: a model and what it is fed, drawn from a seed. The same seed gives the same case."""

from __future__ import annotations

import random
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import onnx
from onnx import helper

from tests.fuzzing import forms
from tests.fuzzing.builder import Builder, Input
from tests.fuzzing.forms.registry import FORMS
from tests.fuzzing.pruning import pruned
from tests.fuzzing.schemas import FLOATS, INTEGERS, ONNX_TYPES, Rejected, np_dtype

__all__ = ["Case", "Feeds", "draw_case"]

Feeds = dict[str, np.ndarray[Any, Any]]

OPSETS = (7, 8, 9, 10, 11, 12, 13, 13, 14, 15, 16, 17, 17, 18, 19, 20, 21, 21, 22, 23, 24, 25, 26)
MAIN_TYPES = ("float32",) * 14 + ("float16", "float64", "bfloat16")
FLAVOURS = ("normal",) * 9 + ("whole", "large", "tiny", "special", "equal", "zeros", "sorted")
_IR_VERSIONS = {9: 4, 10: 5, 11: 6, 12: 7, 14: 7, 18: 8, 20: 9, 22: 10, 23: 11, 24: 12, 25: 12}


@dataclass(slots=True)
class Case:
    """A model and the feeds of the runs of one session.

    Attributes:
        model: The model.
        feeds: One for each run.
        about: How it was drawn, for reports.
        forms: Names of the forms it was made from.
        limited: Whether memory and time are bounded, as they must be where sizes are hostile.
    """

    model: onnx.ModelProto
    feeds: list[Feeds]
    about: str = ""
    forms: list[str] = field(default_factory=list)
    limited: bool = False

    def operators(self) -> str:
        """The operators of the model, in order."""
        return " ".join(node.op_type for node in self.model.graph.node)


def draw_case(seed: int, *, opset: int = 0, main: str = "", most_nodes: int = 40) -> Case:
    """The case of a seed.

    Args:
        seed: The seed.
        opset: Operator set version; 0 for any.
        main: Element type of most data; empty for any.
        most_nodes: Bound on the number of nodes.
    """
    assert forms.LOADED
    rng = random.Random(seed)
    opset = opset or rng.choice([one for one in OPSETS if one <= onnx.defs.onnx_opset_version()])
    main = main or rng.choice(MAIN_TYPES)
    g = Builder(rng, opset, "float32" if main == "bfloat16" and opset < 13 else main)
    wanted = min(most_nodes, rng.choice((1, 1, 2, 2, 3, 3, 4, 5, 6, 8, 10, 14, 20, 28, 40)))
    used = _grow(g, wanted)
    if not g.nodes:
        g.emit("Relu" if g.main in FLOATS else "Identity", [g.new_input([2, 3])])
    model = _model(g)
    first = rng.choice(FLAVOURS)
    sizes = dict(g.sizes)
    other = _other_sizes(rng, sizes)
    kept = {one.name for one in model.graph.input}
    inputs = [one for one in g.inputs if one.name in kept]
    second = rng.choice(FLAVOURS)
    feeds = [draw_feeds(inputs, sizes, first, seed), draw_feeds(inputs, other, second, seed + 1)]
    return Case(model, feeds, f"opset {opset}, {g.main}, {first} then {second}, sizes {sizes} then {other}", used)


def _grow(g: Builder, wanted: int) -> list[str]:
    """Add forms until a graph has its nodes; forms that do not fit are taken back."""
    # A few forms a graph, so that those meet each other that were not written together.
    names = g.rng.choices(FORMS, [one.weight for one in FORMS], k=g.integer(1, 8)) if g.chance(0.5) else []
    used, failures = [], 0
    while len(g.nodes) < wanted and failures < 30:
        chosen = (
            g.rng.choice(names) if names and g.chance(0.8) else g.rng.choices(FORMS, [one.weight for one in FORMS])[0]
        )
        mark = g.mark()
        try:
            chosen.add(g)
            used.append(chosen.name)
        except (Rejected, IndexError, ValueError):
            g.back(mark)
            failures += 1
    return used


def _model(g: Builder) -> onnx.ModelProto:
    made = [name for node in g.nodes for name in node.output if node.op_type != "Constant"]
    read = {name for node in g.nodes for name in node.input}
    by_name = {value.name: value for value in g.values}
    loose = [name for name in made if name not in read and name in by_name]
    chosen = set(loose[-4:])
    for name in made:
        if name in by_name and g.chance(0.12):
            chosen.add(name)
    if not chosen:
        chosen = {name for name in made if name in by_name} or set(made[-1:])
    outputs = []
    for name in made:
        if name in chosen and name in by_name:
            value = by_name[name]
            outputs.append(
                helper.make_tensor_value_info(
                    name, ONNX_TYPES[value.dtype], [None] * value.rank if g.chance(0.5) else None
                )
            )
    inputs = [helper.make_tensor_value_info(one.name, ONNX_TYPES[one.dtype], one.shape) for one in g.inputs]
    graph = helper.make_graph(g.nodes, "fuzz", inputs, outputs, g.initializers)
    ir = max([version for since, version in _IR_VERSIONS.items() if since <= g.opset], default=4)
    imports = [helper.make_opsetid("", g.opset), *[helper.make_opsetid(domain, 1) for domain in sorted(g.domains)]]
    return pruned(helper.make_model(graph, opset_imports=imports, ir_version=max(ir, 4)))


def _other_sizes(rng: random.Random, sizes: dict[str, int]) -> dict[str, int]:
    """Sizes of a second run: the same, others, 1 or nothing."""
    if not sizes:
        return {}
    other = dict(sizes)
    for name in rng.sample(sorted(sizes), rng.randint(1, len(sizes))):
        roll = rng.random()
        if roll < 0.12:
            other[name] = 0
        elif roll < 0.3:
            other[name] = 1
        else:
            other[name] = max(1, sizes[name] + rng.randint(-2, 4))
    return other


def draw_feeds(inputs: list[Input], sizes: dict[str, int], flavour: str, seed: int) -> Feeds:
    """Arrays for the inputs of a graph, under sizes."""
    numbers = np.random.default_rng(seed)
    found = {}
    for one in inputs:
        shape = tuple([sizes[size] if isinstance(size, str) else size for size in one.shape])
        found[one.name] = np.asarray(_array(one, shape, sizes, flavour, numbers))
    return found


def _array(
    one: Input, shape: tuple[int, ...], sizes: dict[str, int], flavour: str, numbers: np.random.Generator
) -> np.ndarray[Any, Any]:
    dtype = np_dtype(one.dtype)
    bound = sizes[one.bound] if isinstance(one.bound, str) else one.bound
    if one.role == "index":
        return numbers.integers(-bound, max(bound, 1 - bound), shape).astype(dtype)
    if one.role == "count":
        return numbers.integers(min(1, bound), bound + 1, shape).astype(dtype)
    if one.dtype == "bool":
        return numbers.integers(0, 2, shape).astype(dtype)
    if one.dtype in INTEGERS:
        info = np.iinfo(dtype)
        if flavour in {"large", "special"}:
            edges = np.array([info.min, info.min + 1, info.max - 1, info.max, 0, 1], dtype)
            return numbers.choice(edges, shape) if shape else edges[2]
        low, high = (max(info.min, -128), min(info.max, 255)) if info.bits == 8 else (max(info.min, -9), 9)
        return numbers.integers(low, high + 1, shape).astype(dtype)
    return _floats(shape, flavour, numbers, dtype)


def _floats(shape: tuple[int, ...], flavour: str, numbers: np.random.Generator, dtype: Any) -> np.ndarray[Any, Any]:
    drawn = np.asarray(numbers.standard_normal(shape))
    narrow = dtype.itemsize == 2 and dtype != np_dtype("bfloat16")
    if flavour == "whole":
        drawn = np.round(drawn * 2)
    elif flavour == "large":
        drawn = drawn * (100.0 if narrow else float(numbers.choice([1e3, 1e8, 1e20, 1e38])))
    elif flavour == "tiny":
        drawn = drawn * (1e-4 if narrow else float(numbers.choice([1e-5, 1e-20, 1e-38, 1e-41])))
    elif flavour == "equal":
        drawn = np.full(shape, float(numbers.choice([0.5, 1.0, -2.0, 7.0])))
    elif flavour == "zeros":
        drawn = np.zeros(shape)
    elif flavour == "sorted":
        drawn = np.sort(drawn.ravel()).reshape(shape)
    elif flavour == "special":
        edges = np.array(
            [np.nan, np.inf, -np.inf, -0.0, 0.0, 1e-40, 6e4 if narrow else 3e38, -6e4 if narrow else -3e38]
        )
        mask = numbers.random(shape) < float(numbers.choice([0.02, 0.2]))
        drawn = np.where(mask, numbers.choice(edges, shape) if shape else edges[0], drawn)
    with np.errstate(all="ignore"):
        return np.asarray(drawn.astype(dtype))
