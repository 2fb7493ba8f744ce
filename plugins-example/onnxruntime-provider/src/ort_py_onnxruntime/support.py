"""The nodes that onnxruntime runs, according to its own table of kernels: operator, versions and types.

Comes before `provider`. Nodes without a kernel of its CPU provider, or of another that is used, are refused, with the
reason.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable
from functools import cache

import onnx
import onnxruntime
from onnx import helper
from onnxruntime.capi import onnxruntime_pybind11_state as state

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType, TensorType
from ort_py.errors import operator_title

__all__ = ["IR_VERSION", "Support"]

IR_VERSION = 10
"""Of the models that it is given: they need no more, and onnxruntime has read it since 1.18."""

_OLDEST = 17
_OPEN = 2**31 - 1

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

    Attributes:
        newest_opset: Newest opset of models that it takes.
    """

    def __init__(self, providers: Iterable[str]) -> None:
        used = set(providers)
        self._kernels: dict[tuple[str, str], list[state.opkernel.KernelDef]] = defaultdict(list)
        for definition in state.get_all_opkernel_def():
            if definition.provider in used:
                self._kernels[definition.domain, definition.op_name].append(definition)
        self.newest_opset = _newest_opset()

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
        if node.domain == "" and node.since_version > self.newest_opset:
            return f"{title} of opset {node.since_version}: this onnxruntime takes models up to {self.newest_opset}"
        candidates = self._kernels.get((node.domain, node.op_type), [])
        if not candidates:
            return f"onnxruntime has no kernel for {title}"
        of_version = [one for one in candidates if _covers(one.version_range, node.since_version)]
        if not of_version:
            return f"onnxruntime has no kernel for version {node.since_version} of {title}"
        if not any(self._takes(one, node) for one in of_version):
            types = ", ".join(f"{name}: {bound}" for name, bound in sorted(node.type_bindings.items()))
            return f"onnxruntime has no kernel of {title} for {types}"
        return None

    @staticmethod
    def _takes(definition: state.opkernel.KernelDef, node: NodeSpec) -> bool:
        bound = node.type_bindings
        return all(bound.get(name, allowed[0]) in allowed for name, allowed in definition.type_constraints.items())


@cache
def _newest_opset() -> int:
    """It has kernels and schemas of opsets that it refuses, as they are not released: only trying tells."""
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    x, y = (helper.make_tensor_value_info(name, onnx.TensorProto.FLOAT, [1]) for name in "xy")
    graph = helper.make_graph([helper.make_node("Identity", ["x"], ["y"])], "g", [x], [y])
    newest = onnx.defs.onnx_opset_version()
    while newest > _OLDEST:
        model = helper.make_model(graph, opset_imports=[helper.make_opsetid("", newest)], ir_version=IR_VERSION)
        try:
            onnxruntime.InferenceSession(model.SerializeToString(), options, providers=["CPUExecutionProvider"])
        except Exception:  # its exceptions have no base of their own
            newest -= 1
        else:
            break
    return newest


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
