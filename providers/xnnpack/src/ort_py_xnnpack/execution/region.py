"""A compiled region: its nodes and constants, from which it is described to XNNPACK for each set of shapes.

Shared by threads. Where shapes are known, the weights are packed when the region is compiled, and the first frame takes
what was made.
"""

from __future__ import annotations

import contextlib
import threading
from typing import Any

import numpy as np

from ort_py.contracts import CompiledRegion, FrameResources, RegionInstance, RegionView
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import EPFail
from ort_py_xnnpack.binding.library import Library
from ort_py_xnnpack.binding.packing import PackedWeights
from ort_py_xnnpack.binding.pool import pools
from ort_py_xnnpack.binding.subgraph import Subgraph
from ort_py_xnnpack.binding.workspace import Workspace, Workspaces
from ort_py_xnnpack.execution.builder import Builder, Refused
from ort_py_xnnpack.execution.form import Form, Shapes, are_alike
from ort_py_xnnpack.execution.instance import XnnpackInstance
from ort_py_xnnpack.execution.plan import Plan
from ort_py_xnnpack.graph.flat_graph import FlatGraph

__all__ = ["XnnpackRegion"]

_MOST_REFUSED = 64
"""Sets of shapes of which it is remembered that XNNPACK has nothing for them."""


class XnnpackRegion(CompiledRegion):
    """A region.

    Args:
        view: The region.
        library: The library.
        workspaces: The session's.
        expected: Threads that runs are likely to have.
        threads: Threads of each run; 0 for those of its frame.
        fast_math: Whether NaN may be lost.

    Attributes:
        dtypes: Element types of its outputs.
        workspaces: The session's.
    """

    def __init__(
        self,
        view: RegionView,
        library: Library,
        workspaces: Workspaces,
        expected: int,
        threads: int = 0,
        *,
        fast_math: bool = False,
    ) -> None:
        self.workspaces = workspaces
        self._watches = not fast_math
        self._refused: dict[Shapes, Refused] = {}
        self.threads = threads
        self._library = library
        self._inputs = tuple(view.inputs)
        self._outputs = tuple(view.outputs)
        self.dtypes = [numpy_dtype(value.data_type or DataType.FLOAT) for value in view.outputs]
        found = {value.name: view.weight(value.name) for value in view.initializers}
        self._weights = {name: weight for name, weight in found.items() if weight is not None}
        self._held = [weight.held() for weight in self._weights.values()]
        self._packed_forms = view.packed_forms
        self._plan = Plan.of(FlatGraph(view, self._constant))
        self._lock = threading.Lock()
        self._ready: dict[tuple[Shapes, int], Form] = {}
        shapes = [value.shape for value in view.inputs]
        known = all(shape is not None and all(isinstance(dim, int) for dim in shape) for shape in shapes)
        if known or any(node.op_type == "MatMulNBits" for node in self._plan.graph.nodes):
            # Weights of few bits are packed here in any case: with one row, and each run sets the number of rows.
            sizes = tuple(tuple(dim if isinstance(dim, int) else 1 for dim in shape or ()) for shape in shapes)
            with contextlib.suppress(Refused):  # then each run is declined
                form = self._made(sizes, expected, workspaces.first())
                if known or form.follows:
                    self._ready[sizes, expected] = form

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """A frame's state."""
        return XnnpackInstance(self, self.threads or max(1, frame.threads), frame.shared, frame.admit)

    def form(self, shapes: Shapes, threads: int, workspace: Workspace) -> Form:
        """A form for shapes of the inputs, for the frame that asks and has a workspace.

        Raises:
            Refused: XNNPACK has nothing for these shapes.
        """
        with self._lock:
            for known, number in list(self._ready):
                form = self._ready[known, number]
                if (
                    form.runtime.workspace is not workspace
                    or number != threads
                    or not (known == shapes or (form.follows and are_alike(known, shapes)))
                ):
                    continue
                del self._ready[known, number]
                if form.generation == pools.generation:
                    if known != shapes:
                        self._told(form, shapes)
                    return form
            return self._made(shapes, threads, workspace)

    def change(self, form: Form, shapes: Shapes) -> None:
        """Let a form follow other shapes.

        Raises:
            Refused: XNNPACK has nothing for these shapes.
        """
        with self._lock:
            self._told(form, shapes)

    def close(self) -> None:
        """Let go of weights and of what no frame took."""
        with self._lock:
            for form in self._ready.values():
                form.runtime.close()
            self._ready = {}
            self._held = []

    def _constant(self, name: str) -> np.ndarray[Any, Any] | None:
        weight = self._weights.get(name)
        return None if weight is None else np.asarray(weight.array())

    def _made(self, shapes: Shapes, threads: int, workspace: Workspace) -> Form:
        self._check(shapes)
        generation = pools.generation
        weights = PackedWeights(self._packed_forms)
        inputs = list(zip(self._inputs, shapes, strict=True))
        subgraph = Subgraph(self._library, len(self._inputs) + len(self._outputs) + 1)
        builder = Builder(self._plan, subgraph, weights, self._weights, inputs, self._outputs, watches=self._watches)
        try:
            flagged = builder.describe()
            runtime = subgraph.runtime(weights, pools.of(self._library, threads), workspace)
            runtime.reshape(shapes)
        except EPFail as error:
            raise self._noted(shapes, error) from error
        outputs = tuple(builder.shapes[value.name] for value in self._outputs)
        return Form.of(runtime, outputs, builder.kept, generation, flagged=flagged, follows=builder.follows)

    def _told(self, form: Form, shapes: Shapes) -> None:
        self._check(shapes)
        try:
            form.change(shapes)
        except EPFail as error:
            form.runtime.close()
            raise self._noted(shapes, error) from error

    def _check(self, shapes: Shapes) -> None:
        if shapes in self._refused:
            raise self._refused[shapes].with_traceback(None)

    def _noted(self, shapes: Shapes, error: EPFail) -> Refused:
        if len(self._refused) >= _MOST_REFUSED:
            self._refused.clear()
        found = self._refused[shapes] = Refused(
            f"XNNPACK cannot compute with inputs of {', '.join(map(str, shapes))}.",
            why=(error.what,),
            fix="run these shapes with another provider",
        )
        return found
