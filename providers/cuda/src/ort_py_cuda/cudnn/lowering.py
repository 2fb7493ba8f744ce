"""A `Graph` given to the front end: its `pygraph`, with every size, stride, type and number stated.

Comes after `graphs`; `plans` builds what is made here. It uses the front end's methods and handles the few differences
between its versions.
"""

from __future__ import annotations

from typing import Any

from ort_py_cuda.cudnn.element_types import FRONTEND_NAMES
from ort_py_cuda.cudnn.graphs import Graph, Operation, Tensor

__all__ = ["lowered"]


def lowered(cudnn: Any, graph: Graph, handle: Any = None) -> Any:
    """The front end's graph.

    Args:
        cudnn: The front end.
        graph: What to build.
        handle: Handle to build it with; without one it can only be validated.
    """
    kinds = cudnn.data_type
    given = {} if handle is None else {"handle": handle}
    built = cudnn.pygraph(
        name="ort_py",
        io_data_type=kinds.FLOAT,
        intermediate_data_type=kinds.FLOAT,
        compute_data_type=kinds.FLOAT,
        **given,
    )
    made: dict[str, Any] = {}
    known = {tensor.name: (number, tensor) for number, tensor in enumerate(graph.tensors, 1)}
    results = {operation.output for operation in graph.operations}
    for name, (number, tensor) in known.items():
        if name not in results:
            made[name] = built.tensor(
                name=name,
                dim=list(tensor.dims),
                stride=list(tensor.strides),
                data_type=_kind(cudnn, tensor),
                is_pass_by_value=tensor.value is not None,
                uid=number,
            )
    for operation in graph.operations:
        number, tensor = known[operation.output]
        made[operation.output] = _described(cudnn, _called(cudnn, built, operation, made), number, tensor)
    return built


def _kind(cudnn: Any, tensor: Tensor) -> Any:
    return getattr(cudnn.data_type, FRONTEND_NAMES[tensor.dtype])


def _called(cudnn: Any, built: Any, operation: Operation, made: dict[str, Any]) -> Any:
    inputs = {parameter: made[name] for parameter, name in operation.inputs}
    attributes: dict[str, Any] = {
        name: list(value) if isinstance(value, tuple) else value for name, value in operation.attributes
    }
    if operation.method == "sdpa" and "diagonal_alignment" in attributes:
        attributes["diagonal_alignment"] = getattr(cudnn.diagonal_alignment, attributes["diagonal_alignment"])
    if operation.method == "instancenorm":
        attributes["norm_forward_phase"] = cudnn.norm_forward_phase.INFERENCE
    result = getattr(built, operation.method)(
        **inputs, **attributes, compute_data_type=cudnn.data_type.FLOAT, name=f"make_{operation.output}"
    )
    return result[0] if isinstance(result, (list, tuple)) else result


def _described(cudnn: Any, made: Any, number: int, tensor: Tensor) -> Any:
    made.set_uid(number)
    made.set_dim(list(tensor.dims))
    made.set_stride(list(tensor.strides))
    made.set_data_type(_kind(cudnn, tensor))
    made.set_output(not tensor.virtual)
    return made
