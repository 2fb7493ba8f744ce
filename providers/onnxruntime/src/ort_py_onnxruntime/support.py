"""The nodes that onnxruntime runs, as it says itself: by its table of kernels, and by whom it gives nodes to.

Comes before `provider`. What onnxruntime cannot be given at all is refused by the table: operator, version and types.
Where one provider is wanted without its CPU provider, a session is made of what is left, and its partitioning read.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Sequence
from functools import cache
from typing import Any

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py.errors import operator_title
from ort_py_onnxruntime.native import native
from ort_py_onnxruntime.routes import CPU
from ort_py_onnxruntime.sessions import assignments, make_session, model_of, newest_opset
from ort_py_onnxruntime.settings import Settings

__all__ = ["Support", "taken_by_providers"]

_OPEN = 2**31 - 1
_MARK = re.compile(r"ortpy(\d+)_")

_NARROW = frozenset(
    {DataType.FLOAT, DataType.DOUBLE, DataType.FLOAT16, DataType.BOOL}
    | {DataType.INT8, DataType.INT16, DataType.INT32, DataType.INT64}
    | {DataType.UINT8, DataType.UINT16, DataType.UINT32, DataType.UINT64}
)
"""Types of arrays that NumPy itself has, so that they go in and come out without another form."""


class Support:
    """The coverage of the kernels of some of onnxruntime's providers.

    Args:
        providers: Names of the providers.
    """

    def __init__(self, providers: Iterable[str]) -> None:
        used = {*providers, CPU}
        self._kernels: dict[tuple[str, str], list[Any]] = defaultdict(list)
        for definition in _all_kernels():
            if definition.provider in used:
                self._kernels[definition.domain, definition.op_name].append(definition)

    def refusal(self, node: NodeSpec) -> str | None:
        """Explain why a node is not handed over, or return None."""
        if any(isinstance(value, GraphView) for value in node.attributes.values()):
            return "it holds graphs, which ort-py runs and asks about one by one"
        for value in (*node.inputs, *node.outputs):
            if value is not None and (reason := _untransferable(value)) is not None:
                return reason
        if node.body is not None:
            return None  # it is handed over as what it stands for
        title = operator_title(node.op_type, node.domain)
        if node.domain == "" and node.since_version > newest_opset():
            return f"{title} of opset {node.since_version}: this onnxruntime takes models up to {newest_opset()}"
        candidates = self._kernels.get((node.domain, node.op_type), [])
        if not candidates:
            return f"onnxruntime has no kernel for {title}"
        of_version = [one for one in candidates if _covers(one.version_range, node.since_version)]
        if not of_version:
            return f"onnxruntime has no kernel for version {node.since_version} of {title}"
        if not any(_takes(one, node) for one in of_version):
            types = ", ".join(f"{name}: {bound}" for name, bound in sorted(node.type_bindings.items()))
            return f"onnxruntime has no kernel of {title} for {types}"
        return None


def taken_by_providers(graph: GraphView, nodes: Sequence[int], settings: Settings) -> set[int]:
    """Those of some nodes that onnxruntime gives to the providers of the settings and not to its CPU provider.

    Args:
        nodes: Nodes that onnxruntime runs in any case, in one convex group.

    Raises:
        Exception: Whatever onnxruntime raises.
    """
    region = graph.region(nodes)
    model = model_of(region)
    index_of = {
        value.name: index for index in nodes for value in graph.nodes[index].outputs if value is not None and value.name
    }
    for place, node in enumerate(model.proto.graph.node):
        index = next((index_of[name] for name in node.output if name in index_of), None)
        node.name = f"other{place}" if index is None else f"ortpy{index}_{place}"
    taken: set[int] = set()
    left: set[int] = set()
    for provider, name in assignments(make_session(model, settings, asking=True)):
        found = _MARK.search(name)
        if found is not None:
            (taken if provider in settings.names else left).add(int(found[1]))
    return taken - left


@cache
def _all_kernels() -> tuple[Any, ...]:
    real = native()
    return tuple(real.get_all_opkernel_def())


def _takes(definition: Any, node: NodeSpec) -> bool:
    bound = node.type_bindings
    return all(bound.get(name, allowed[0]) in allowed for name, allowed in definition.type_constraints.items())


def _covers(versions: tuple[int, int], version: int) -> bool:
    """Onnxruntime's rule: a range that is open at the end stands for the version it begins with alone."""
    first, last = versions
    return version == first if last == _OPEN else first <= version <= last


def _untransferable(value: ValueSpec) -> str | None:
    if value.type is None:
        return f"the type of '{value.name}' is not known"
    if not isinstance(value.type, TensorType) or value.data_type not in _NARROW:
        return f"'{value.name}' is a {value.type}, which is not handed over"
    return None
