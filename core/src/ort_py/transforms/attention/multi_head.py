"""Softmax of scaled products between heads, times values: one MultiHeadAttention.

Fits what PyTorch's exporters write for `scaled_dot_product_attention` and for the same by hand: factors on queries,
keys or scores; masks that are added; rows of NaN made zeros; keys and values split from columns, repeated for groups of
heads, or behind those of the past. Comes after shapes are known and constants folded. A row that sees no key gives
zeros, where the nodes it replaces give NaN or, guarded against it, zeros too.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from ort_py.contracts import GraphEditor, Level, NodeSpec, NodeTemplate, RewriteRule, TransformContext, ValueSpec
from ort_py.dtypes import DataType, Shape
from ort_py.lazy_dataclass import dataclass
from ort_py.transforms.attention.body import Form, attention_body
from ort_py.transforms.attention.cache import Past, past_of, without_shapes
from ort_py.transforms.attention.parts import Keys, keys_of, merged_heads, operator, shape_of, split_heads, unscaled

_DTYPES = {DataType.FLOAT: "float32", DataType.FLOAT16: "float16"}


_ON_THE_WAY = frozenset({"Add", "Div", "Mul", "Softmax"})
"""Operators between the product of queries and keys and the weights."""


@dataclass(slots=True)
class _Found:
    """An attention and its parts."""

    softmax: NodeSpec
    guard: tuple[NodeSpec, ...]
    last: NodeSpec
    values: ValueSpec
    bias: ValueSpec | None
    query: ValueSpec
    keys: Keys
    scale: float
    inner: list[NodeSpec]


class FuseAttention(RewriteRule):
    """Everything between the split heads and the joined result becomes com.microsoft's MultiHeadAttention."""

    name = "AttentionFusion"
    level = Level.EXTENDED
    # The product of queries and keys, so that it is seen here before other rules change it for themselves.
    op_types = frozenset({"MatMul", "FusedMatMul"})

    def rewrite(self, node: NodeSpec, graph: GraphEditor, context: TransformContext) -> bool | str:
        softmax = _softmax_of(node, graph)
        if softmax is None:
            return False
        found = _find(node, softmax, graph)
        if not isinstance(found, _Found):
            return found
        reason = _refusal(found, graph)
        if reason:
            return reason
        _Fusion(found, graph).write()
        return True


def _softmax_of(product: NodeSpec, graph: GraphEditor) -> NodeSpec | None:
    """The softmax over a product, with factors and a mask between."""
    value = product.outputs[0]
    for _ in range(4):
        readers = graph.readers(value) if value is not None else ()
        node = next((one for one in readers if not one.domain and one.op_type in _ON_THE_WAY), None)
        if node is None or node.op_type == "Softmax":
            return node
        value = node.outputs[0]
    return None


def _find(product: NodeSpec, softmax: NodeSpec, graph: GraphEditor) -> _Found | bool | str:
    """The attention around a product and its softmax. False if there is none; a reason if it must stay."""
    (given,), (weights,) = softmax.inputs, softmax.outputs
    if given is None or weights is None:
        return False
    guard = _guard(weights, graph)
    last = _only_reader(guard[-1].outputs[0] if guard else weights, graph)
    if last is None or last.op_type != "MatMul" or last.domain or last.inputs[1] is None:
        return False
    read = guard[-1].outputs[0] if guard else weights
    if read is None or last.inputs[0] is None or last.inputs[0].name != read.name:
        return False
    scores, bias, inner = _unbiased(given, product, graph)
    scores, factor, scaling = unscaled(graph, scores)
    if scores is None or product.outputs[0] is None or scores.name != product.outputs[0].name:
        return False
    keys = _keys(product, graph)
    if isinstance(keys, str):
        return keys
    query, more, _ = unscaled(graph, product.inputs[0])
    if query is None:
        return False
    scale = factor * more * keys.factor
    inner = [*inner, *scaling, product]
    return _Found(softmax, guard, last, last.inputs[1], bias, query, keys, scale, inner)


def _keys(product: NodeSpec, graph: GraphEditor) -> Keys | str:
    """The keys of a product, which may be one that transposes and scales."""
    if not product.domain:
        return keys_of(graph, product.inputs[1])
    attributes = product.attributes
    if any(attributes.get(name, 0) for name in ("transA", "transBatchA", "transBatchB")):
        return "the product transposes its queries or batches"
    alpha = float(attributes.get("alpha", 1.0))
    if attributes.get("transB", 0):
        heads, factor, _ = unscaled(graph, product.inputs[1])
        return Keys(heads, None, split_heads(graph, heads), alpha * factor)
    keys = keys_of(graph, product.inputs[1])
    return keys if isinstance(keys, str) else replace(keys, factor=keys.factor * alpha)


