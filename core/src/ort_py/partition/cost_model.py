"""Whether an island pays: what its nodes save against what its borders cost.

The figures here are orders of magnitude, good for refusing what is plainly wrong: a provider's own `cost_us` or
`estimate_cost` beats them. All times are microseconds for one run.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass

from ort_py.contracts import GraphView, IExecutionProvider, NodeSpec
from ort_py.devices import HOST
from ort_py.dtypes import Shape, TensorType, nbytes_of

__all__ = ["AlwaysPays", "CostModel", "Island", "TransferCostModel"]

UNKNOWN_DIM = 16
"""Size taken for a dimension that is not known while planning."""

HOST_CALL_US = 2.0
HOST_FLOPS_PER_US = 20_000.0
HOST_BYTES_PER_US = 5_000.0
DEVICE_LAUNCH_US = 6.0
DEVICE_SPEEDUP = 20.0
COPY_LATENCY_US = 12.0
COPY_BYTES_PER_US = 10_000.0

_HEAVY = frozenset({"Conv", "ConvTranspose", "MatMul", "Gemm", "LSTM", "GRU", "RNN", "Attention", "Einsum"})


@dataclass(frozen=True, slots=True)
class Island:
    """Nodes of one provider that lie together, and the values that cross its border.

    Attributes:
        nodes: Indices.
        provider: Who wants them.
        inputs: Names of values computed outside and read inside, constants not counted.
        outputs: Names of values computed inside and read outside.
        cost_us: The provider's own estimate, None where it gave none.
    """

    nodes: tuple[int, ...]
    provider: IExecutionProvider
    inputs: tuple[str, ...]
    outputs: tuple[str, ...]
    cost_us: float | None = None


class CostModel(ABC):
    """Decides whether an island is kept."""

    @abstractmethod
    def concerns(self, provider: IExecutionProvider) -> bool:
        """Whether islands of this provider have to be looked at; where not, all are kept without being formed."""

    @abstractmethod
    def refusal(self, view: GraphView, island: Island) -> str | None:
        """Why the island does not pay, None where it does. Must be linear in the island."""


class AlwaysPays(CostModel):
    """Keeps every island: for tests, and for users who know better."""

    def concerns(self, provider: IExecutionProvider) -> bool:
        return False

    def refusal(self, view: GraphView, island: Island) -> str | None:
        return None


class TransferCostModel(CostModel):
    """Compares the time saved with the time the copies at the border take.

    Islands on the host cross no border and always pay here; they were ranked first by the user or by rank.
    """

    def concerns(self, provider: IExecutionProvider) -> bool:
        return provider.device != HOST

    def refusal(self, view: GraphView, island: Island) -> str | None:
        if island.provider.device == HOST:
            return None
        host = sum(host_cost(view.nodes[index]) for index in island.nodes)
        device = island.cost_us
        if device is None:
            try:
                device = sum(self._device_cost(view.nodes[index], island.provider) for index in island.nodes)
            except Exception as error:  # a plug-in's code: its island is left to others, with the reason
                return f"estimate_cost raised {type(error).__name__}: {error}"
        shapes = _bytes_by_name(view, island.nodes)
        crossing = [*island.inputs, *island.outputs]
        moved = sum(shapes.get(name, 0) for name in crossing)
        copies = len(crossing) * COPY_LATENCY_US + moved / COPY_BYTES_PER_US
        if host > device + copies:
            return None
        return (
            f"does not pay: {len(island.nodes)} node(s) take about {host:.0f} µs on the host, {device:.0f} µs there "
            f"plus {copies:.0f} µs to copy {moved} bytes in {len(crossing)} value(s)"
        )

    @staticmethod
    def _device_cost(node: NodeSpec, provider: IExecutionProvider) -> float:
        estimate = provider.estimate_cost(node)
        return DEVICE_LAUNCH_US + host_cost(node) / DEVICE_SPEEDUP if estimate is None else estimate


def host_cost(node: NodeSpec) -> float:
    """Rough time of a node on the host: work of contractions, else bytes touched."""
    sizes = [_elements(value.shape) for value in (*node.inputs, *node.outputs) if value is not None]
    touched = 4 * sum(sizes)
    if node.op_type not in _HEAVY or len(node.inputs) < 2 or node.inputs[1] is None:
        return HOST_CALL_US + touched / HOST_BYTES_PER_US
    weight = node.inputs[1].shape
    result = node.outputs[0].shape if node.outputs and node.outputs[0] is not None else None
    # One multiply-add for each output element and each term of the contraction: for all of these operators the
    # weight's size over its output dimension is the number of terms.
    terms = _elements(weight) / max(1, _elements(weight[:1] if weight else None))
    return HOST_CALL_US + max(2 * _elements(result) * terms / HOST_FLOPS_PER_US, touched / HOST_BYTES_PER_US)


def _elements(shape: Shape | None) -> int:
    if shape is None:
        return UNKNOWN_DIM
    return math.prod(dim if isinstance(dim, int) else UNKNOWN_DIM for dim in shape)


def _bytes_by_name(view: GraphView, nodes: Sequence[int]) -> dict[str, int]:
    found: dict[str, int] = {}
    for index in nodes:
        for value in (*view.nodes[index].inputs, *view.nodes[index].outputs):
            if value is not None and isinstance(value.type, TensorType):
                shape = value.type.shape
                known = (UNKNOWN_DIM,) if shape is None else shape
                dims = tuple(dim if isinstance(dim, int) else UNKNOWN_DIM for dim in known)
                found[value.name] = nbytes_of(value.type.data_type, dims)
    return found
