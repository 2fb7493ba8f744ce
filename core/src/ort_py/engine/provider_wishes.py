"""The provider of each node of a graph during optimisation, for transforms that serve one provider's wishes.

Comes before partitioning, which asks again and decides with regions and costs. If no provider has a wish, none is
asked.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ort_py.contracts import GraphView, IExecutionProvider, Transform
from ort_py.dtypes import DataType
from ort_py.kernels.registry import KernelRegistry
from ort_py.logs import lazy_logger
from ort_py.partition.survey import survey
from ort_py.transforms.layout.channels_last import ChannelsLast
from ort_py.transforms.precision.widening import WidenNarrowFloats
from ort_py.transforms.quantization.dequantized_weights import DequantizeWeights
from ort_py.transforms.quantization.widened_weights import RecogniseWidenedWeights

_LOG = lazy_logger("ort_py.session")


def wishes(providers: Sequence[IExecutionProvider], kernels: KernelRegistry) -> list[Transform]:
    """The transforms of a session that serve its providers' wishes: a layout, an element type, weights dequantised.

    Args:
        providers: In rank order.
    """

    def runners(view: GraphView, names: Collection[str]) -> Mapping[str, IExecutionProvider]:
        return claimants(view, providers, kernels, names)

    turned = any(type(one).prefers_channels_last is not IExecutionProvider.prefers_channels_last for one in providers)
    widened = frozenset[DataType]().union(*[one.widened_types for one in providers])
    floats = any(one.dequantizes_constants for one in providers)
    integers = any(not one.dequantizes_constants for one in providers)
    return [
        *([RecogniseWidenedWeights()] if integers else ()),
        DequantizeWeights(runners if floats else None),
        WidenNarrowFloats(widened, runners),
        ChannelsLast(runners if turned else None),
    ]


def claimants(
    view: GraphView, providers: Sequence[IExecutionProvider], kernels: KernelRegistry, names: Collection[str]
) -> dict[str, IExecutionProvider]:
    """The first provider that claims each node, by the node's name.

    Args:
        providers: In rank order.
        names: The nodes that matter: who comes behind those that claim them is not asked.
    """
    found: dict[str, IExecutionProvider] = {}
    wanted = frozenset([node.index for node in view.nodes if node.name in names])
    for answer in survey(view, providers, kernels, _note_failure, all_of_them=False, wanted=wanted):
        for index in answer.claims:
            found.setdefault(view.nodes[index].name, answer.provider)
    return found


def claims_of(view: GraphView, provider: IExecutionProvider, kernels: KernelRegistry) -> frozenset[str]:
    """Names of the nodes that a provider claims, whatever its rank; none where it fails."""
    (answer,) = survey(view, [provider], kernels, _note_failure, all_of_them=True)
    return frozenset([view.nodes[index].name for index in answer.claims])


def _note_failure(provider: str, error: Exception) -> None:
    # Partitioning asks again, and reports it.
    _LOG.debug("%s failed while it was asked for its capability during optimisation: %s", provider, error)
