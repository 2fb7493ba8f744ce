"""Cast between floating types: what loses no bits moves nothing, what does is rounded as the target type would."""

from __future__ import annotations

from ort_py.dtypes import DataType
from ort_py_onednn.binding.constants import F32, Element
from ort_py_onednn.binding.descriptors import Desc
from ort_py_onednn.execution.elements import ELEMENTS
from ort_py_onednn.graph.operation import Operation
from ort_py_onednn.lowering.planner import Planner, Value

__all__ = ["cast"]


def cast(planner: Planner, operation: Operation) -> None:
    """ONNX Cast among float32, float16 and bfloat16."""
    source = planner.value(operation.inputs[0])
    wanted = ELEMENTS[DataType(operation.attributes["to"])]
    if wanted in {source.dtype, F32}:
        found = planner.converted(source, wanted)
    else:
        found = _rounded(planner, planner.converted(source, F32), wanted)
    planner.bind(operation.outputs[0], planner.view(found, found.desc, found.shape))


def _rounded(planner: Planner, source: Value, dtype: Element) -> Value:
    """A value in another type, apart from the other forms of its source: those have bits that this one lost."""
    source = planner.plain(source)
    planner.buffer_of(source)
    desc = Desc.plain(source.dims, dtype)
    found = planner.new(desc, source.shape)
    planner.move(source, found)
    return found
