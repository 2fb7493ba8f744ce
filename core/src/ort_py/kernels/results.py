"""Checks of the results of kernels from other packages than this project's.

Everything after a kernel counts on its results: regions read their memory, plans reuse it. A wrong one is refused
where it is made, with the plug-in's name. Asked where a run is recorded, which is the first of each signature, so that
later runs cost nothing. Kernels of the project itself are held to this by its tests. Comes after `binding`; knows no
plan.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts.graph_view import NodeSpec
from ort_py.contracts.kernel import KernelDef
from ort_py.devices import HOST, Device
from ort_py.dtypes import TensorType, data_type_of, numpy_dtype
from ort_py.errors import Location, OrtPyError, PluginError

_OWN = ("ort_py", "numpy", "ufunc")
"""Beginnings of the modules whose kernels are not checked: the project's packages, and NumPy's own functions."""

_KNOWN_CONTENT = 1024
"""Elements up to which an integer input may be what the shape of a result depends on."""


def result_check(node: NodeSpec, definition: KernelDef, provider: str, device: Device) -> ResultCheck | None:
    module = (definition.implementation or getattr(definition.factory, "__module__", "")).partition(":")[0]
    return None if module.startswith(_OWN) else ResultCheck(node, definition, provider, device, module)


class ResultCheck:
    """See `result_check`."""

    __slots__ = ("_definition", "_device", "_module", "_node", "_provider")

    def __init__(self, node: NodeSpec, definition: KernelDef, provider: str, device: Device, module: str) -> None:
        self._node = node
        self._definition = definition
        self._provider = provider
        self._device = device
        self._module = module

    def __call__(self, inputs: Sequence[Any], result: Any) -> Sequence[Any]:
        """The results of one call, one for each output of the node.

        Raises:
            PluginError: They are not what the operator gives.
        """
        wanted = self._node.outputs
        if len(wanted) == 1:
            results: Sequence[Any] = (result,)
        elif isinstance(result, tuple | list) and len(result) == len(wanted):
            results = result
        else:
            found = f"{len(result)} results" if isinstance(result, tuple | list) else _described(result)
            raise self._wrong("", f"it returned {found} for {len(wanted)} outputs")
        shapes = _shapes(self._node, inputs)
        for position, (spec, value) in enumerate(zip(wanted, results, strict=True)):
            if spec is not None and isinstance(spec.type, TensorType):
                wrong = self._fault(position, spec.type, shapes[position], value, inputs)
                if wrong:
                    raise self._wrong(spec.name, wrong)
        return results

    def _fault(
        self, position: int, expected: TensorType, shape: Sequence[int | None] | None, value: Any, inputs: Sequence[Any]
    ) -> str:
        on_host = self._device == HOST or position in self._definition.host_outputs
        if not hasattr(value, "shape") or not hasattr(value, "dtype"):
            return f"it returned {_described(value)} instead of an array"
        if isinstance(value, np.ndarray | np.generic) != on_host:
            where = HOST if on_host else self._device
            return f"it returned an array of {type(value).__module__} instead of one on {where}"
        if value.dtype != numpy_dtype(expected.data_type):
            return f"it returned {value.dtype} instead of {numpy_dtype(expected.data_type)}"
        found = tuple(value.shape)
        if shape is not None and not _fits(found, shape):
            sizes = ", ".join("?" if size is None else str(size) for size in shape)
            return f"it returned the shape {list(found)} instead of [{sizes}]"
        return self._memory_fault(position, value, inputs) if isinstance(value, np.ndarray) else ""

    def _memory_fault(self, position: int, value: np.ndarray[Any, Any], inputs: Sequence[Any]) -> str:
        kernel = self._definition
        viewed = {source for result, source in kernel.views if result == position}
        if not value.flags.c_contiguous and not viewed and not kernel.strided:
            return "it returned an array that is not C-contiguous, and declares neither 'views' nor 'strided'"
        shared = viewed | {source for source, result in kernel.inplace if result == position}
        for source, given in enumerate(inputs):
            if source not in shared and isinstance(given, np.ndarray) and np.may_share_memory(value, given):
                return f"it returned memory of its input {source}, and does not declare that in 'views' or 'inplace'"
        if not value.flags.writeable and not viewed:
            return "it returned a read-only array"
        return ""

    def _wrong(self, name: str, why: str) -> PluginError:
        node = self._node
        return PluginError(
            f"A kernel of the plug-in '{self._module.partition('.')[0]}' returned a result that its operator does "
            "not allow.",
            where=Location(node.name, node.op_type, node.domain, self._provider, name, node.path),
            why=(why, f"the kernel is {self._module}, {self._definition}"),
            fix=f"Report this to the author of the plug-in, or leave {self._provider} out of the providers.",
        )


def _described(value: Any) -> str:
    return "None" if value is None else f"a {type(value).__name__}"


def _fits(found: tuple[int, ...], shape: Sequence[int | None]) -> bool:
    return len(found) == len(shape) and all(size in (None, actual) for actual, size in zip(found, shape, strict=True))


def _shapes(node: NodeSpec, inputs: Sequence[Any]) -> list[Sequence[int | None] | None]:
    """Shapes of a node's results from the arrays it was given; None for an unknown shape.

    The table of constraints says them; for operators that it lacks, ONNX's inference.
    """
    from ort_py.constraints.single import output_shapes  # the table of constraints: only plug-ins' results need it

    known = output_shapes(node, inputs)
    if known is not None:
        return list(known)
    unknown: list[Sequence[int | None] | None] = [None] * len(node.outputs)
    from ort_py.graph.typing.inference_guard import can_infer  # restored sessions do without

    opset = node.opset_version
    if not can_infer(node.op_type, node.domain, opset):
        return unknown
    import onnx

    names = [f"i{index}" if value is not None else "" for index, value in enumerate(inputs)]
    types: dict[str, onnx.TypeProto] = {}
    data: dict[str, onnx.TensorProto] = {}
    try:
        for name, value in zip(names, inputs, strict=True):
            if not hasattr(value, "dtype"):
                if name:
                    return unknown
                continue
            element = int(data_type_of(value.dtype))
            types[name] = onnx.helper.make_tensor_type_proto(element, list(value.shape))
            if isinstance(value, np.ndarray) and value.dtype.kind == "i" and value.size <= _KNOWN_CONTENT:
                data[name] = onnx.numpy_helper.from_array(value, name)
        outputs = [f"o{index}" if spec is not None else "" for index, spec in enumerate(node.outputs)]
        written = onnx.helper.make_node(node.op_type, names, outputs, domain=node.domain, **dict(node.attributes))
        schema = onnx.defs.get_schema(node.op_type, opset, node.domain)
        imports = [onnx.helper.make_opsetid(node.domain, opset)]
        found = onnx.shape_inference.infer_node_outputs(schema, written, types, data, opset_imports=imports)
    except (OrtPyError, RuntimeError, TypeError, ValueError, onnx.shape_inference.InferenceError):
        return unknown  # the operator refuses it, or has graphs in its attributes
    return [_sizes(found[name]) if name in found else None for name in outputs]


def _sizes(proto: Any) -> Sequence[int | None] | None:
    tensor = proto.tensor_type
    if not proto.HasField("tensor_type") or not tensor.HasField("shape"):
        return None
    return [dim.dim_value if dim.HasField("dim_value") else None for dim in tensor.shape.dim]
