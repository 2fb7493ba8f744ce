"""Values whose sizes may differ from run to run, because they depend on what is fed.

Used by `shapes`, which must not believe sizes that a model declares for them: an exporter wrote down those of its one
example. Pure walk over the nodes of the main graph.
"""

from __future__ import annotations

from ort_py.graph.ir import Graph, Node, Value, graph_inputs

_CONTENTS = {
    **dict.fromkeys(("Compress", "Expand", "OneHot", "Reshape", "Split", "SplitToSequence", "TopK"), (1,)),
    **dict.fromkeys(("AffineGrid", "CenterCropPad", "Squeeze", "Unsqueeze", "Upsample"), (1,)),
    **dict.fromkeys(("ConstantOfShape", "ImageDecoder", "NonZero", "StringSplit", "StringNormalizer", "Unique"), (0,)),
    **dict.fromkeys(("BlackmanWindow", "HammingWindow", "HannWindow"), (0,)),
    **dict.fromkeys(("Col2Im", "DFT", "Tile"), (1, 2)),
    "MaxUnpool": (2,),
    "MelWeightMatrix": (0, 1, 2, 3, 4),
    "NonMaxSuppression": (0, 1, 2, 3, 4),
    "Pad": (1, 3),
    "Range": (0, 1, 2),
    "Resize": (1, 2, 3),
    "SequenceAt": (1,),
    "Slice": (1, 2, 3, 4),
    "STFT": (1, 3),
}
"""Operators with results whose sizes depend on the contents of inputs, and the places of these inputs. Reductions have
the axes in the second one, too."""


def varying_sizes(graph: Graph) -> frozenset[Value]:
    """Values of a main graph whose sizes follow from contents of its inputs, or from sizes of inputs that vary.

    Sizes that follow from an operator of another domain, or from a nested graph, may be such as well.
    """
    fed = {value for value in graph_inputs(graph) if not value.constant}
    varying = {value for value in fed if not _is_fixed(value)}
    for node in graph.nodes:
        reads = [value for value in node.inputs if value is not None]
        if node.subgraphs:
            reads += [value for body in node.subgraphs for value in body.captures()]
        changes = any(value in varying for value in reads) or _reads_contents(node, reads, fed)
        made = [value for value in node.outputs if value is not None]
        if changes:
            varying.update(made)
        if changes if node.op_type in ("Shape", "Size") and not node.domain else any(value in fed for value in reads):
            fed.update(made)
    return frozenset(varying)


def _reads_contents(node: Node, reads: list[Value], fed: set[Value]) -> bool:
    """Return whether the sizes of a node's results follow from contents that are fed, or computed from such."""
    if node.subgraphs or node.domain:
        return any(value in fed for value in reads)
    places = (1,) if node.op_type.startswith("Reduce") else _CONTENTS.get(node.op_type, ())
    return any(place < len(node.inputs) and node.inputs[place] in fed for place in places)


def _is_fixed(value: Value) -> bool:
    shape = getattr(value.type, "shape", None)
    return shape is not None and all(isinstance(size, int) for size in shape)