def _guard(weights: ValueSpec, graph: GraphEditor) -> tuple[NodeSpec, ...]:
    """IsNaN and Where that make rows of NaN zeros, if they are there."""
    readers = graph.readers(weights)
    if len(readers) != 2 or graph.uses(weights) != 2:
        return ()
    test, choice = sorted(readers, key=lambda one: one.op_type)
    if (test.op_type, choice.op_type, test.domain, choice.domain) != ("IsNaN", "Where", "", ""):
        return ()
    condition, zero, other = choice.inputs
    outcome = test.outputs[0]
    if condition is None or zero is None or other is None or outcome is None:
        return ()
    array = graph.constant(zero)
    plain = array is not None and array.size == 1 and float(array.item()) == 0
    fits = condition.name == outcome.name and other.name == weights.name and graph.uses(outcome) == 1
    return (test, choice) if plain and fits else ()


def _unbiased(
    given: ValueSpec, product: NodeSpec, graph: GraphEditor
) -> tuple[ValueSpec | None, ValueSpec | None, list[NodeSpec]]:
    """Scores without the mask that is added to them, and that mask."""
    node = operator(graph, given, "Add")
    if node is None:
        return given, None, []
    for scores, bias in (node.inputs, node.inputs[::-1]):
        value, _, _ = unscaled(graph, scores)
        made = graph.producer(value)
        if made is not None and made.name == product.name:
            return scores, bias, [node]
    return given, None, []


def _only_reader(value: ValueSpec | None, graph: GraphEditor) -> NodeSpec | None:
    if value is None or graph.uses(value) != 1 or graph.is_output(value):
        return None
    readers = graph.readers(value)
    return readers[0] if len(readers) == 1 else None


def _refusal(found: _Found, graph: GraphEditor) -> str:
    """Explain why an attention must stay; empty if it may be fused."""
    query, result = shape_of(found.query), shape_of(found.last.outputs[0])
    keys, values = shape_of(found.inner[-1].inputs[1]), shape_of(found.values)
    if keys is not None and len(keys) == 4 and found.inner[-1].attributes.get("transB", 0):
        keys = (*keys[:2], keys[3], keys[2])
    scores, masked = shape_of(found.inner[-1].outputs[0]), shape_of(found.softmax.outputs[0])
    if query is None or keys is None or values is None or result is None or scores is None or masked is None:
        return "the rank of queries, keys or values is unknown"
    if not len(query) == len(keys) == len(values) == len(scores) == len(masked) == 4:
        return f"queries, keys and values have the ranks {len(query)}, {len(keys)} and {len(values)}, not 4"
    if found.softmax.attributes.get("axis", -1 if found.softmax.since_version >= 13 else 1) not in (-1, 3):
        return "the softmax is not over the keys"
    kind = found.query.data_type
    if kind not in _DTYPES:
        return f"it computes in {kind.name.lower() if kind else 'an unknown type'}, not in float or float16"
    fixed = (query[1], query[3], keys[1], keys[2], values[1], values[3])
    if not all(isinstance(dim, int) and dim > 0 for dim in fixed):
        return f"heads or their sizes are unknown: {list(query)}, {list(keys)}, {list(values)}"
    if not query[1] == keys[1] == values[1] or query[3] != keys[2]:
        return f"queries {list(query)}, keys {list(keys)} and values {list(values)} differ in heads or size"
    if query[0] is None or query[0] != keys[0] or query[0] != values[0]:
        return f"queries, keys and values may differ in their batch: {query[0]}, {keys[0]}, {values[0]}"
    if _spreads(scores, masked) and (_joined(found, graph) is None or keys[3] is None or keys[3] != values[2]):
        return f"the mask may spread the scores from {list(scores)} to {list(masked)}"
    if not found.scale or not np.isfinite(found.scale):
        return f"the scores are multiplied by {found.scale}"
    for node in found.inner:
        output = node.outputs[0]
        if output is not None and (graph.uses(output) != 1 or graph.is_output(output)):
            return f"'{output.name}', which {node.op_type} '{node.name}' writes, is read elsewhere too"
    return ""


def _spreads(scores: Shape, masked: Shape) -> bool:
    """Return whether a mask gives the scores more batch entries, heads, rows or keys than they have.

    Where the sizes are not known the kernel's own check decides: a mask that does not fit is an error there.
    """
    return any(
        after != before and (isinstance(after, int) or before == 1)
        for before, after in zip(scores, masked, strict=True)
    )


def _joined(found: _Found, graph: GraphEditor) -> tuple[NodeSpec, NodeSpec] | None:
    """The nodes that make columns of the result's heads, if they are known to keep batch and length of the queries.

    A result of as many elements as queries and values say has not been spread by a mask.
    """
    query, values, output = shape_of(found.query), shape_of(found.values), found.last.outputs[0]
    if query is None or values is None or output is None:
        return None
    columns = query[1] * values[3] if isinstance(query[1], int) and isinstance(values[3], int) else None
    return merged_heads(graph, output, (query[0], query[2], columns))


