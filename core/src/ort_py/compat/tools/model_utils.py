"""Functions on ONNX models that the command-line tools are made of. They need `onnx` and no session, but for
`optimize_model`.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Sequence
from pathlib import Path

import onnx
from onnx import shape_inference, version_converter

from ort_py.api.session import InferenceSession
from ort_py.enums import GraphOptimizationLevel
from ort_py.errors import OptionError
from ort_py.options import SessionOptions

__all__ = [
    "fix_output_shapes",
    "get_opsets_imported",
    "get_optimization_level",
    "is_fixed_size_tensor",
    "make_dim_param_fixed",
    "make_input_shape_fixed",
    "optimize_model",
    "remove_invalid_dim_values",
    "update_onnx_opset",
]


def get_opsets_imported(model: onnx.ModelProto) -> dict[str, int]:
    """Version of each operator domain, ``ai.onnx`` for the standard one."""
    return {entry.domain or "ai.onnx": entry.version for entry in model.opset_import}


def update_onnx_opset(
    model_path: str | os.PathLike[str],
    opset: int,
    out_path: str | os.PathLike[str] | None = None,
    logger: object = None,
) -> onnx.ModelProto:
    """A model converted to another version of the standard operators.

    Args:
        model_path: The model's file.
        out_path: File to write; None for none.
        logger: Accepted for compatibility.

    Raises:
        FileNotFoundError: The file does not exist.
    """
    model = onnx.load(str(Path(model_path).resolve(strict=True)))
    converted = version_converter.convert_version(model, opset)
    if out_path is not None:
        onnx.save(converted, str(Path(out_path).resolve()))
    return converted


def optimize_model(
    model_path: str | os.PathLike[str],
    output_path: str | os.PathLike[str],
    level: GraphOptimizationLevel = GraphOptimizationLevel.ORT_ENABLE_BASIC,
    log_level: int = 3,
    use_external_initializers: bool = False,
) -> None:
    """Write a model as a session optimises it.

    Args:
        log_level: Accepted for compatibility.
        use_external_initializers: Large constants go into ``external_data.pb`` beside the model.

    Raises:
        FileNotFoundError: The file does not exist.
        OrtPyError: As for a new session.
    """
    options = SessionOptions()
    options.optimized_model_filepath = str(Path(output_path).resolve())
    options.graph_optimization_level = level
    options.log_severity_level = log_level
    if use_external_initializers:
        key = "session.optimized_model_external_initializers_file_name"
        options.add_session_config_entry(key, "external_data.pb")
    source = str(Path(model_path).resolve(strict=True))
    InferenceSession(source, options, ["CPUExecutionProvider"]).close()


def get_optimization_level(level: str) -> GraphOptimizationLevel:
    """A level by its short name: ``disable``, ``basic``, ``extended``, ``layout`` or ``all``.

    Raises:
        OptionError: Another name; a builtin ValueError too.
    """
    found = {member.name.rpartition("_")[2].lower(): member for member in GraphOptimizationLevel}
    found["disable"] = GraphOptimizationLevel.ORT_DISABLE_ALL
    found["all"] = GraphOptimizationLevel.ORT_ENABLE_ALL
    if level not in found:
        raise OptionError(f"There is no optimisation level '{level}'.", fix=f"Use one of {', '.join(sorted(found))}.")
    return found[level]


def make_dim_param_fixed(graph: onnx.GraphProto, param_name: str, value: int) -> None:
    """Replace a symbolic dimension by a number wherever it is declared, nested graphs included.

    Args:
        graph: Changed in place.
    """
    for one in _graphs(graph):
        for info in _values(one):
            for dim in _dims(info):
                if dim.HasField("dim_param") and dim.dim_param == param_name:
                    dim.dim_value = value
        _clear_unknown_sizes(one)


def make_input_shape_fixed(graph: onnx.GraphProto, input_name: str, fixed_shape: Sequence[int]) -> None:
    """Give an input a fixed shape; symbols among its dimensions get their numbers wherever they are declared.

    Args:
        graph: Changed in place.

    Raises:
        OptionError: The input does not exist, or its shape cannot be this one; a builtin ValueError too.
    """
    for info in graph.input:
        if info.name == input_name:
            _fix(graph, info, fixed_shape)
            _clear_unknown_sizes(graph)
            return
    names = ", ".join(info.name for info in graph.input)
    raise OptionError(f"The model has no input '{input_name}'.", why=f"there are {names}", fix="Name one of these.")


def _fix(graph: onnx.GraphProto, info: onnx.ValueInfoProto, shape: Sequence[int]) -> None:
    if not info.type.HasField("tensor_type"):
        raise OptionError(f"The input '{info.name}' is not a tensor.", fix="Only tensors have a shape.")
    if not info.type.tensor_type.HasField("shape"):
        for size in shape:
            info.type.tensor_type.shape.dim.add().dim_value = size
        return
    dims = _dims(info)
    if len(dims) != len(shape):
        raise OptionError(
            f"The input '{info.name}' has {len(dims)} dimensions, {len(shape)} were given.",
            fix="Give a size for each dimension.",
        )
    for axis, (dim, size) in enumerate(zip(dims, shape, strict=True)):
        if dim.HasField("dim_value") and dim.dim_value > 0 and dim.dim_value != size:
            raise OptionError(
                f"The input '{info.name}' has size {dim.dim_value} along axis {axis}, {size} was given.",
                fix="Sizes that are fixed already must stay.",
            )
        if dim.HasField("dim_param"):
            make_dim_param_fixed(graph, dim.dim_param, size)
        dim.dim_value = size


def fix_output_shapes(model: onnx.ModelProto) -> None:
    """Take over shapes of outputs that follow from the inputs' shapes; the model is changed in place."""
    inferred = {info.name: info for info in shape_inference.infer_shapes(model, data_prop=True).graph.output}
    for info in model.graph.output:
        if not is_fixed_size_tensor(info) and is_fixed_size_tensor(inferred[info.name]):
            info.type.tensor_type.shape.CopyFrom(inferred[info.name].type.tensor_type.shape)


def is_fixed_size_tensor(value: onnx.ValueInfoProto) -> bool:
    """Return whether it is a tensor all of whose dimensions are numbers above 0."""
    if not value.type.HasField("tensor_type") or not value.type.tensor_type.HasField("shape"):
        return False
    return all(dim.HasField("dim_value") and dim.dim_value > 0 for dim in _dims(value))


def remove_invalid_dim_values(graph: onnx.GraphProto) -> None:
    """Make sizes below 1, which exporters write for unknown ones, unknown; in nested graphs too."""
    for one in _graphs(graph):
        _clear_unknown_sizes(one)


def _clear_unknown_sizes(graph: onnx.GraphProto) -> None:
    for info in _values(graph):
        for dim in _dims(info):
            if dim.HasField("dim_value") and dim.dim_value < 1:
                dim.Clear()


def _graphs(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
    """The graph and all graphs nested in it."""
    waiting = [graph]
    while waiting:
        one = waiting.pop()
        yield one
        for node in one.node:
            for attribute in node.attribute:
                waiting.extend([attribute.g] if attribute.HasField("g") else [])
                waiting.extend(attribute.graphs)


def _values(graph: onnx.GraphProto) -> list[onnx.ValueInfoProto]:
    return [*graph.input, *graph.output, *graph.value_info]


def _dims(info: onnx.ValueInfoProto) -> list[onnx.TensorShapeProto.Dimension]:
    return list(info.type.tensor_type.shape.dim) if info.type.HasField("tensor_type") else []
