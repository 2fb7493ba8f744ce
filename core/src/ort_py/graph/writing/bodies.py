"""Functions that fused nodes carry, as ONNX's model-local functions. Used by `node_versions`.

A function inside a function is written out: other readers know the operators of the innermost ones only.
"""

from __future__ import annotations

from dataclasses import replace

import onnx

from ort_py.contracts.function_body import FunctionBody, NodeTemplate
from ort_py.graph.writing.protos import fill_attribute, fill_tensor

__all__ = ["fill_function"]


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
        proto.opset_import.add(domain="", version=onnx.defs.onnx_opset_version())


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
