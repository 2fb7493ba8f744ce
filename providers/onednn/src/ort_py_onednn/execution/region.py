"""A compiled region: fused operations with their constants, and a plan for each set of shapes it has seen.

Immutable but for its plans, which `shape_memory` bounds; shared by threads. Known shapes are planned when the
region is compiled, so its weights are packed and the originals gone before the first run.
"""

from __future__ import annotations

import contextlib
import math
import threading
import weakref
from collections.abc import Sequence
from functools import partial
from typing import Any

import numpy as np

from ort_py.collection import paused_collection
from ort_py.contracts import CompiledRegion, FrameResources, RegionInstance, RegionView, ValueSpec, check_time
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import EPFail
from ort_py.light_tuple import NamedTuple
from ort_py_onednn.binding.constants import F32, INTEGERS, Element
from ort_py_onednn.binding.engine import Engine
from ort_py_onednn.binding.forks import gate
from ort_py_onednn.binding.generation import Generation
from ort_py_onednn.binding.primitive import Primitive, Unimplemented
from ort_py_onednn.binding.resident import release
from ort_py_onednn.binding.room import leave_room
from ort_py_onednn.execution.elements import ELEMENTS
from ort_py_onednn.execution.growth import Shapes, growth_of
from ort_py_onednn.execution.instance import DnnlInstance, Refused
from ort_py_onednn.execution.packed_weights import MadeWeight, Weight
from ort_py_onednn.execution.plan import Plan
from ort_py_onednn.execution.repeat import Repeat
from ort_py_onednn.execution.shape_memory import Entry, shape_memory
from ort_py_onednn.graph.joined_sums import join_sums
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.graph.precision import FLOATING, assign
from ort_py_onednn.graph.quantization import fuse
from ort_py_onednn.graph.split_sums import split_sums
from ort_py_onednn.graph.support import read_while_planning
from ort_py_onednn.lowering.planner import Planner
from ort_py_onednn.lowering.table import LOWERINGS

__all__ = ["DnnlRegion", "KeptPlan"]

_MANY = 32
"""Primitives that have made the system map a few MiB of the library. Mapping again what is needed takes 0.2 ms."""

_STEP_BYTES = 700
"""Bytes of a step of a plan: its buffers and the dictionary of them."""

_LOOKED_AT = 64
"""Elements up to which a constant of a type that is computed with may be looked at, such as the scales of a Resize."""


class KeptPlan(NamedTuple):
    """A plan, and what stands for it in `shape_memory`."""

    plan: Plan
    entry: Entry


