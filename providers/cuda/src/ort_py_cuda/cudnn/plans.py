"""Plans of graphs: chosen and built once for a graph, device and way of choosing, then kept, up to a bound.

The candidates are those of the front end's heuristics (mode A, then the fallback list); the first that builds is
taken, or the fastest on the very arrays of the first run. The walk over them is ours: of the front end's own, versions
differ in whether it ends at the first candidate that is barred or does not build. Comes after `lowering`; kernels keep
the plans of the shapes they meet, so that the cache is asked once a shape.
"""

from __future__ import annotations

import ctypes
import threading
from collections import OrderedDict
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ort_py_cuda.cudnn.choice import Choice
from ort_py_cuda.cudnn.errors import CudnnError, Unsupported
from ort_py_cuda.cudnn.frontend import frontend
from ort_py_cuda.cudnn.graphs import Graph
from ort_py_cuda.cudnn.handles import Handles
from ort_py_cuda.cudnn.lowering import lowered
from ort_py_cuda.cudnn.workspace import Scratch, capturing, current_stream

__all__ = ["Plan", "Plans", "shared_plans"]

_CANDIDATES = 12
"""Plans that are timed: the heuristics put what is worth trying first, and building one takes some 100 ms."""

_ROUNDS = 3
"""Timed runs of each candidate, of which the fastest counts."""

_HEURISTIC = Choice()


class Plan:
    """A built graph. Threads may share it: each runs it with its own handle.

    Args:
        cudnn: The front end.
        handles: Its handles.
        graph: What it computes.
        built: The front end's graph; the plan that was built last is the one that it runs.
        workspace: Bytes of scratch memory.
    """

    __slots__ = ("_built", "_cudnn", "_handles", "_lock", "_numbers", "_scalars", "graph", "workspace")

    def __init__(self, cudnn: Any, handles: Handles, graph: Graph, built: Any, workspace: int) -> None:
        self.graph = graph
        self.workspace = workspace
        self._cudnn = cudnn
        self._handles = handles
        self._built = built
        self._numbers = tuple(graph.identity(tensor.name) for tensor in graph.in_memory)
        # Scalars are read from the host when the plan is run: their memory lives as long as the plan.
        self._scalars = {
            graph.identity(tensor.name): ctypes.c_float(tensor.value)
            for tensor in graph.tensors
            if tensor.value is not None
        }
        # Enqueueing takes microseconds, and the front end does not promise that two threads may do it at once.
        self._lock = threading.Lock()

    def __call__(self, xp: Any, device: int, addresses: Sequence[int]) -> None:
        """Enqueue it on the current stream.

        Args:
            xp: CuPy.
            device: Number of the current device.
            addresses: Of `Graph.in_memory`, in order.

        Raises:
            CudnnError: cuDNN refuses the call.
        """
        stream = current_stream(xp)
        handle = self._handles.on(device, stream)
        pack = dict(zip(self._numbers, addresses, strict=True))
        for number, scalar in self._scalars.items():
            pack[number] = ctypes.addressof(scalar)
        with Scratch(xp, self.workspace) as scratch, self._lock:
            try:
                self._built.execute(pack, scratch, handle=handle)
            except Exception as error:  # the front end's classes differ between versions
                raise CudnnError(
                    "cuDNN could not run a plan.",
                    why=[str(error), _last_error(self._cudnn)],
                    fix="Check the device (nvidia-smi) and the versions of the driver and of nvidia-cudnn.",
                ) from error


