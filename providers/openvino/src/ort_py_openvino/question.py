"""OpenVINO's own answer to whether it converts a node: its ONNX reader is shown a model of just that node.

An answer holds for all nodes of the same operator, version, attributes, types and ranks, and is kept for the process: a
model of thousands of nodes costs some dozens of questions, half a millisecond each. It does not depend on what the
converted operations compute; `defects` does.
"""

from __future__ import annotations

import io
import re
from collections import OrderedDict
from collections.abc import Hashable
from typing import Any

import numpy as np

from ort_py.contracts import GraphView, NodeSpec
from ort_py.platform.forks import ProcessLock
from ort_py_openvino.runtime import core, module

__all__ = ["refusal_of_reader"]

_MOST = 4096
"""Answers kept."""

_UNKNOWN_NODE = "NotSupportedONNXNode"
_WORDS = re.compile(r"with a message:\n(?P<words>.+?)\n\n", re.DOTALL)
_PLACES = re.compile(r"(?:While validating ONNX node '.*?': )?(?:Exception from|Check '.*?' failed at) \S+:\d+:\s*")

_lock = ProcessLock()
_answers: OrderedDict[Hashable, str | None] = OrderedDict()


def refusal_of_reader(node: NodeSpec, graph: GraphView) -> str | None:
    """OpenVINO's words against a node, None where it converts it.

    Args:
        node: A node of `graph` whose inputs and outputs are tensors of types that OpenVINO has.
        graph: The graph.
    """
    key = _key(node, graph)
    with _lock.held():
        if key in _answers:
            _answers.move_to_end(key)
            return _answers[key]
    answer = _ask(node, graph)
    with _lock.held():
        _answers[key] = answer
        if len(_answers) > _MOST:
            _answers.popitem(last=False)
    return answer


def _key(node: NodeSpec, graph: GraphView) -> Hashable:
    attributes = tuple(sorted((name, _frozen(value)) for name, value in node.attributes.items()))
    inputs = tuple(
        None
        if value is None
        else (value.data_type, None if value.shape is None else len(value.shape), _looked_at(graph, value.name))
        for value in node.inputs
    )
    outputs = tuple(value is not None for value in node.outputs)
    return node.domain, node.op_type, node.since_version, node.body, attributes, inputs, outputs


def _looked_at(graph: GraphView, name: str) -> Hashable:
    """The reader's view of a constant: shapes and axes are read; for weights only their presence counts."""
    constant = graph.constant(name)
    if constant is None:
        return None
    return _frozen(constant) if constant.size <= 16 and constant.dtype.kind in "iu" else True


def _frozen(value: Any) -> Hashable:
    if isinstance(value, np.ndarray):
        return str(value.dtype), value.shape, value.tobytes()
    return repr(value)


def _ask(node: NodeSpec, graph: GraphView) -> str | None:
    model = graph.region([node.index]).to_model("reference", standard=True)
    try:
        reader = _reader()
        converted = reader.convert_partially(reader.load(io.BytesIO(model)))
    except Exception as error:  # whatever the reader raises is its answer
        return f"OpenVINO: {_shortened(str(error))}"
    if all(operation.get_type_name() != _UNKNOWN_NODE for operation in converted.get_ops()):
        open_rank = any(output.get_partial_shape().rank.is_dynamic for output in converted.outputs)
        return "OpenVINO cannot tell the rank of its result before a run" if open_rank else None
    try:
        core().read_model(model)
    except Exception as error:  # as above; the full reader says why
        return f"OpenVINO: {_shortened(str(error))}"
    return "OpenVINO does not convert this operator"


def _reader() -> Any:
    return module().frontend.FrontEndManager().load_by_framework("onnx")


def _shortened(text: str) -> str:
    """The sentence in a report of many lines."""
    missing = re.search(r"No conversion rule found for operations: (\S+)", text)
    if missing:
        return f"no conversion rule for {missing[1]}"
    words = _WORDS.search(text)
    lines = _PLACES.sub("", words["words"] if words else text).strip().splitlines()
    return " ".join(line.strip() for line in lines if line.strip())[:200] or "does not convert this operator"
