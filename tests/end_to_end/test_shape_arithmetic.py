"""Arithmetic over shapes, for many sets of shapes: what NumPy computes of the same integers."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py as ort
from ort_py.execution import planned_runs
from ort_py.execution.shape_results import ShapeResults

Array = np.ndarray[Any, Any]

SCALAR = -1

SHAPES = [
    (2, 3),
    (1, 1),
    (4, 2),
    (1, 5),
    (3, 3),
    (7, 1),
    (0, 4),
    (2, 0),
    (0, 0),
    (1, 9),
    (6, 2),
    (1, 5),
    (0, 4),
    (8, 8),
]
"""The first four are recorded; later ones take results, and some come back."""


@pytest.fixture
def answers(monkeypatch: pytest.MonkeyPatch) -> list[bool]:
    """For each time that results were asked for, whether there were any."""
    found: list[bool] = []
    plain = ShapeResults.of

    def of(self: ShapeResults, signature: Any, slots: list[Any]) -> Any:
        results = plain(self, signature, slots)
        found.append(results is not None)
        return results

    monkeypatch.setattr(ShapeResults, "of", of)
    monkeypatch.setattr(planned_runs, "_PATIENCE", 0)
    return found


class Chain:
    """A graph of integers that follow from the shapes of `x` and `y`, and what NumPy makes of them."""

    def __init__(self, seed: int) -> None:
        self.random = np.random.default_rng(seed)
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self.steps: list[tuple[str, Callable[[dict[str, Array]], Array]]] = []
        self.kinds: dict[str, tuple[type, int]] = {}
        """Element type, and number of elements: `SCALAR` for one without axes."""

    def constant(self, value: Any, kind: type = np.int64) -> str:
        name = f"c{len(self.constants)}"
        self.constants.append(numpy_helper.from_array(np.array(value, kind), name))
        return name

    def add(
        self, operator: str, inputs: Sequence[str], kind: type, count: int,
        function: Callable[[dict[str, Array]], Any], **attributes: Any,
    ) -> str:  # fmt: skip
        name = f"v{len(self.steps)}"
        self.nodes.append(helper.make_node(operator, inputs, [name], **attributes))
        self.steps.append((name, lambda values: np.asarray(function(values), kind)))
        self.kinds[name] = kind, count
        return name

    def any(self, *kinds: type, vector: bool | None = None) -> str | None:
        fitting = [
            name
            for name, (kind, count) in self.kinds.items()
            if kind in (kinds or (np.int64, np.int32)) and (vector is None or vector == (count != SCALAR))
        ]
        return str(self.random.choice(fitting)) if fitting else None

    def grow(self) -> None:
        """One more node of a random kind, where there is something for it."""
        step = str(self.random.choice([name for name in dir(self) if name.startswith("grow_")]))
        getattr(self, step)()

    def grow_shape(self) -> None:
        source = str(self.random.choice(["x", "y"]))
        start = int(self.random.integers(-2, 2))
        self.add("Shape", [source], np.int64, len((0, 0)[start:]), lambda v: v[source].shape[start:], start=start)

    def grow_size(self) -> None:
        self.add("Size", ["x"], np.int64, SCALAR, lambda v: v["x"].size)

    def grow_gather(self) -> None:
        data = self.any(vector=True)
        if data is None or self.kinds[data][1] == 0:
            return
        kind, count = self.kinds[data]
        scalar = bool(self.random.integers(2))
        places = self.random.integers(-count, count, None if scalar else int(self.random.integers(1, 4)))
        self.add(
            "Gather", [data, self.constant(places)], kind, SCALAR if scalar else len(places), lambda v: v[data][places]
        )

    def grow_arithmetic(self) -> None:
        left = self.any()
        if left is None:
            return
        kind, count = self.kinds[left]
        fitting = [name for name, (other, many) in self.kinds.items() if other is kind and many in (count, SCALAR)]
        right = str(self.random.choice(fitting))
        functions: dict[str, Callable[[Array, Array], Array]] = {
            "Add": np.add, "Sub": np.subtract, "Mul": np.multiply, "Max": np.maximum, "Min": np.minimum,
        }  # fmt: skip
        operator = str(self.random.choice(list(functions)))
        self.add(operator, [left, right], kind, count, lambda v: functions[operator](v[left], v[right]))

    def grow_constant_arithmetic(self) -> None:
        left = self.any()
        if left is None:
            return
        kind, count = self.kinds[left]
        number = kind(self.random.choice([1, 2, 3, 7, -1, -2, -5, 2**20, 2**30]))
        operator = str(self.random.choice(["Add", "Mul", "Sub"]))
        function = {"Add": np.add, "Mul": np.multiply, "Sub": np.subtract}[operator]
        self.add(operator, [left, self.constant(number, kind)], kind, count, lambda v: function(v[left], number))

    def grow_division(self) -> None:
        left = self.any()
        if left is None:
            return
        kind, count = self.kinds[left]
        number = kind(self.random.choice([1, 2, 3, 7, -2, -3]))
        which = int(self.random.integers(3))
        right = self.constant(number, kind)
        if which == 0:
            self.add("Div", [left, right], kind, count, lambda v: (v[left] - np.fmod(v[left], number)) // number)
        elif which == 1:
            self.add("Mod", [left, right], kind, count, lambda v: np.mod(v[left], number))
        else:
            self.add("Mod", [left, right], kind, count, lambda v: np.fmod(v[left], number), fmod=1)

    def grow_sign(self) -> None:
        source = self.any()
        if source is None:
            return
        kind, count = self.kinds[source]
        operator = str(self.random.choice(["Neg", "Abs"]))
        function = {"Neg": np.negative, "Abs": np.abs}[operator]
        self.add(operator, [source], kind, count, lambda v: function(v[source]))

    def grow_concat(self) -> None:
        left, right = self.any(np.int64, vector=True), self.any(np.int64, vector=True)
        if left is None or right is None:
            return
        count = self.kinds[left][1] + self.kinds[right][1]
        if count <= 40:
            self.add("Concat", [left, right], np.int64, count, lambda v: np.concatenate([v[left], v[right]]), axis=0)

    def grow_slice(self) -> None:
        source = self.any(vector=True)
        if source is None:
            return
        kind, count = self.kinds[source]
        start, end = (int(one) for one in self.random.integers(-count - 2, count + 3, 2))
        step = int(self.random.choice([1, 2, -1, -2]))
        length = len(np.zeros(count)[_slice(start, end, step, count)])
        inputs = [source, *(self.constant([one]) for one in (start, end, 0, step))]
        self.add("Slice", inputs, kind, length, lambda v: v[source][_slice(start, end, step, count)])

    def grow_cast(self) -> None:
        source = self.any(np.int64, np.int32, np.bool_)
        if source is None:
            return
        kind, count = self.kinds[source]
        target = np.int64 if kind is not np.int64 else np.int32
        to = TensorProto.INT64 if target is np.int64 else TensorProto.INT32
        self.add("Cast", [source], target, count, lambda v: v[source].astype(target), to=to)

    def grow_comparison(self) -> None:
        left = self.any()
        if left is None:
            return
        kind, count = self.kinds[left]
        number = kind(self.random.choice([0, 1, 3, -1]))
        operator = str(self.random.choice(["Equal", "Less", "GreaterOrEqual"]))
        function = {"Equal": np.equal, "Less": np.less, "GreaterOrEqual": np.greater_equal}[operator]
        self.add(operator, [left, self.constant(number, kind)], np.bool_, count, lambda v: function(v[left], number))

    def grow_where(self) -> None:
        condition = self.any(np.bool_)
        if condition is None:
            return
        count = self.kinds[condition][1]
        fitting = [name for name, (kind, many) in self.kinds.items() if kind is np.int64 and many in (count, SCALAR)]
        if fitting:
            one = str(self.random.choice(fitting))
            other = self.constant(-1)
            self.add("Where", [condition, one, other], np.int64, count, lambda v: np.where(v[condition], v[one], -1))

    def grow_product(self) -> None:
        source = self.any(np.int64, vector=True)
        if source is not None:
            self.add("ReduceProd", [source], np.int64, SCALAR, lambda v: np.prod(v[source]), keepdims=0)

    def grow_squeezed(self) -> None:
        source = self.any(vector=False)
        if source is not None:
            kind = self.kinds[source][0]
            axes = self.constant([0])
            self.add("Unsqueeze", [source, axes], kind, 1, lambda v: v[source].reshape(1))

    def model(self) -> onnx.ModelProto:
        """The model: each value and a datum of the run added, so that the values themselves stay inside."""
        outputs = []
        for name, (kind, _) in self.kinds.items():
            self.nodes.append(helper.make_node("Cast", [name], [f"{name}_whole"], to=TensorProto.INT64))
            self.nodes.append(helper.make_node("Add", [f"{name}_whole", "datum"], [f"{name}_out"]))
            outputs.append(helper.make_tensor_value_info(f"{name}_out", TensorProto.INT64, None))
            assert kind in (np.int64, np.int32, np.bool_)
        inputs = [helper.make_tensor_value_info(name, TensorProto.FLOAT, ["a", "b"]) for name in ("x", "y")]
        inputs[1] = helper.make_tensor_value_info("y", TensorProto.FLOAT, ["b", "c"])
        inputs.append(helper.make_tensor_value_info("datum", TensorProto.INT64, [1]))
        graph = helper.make_graph(self.nodes, "g", inputs, outputs, self.constants)
        return helper.make_model(graph, opset_imports=[helper.make_opsetid("", 18)], ir_version=9)

    def expected(self, x: Array, y: Array, datum: Array) -> list[Array]:
        values: dict[str, Array] = {"x": x, "y": y}
        with np.errstate(all="ignore"):
            for name, function in self.steps:
                values[name] = function(values)
        return [values[name].astype(np.int64) + datum for name in self.kinds]


def _slice(start: int, end: int, step: int, count: int) -> slice:
    """ONNX clamps where Python counts from the end once more."""
    first = start + count if start < 0 else start
    last = end + count if end < 0 else end
    if step > 0:
        return slice(min(max(first, 0), count), min(max(last, 0), count), step)
    first, last = min(max(first, 0), count - 1), min(max(last, -1), count - 1)
    return slice(first, None if last < 0 else last, step) if count else slice(0, 0)


def session_of(model: onnx.ModelProto) -> ort.InferenceSession:
    """A session that computes what the model says, without rewriting it."""
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])


@pytest.mark.parametrize("seed", range(40))
def test_random_arithmetic(seed: int, answers: list[bool]) -> None:
    """Sizes of 0, numbers that wrap around in 32 and 64 bits, negative indices, steps and divisors."""
    chain = Chain(seed)
    chain.grow_shape()
    for _ in range(30):
        chain.grow()
    session = session_of(chain.model())
    random = np.random.default_rng(seed)
    for rows, columns in SHAPES:
        feed: dict[str, Array] = {
            "x": np.zeros((rows, columns), np.float32),
            "y": np.zeros((columns, int(random.integers(1, 4))), np.float32),
            "datum": random.integers(-9, 9, 1),
        }
        expected = chain.expected(**feed)
        for found, wanted in zip(session.run(None, feed), expected, strict=True):
            assert found.dtype == wanted.dtype
            np.testing.assert_array_equal(found.reshape(wanted.shape), wanted)
    assert answers