class Plans:
    """Plans by graph, device and way of choosing; what was not asked for longest goes first.

    Args:
        limit: Most plans that are kept.
    """

    def __init__(self, limit: int = 512) -> None:
        self._limit = limit
        self._known: OrderedDict[Any, Plan | Unsupported] = OrderedDict()
        self._lock = threading.Lock()
        self._building = threading.Lock()
        self._handles: Handles | None = None

    def __len__(self) -> int:
        return len(self._known)

    def plan(self, xp: Any, graph: Graph, device: int, addresses: Sequence[int], choice: Choice = _HEURISTIC) -> Plan:
        """The plan for a graph; built where it is not known.

        Args:
            xp: CuPy.
            graph: What to compute.
            device: Number of the current device.
            addresses: Arrays to time candidates on, as in `Plan`; the result's is overwritten.
            choice: How to choose; while a stream is captured nothing can be timed, and the heuristics choose.

        Raises:
            Unsupported: cuDNN has no plan for the graph; that is remembered too.
            EPFail: The front end cannot be used.
        """
        if choice.timed and capturing(xp):
            choice = replace(choice, timed=False)
        key = (graph, device, choice)
        found = self._find(key)
        if found is None:
            with self._building:  # one at a time: two threads that meet a shape at once build it once
                found = self._find(key)
                if found is None:
                    found = self._made(xp, graph, device, addresses, choice)
                    self._keep(key, found)
        if isinstance(found, Unsupported):
            raise Unsupported(found.what, why=found.why, fix=found.fix)
        return found

    def _find(self, key: Any) -> Plan | Unsupported | None:
        with self._lock:
            found = self._known.get(key)
            if found is not None:
                self._known.move_to_end(key)
            return found

    def _keep(self, key: Any, made: Plan | Unsupported) -> None:
        with self._lock:
            self._known[key] = made
            while len(self._known) > self._limit:
                self._known.popitem(last=False)

    def _made(self, xp: Any, graph: Graph, device: int, addresses: Sequence[int], choice: Choice) -> Plan | Unsupported:
        cudnn = frontend()
        if self._handles is None:
            self._handles = Handles(
                lambda: _created(cudnn),
                cudnn.destroy_handle,
                lambda handle, stream: cudnn.set_stream(handle=handle, stream=stream),
            )
        handle = self._handles.on(device, current_stream(xp))
        try:
            built = lowered(cudnn, graph, handle)
            built.validate()
            built.build_operation_graph()
            built.create_execution_plans([cudnn.heur_mode.A, cudnn.heur_mode.FALLBACK])
            _restrict(cudnn, built, graph, choice)
            built.check_support()
            count = built.get_execution_plan_count()
        except Exception as error:  # its own class for what is not supported, RuntimeError for the rest, also for that
            return _unsupported(graph, [str(error)])
        best: tuple[float, int, Plan] | None = None
        reasons: dict[str, list[int]] = {}
        timed = 0
        for index in range(count):
            try:
                built.build_plan_at_index(index)
                size = built.get_workspace_size_plan_at_index(index)
                candidate = Plan(cudnn, self._handles, graph, built, size)
                if not choice.timed:
                    return candidate
                took = _time(xp, candidate, device, addresses)
            except Exception as error:  # heuristics also propose what is barred, cannot be built, or has no room
                reasons.setdefault(str(error), []).append(index)
                continue
            if best is None or took < best[0]:
                best = took, index, candidate
            timed += 1
            if timed == _CANDIDATES:
                break
        if best is None:
            return _unsupported(graph, [f"plan {', '.join(map(str, where))}: {why}" for why, where in reasons.items()])
        built.build_plan_at_index(best[1])  # which is built already: this makes it the one that runs
        return best[2]


def _created(cudnn: Any) -> Any:
    try:
        return cudnn.create_handle()
    except Exception as error:  # as in `Plan`
        raise CudnnError(
            "cuDNN cannot be initialised.",
            why=[str(error), _last_error(cudnn)],
            fix="Check the device (nvidia-smi), and that nvidia-cudnn belongs to the installed CUDA version.",
        ) from error


def _restrict(cudnn: Any, built: Any, graph: Graph, choice: Choice) -> None:
    """Bar plans that compute less precisely than the session asks for, or take more memory."""
    notes = cudnn.numerical_note
    kinds = {tensor.dtype for tensor in graph.in_memory}
    if kinds == {"float32"}:
        barred = [notes.DOWN_CONVERT_INPUTS] if graph.tf32 else [notes.DOWN_CONVERT_INPUTS, notes.TENSOR_CORE]
    else:
        barred = [notes.REDUCED_PRECISION_REDUCTION]  # sums of halves are formed in float32
    if choice.deterministic:
        barred.append(notes.NONDETERMINISTIC)
    built.deselect_numeric_notes(barred)
    if choice.workspace is not None:
        built.deselect_workspace_greater_than(choice.workspace)


def _time(xp: Any, plan: Plan, device: int, addresses: Sequence[int]) -> float:
    """Milliseconds of the fastest of some runs, after one that is not counted."""
    plan(xp, device, addresses)
    stream = xp.cuda.get_current_stream()
    times = []
    for _ in range(_ROUNDS):
        start, stop = xp.cuda.Event(), xp.cuda.Event()
        start.record(stream)
        plan(xp, device, addresses)
        stop.record(stream)
        stop.synchronize()
        times.append(xp.cuda.get_elapsed_time(start, stop))
    return float(min(times))


def _unsupported(graph: Graph, reasons: Sequence[str]) -> Unsupported:
    methods = " + ".join(operation.method for operation in graph.operations)
    return Unsupported(
        f"cuDNN has no plan for {methods}.",
        why=[*reasons, *(f"{tensor.name}: {tensor.dtype} {list(tensor.dims)}" for tensor in graph.in_memory)],
        fix="Nothing: the node runs in another way.",
    )


def _last_error(cudnn: Any) -> str:
    try:
        return str(cudnn.get_last_error_string())
    except Exception:  # a failure to describe the error must not hide the error itself
        return ""


_SHARED = Plans()


def shared_plans() -> Plans:
    """The process's plans."""
    return _SHARED
