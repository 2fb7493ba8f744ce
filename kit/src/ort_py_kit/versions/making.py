"""Makes a case of one node of arrays: what `drawn` and `drawn_ml` write their cases with."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from ort_py.dtypes import data_type_of
from ort_py_kit.backend_cases import SuiteCase
from ort_py_kit.versions.history import OperatorVersion, opset_with

_TOLERANCES = (1e-3, 1e-7)  # those of ONNX's own cases


def made_case(
    name: str,
    operator: OperatorVersion,
    inputs: Sequence[Any],
    expected: Sequence[Any],
    /,
    result: Any = None,
    **attributes: Any,
) -> SuiteCase:
    """A case of one node.

    Args:
        inputs: An array (of objects for strings), a list for a sequence, a dictionary for a map, whose floats ONNX
            has in single precision; None where an optional input is absent.
        expected: The outputs in the same form; a list of dictionaries for a sequence of maps.
        result: Type of the only output (`onnx.TypeProto`), where it does not follow from the value.
    """
    given = {f"x{place}": value for place, value in enumerate(inputs) if value is not None}
    results = {f"y{place}": value for place, value in enumerate(expected)}
    node = helper.make_node(
        operator.op_type,
        ["" if value is None else f"x{place}" for place, value in enumerate(inputs)],
        list(results),
        domain=operator.domain,
        **attributes,
    )
    graph = helper.make_graph(
        [node],
        name,
        [helper.make_value_info(key, _type_of(value)) for key, value in given.items()],
        [helper.make_value_info(key, _type_of(value) if result is None else result) for key, value in results.items()],
    )
    imports = [helper.make_opsetid(operator.domain, opset_with(operator))]
    model = helper.make_model(graph, opset_imports=imports, ir_version=10)
    rtol, atol = _TOLERANCES
    return SuiteCase(name, "node", model, None, ((list(given.values()), list(expected)),), rtol, atol)


def _type_of(value: Any) -> onnx.TypeProto:
    if isinstance(value, list):
        return helper.make_sequence_type_proto(_type_of(value[0]))
    if isinstance(value, dict):
        return _map_type(value)
    array = np.asarray(value)
    return helper.make_tensor_type_proto(_element(array.dtype), array.shape)


def _map_type(value: dict[Any, Any]) -> onnx.TypeProto:
    made = onnx.TypeProto()
    key, held = next(iter(value.items()))
    element = TensorProto.FLOAT if isinstance(held, float) else _element(np.asarray(held).dtype)
    made.map_type.key_type = _element(np.asarray(key).dtype)
    made.map_type.value_type.CopyFrom(helper.make_tensor_type_proto(element, ()))
    return made


def _element(dtype: np.dtype[Any]) -> int:
    return int(TensorProto.STRING if dtype.kind in "OU" else data_type_of(dtype))