class DnnlRegion(CompiledRegion):
    """A region.

    Args:
        view: The region.
        engine: The process's engine.
        threads: Threads of a run where they are known, for planning ahead; frames say their own.
        chosen: Type of the products of float32 values.
        steady: Whether runs take the same number of threads whatever else the machine does: parts of sums are added in
            an order that depends on it.
        fast_math: Whether NaN may be lost and chains of constants merged; see `docs/user/semantics.md`.
    """

    def __init__(
        self,
        view: RegionView,
        engine: Engine,
        threads: int,
        chosen: Element = F32,
        *,
        steady: bool = False,
        fast_math: bool = False,
    ) -> None:
        fused = fuse(view, fast_math=fast_math)
        parts = split_sums(fused, view) if chosen == F32 else {}
        if chosen == F32:
            join_sums(fused)
        self.engine = engine
        self.steady = steady
        self.looks = not fast_math
        self.inputs = tuple(value.name for value in view.inputs)
        self.outputs = tuple(value.name for value in view.outputs)
        looked_at = read_while_planning(fused.nodes, fused.known, frozenset(self.inputs))
        self.looked_at = tuple(place for place, name in enumerate(self.inputs) if name in looked_at)
        self.growth = growth_of(fused.operations, self.inputs, self.outputs)
        counts = {self.inputs[place] for place in self.growth.counts} if self.growth else frozenset()
        self.input_types = tuple(_element(value, looked_at | counts) for value in view.inputs)
        self.output_types = tuple(_element(value, frozenset(fused.known)) for value in view.outputs)
        self._input_kinds = tuple(_numpy_kind(value) for value in view.inputs)
        self.operations: tuple[Operation, ...] = tuple(fused.operations)
        kinds = {value.name: value.data_type for node in fused.nodes for value in node.outputs if value is not None}
        self._types = assign(self.operations, kinds, self.outputs, chosen)
        self._real = frozenset(
            name for name, kind in kinds.items() if kind is not None and ELEMENTS.get(kind) in FLOATING
        )
        for kind in dict.fromkeys(operation.kind for operation in self.operations):
            LOWERINGS[kind]  # imported now: while a session is made, modules are imported in less time
        self._uses = _uses(self.operations, self.outputs)
        self._readers = _readers(self.operations, self.outputs)
        made = {name: MadeWeight(array) for name, array in fused.constants.items() if name in self._uses}
        for name, one in fused.derived.items():
            if name in self._uses:
                made[name] = MadeWeight.later(one.array, one.shape, one.key, one.dtype)
        self._weights, self._small = _constants(view, made, self._uses)
        for name, names in parts.items():
            source = view.weight(name)
            if source is not None:
                source.replaced(partial(_side_by_side, tuple(made[one] for one in names)))
        self._plans: dict[tuple[Shapes, int], KeptPlan] = {}
        self._lock = threading.Lock()
        shapes = [value.shape for value in view.inputs]
        static = all(shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes)
        self._alone = static and not self.looked_at and not counts
        if self._alone:
            self.growth = None
        if self._alone:
            with contextlib.suppress(Refused):  # then each run is declined
                self.plan(tuple(tuple(int(dim) for dim in shape or ()) for shape in shapes), threads)  # type: ignore[arg-type]  # all are int
        for weight in self._weights.values():
            weight.hold()

    @property
    def compared_inputs(self) -> frozenset[int]:
        """Inputs that plans are made for the elements of, and those that say how long the past is."""
        return frozenset((*self.looked_at, *(self.growth.counts if self.growth else ())))

    @property
    def inplace(self) -> tuple[tuple[int, int], ...]:
        """Pasts in buffers, and the presents behind them: their rows that count are read, and new ones written."""
        return self.growth.inplace if self.growth else ()

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """A frame's state."""
        return DnnlInstance(self, frame.threads, frame.admit)

    def plan(self, shapes: Shapes, threads: int) -> KeptPlan:
        """The plan for shapes of the inputs, made where it is new.

        Raises:
            Refused: oneDNN has nothing for these shapes.
            LimitError: The time of the run, or of loading, is over before all is planned.
        """
        key = shapes, threads
        with gate.making(), self._lock:
            found = self._plans.get(key)
            if found is not None:
                found.entry.used = True
                return found
            plan = self._planned(shapes, threads)
            entry = Entry(_bytes_of(plan), _primitives_of(plan), partial(_drop, weakref.ref(self), key))
            found = self._plans[key] = KeptPlan(plan, entry)
            shape_memory.add(entry)
        return found

    def close(self) -> None:
        """Let go of plans and weights."""
        with self._lock:
            for kept in self._plans.values():
                shape_memory.remove(kept.entry)
            self._plans = {}
            self._weights = {}

    def _planned(self, shapes: Shapes, threads: int) -> Plan:
        leave_room()
        try:
            with paused_collection(stays=True), Generation(threads) as generation:
                plan = self._walked(shapes, threads, generation)
                many = generation.count >= _MANY
                if many:
                    release(self.engine.library.path)  # before code is generated, which takes other parts of it
            if many:
                release(self.engine.library.path)
        except Unimplemented as error:
            raise Refused(
                f"oneDNN cannot compute with inputs of {', '.join(map(str, shapes))}.",
                why=(str(error),),
                fix="run these shapes with another provider",
            ) from error
        return plan

    def _walked(self, shapes: Shapes, threads: int, generation: Generation) -> Plan:
        count = len(self.inputs)
        planner = Planner(self.engine.library, self._weights, self._small, threads, self._uses, generation.add)
        planner.alone = self._alone
        planner.looks = self.looks
        planner.counts = self.growth is not None and bool(self.growth.counts)
        planner.readers = self._readers
        for index, (name, shape) in enumerate(zip(self.inputs, shapes[:count], strict=True)):
            element = self.input_types[index]
            if element is not None:
                if 0 in shape:
                    # Primitives do nothing then, though what follows from nothing need not be nothing.
                    raise Refused(
                        f"oneDNN does not compute with the empty input '{name}'.",
                        why=(f"its shape is {list(shape)}",),
                        fix="run these shapes with another provider",
                    )
                planner.feed(name, index, shape, element)
        for index, numbers in zip(self.looked_at, shapes[count:], strict=True):
            planner.know(self.inputs[index], np.array(numbers, self._input_kinds[index]).reshape(shapes[index]))
        for operation, types in zip(self.operations, self._types, strict=True):
            check_time()
            planner.title = operation.name
            planner.factor_type, planner.dtype, planner.only = types.factors, types.result, types.only
            planner.read(operation)
            try:
                LOWERINGS[operation.kind](planner, operation)
            except Unimplemented as error:
                raise Refused(
                    f"oneDNN has no way to compute '{operation.name}' ({operation.kind}) for inputs of "
                    f"{', '.join(map(str, shapes))}.",
                    why=(str(error),),
                    fix="run these shapes with another provider",
                ) from error
            self._check_types(planner, operation)
        planner.only = None
        return planner.finish(self.outputs, self.output_types)

    def _check_types(self, planner: Planner, operation: Operation) -> None:
        """Refuse a plan that holds a real number of the model as an integer, which would round it."""
        for name in operation.outputs:
            if name in self._real and planner.type_of(name) in INTEGERS:
                raise EPFail(
                    f"'{name}' of '{operation.name}' is a real number, and would be held as an integer.",
                    fix="this is a mistake in ort-py-onednn: please report it with the model",
                )


