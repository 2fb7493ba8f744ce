"""Regions that are captured: each frame warms up, records and replays on its own, a graph for each shape signature.

The first run of a signature is an ordinary one, with the memory of the graph to come: kernels compile, plans are
made, the pool fills. The second is recorded. Where recording fails, the region says why and runs as usual from then
on.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ort_py.contracts import CompiledRegion, FrameResources, KernelCatalog, RegionInstance, RegionView
from ort_py.contracts.graph_view import Array
from ort_py.devices import Device
from ort_py_cuda import float8, libraries, regions
from ort_py_cuda.capture.inspection import host_work
from ort_py_cuda.capture.program import Program, program_of
from ort_py_cuda.capture.recording import Recording, private_pool
from ort_py_cuda.settings import current

__all__ = ["CapturedRegion", "compile"]

_logger = logging.getLogger("ort_py_cuda.capture")

_SIGNATURES = 8
"""Graphs of one frame: each holds its inputs and results, and the driver a few kilobytes a node."""

Signature: TypeAlias = tuple[tuple[tuple[int, ...], str], ...]


def _inspected(graph: Any) -> str | None:
    return host_work(int(graph.graph), libraries.load("cuda"))


class CapturedRegion(CompiledRegion):
    """A region whose runs are captured. Shared by threads; what changes is why it is not captured any more.

    Args:
        program: Its steps.
        xp: Array module.
        inspect: Says what a captured graph does that must not be repeated.
        signatures: Graphs of one frame at most.
    """

    def __init__(
        self,
        program: Program,
        xp: Any,
        inspect: Callable[[Any], str | None] = _inspected,
        signatures: int = _SIGNATURES,
    ) -> None:
        self.program = program
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
            _logger.warning("a region of %s steps is not captured: %s", len(self.program.steps), reason)

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """Graphs of one frame."""
        return _Instance(self, frame)


class _Instance(RegionInstance):
    """Graphs of one frame, and the pool that all of them live in: they run one after another on one stream."""

    def __init__(self, region: CapturedRegion, frame: FrameResources) -> None:
        self._region = region
        self._parts = region.program.parts(frame)
        self._known: dict[Signature, Recording | None] = {}
        self._pool: Any = None
        self._inputs: tuple[Array, ...] = ()

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        self._inputs = tuple(inputs)

    def __call__(self) -> Sequence[Array]:
        inputs, self._inputs = self._inputs, ()
        region = self._region
        if region.refused:
            return self._plainly(inputs)
        signature = tuple((tuple(x.shape), x.dtype.name) for x in inputs)
        if signature not in self._known:
            if len(self._known) >= region.signatures:
                region.note(f"runs have more than {region.signatures} shape signatures; further ones run as usual")
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
        return recording(inputs, region.xp.cuda.get_current_stream())

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        return self._region.program.run(arrays, self._parts, self._region.xp)

    def _plainly(self, inputs: Sequence[Array]) -> list[Array]:
        """An ordinary run; what may be shared or strided is copied."""
        borrowed = self._region.program.borrowed
        return [
            value.copy() if place in borrowed or not value.flags.c_contiguous else value
            for place, value in enumerate(self._run(inputs))
        ]

    def _warm_up(self, inputs: Sequence[Array]) -> list[Array]:
        """An ordinary run in the graph's memory, whose results are copied out of it."""
        xp = self._region.xp
        if self._pool is None:
            self._pool = private_pool(xp)
        with xp.cuda.using_allocator(self._pool.malloc):
            # Taken as the recording will take them: it finds all of its memory in the pool, in the same pieces.
            copies = [xp.empty(x.shape, x.dtype) for x in inputs]
            results = self._run(inputs)
            del copies
        return [value.copy() for value in results]

    def _recorded(self, inputs: Sequence[Array]) -> Recording | None:
        region = self._region
        try:
            return Recording(region.xp, self._pool, self._run, inputs, region.inspect)
        except Exception as error:  # whatever a kernel does that cannot be captured
            why = getattr(error, "why", ())
            region.refuse("; ".join([f"{type(error).__name__}: {getattr(error, 'what', error)}", *why]))
            self._drop()
            return None

    def _drop(self) -> None:
        self._known.clear()
        self._pool = None

    def reserved_bytes(self) -> int:
        """Bytes that the graphs' pool has taken."""
        return 0 if self._pool is None else int(self._pool.total_bytes())

    def close(self) -> None:
        self._drop()
        for part in self._parts.values():
            part.close()


def compile(  # noqa: A001 - the verb of the contract
    region: RegionView, kernels: KernelCatalog, array_module: Any
) -> CompiledRegion:
    """A region that is captured.

    Args:
        region: Nodes that `claims.groups` put together, or some of them.
        kernels: The provider's kernels.
        array_module: CuPy.

    Raises:
        KernelNotFoundError: A node has no kernel.
    """
    everything = [node.index for node in region.nodes]
    products = float8.find(region, everything, current().capability).groups
    rest = sorted({*everything}.difference(*products))
    parts = [*products, *(claim.nodes for claim in regions.groups(region, rest))]
    device = Device("cuda", current().device)

    def part(view: RegionView) -> CompiledRegion:
        return float8.compile_region(view, array_module) if float8.owns(view.nodes) else regions.compile(view)

    return CapturedRegion(program_of(region, kernels, array_module, device, parts, part), array_module)
