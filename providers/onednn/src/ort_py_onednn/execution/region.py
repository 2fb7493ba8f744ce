"""A compiled region: fused operations with their constants, and a plan for each set of shapes it has seen.

Immutable but for its plans, of which it keeps a bounded number; shared by threads. Known shapes are planned when the
region is compiled, so its weights are packed and the originals gone before the first run.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import CompiledRegion, FrameResources, RegionInstance, RegionView
from ort_py.dtypes import DataType
from ort_py.errors import EPFail
from ort_py_onednn.binding.engine import Engine
from ort_py_onednn.binding.primitive import Unimplemented
from ort_py_onednn.execution.packed_weights import Weight
from ort_py_onednn.execution.plan import Plan
from ort_py_onednn.graph.fusion import fuse
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner
from ort_py_onednn.lowering.table import LOWERINGS

__all__ = ["PLANS_KEPT", "DnnlRegion"]

PLANS_KEPT = 64
"""Plans of one region: pictures of sixty widths are no trouble, and an endless variety costs no endless memory."""

_LOOKED_AT = 64
"""Elements up to which a floating constant may be looked at while planning, such as the scales of a Resize."""

Shapes = tuple[tuple[int, ...], ...]


class DnnlRegion(CompiledRegion):
    """A region of float32 operations.

    Args:
        view: The region.
        engine: The process's engine.
        threads: Threads of a run where they are known, for planning ahead; frames say their own.
    """

    def __init__(self, view: RegionView, engine: Engine, threads: int) -> None:
        fused = fuse(view)
        self.engine = engine
        self.inputs = tuple(value.name for value in view.inputs)
        self.outputs = tuple(value.name for value in view.outputs)
        self.operations: tuple[Operation, ...] = tuple(fused.operations)
        self._uses = _uses(self.operations, self.outputs)
        self._weights, self._small = _constants(view, fused.constants, self._uses)
        self._plans: OrderedDict[tuple[Shapes, int], Plan] = OrderedDict()
        self._lock = threading.Lock()
        shapes = [value.shape for value in view.inputs]
        if all(shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes):
            self.plan(tuple(tuple(int(dim) for dim in shape or ()) for shape in shapes), threads)  # type: ignore[arg-type]  # all are int

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """A frame's state."""
        from ort_py_onednn.execution.instance import DnnlInstance

        return DnnlInstance(self, frame.threads)

    def plan(self, shapes: Shapes, threads: int) -> Plan:
        """The plan for shapes of the inputs, made where it is new.

        Raises:
            EPFail: oneDNN cannot do this with these shapes.
        """
        key = shapes, threads
        with self._lock:
            found = self._plans.get(key)
            if found is not None:
                self._plans.move_to_end(key)
                return found
            found = self._plans[key] = self._planned(shapes, threads)
            if len(self._plans) > PLANS_KEPT:
                self._plans.popitem(last=False)
        for weight in self._weights.values():
            weight.let_go()
        return found

    def workspace_bytes(self, shapes: Sequence[Sequence[int]]) -> int:
        """The arena of one frame."""
        return self.plan(tuple(tuple(shape) for shape in shapes), 1).arena_bytes

    def close(self) -> None:
        """Let go of plans and weights."""
        with self._lock:
            self._plans.clear()
            self._weights = {}

    def _planned(self, shapes: Shapes, threads: int) -> Plan:
        if any(0 in shape for shape in shapes):
            raise EPFail("oneDNN's regions take no empty tensors.", fix="run this input with another provider")
        planner = Planner(self.engine.library, self._weights, self._small, threads, self._uses)
        for index, (name, shape) in enumerate(zip(self.inputs, shapes, strict=True)):
            planner.feed(name, index, shape)
        for operation in self.operations:
            planner.title = operation.name
            planner.read(operation)
            try:
                LOWERINGS[operation.kind](planner, operation)
            except Unimplemented as error:
                raise EPFail(
                    f"oneDNN has no way to compute '{operation.name}' ({operation.kind}) for inputs of "
                    f"{', '.join(map(str, shapes))}.",
                    why=(str(error),),
                    fix="run these shapes with another provider",
                ) from error
        return planner.finish(self.outputs)


def _uses(operations: Sequence[Operation], outputs: Sequence[str]) -> dict[str, int]:
    uses = dict.fromkeys(outputs, 1)
    for operation in operations:
        for name in operation.reads():
            uses[name] = uses.get(name, 0) + 1
    return uses


def _constants(
    view: RegionView, made: dict[str, np.ndarray[Any, Any]], uses: dict[str, int]
) -> tuple[dict[str, Weight], dict[str, np.ndarray[Any, Any]]]:
    """Constants to compute with, and those to look at."""
    weights = {name: Weight(array) for name, array in made.items() if name in uses}
    small: dict[str, np.ndarray[Any, Any]] = {}
    for value in view.initializers:
        if value.name not in uses:
            continue
        array = view.constant(value.name)
        if array is None:
            continue
        is_float = value.data_type is DataType.FLOAT
        if not is_float or array.size <= _LOOKED_AT:
            small[value.name] = np.array(array)
        if is_float and array.size:
            weights[value.name] = Weight(array)
    return weights, small
