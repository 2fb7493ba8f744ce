"""Nodes that other readers would not understand, written as calls of functions; and schemas' list types.

A function may import another opset than its model. Once it is inlined its nodes keep that opset (`Node.opset`), which
no ONNX graph can say; so such a node is written as a call of a model-local function around it. So is a fused node whose
operator no other runtime has: it carries its function. A function inside a function is written out: other readers know
the operators of the innermost ones only. Used by `serialize`.
"""

from __future__ import annotations

from dataclasses import replace
from functools import cache

from ort_py import errors
from ort_py.contracts.function_body import FunctionBody, NodeTemplate
from ort_py.graph.ir import Model, Node
from ort_py.graph.writing.protos import fill_attribute, fill_tensor
from ort_py.onnx_operators import defined, find, newest_opsets
from ort_py.onnx_parts import onnx


def fill_function(proto: onnx.FunctionProto, body: FunctionBody) -> None:
    """Write a function into a message that has its name and domain."""
    proto.input.extend(name or f"absent{position}" for position, name in enumerate(body.inputs))
    proto.output.extend(name or f"unused{position}" for position, name in enumerate(body.outputs))
    opsets = dict(body.opset_imports)
    _constants(proto, body, "")
    for node in _flat(body, proto, opsets):
        message = proto.node.add(op_type=node.op_type, domain=node.domain, input=node.inputs, output=node.outputs)
        for name, value in (node.attributes or {}).items():
            fill_attribute(message.attribute.add(), name, value)
    for domain, version in opsets.items():
        proto.opset_import.add(domain=domain, version=version)
    if "" not in opsets and any(not node.domain for node in proto.node):
        proto.opset_import.add(domain="", version=newest_opsets()[""])


def _constants(proto: onnx.FunctionProto, body: FunctionBody, prefix: str) -> None:
    for name, array in body.constants.items():
        message = proto.node.add(op_type="Constant", output=[prefix + name])
        attribute = message.attribute.add(name="value", type=onnx.AttributeProto.TENSOR)
        fill_tensor(attribute.t, array, prefix + name)


def _flat(body: FunctionBody, proto: onnx.FunctionProto, opsets: dict[str, int]) -> list[NodeTemplate]:
    """The nodes of a body, those of the functions that they carry in their place."""
    flat: list[NodeTemplate] = []
    pending = list(reversed(body.nodes))
    serial = 0
    while pending:
        node = pending.pop()
        if node.body is None:
            flat.append(node)
            continue
        inner = node.body
        serial += 1
        prefix = f"f{serial}/"
        _constants(proto, inner, prefix)
        for domain, version in inner.opset_imports.items():
            opsets.setdefault(domain, version)
        names = {name: prefix + name for one in inner.nodes for name in one.outputs if name}
        names |= {name: prefix + name for name in inner.constants}
        names |= dict(zip(inner.inputs, node.inputs, strict=False))
        names |= {name: outer for name, outer in zip(inner.outputs, node.outputs, strict=False) if name and outer}
        names[""] = ""
        pending.extend(
            replace(
                one,
                inputs=tuple([names[name] for name in one.inputs]),
                outputs=tuple([names[name] for name in one.outputs]),
            )
            for one in reversed(inner.nodes)
        )
    return flat


_FUSED = "ort_py.fused"
"""Domain of the functions that fused nodes are written as."""

_FUSED_ELSEWHERE = frozenset({"com.microsoft"})
"""Domains whose operators are written as they are: onnxruntime, whose they are, writes them into models too."""


@cache
def since_version(op_type: str, domain: str, opset: int) -> int:
    """Version of the schema that ONNX has in force at an opset; 0 where it has none."""
    operator = find(op_type, domain, opset)
    return 0 if operator is None else operator.since_version


def list_type(node: Node, attribute: str) -> int:
    """``AttributeProto`` type of an attribute according to the schema; 0 where nothing says."""
    operator = find(node.op_type, node.domain, node.opset_version)
    declared = () if operator is None else operator.attributes
    return next((number for name, _, number, *_ in declared if name == attribute), 0)