class _Fusion:
    """Writes the new nodes of one attention."""

    def __init__(self, found: _Found, graph: GraphEditor) -> None:
        self._found = found
        self._graph = graph
        self._before: list[NodeTemplate] = []
        query, values = shape_of(found.query), shape_of(found.values)
        assert query is not None
        assert values is not None
        self._heads, self._size, self._value_size = (int(dim or 0) for dim in (query[1], query[3], values[3]))
        self._base = found.last.name

    def write(self) -> None:
        found, graph = self._found, self._graph
        scale = found.scale
        query = split_heads(graph, found.query)
        if query is not None:
            plain, factor, _ = unscaled(graph, query)
            if plain is not None and shape_of(plain) == shape_of(query):
                query, scale = plain, scale * factor
        query_name = query.name if query is not None else self._join(found.query)
        past = self._past()
        values = split_heads(graph, found.values)
        keys = found.keys
        if past is not None:
            key_name, value_name = past[1].name, past[2].name
        elif keys.joined is not None and values is not None:
            key_name, value_name = keys.joined.name, values.name
        else:
            key_name, value_name = self._with_heads(keys), found.values.name
        joined = past is not None or (keys.joined is not None and values is not None)
        inputs = [query_name, key_name, value_name, "", "", found.bias.name if found.bias is not None else ""]
        if past is not None:
            inputs += [one.name for one in past[0].past]
        form = Form(
            self._heads,
            self._size,
            self._value_size,
            scale,
            joined,
            found.bias is not None,
            past is not None,
            bool(found.guard),
            _DTYPES[found.query.data_type or DataType.FLOAT],
            found.last.opset_version,
        )
        self._replace(inputs, None if past is None else past[0], form)

    def _replace(self, inputs: list[str], past: Past | None, form: Form) -> None:
        found, graph = self._found, self._graph
        output = found.last.outputs[0]
        assert output is not None
        merged = _joined(found, graph)
        result = f"{output.name}/joined"
        after: list[NodeTemplate] = []
        removed = [*found.inner, found.softmax, *found.guard, found.last, *(past.nodes if past is not None else ())]
        if merged is not None and merged[1].outputs[0] is not None:
            result = merged[1].outputs[0].name
            removed += merged
        else:
            shape = graph.add_constant(f"{self._base}/heads", np.array([0, 0, self._heads, self._value_size], np.int64))
            rows = self._graph.free_name(f"{output.name}/rows")
            after = [
                NodeTemplate("Reshape", (result, shape), (rows,)),
                NodeTemplate("Transpose", (rows,), (output.name,), {"perm": (0, 2, 1, 3)}),
            ]
        present = [one.name for one in past.present] if past is not None else []
        while not inputs[-1]:
            inputs.pop()
        attention = NodeTemplate(
            "MultiHeadAttention",
            tuple(inputs),
            (result, *present),
            {"num_heads": self._heads, "scale": form.scale},
            "com.microsoft",
            body=attention_body(form),
        )
        graph.replace_nodes(removed, [*self._before, attention, *after])

    def _join(self, value: ValueSpec) -> str:
        """``(batch, heads, length, size)`` as ``(batch, length, heads · size)``, by new nodes."""
        shape = self._graph.add_constant(f"{self._base}/columns", np.array([0, 0, self._heads * self._size], np.int64))
        rows, columns = (self._graph.free_name(f"{value.name}/{part}") for part in ("rows", "columns"))
        self._before += [
            NodeTemplate("Transpose", (value.name,), (rows,), {"perm": (0, 2, 1, 3)}),
            NodeTemplate("Reshape", (rows, shape), (columns,)),
        ]
        return columns

    def _with_heads(self, keys: Keys) -> str:
        """The keys ``(batch, heads, length, size)``, transposed by a new node where they never were."""
        if keys.heads is not None:
            return keys.heads.name
        assert keys.rows is not None
        name = self._graph.free_name(f"{keys.rows.name}/heads")
        self._before.append(NodeTemplate("Transpose", (keys.rows.name,), (name,), {"perm": (0, 2, 1, 3)}))
        return name

    def _past(self) -> tuple[Past, ValueSpec, ValueSpec] | None:
        """The past, and the new keys and values before their heads were split."""
        graph, found = self._graph, self._found
        others = [found.bias, found.query]
        past = past_of(graph, found.keys.heads, found.values, others, [*found.inner, found.last])
        if past is None:
            return None
        keys, values = (split_heads(graph, one) for one in past.new)
        if keys is None or values is None:
            return None
        without_shapes(graph, past)
        return past, keys, values
