"""Attention of ai.onnx: what is around it that it can do itself.

For models that have the operator already, as exporters write them for opset 23: heads split from columns and joined
again, keys and values repeated for groups of query heads, and those of the past in front. Standard operators go in and
come out. Comes after shapes are known.
"""

from __future__ import annotations

import numpy as np

from ort_py.contracts import GraphEditor, Level, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.transforms.attention.cache import past_of, without_shapes
from ort_py.transforms.attention.parts import merged_heads, operator, repeated_heads, shape_of, split_heads

_KEYS = 1
_VALUES = 2
_PAST = 4


class _AttentionRule(RewriteRule):
    level = Level.EXTENDED
    op_types = frozenset({"Attention"})


def _input(node: NodeSpec, index: int) -> ValueSpec | None:
    return node.inputs[index] if len(node.inputs) > index else None


def _template(node: NodeSpec, inputs: dict[int, str], outputs: tuple[str, ...] = (), **attributes: int) -> NodeTemplate:
    """The node again, with some inputs, outputs and attributes changed."""
    count = max(len(node.inputs), *(index + 1 for index in inputs))
    names = ["" if (one := _input(node, index)) is None else one.name for index in range(count)]
    for index, name in inputs.items():
        names[index] = name
    given = outputs or tuple(["" if one is None else one.name for one in node.outputs])
    return NodeTemplate("Attention", tuple(names), given, {**node.attributes, **attributes})


class ShareAttentionHeads(_AttentionRule):
    """Keys and values repeated for a group of query heads: the operator shares them without copies."""

    name = "AttentionSharedHeads"

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or node.body is not None or len(node.inputs) <= _VALUES:
            return False
        sources = [repeated_heads(graph, node.inputs[index]) for index in (_KEYS, _VALUES)]
        if sources[0] is None and sources[1] is None:
            return False
        shapes = [shape_of(one) for one in (node.inputs[0], *sources)]
        if None in sources or None in shapes:
            return "only keys or only values are repeated for groups of heads, or by sizes that are unknown"
        query, keys, values = shapes
        if query is None or keys is None or values is None or keys[:2] != values[:2] or len(query) != 4:
            return "keys and values have different heads before they are repeated"
        if _input(node, _PAST) is not None or any(one is not None for one in node.outputs[1:]):
            return "the present keys and values, which it writes too, would have fewer heads"
        names = {index: one.name for index, one in zip((_KEYS, _VALUES), sources, strict=True) if one is not None}
        graph.replace_nodes([node], [_template(node, names)])
        return True


class TakeAttentionPast(_AttentionRule):
    """Keys and values behind those of the past: the operator puts them there and writes the present ones."""

    name = "AttentionPast"

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if (
            node.domain
            or node.body is not None
            or len(node.inputs) <= _VALUES
            or any(_input(node, index) is not None for index in (4, 5, 6))
        ):
            return False
        keys, values = node.inputs[_KEYS], node.inputs[_VALUES]
        if any(operator(graph, one, "Concat") is None for one in (keys, values)):
            return False
        if any(one is not None for one in node.outputs[1:]):
            return "it writes present keys or values already"
        if any(node.attributes.get(name, default) != default for name, default in _FROM_THE_FIRST_KEY.items()):
            return "its queries are counted from the first key, and with a past from the last one"
        past = past_of(graph, keys, values, [node.inputs[0], _input(node, 3)], [node])
        if past is None:
            return "what is in front of keys and values is not a past, or is needed before the attention"
        without_shapes(graph, past)
        inputs = {1: past.new[0].name, 2: past.new[1].name, 4: past.past[0].name, 5: past.past[1].name}
        result = node.outputs[0]
        assert result is not None
        outputs = (result.name, *(one.name for one in past.present))
        graph.replace_nodes([node, *past.nodes], [_template(node, inputs, outputs)])
        return True


_FROM_THE_FIRST_KEY = {"is_causal": 0, "left_window_size": -1, "right_window_size": -1}
"""Attributes that mean something else with a past, and their values without meaning."""


class JoinAttentionHeads(_AttentionRule):
    """Heads split from columns in front of the operator and made columns behind it: it reads and writes columns."""

    name = "AttentionColumns"

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        if node.domain or node.body is not None or len(node.inputs) <= _VALUES:
            return False
        sources = [split_heads(graph, one) for one in node.inputs[:3]]
        if all(one is None for one in sources):
            return False
        query, values, result = shape_of(node.inputs[0]), shape_of(node.inputs[_VALUES]), node.outputs[0]
        if any(one is None for one in sources) or query is None or values is None or result is None:
            return "not all of queries, keys and values are split from columns"
        if len(node.outputs) > 3 and node.outputs[3] is not None:
            return "its scores are read"
        heads, key_heads, size = query[1], values[1], values[3]
        if not (isinstance(heads, int) and isinstance(key_heads, int) and isinstance(size, int)):
            return f"heads or their sizes are unknown: {list(query)}, {list(values)}"
        names = {index: one.name for index, one in enumerate(sources) if one is not None}
        merged = merged_heads(graph, result, (query[0], query[2], heads * size))
        removed, after = [node], list[NodeTemplate]()
        joined = graph.free_name(f"{result.name}/joined")
        if merged is not None and merged[1].outputs[0] is not None:
            joined = merged[1].outputs[0].name
            removed += merged
        else:
            shape = graph.add_constant(f"{result.name}/heads", np.array([0, 0, heads, size], np.int64))
            rows = graph.free_name(f"{result.name}/rows")
            after = [
                NodeTemplate("Reshape", (joined, shape), (rows,)),
                NodeTemplate("Transpose", (rows,), (result.name,), {"perm": (0, 2, 1, 3)}),
            ]
        outputs = (joined, *("" if one is None else one.name for one in node.outputs[1:]))
        made = _template(node, names, outputs, q_num_heads=heads, kv_num_heads=key_heads)
        graph.replace_nodes(removed, [made, *after])
        return True
