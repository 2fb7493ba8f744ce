"""Regions of kernels whose runs are captured. Comes after `program` and `runs`."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ort_py.contracts import CompiledRegion, FrameResources, KernelCatalog, RegionInstance, RegionView
from ort_py.contracts.graph_view import Array
from ort_py.devices import Device
from ort_py_cuda import float8, regions
from ort_py_cuda.capture.program import Program, program_of
from ort_py_cuda.capture.runs import CapturedRuns, Capturing
from ort_py_cuda.settings import current

__all__ = ["CapturedRegion", "compile"]


class CapturedRegion(CompiledRegion):
    """A region whose runs are captured. Threads share it.

    Args:
        program: Its steps.
        xp: Array module.
        inspect: Says what a captured graph does that must not be repeated; the driver is asked where None.
        signatures: Graphs of one frame at most; a few where None.

    Attributes:
        capturing: The outcome.
    """

    def __init__(
        self,
        program: Program,
        xp: Any,
        inspect: Callable[[Any], str | None] | None = None,
        signatures: int | None = None,
    ) -> None:
        self.program = program
        self.xp = xp
        given = {"inspect": inspect, "signatures": signatures}
        chosen: dict[str, Any] = {name: value for name, value in given.items() if value is not None}
        self.capturing = Capturing(f"a region of {len(program.steps)} steps", xp, **chosen)

    def remarks(self) -> Sequence[str]:
        """Reasons why runs are not captured, in the order of discovery; empty if all are."""
        return self.capturing.remarks()

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """Graphs of one frame."""
        return _Instance(self, frame)


class _Instance(RegionInstance):
    """The steps of one frame, captured."""

    def __init__(self, region: CapturedRegion, frame: FrameResources) -> None:
        self._region = region
        self._parts = region.program.parts(frame)
        self._runs = CapturedRuns(region.capturing, self._run, self._plainly)
        self._inputs: tuple[Array, ...] = ()

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        self._inputs = tuple(inputs)

    def __call__(self) -> Sequence[Array]:
        inputs, self._inputs = self._inputs, ()
        return self._runs(inputs)

    def reserved_bytes(self) -> int:
        """Bytes that the graphs' pool has taken."""
        return self._runs.reserved_bytes()

    def close(self) -> None:
        self._runs.drop()
        for part in self._parts.values():
            part.close()

    def _run(self, arrays: Sequence[Array]) -> list[Array]:
        return self._region.program.run(arrays, self._parts, self._region.xp)

    def _plainly(self, inputs: Sequence[Array]) -> list[Array]:
        """An ordinary run; what may be shared or strided is copied."""
        borrowed = self._region.program.borrowed
        return [
            value.copy() if place in borrowed or not value.flags.c_contiguous else value
            for place, value in enumerate(self._run(inputs))
        ]


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
