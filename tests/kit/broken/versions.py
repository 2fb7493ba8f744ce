"""Providers that are right at the newest version of an operator and wrong at an older one; one that nothing reaches.

Each takes the NumPy kernels of one operator and plants its defect at a few versions only.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from ort_py.contracts import (
    CompiledRegion,
    FunctionRegion,
    GraphView,
    IExecutionProvider,
    KernelDef,
    NodeSpec,
    ProviderFactory,
    RegionProvider,
    RegionView,
    RunDeclined,
    kernel_defs,
)
from ort_py.hooks import hookimpl
from ort_py_array import clipping, padding, pooling, softmax
from ort_py_kit.kernel_runner import LocalKernelContext
from tests.kit.broken.plugins import Factory, Sound

__all__ = ["PROVIDERS", "ort_py_providers"]

Change = Callable[[NodeSpec], NodeSpec]


def _attributes(node: NodeSpec, changes: Mapping[str, Any]) -> NodeSpec:
    return replace(node, attributes={**node.attributes, **changes})


class _WrongAt(Sound):
    """Kernels of a module of the NumPy provider; between two versions the node is read wrongly.

    Attributes:
        module: The module.
        op_type: The operator.
        wrong: The first and the last wrong version.
        taken: The version whose kernel is used there; 0 for the right one.
    """

    module: Any
    op_type: str
    wrong: tuple[int, int]
    taken: int = 0

    def misread(self, node: NodeSpec) -> NodeSpec:
        """The node as the defect takes it."""
        raise NotImplementedError

    def kernel_registry(self) -> Sequence[KernelDef]:
        made: list[KernelDef] = []
        first, last = self.wrong
        for one in kernel_defs(self.module):
            if one.op_type == self.op_type:
                for since, until in ((one.since, first - 1), (last + 1, one.last)):
                    if max(one.since, since) <= min(one.last, until):
                        made.append(replace(one, since=max(one.since, since), until=min(one.last, until)))
                if max(one.since, first) <= min(one.last, last):
                    made.append(self._planted(self._taken(one), max(one.since, first), min(one.last, last)))
        return made

    def _taken(self, right: KernelDef) -> KernelDef:
        candidates = [one for one in kernel_defs(self.module) if one.op_type == self.op_type]
        return next((one for one in candidates if self.taken and one.since <= self.taken <= one.last), right)

    def _planted(self, right: KernelDef, since: int, until: int) -> KernelDef:
        def factory(ctx: Any) -> Any:
            constants = {place: ctx.constant(place) for place in range(len(ctx.node.inputs))}
            known = {place: array for place, array in constants.items() if array is not None}
            return right.factory(LocalKernelContext(self.misread(ctx.node), constants=known))

        return replace(right, factory=factory, since=since, until=until)


class PadsTheWrongSide(_WrongAt):
    """MaxPool(8-12) takes SAME_LOWER for SAME_UPPER."""

    module, op_type, wrong = pooling, "MaxPool", (8, 12)

    def misread(self, node: NodeSpec) -> NodeSpec:
        lower = node.attributes.get("auto_pad") == "SAME_LOWER"
        return _attributes(node, {"auto_pad": "SAME_UPPER"}) if lower else node


class NormalisesOneAxis(_WrongAt):
    """Softmax(11) normalises along the axis, as it does from version 13 on."""

    module, op_type, wrong, taken = softmax, "Softmax", (11, 11), 13

    def misread(self, node: NodeSpec) -> NodeSpec:
        return _attributes(node, {"axis": node.attributes.get("axis", 1)})


class ForgetsTheLowerBound(_WrongAt):
    """Clip(6) has no lower bound."""

    module, op_type, wrong = clipping, "Clip", (6, 6)

    def misread(self, node: NodeSpec) -> NodeSpec:
        return _attributes(node, {"min": float("-inf")})


class MirrorsTheEdge(_WrongAt):
    """Pad(2) repeats the edge where it should reflect."""

    module, op_type, wrong = padding, "Pad", (2, 2)

    def misread(self, node: NodeSpec) -> NodeSpec:
        reflects = node.attributes.get("mode") == "reflect"
        return _attributes(node, {"mode": "edge"}) if reflects else node


class ClaimsWhatNobodyHas(Sound):
    """A kernel of Relu(1) for a type that this version does not allow, so that it serves no model."""

    def kernel_registry(self) -> Sequence[KernelDef]:
        (add,) = [one for one in super().kernel_registry() if one.op_type == "Add"]
        return [add, KernelDef("Relu", lambda ctx: self.relu, since=1, types={"T": frozenset({"tensor(bfloat16)"})})]


class HasItsOwn(Sound):
    """A kernel of an operator that ONNX does not define."""

    def kernel_registry(self) -> Sequence[KernelDef]:
        return [*super().kernel_registry(), KernelDef("Squeak", lambda ctx: self.relu, domain="com.acme")]


class DeclinesEverything(RegionProvider):
    """Relu is compiled, and each run of it declined."""

    def __init__(self, name: str) -> None:
        self._name = name

    @property
    def name(self) -> str:
        return self._name

    def refusal(self, node: NodeSpec, graph: GraphView) -> str | None:
        return None if node.op_type == "Relu" else "only Relu is compiled"

    def compile(self, region: RegionView) -> CompiledRegion:
        def decline(*inputs: Any) -> Sequence[Any]:
            raise RunDeclined("not today")

        return FunctionRegion(decline)


_KINDS: tuple[Callable[[str], IExecutionProvider], ...] = (
    PadsTheWrongSide,
    NormalisesOneAxis,
    ForgetsTheLowerBound,
    MirrorsTheEdge,
    ClaimsWhatNobodyHas,
    HasItsOwn,
    DeclinesEverything,
)
PROVIDERS: dict[str, Factory] = {factory.name: factory for factory in map(Factory, _KINDS)}
"""The providers by name."""


@hookimpl
def ort_py_providers() -> Iterable[ProviderFactory]:
    """All of them: the kit asks for one by name."""
    return list(PROVIDERS.values())
