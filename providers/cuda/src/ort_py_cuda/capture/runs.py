"""Runs that are captured, whatever enqueues their work: warm up, record, replay, a graph for each shape signature.

The first run of a signature is an ordinary one, with the memory of the graph to come: kernels compile, plans are
made, the pool fills. The second is recorded. Where recording fails, the region says why and runs as usual from then
on. Comes after `recording`; knows neither nodes nor engines.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py_cuda import libraries
from ort_py_cuda.capture.inspection import host_work
from ort_py_cuda.capture.recording import Recording, private_pool

__all__ = ["CapturedRuns", "Capturing", "inspected"]

_logger = logging.getLogger("ort_py_cuda.capture")

_SIGNATURES = 8
"""Graphs of one frame: each holds its inputs and results, and the driver a few kilobytes a node."""

Signature: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]

Run: TypeAlias = Callable[[Sequence[Array]], list[Array]]
"""Enqueues one run on the current stream, and returns its results."""


def inspected(graph: Any) -> str | None:
    """Return what a captured graph does that must not be repeated, or None."""
    return host_work(int(graph.graph), libraries.load("cuda"))


class Capturing:
    """The settings and the outcome of capturing one region's runs. Threads share it.

    Args:
        title: The region, in words.
        xp: Array module.
        inspect: Says what a captured graph does that must not be repeated.
        signatures: Graphs of one frame at most.
    """

    def __init__(
        self,
        title: str,
        xp: Any,
        inspect: Callable[[Any], str | None] = inspected,
        signatures: int = _SIGNATURES,
    ) -> None:
        self.title = title
        self.xp = xp
        self.inspect = inspect
        self.signatures = signatures
        self._reasons: dict[str, None] = {}
        self._refused = False

    @property
    def refused(self) -> bool:
        """True if capturing has failed, so that it is not tried again."""
        return self._refused

    def remarks(self) -> Sequence[str]:
        """Reasons why runs are not captured, in the order of discovery; empty if all are."""
        return tuple(f"not captured: {reason}" for reason in self._reasons)

    def refuse(self, reason: str) -> None:
        """Run as usual from now on."""
        self._refused = True
        self.note(reason)

    def note(self, reason: str) -> None:
        """Put a reason among the remarks, once."""
        if reason not in self._reasons:
            self._reasons[reason] = None
            _logger.warning("%s is not captured: %s", self.title, reason)


class CapturedRuns:
    """Graphs of one frame, and the pool that all of them live in: they run one after another on one stream.

    Args:
        capturing: The region's.
        run: What is captured.
        plainly: An ordinary run, whose results belong to the caller.
    """

    def __init__(self, capturing: Capturing, run: Run, plainly: Run) -> None:
        self._capturing = capturing
        self._run = run
        self._plainly = plainly
        self._known: dict[Signature, Recording | None] = {}
        self._pool: Any = None

    def __call__(self, inputs: Sequence[Array]) -> list[Array]:
        """Run once, by a graph where there is one.

        Raises:
            Exception: As the run.
        """
        capturing = self._capturing
        if capturing.refused:
            return self._plainly(inputs)
        signature = tuple((tuple(x.shape), x.dtype.name) for x in inputs)
        if signature not in self._known:
            if len(self._known) >= capturing.signatures:
                capturing.note(
                    f"runs have more than {capturing.signatures} shape signatures; further ones run as usual"
                )
                return self._plainly(inputs)
            results = self._warm_up(inputs)
            self._known[signature] = None
            return results
        recording = self._known[signature]
        if recording is None:
            recording = self._recorded(inputs)
            if recording is None:
                return self._plainly(inputs)
            self._known[signature] = recording
        return recording(inputs, capturing.xp.cuda.get_current_stream())

    def reserved_bytes(self) -> int:
        """Return the bytes that the graphs' pool has taken."""
        return 0 if self._pool is None else int(self._pool.total_bytes())

    def drop(self) -> None:
        """Release the graphs and their memory."""
        self._known.clear()
        self._pool = None

    def _warm_up(self, inputs: Sequence[Array]) -> list[Array]:
        """An ordinary run in the graph's memory, whose results are copied out of it."""
        xp = self._capturing.xp
        if self._pool is None:
            self._pool = private_pool(xp)
        with xp.cuda.using_allocator(self._pool.malloc):
            # Taken as the recording will take them: it finds all of its memory in the pool, in the same pieces.
            copies = [xp.empty(x.shape, x.dtype) for x in inputs]
            results = self._run(inputs)
            del copies
        return [value.copy() for value in results]

    def _recorded(self, inputs: Sequence[Array]) -> Recording | None:
        capturing = self._capturing
        try:
            return Recording(capturing.xp, self._pool, self._run, inputs, capturing.inspect)
        except Exception as error:  # whatever a kernel does that cannot be captured
            why = getattr(error, "why", ())
            capturing.refuse("; ".join([f"{type(error).__name__}: {getattr(error, 'what', error)}", *why]))
            self.drop()
            return None
