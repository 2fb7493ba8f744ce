"""The call of ONNX's shape inference: in this process, or in another one if the limits or the model require it.

Used by `inference` for graphs and by `node_types` for single nodes. It sees only what is written for onnx, not the
graphes.
"""

from __future__ import annotations

from ort_py.limits import Budget
from ort_py.logs import lazy_logger
from ort_py.onnx_parts import onnx

_LOG = lazy_logger(__name__)


class InferenceError(Exception):
    """A model contradicts itself; the message is onnx's."""


class InferenceUnavailable(Exception):
    """Inference must not run in this process, and no other one can be started."""


def infer_shapes(data: bytes, *, strict: bool, budget: Budget, isolated: bool = False) -> onnx.ModelProto:
    """The model with the types of its values.

    Args:
        strict: Raise where the model contradicts itself.
        budget: Budget of the load; its limits say where inference runs.
        isolated: Let it run in another process whatever the limits say.

    Raises:
        InferenceError: The model contradicts itself.
        InferenceUnavailable: See there.
        LimitError: The time for loading is over.
        InconsistentGraph: Inference ended the process that it ran in.
        Exception: Anything else that inference raises.
    """
    budget.check_time()
    if not (isolated or budget.limits.isolated_inference):
        native = onnx.onnx_cpp2py_export.shape_inference
        try:
            return onnx.ModelProto.FromString(native.infer_shapes(data, False, strict, False))
        except native.InferenceError as error:
            raise InferenceError(str(error)) from None
    from ort_py.graph.typing import isolated_inference  # few sessions need it

    if not isolated_inference.available():
        raise InferenceUnavailable("an embedded or frozen interpreter cannot start another process")
    return onnx.ModelProto.FromString(isolated_inference.infer_shapes(data, strict=strict, budget=budget))