class FunctionWriter:
    """Makes functions around single nodes, one for each kind of node.

    Args:
        strict: Refuse a node that no function can hold; else write it as it is.
        standard: Write every node that carries a function as a call of it, also where others know its operator.
    """

    def __init__(self, model: Model, proto: onnx.ModelProto, *, strict: bool, standard: bool = False) -> None:
        self._imports = model.opset_imports
        self._proto = proto
        self._strict = strict
        self._standard = standard
        self._made: set[tuple[str, str]] = set()
        self._bodies: dict[FunctionBody, str] = {}

    def wrap(self, message: onnx.NodeProto, node: Node) -> None:
        """Turn the message of a node into a call, if other tools would not know its operator or would use another
        opset.

        Raises:
            NotImplemented: The node holds graphs: a function cannot see what they capture.
        """
        own = since_version(node.op_type, node.domain, node.opset) if node.opset else 0
        in_force = since_version(node.op_type, node.domain, self._imports.get(node.domain, 0))
        known = node.domain in _FUSED_ELSEWHERE or bool(in_force)
        if node.body is not None and (self._standard or not known or own not in (0, in_force)):
            self._fused(message, node, node.body)
            return
        if own in (0, in_force):
            return
        if node.subgraphs:
            if not self._strict:
                return
            raise errors.NotImplemented(
                f"A node of opset {node.opset} that holds graphs cannot be written into a model of opset "
                f"{self._imports.get(node.domain, 0)}.",
                where=node.location,
                fix="Convert the function that it came from to the model's opset (onnx.version_converter).",
            )
        names = sorted(node.attributes)
        present = "".join("1" if name else "0" for name in message.output)
        key = (
            f"ort_py.opset{node.opset}.{node.domain}" if node.domain else f"ort_py.opset{node.opset}",
            "_".join([node.op_type, str(len(message.input)), present, *names]),
        )
        if key not in self._made:
            self._made.add(key)
            self._add(key, message, node, names)
        message.domain, message.op_type = key

    def _fused(self, message: onnx.NodeProto, node: Node, body: FunctionBody) -> None:
        """Call the function that a fused node carries: one for all nodes that carry it."""
        name = self._bodies.get(body)
        if name is None:
            # One called like an operator of ONNX would be taken for it by readers that look at names only.
            plain = not self._bodies and not defined(node.op_type)
            name = node.op_type if plain else f"{node.op_type}_{len(self._bodies)}"
            self._bodies[body] = name
            function = self._proto.functions.add(domain=_FUSED, name=name)
            fill_function(function, body)
            self._import(_FUSED)
            for entry in function.opset_import:
                if all(known.domain != entry.domain for known in self._proto.opset_import):
                    self._proto.opset_import.add(domain=entry.domain, version=entry.version)
        del message.attribute[:]
        message.domain, message.op_type = _FUSED, name

    def _import(self, domain: str) -> None:
        if all(entry.domain != domain for entry in self._proto.opset_import):
            self._proto.opset_import.add(domain=domain, version=1)
        # Functions came with IR version 8.
        self._proto.ir_version = max(self._proto.ir_version, 8)

    def _add(self, key: tuple[str, str], message: onnx.NodeProto, node: Node, names: list[str]) -> None:
        function = self._proto.functions.add(domain=key[0], name=key[1])
        function.opset_import.add(domain=node.domain, version=node.opset)
        function.attribute.extend(names)
        function.input.extend(f"x{index}" for index in range(len(message.input)))
        results = [f"y{index}" if name else "" for index, name in enumerate(message.output)]
        # A function cannot leave an output out; the call does, by an empty name.
        function.output.extend(name or f"absent{index}" for index, name in enumerate(results))
        body = function.node.add(op_type=node.op_type, domain=node.domain)
        body.input.extend(function.input)
        body.output.extend(function.output)
        for attribute in message.attribute:
            body.attribute.add(name=attribute.name, ref_attr_name=attribute.name, type=attribute.type)
        self._import(key[0])
