"""Checks that the graphs inside If, Loop, Scan and SequenceMap have the inputs and outputs that their node requires.

Schemas cannot say this: the counts and types of a body follow from those of its node. Asked by `validate`.

Source: If-1…25, Loop-1…25, Scan-8…25, SequenceMap-17 of ai.onnx.
"""

from __future__ import annotations

from collections.abc import Iterator

from ort_py.dtypes import TensorType
from ort_py.graph.checking.resolved_schema import type_text
from ort_py.graph.ir import Graph, Node, Value


def nested_problems(node: Node) -> Iterator[str]:
    """Texts for everything that is wrong with the bodies of a node; absent or misplaced bodies are not noticed here."""
    if node.domain:
        return
    if node.op_type == "If":
        yield from _if(node)
    elif node.op_type in ("Loop", "Scan", "SequenceMap"):
        body = node.attributes.get("body")
        if isinstance(body, Graph):
            yield from _BODIES[node.op_type](node, body)


def nested_type_problems(node: Node) -> Iterator[str]:
    """Texts for tensors that a Loop or Scan hands to its body as another type than the body takes.

    Types that are not known, or are none of tensors, are passed over.
    """
    body = node.attributes.get("body")
    if node.domain or node.op_type not in ("Loop", "Scan") or not isinstance(body, Graph):
        return
    given: list[Value | None]
    if node.op_type == "Loop":
        given, taken = node.inputs[2:], body.inputs[2:]
    else:
        given, taken = node.inputs[1:] if node.opset_version == 8 else node.inputs, body.inputs
    for outer, inner in zip(given, taken, strict=False):
        if outer is None or not isinstance(outer.type, TensorType) or not isinstance(inner.type, TensorType):
            continue
        if outer.type.data_type != inner.type.data_type:
            taken_as = type_text(inner.type)
            yield f"input '{outer.name}' is {type_text(outer.type)}, its body takes '{inner.name}' as {taken_as}"


def _if(node: Node) -> Iterator[str]:
    counts: dict[str, int] = {}
    for branch in ("then_branch", "else_branch"):
        graph = node.attributes.get(branch)
        if not isinstance(graph, Graph):
            continue
        counts[branch] = len(graph.outputs)
        if graph.inputs:
            yield f"its {branch} has {len(graph.inputs)} inputs, but branches have none"
        if len(graph.outputs) < len(node.outputs):
            yield f"its {branch} has {len(graph.outputs)} outputs, the node has {len(node.outputs)}"
    if len(set(counts.values())) > 1:
        yield f"its then_branch has {counts['then_branch']} outputs, its else_branch {counts['else_branch']}"


def _loop(node: Node, body: Graph) -> Iterator[str]:
    carried = max(len(node.inputs) - 2, 0)
    yield from _inputs(body, carried + 2, f"iteration number, condition and {carried} carried values")
    given = len(body.outputs) - 1
    if given < carried:
        yield f"its body has {len(body.outputs)} outputs, a condition and {carried} carried values are needed"
    elif given < len(node.outputs):
        yield f"its body has {len(body.outputs)} outputs, a condition and {len(node.outputs)} values are needed"


def _scan(node: Node, body: Graph) -> Iterator[str]:
    # Version 8 had the optional sequence lengths in front.
    wanted = len(node.inputs) - (1 if node.opset_version == 8 else 0)
    yield from _inputs(body, wanted, "one for each state and scan input")
    scanned = node.attributes.get("num_scan_inputs")
    if isinstance(scanned, int) and not 0 < scanned <= wanted:
        yield f"num_scan_inputs is {scanned}, the node has {wanted} inputs"
    elif isinstance(scanned, int) and len(body.outputs) < wanted - scanned:
        yield f"its body has {len(body.outputs)} outputs, {wanted - scanned} states are needed"
    yield from _outputs(node, body)


def _sequence_map(node: Node, body: Graph) -> Iterator[str]:
    yield from _inputs(body, len(node.inputs), "one for each input of the node")
    yield from _outputs(node, body)


def _inputs(body: Graph, wanted: int, meaning: str) -> Iterator[str]:
    if len(body.inputs) != wanted:
        yield f"its body has {len(body.inputs)} inputs, {wanted} are needed: {meaning}"


def _outputs(node: Node, body: Graph) -> Iterator[str]:
    if len(body.outputs) < len(node.outputs):
        yield f"its body has {len(body.outputs)} outputs, the node has {len(node.outputs)}"


_BODIES = {"Loop": _loop, "Scan": _scan, "SequenceMap": _sequence_map}