def _drop(region: weakref.ref[DnnlRegion], key: tuple[Shapes, int]) -> None:
    """Drop a plan, if its region still exists."""
    found = region()
    if found is not None:
        found._plans.pop(key, None)


def _bytes_of(plan: Plan) -> int:
    """Bytes of a plan without its primitives."""
    steps = sum(1 + len(step.body) if isinstance(step, Repeat) else 1 for step in plan.steps)
    return steps * _STEP_BYTES + sum(array.nbytes for _, array in plan.given)


def _primitives_of(plan: Plan) -> list[Primitive]:
    """The primitives of a plan, each once, without those that stay in memory in any case."""
    steps = [inner for step in plan.steps for inner in (step.body if isinstance(step, Repeat) else (step,))]
    found = dict.fromkeys(step.primitive for step in steps)
    return [one for one in found if isinstance(one, Primitive) and not one.lasting]


def _element(value: ValueSpec, known: frozenset[str]) -> Element | None:
    found = None if value.data_type is None else ELEMENTS.get(value.data_type)
    if value.name in known and value.data_type is not DataType.FLOAT:
        return None  # looked at, never computed with
    assert found is not None, f"'{value.name}' was claimed although oneDNN has no {value.data_type}"
    return found


def _numpy_kind(value: ValueSpec) -> Any:
    return None if value.data_type is None else numpy_dtype(value.data_type)


def _uses(operations: Sequence[Operation], outputs: Sequence[str]) -> dict[str, int]:
    uses = dict.fromkeys(outputs, 1)
    for operation in operations:
        for name in operation.reads():
            uses[name] = uses.get(name, 0) + 1
    return uses


def _readers(operations: Sequence[Operation], outputs: Sequence[str]) -> dict[str, frozenset[str]]:
    """Kinds of the operations that read each value but the outputs."""
    found: dict[str, set[str]] = {}
    for operation in operations:
        for name in operation.reads():
            found.setdefault(name, set()).add(operation.kind)
    return {name: frozenset(kinds) for name, kinds in found.items() if name not in outputs}


def _side_by_side(parts: Sequence[MadeWeight]) -> np.ndarray[Any, Any]:
    """The constant that was cut into parts."""
    return np.concatenate([part.array() for part in parts], axis=1)


def _constants(
    view: RegionView, made: dict[str, MadeWeight], uses: dict[str, int]
) -> tuple[dict[str, Weight], dict[str, np.ndarray[Any, Any]]]:
    """Constants to compute with, and those to look at."""
    forms = view.packed_forms
    weights = {name: Weight(source, forms) for name, source in made.items()}
    small: dict[str, np.ndarray[Any, Any]] = {}
    for value in view.initializers:
        source = view.weight(value.name) if value.name in uses else None
        if source is None:
            continue
        element = ELEMENTS.get(source.data_type)
        size = math.prod(source.shape)
        if element is None or size <= _LOOKED_AT:
            small[value.name] = np.array(source.array())
        if element is not None and size:
            weights[value.name] = Weight(source, forms)
    return weights, small
