"""Kernels bound to the nodes of a region: the context they are given, and their constants on the device.

The engine binds the kernels that it runs itself; those inside a region are bound here, with the region's weights in
place of the engine's constants. Comes before `program`.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

from ort_py.contracts import KernelContext, NodeSpec, RegionView, SubgraphCallable
from ort_py.contracts.graph_view import Array
from ort_py.contracts.region_weights import PackedForms, RegionWeight
from ort_py.devices import Device
from ort_py.errors import PluginError

__all__ = ["RegionContext", "weights_of"]

T = TypeVar("T")


def weights_of(region: RegionView, node: NodeSpec) -> dict[int, RegionWeight]:
    """A node's constant inputs by position."""
    found = {}
    for position, value in enumerate(node.inputs):
        weight = region.weight(value.name) if value is not None and value.constant else None
        if weight is not None:
            found[position] = weight
    return found


class RegionContext(KernelContext):
    """Information and services for a kernel inside a region.

    Sizes are not asked about: no shape inside depends on values, and the provider's memory has a limit of its own.

    Attributes:
        replaced: Inputs that the kernel reads no values of any more.
    """

    __slots__ = ("_forms", "_weights", "replaced")

    def __init__(
        self, node: NodeSpec, xp: Any, device: Device, weights: Mapping[int, RegionWeight], forms: PackedForms
    ) -> None:
        super().__init__(node, xp, device)
        self._weights = weights
        self._forms = forms
        self.replaced: set[int] = set()

    def constant(self, index: int) -> Array | None:
        """Input `index` as a host array where it is constant."""
        weight = self._weights.get(index)
        return None if weight is None else weight.array()

    def packed(
        self, replaced: Sequence[int], form: str, make: Callable[..., T], others: Sequence[int] = ()
    ) -> T | None:
        """Return packed constants as the contract defines, shared with all regions of the session."""
        asked = (*replaced, *others)
        given = self.node.inputs
        present = [one for one in asked if one < len(given) and given[one] is not None]
        if replaced[0] not in present or any(one not in self._weights for one in present):
            return None
        self.replaced.update(one for one in replaced if one in present)

        def made() -> Any:
            arrays = self._known(asked)
            assert arrays is not None
            return make(*arrays)

        places = ",".join(str(asked.index(one)) for one in present)
        keys = [self._weights[one].key for one in present]
        form = f"{self.device} {self.node.op_type} {form} of {places}"
        shared: T = self._forms.packed(keys, form, made)
        return shared

    def check_allocation(self, shape: Sequence[int], dtype: Any) -> None:
        """Nothing: see the class."""

    def parallel_for(self, rows: int, grain: int, fn: Callable[[int, int], None]) -> None:
        """Inline: work on the device is not split by the host."""
        fn(0, rows)

    def random_generator(self, seed: float | None) -> Any:
        """None: nodes that draw are not captured."""
        raise PluginError(
            "A node inside a captured region asks for random numbers.",
            where=self.node.location,
            fix="Report this: the node should not have been captured.",
        )

    def subgraph(self, name: str) -> SubgraphCallable | None:
        """None: nodes with graphs are not captured."""
        return None
