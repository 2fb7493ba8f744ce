"""A case of one operator taken apart, so that its node can be written in another way, and put together again.

Comes before `changes` and `rewriting`, which change drafts. It does not depend on the rules of any operator.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ort_py.dtypes import data_type_of
from ort_py_kit.backend_cases import SuiteCase
from ort_py_kit.versions.history import OperatorVersion, opset_with, version_at


class CannotRewrite(Exception):
    """A case has no equal at another version; the message says why."""


@dataclass(slots=True)
class Draft:
    """One node with its inputs and its expected outputs.

    Attributes:
        inputs: Names of the values the node reads, ``""`` where an optional input is absent.
        attributes: Attributes that the node sets, as Python values (`onnx.helper.get_attribute_value`).
        declared: Type and shape that the case declares for each input, by name.
    """

    case: SuiteCase
    operator: OperatorVersion
    inputs: list[str]
    attributes: dict[str, Any]
    feeds: dict[str, Any]
    expected: list[Any]
    declared: dict[str, onnx.ValueInfoProto] = field(default_factory=dict)

    @classmethod
    def of(cls, case: SuiteCase) -> Draft:
        """Take a case apart.

        Raises:
            CannotRewrite: It is not one node that reads nothing but inputs of the model, or has several data sets.
        """
        model = case.model
        found = node_of(model)
        if found is None:
            raise CannotRewrite("it is not one node of an operator of ONNX")
        node, operator = found
        sets = list(case.data_sets())
        if len(sets) != 1 or model.graph.initializer:
            raise CannotRewrite("it has initializers or several sets of data")
        ((feeds, expected),) = sets
        declared = {value.name: value for value in model.graph.input}
        attributes = {one.name: helper.get_attribute_value(one) for one in node.attribute}
        return cls(case, operator, list(node.input), attributes, dict(feeds), list(expected), declared)

    def value(self, position: int) -> Any:
        """The value fed to the node's input at a position, or None if it has none."""
        name = self.inputs[position] if position < len(self.inputs) else ""
        return self.feeds[name] if name else None

    def feed(self, position: int, array: Any) -> None:
        """Feed another array to the input at a position, which the node gets where it has none yet."""
        self.inputs += [""] * (position + 1 - len(self.inputs))
        name = self.inputs[position] or f"input_{position}"
        self.inputs[position] = name
        self.feeds[name] = array
        self.declared.pop(name, None)

    def as_case(self) -> SuiteCase:
        """The case in its present form, with the opset that has this version of the operator."""
        (node,) = self.case.model.graph.node
        inputs = list(self.inputs)
        while inputs and not inputs[-1]:
            inputs.pop()
        read = list(dict.fromkeys(name for name in inputs if name))
        graph = helper.make_graph(
            [_node(self.operator, inputs, node.output, self.attributes)],
            self.case.model.graph.name,
            [self.declared.get(name) or _declared(name, self.feeds[name]) for name in read],
            list(self.case.model.graph.output),
        )
        domain = self.operator.domain
        others = [one for one in self.case.model.opset_import if _domain(one.domain) != domain]
        imports = [helper.make_opsetid(domain, opset_with(self.operator)), *others]
        model = helper.make_model(graph, opset_imports=imports, ir_version=self.case.model.ir_version)
        sets = (([self.feeds[name] for name in read], self.expected),)
        return replace(self.case, source=model, data=None, sets=sets)


def node_of(model: onnx.ModelProto) -> tuple[onnx.NodeProto, OperatorVersion] | None:
    """The only node of a model and the version of its operator; None where there are several or ONNX has none such."""
    if len(model.graph.node) != 1 or model.functions:
        return None
    (node,) = model.graph.node
    domain = _domain(node.domain)
    opset = next((one.version for one in model.opset_import if _domain(one.domain) == domain), 0)
    version = version_at(domain, node.op_type, opset)
    return None if version is None else (node, OperatorVersion(domain, node.op_type, version))


def _domain(name: str) -> str:
    return "" if name == "ai.onnx" else name


def _node(
    operator: OperatorVersion, inputs: Sequence[str], outputs: Sequence[str], attributes: Mapping[str, Any]
) -> onnx.NodeProto:
    node = helper.make_node(operator.op_type, inputs, outputs, domain=operator.domain)
    node.attribute.extend(
        value if isinstance(value, onnx.AttributeProto) else helper.make_attribute(name, value)
        for name, value in attributes.items()
    )
    return node


def _declared(name: str, array: Any) -> onnx.ValueInfoProto:
    return helper.make_tensor_value_info(name, int(data_type_of(np.asarray(array).dtype)), list(np.shape(array)))
