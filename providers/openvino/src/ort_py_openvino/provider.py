"""The provider of a session: claims of the regions that OpenVINO takes, and their compilation."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from ort_py.contracts import (
    ArtifactValidity,
    Capability,
    CompiledRegion,
    GraphView,
    KernelLookup,
    NodeSpec,
    RegionProvider,
    RegionView,
    SessionContext,
)
from ort_py.errors import OptionError
from ort_py_openvino.artifacts import unpack, validity
from ort_py_openvino.forks import check_process
from ort_py_openvino.properties import target_of
from ort_py_openvino.region import OpenVINORegion, imported
from ort_py_openvino.runtime import check_device, core
from ort_py_openvino.shapes import Bounds
from ort_py_openvino.support import refusal

__all__ = ["OpenVINOProvider"]

_HEAVY = frozenset({"Conv", "ConvTranspose", "FusedConv", "FusedMatMul", "Gemm", "GRU", "LSTM", "MatMul", "RNN"})
_LARGE = 16384
"""Elements of a tensor from which an operator of a few instructions an element pays for a request of some 10 µs."""

_UNKNOWN = 16
"""Size taken for a dimension that is not known before a run."""

_MOVES = frozenset({"Flatten", "Identity", "Reshape", "Shape", "Squeeze", "Transpose", "Unsqueeze"})


class OpenVINOProvider(RegionProvider):
    """Compiles regions with OpenVINO; runs no single kernels.

    Args:
        name: As registered by the plug-in.
        options: Validated options.
        context: The session's wishes.

    Raises:
        OptionError: OpenVINO does not accept the value of an option.
        EPFail: OpenVINO does not start, has no such device, or had been started by the process that forked this one.
    """

    def __init__(self, name: str, options: Mapping[str, Any], context: SessionContext) -> None:
        self._name = name
        self._claim_small = bool(options["claim_small"])
        self._target = target_of(options, context)
        check_process(self._target)
        core()
        check_device(self._target.device)

    @property
    def name(self) -> str:
        """Name as registered by the plug-in."""
        return self._name

    @property
    def computes_empty_values(self) -> bool:
        """False: pools and reductions of values without elements leave what was in the memory before."""
        return False

    @property
    def computes_late_broadcasts(self) -> bool:
        """False: a sum that is fused with a product gets memory of the product's shape, and a pool with a window larger
        than its data leaves the results of the run before, or ends the process.
        """
        return False

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        """See `support`."""
        return refusal(node, graph, self._target)

    def group_refusal(self, nodes: Sequence[NodeSpec], graph: GraphView) -> str | None:
        """A request costs some 10 µs: it takes a product, or a large tensor."""
        if self._claim_small or any(_pays(node) for node in nodes):
            return None
        return f"does not pay: too little work for a request, no product and no tensor of {_LARGE:,} elements or more"

    def get_capability(self, graph: GraphView, kernels: KernelLookup) -> Capability:
        """Regions of what OpenVINO's reader converts.

        Raises:
            OptionError: `reshape_input` names an input that the model does not have.
        """
        if graph.nodes and not graph.nodes[0].path:  # a nested graph's inputs are others
            _check_names(self._target.shapes, [value.name for value in graph.inputs])
        return super().get_capability(graph, kernels)

    def compile(self, region: RegionView) -> CompiledRegion:
        """Read, put the weights in, compile for the device."""
        return OpenVINORegion.of(region, self._target)

    def validate(self, artifact: bytes) -> ArtifactValidity:
        """Return whether it was made by this version for this device with these properties."""
        return validity(artifact, self._target)

    def restore(self, artifact: bytes) -> CompiledRegion:
        """Import what was exported."""
        header, blob = unpack(artifact)
        return imported(header, blob, self._target)


def _check_names(shapes: Mapping[str, Bounds], inputs: Sequence[str]) -> None:
    for name in shapes:
        if name not in inputs:
            raise OptionError(
                f"reshape_input names {name!r}, which is not an input of the model.",
                fix=f"name one of its inputs: {', '.join(inputs)}",
            )


def _pays(node: NodeSpec) -> bool:
    if node.op_type in _HEAVY:
        return True
    value = node.outputs[0]
    shape = None if value is None else value.shape
    if shape is None or node.op_type in _MOVES:
        return False
    return math.prod(dim if isinstance(dim, int) else _UNKNOWN for dim in shape) >= _LARGE
