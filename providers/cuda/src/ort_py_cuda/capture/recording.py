"""One captured graph: arrays that inputs are copied to, the graph, and the arrays that its results appear in.

All memory that the graph touches comes from a pool of its own: memory that the recorded kernels dropped is free for
kernels of the same graph, which run in the same order again, but not for anything after them. Comes before `region`.
"""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Callable, Sequence
from typing import Any

from ort_py.contracts.graph_view import Array
from ort_py.errors import EPFail

__all__ = ["Recording", "private_pool"]

_logger = logging.getLogger("ort_py_cuda.capture")


def private_pool(xp: Any) -> Any:
    """A pool of its own that takes its memory where the current thread does, so that the session's limit holds."""
    return xp.cuda.MemoryPool(xp.cuda.get_allocator())


class Recording:
    """A graph for one shape signature of one frame. Used by one thread at a time, on the frame's stream.

    Args:
        xp: Array module.
        pool: The frame's pool, warm: the same steps have run with it.
        run: The steps.
        inputs: Arrays of the run that is captured.
        inspect: Says what a graph does that must not be repeated; None where nothing.

    Raises:
        EPFail: The graph cannot be captured, or must not be used; the stream works on as before.
        Exception: What a step raised.
    """

    def __init__(
        self,
        xp: Any,
        pool: Any,
        run: Callable[[Sequence[Array]], list[Array]],
        inputs: Sequence[Array],
        inspect: Callable[[Any], str | None],
    ) -> None:
        stream = xp.cuda.get_current_stream()
        if stream.ptr in (0, 1):  # the legacy default stream, by either of its names
            raise EPFail(
                "The default stream cannot be captured.",
                fix="Give the session a stream of its own, or leave the option user_compute_stream out.",
            )
        with xp.cuda.using_allocator(pool.malloc):
            self._inputs = [xp.empty(x.shape, x.dtype) for x in inputs]
            stream.begin_capture()
            try:
                self._outputs = run(self._inputs)
            except BaseException:
                # What was recorded so far is dropped; a capture that a call has broken cannot even be ended in peace.
                with contextlib.suppress(Exception):
                    stream.end_capture()
                raise
            self._graph = stream.end_capture()
        reason = inspect(self._graph)
        if reason is not None:
            raise EPFail("The captured graph must not be repeated.", why=reason)

    def __call__(self, inputs: Sequence[Array], stream: Any) -> list[Array]:
        """Copy inputs in, launch, copy results out: new arrays of the caller's."""
        for static, given in zip(self._inputs, inputs, strict=True):
            static[...] = given
        self._graph.launch(stream)
        return [output.copy() for output in self._outputs]
