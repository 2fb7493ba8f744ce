"""Handles through which a kernel calls the graphs of its node: created at binding, and connected to a runner during a
call.

A kernel is bound once and called by many threads, each in a frame of its own. So the handle holds no frame: the step
that calls the kernel says, for its own thread and as long as the call lasts, how each handle runs. It does not depend
on frames or plans; `execution.control_flow` provides the runners.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator, Mapping
from typing import Any, TypeAlias

from ort_py.errors import EngineError, Location

SubgraphRunner: TypeAlias = Callable[..., list[Any]]


class _Call(threading.local):
    runners: Mapping[BoundSubgraph, SubgraphRunner]

    def __init__(self) -> None:
        self.runners = {}


_call = _Call()


@contextlib.contextmanager
def running(runners: Mapping[BoundSubgraph, SubgraphRunner]) -> Iterator[None]:
    """Let these handles, and no others, be called by this thread: a kernel's call begins."""
    before = _call.runners
    _call.runners = runners
    try:
        yield
    finally:
        _call.runners = before


class BoundSubgraph:
    """One graph of one node, as its kernel calls it: ``subgraph(*inputs)`` → list of outputs."""

    __slots__ = ("location", "name")

    def __init__(self, name: str, location: Location) -> None:
        self.name = name
        self.location = location

    def __call__(self, *inputs: Any) -> list[Any]:
        """Run the graph in the frame of the kernel's call.

        Raises:
            EngineError: The kernel is not being called by this thread.
            InvalidArgument: The graph has another number of inputs.
        """
        runner = _call.runners.get(self)
        if runner is None:
            raise EngineError(
                f"The graph '{self.name}' was called outside of a call of its kernel.",
                where=self.location,
                why="it runs in the frame of the kernel's call, which belongs to one thread",
                fix="Call it from the kernel itself, on the thread that called the kernel: not in `parallel_for`.",
            )
        return runner(*inputs)
