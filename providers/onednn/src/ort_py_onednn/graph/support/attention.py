"""Attention, which is made of products of matrices, and the turning of its heads."""

from __future__ import annotations

from ort_py.contracts import GraphView, NodeSpec, ValueSpec
from ort_py.dtypes import DataType
from ort_py_onednn.graph.decomposition import FIRST
from ort_py_onednn.graph.support.rule import Rule, Rules, only_float, shape_of, used_outputs, value_name

__all__ = ["PAST", "RULES", "bias_of", "has_present", "lengths_of"]

PAST = {
    ("", "Attention"): 4,
    ("com.microsoft", "GroupQueryAttention"): 3,
    ("com.microsoft", "MultiHeadAttention"): 6,
}
"""Place of the keys of a past among the inputs; its values stand behind them."""

_BIAS = {"Attention": 3, "MultiHeadAttention": 5}

_COUNTED = "GroupQueryAttention"
_LENGTHS = (5, 6)
"""Places of the inputs of `_COUNTED` that say how many keys there are, of each entry and of the longest."""

_PLAIN = {
    "k_quant_type": "NONE",
    "qk_output": 0,
    "sliding_window_cache": 0,
    "smooth_softmax": (-1, 0),
    "softcap": 0.0,
    "v_quant_type": "NONE",
}
"""Attributes of `_COUNTED` that there is code for one value of, or for several."""

_MOVES = frozenset({"Cast", "Expand", "Identity", "Reshape", "Squeeze", "Transpose", "Unsqueeze"})
_MOST_MOVES = 8

_SIZES = frozenset({"Shape", "Size"})

_SCORES = 3
"""Place of the scores among the outputs, behind the result and the keys and values of past and present."""


def _several_heads(node: NodeSpec, graph: GraphView) -> str | None:
    if any(value_name(node, place) for place in (3, 4, 8, 9)) or used_outputs(node, _SCORES):
        return "it has a bias of projections, a mask of keys, a past that is a buffer, or scores as an output"
    if has_present(node):
        heads = node.attributes["num_heads"]
        for place in range(3):
            shape = shape_of(node, place)
            if len(shape) != 3 or not isinstance(shape[2], int) or shape[2] % heads:
                return "it has a past, and not three dimensions of queries, keys and values with heads of a known size"
        return _with_past(node, graph)
    if node.attributes.get("unidirectional", 0):
        return "causal attention"
    heads = node.attributes["num_heads"]
    for place in range(3):
        shape = shape_of(node, place)
        if len(shape) != 3 and not (len(shape) == 4 and place and shape[1] == heads):
            return "its queries do not have three dimensions, or its keys or values have neither three nor four"
        wide = shape[-1]
        if not isinstance(wide, int) or (len(shape) == 3 and wide % heads):
            return "the size of its heads is not known"
    return _grows(node, graph)


def has_present(node: NodeSpec) -> int:
    """Return how many outputs hold past and new keys or values; without such outputs, 1 if there is a past, else 0."""
    place = PAST.get((node.domain, node.op_type))
    if place is None:
        return 0
    present = sum(value is not None for value in node.outputs[1:3])
    return present or bool(value_name(node, place))


def bias_of(node: NodeSpec) -> str:
    """Name of what is added to scores, or hides some, where there is a past; ``""`` for nothing."""
    place = _BIAS.get(node.op_type)
    return "" if place is None else value_name(node, place)


def lengths_of(node: NodeSpec) -> tuple[str, ...]:
    """Names of what says in each run how many keys there are; none where that follows from the past."""
    return tuple(value_name(node, place) for place in _LENGTHS) if node.op_type == _COUNTED else ()


def _grouped(node: NodeSpec, graph: GraphView) -> str | None:
    attributes, first = node.attributes, PAST[node.domain, node.op_type]
    for name, wanted in _PLAIN.items():
        given = attributes.get(name)
        if given is not None and given != wanted and not (isinstance(wanted, tuple) and given in wanted):
            return f"its {name} is {given!r}"
    window = attributes.get("local_window_size", -1)
    if window != -1 and (window < 1 or not attributes.get("causal", 1)):
        return f"its local_window_size is {window}, or it has one and is not causal"
    if any(value_name(node, place) for place in range(9, 16)) or used_outputs(node, _SCORES):
        return "it has positions, a bias, sinks, scales or norms as inputs, or scores as an output"
    if not value_name(node, first) or not value_name(node, first + 1):
        return "it has no past"
    heads, groups = attributes.get("num_heads", 0), attributes.get("kv_num_heads", 0)
    shapes = [shape_of(node, place) for place in range(3)]
    packed = not value_name(node, 1)
    if packed != (not value_name(node, 2)):
        return "it has only one of keys and values beside its queries"
    if heads < 1 or groups < 1 or heads % groups:
        return f"it has {heads} heads of queries for {groups} of keys"
    counts = (heads + 2 * groups,) if packed else (heads, groups, groups)
    for shape, count in zip(shapes, counts, strict=False):
        if len(shape) != 3 or not isinstance(shape[2], int) or shape[2] % count:
            return "the size of its heads is not known"
    if attributes.get("do_rotary", 0):
        tables = [shape_of(node, place) for place in (7, 8)]
        size = shapes[0][2] // counts[0]
        if any(len(table) != 2 or not isinstance(table[1], int) or 2 * table[1] > size for table in tables):
            return "its tables of cosines and sines do not have known sizes"
    for name in lengths_of(node):
        if graph.constant(name) is not None:
            return "its number of keys is a constant"
    for place in (first, first + 1):
        readers = [graph.nodes[index] for index in graph.consumers(value_name(node, place))]
        if sum(one.op_type not in _SIZES for one in readers) != 1:
            return "other nodes read its past"
    return _with_past(node, graph)


def _integer_or_float(value: ValueSpec, place: int, is_input: bool) -> str | None:
    if is_input and place in _LENGTHS and value.data_type is DataType.INT32:
        return None
    return only_float(value, place, is_input)


def _with_past(node: NodeSpec, graph: GraphView) -> str | None:
    """Keys and values of a past are read as the caller gave them: their number is no part of a plan."""
    first = PAST[node.domain, node.op_type]
    for value in (*node.inputs, *node.outputs):
        hides = not node.domain and value is not None and value.data_type is DataType.BOOL
        counts = value is not None and value.name in lengths_of(node)
        if value is not None and value.data_type is not DataType.FLOAT and not (hides or counts):
            return f"it has a past, and '{value.name}' is not float32"
    rows = {shape_of(node, place)[-2] for place in range(2) if shape_of(node, place)}
    if len({one for one in rows if isinstance(one, int)}) > 1:
        return "it has a past, and more or fewer new keys than queries"
    fed = {value.name for value in graph.inputs}
    if bool(value_name(node, first)) != bool(value_name(node, first + 1)):
        return "it has a past of one of keys and values"
    for place in (first, first + 1):
        if value_name(node, place) and value_name(node, place) not in fed:
            return "its past is computed: it may have another size in each run"
    for value in node.outputs[1:3]:
        if value is not None and graph.consumers(value.name):
            return "other nodes read its keys or values of the past and the new ones"
    return None


def _attention(node: NodeSpec, graph: GraphView) -> str | None:
    attributes = node.attributes
    present = has_present(node)
    if value_name(node, 6) or used_outputs(node, _SCORES):
        return "it has lengths of keys, or scores as an output"
    if present and (attributes.get("is_causal", 0) or attributes.get("softcap", 0.0)):
        return "it has a past, and is causal or caps its scores"
    if any(attributes.get(name, -1) != -1 for name in ("left_window_size", "right_window_size")):
        return "it has a window of keys"
    shapes = [shape_of(node, place) for place in range(3)]
    ranks = {len(shape) for shape in shapes}
    if ranks not in ({3}, {4}):
        return "its queries, keys and values do not all have three or all have four dimensions"
    heads = [shape[1] for shape in shapes]
    if ranks == {3}:
        heads = [attributes.get("q_num_heads"), *(attributes.get("kv_num_heads"),) * 2]
    queries, keys, values = heads
    if not (isinstance(queries, int) and isinstance(keys, int) and isinstance(values, int)):
        return "its number of heads is not known"
    for shape, count in zip(shapes, (queries, keys, values), strict=True):
        wide = shape[-1]
        if not isinstance(wide, int) or (ranks == {3} and wide % count):
            return "the size of its heads is not known"
    if keys != values or queries % keys:
        return f"it has {queries} heads of queries, {keys} of keys and {values} of values"
    if present:
        return _with_past(node, graph)
    mask = shape_of(node, 3)
    if value_name(node, 3) and (not mask or mask[-1] != shapes[1][-2]):
        return "its mask is not known to be as long as the keys"
    return _grows(node, graph)


def _grows(node: NodeSpec, graph: GraphView) -> str | None:
    """Keys that a decoder keeps are one more at each token: with them in it, a region would have a plan for each."""
    if shape_of(node, 1)[-2] == shape_of(node, 0)[-2]:
        return None
    for place in (1, 2):
        if not isinstance(shape_of(node, place)[-2], int) and _is_kept(graph, value_name(node, place)):
            return "the number of its keys and values changes from run to run: a plan would serve one run"
    return None


def _is_kept(graph: GraphView, name: str) -> bool:
    """Return whether a value was given by the caller in part, but for how it lies."""
    fed = {value.name for value in graph.inputs}
    for _ in range(_MOST_MOVES):
        if name in fed:
            return True
        producer = graph.producer(name)
        if producer is None:
            return False
        node = graph.nodes[producer]
        if node.op_type == "Concat":
            return any(value is not None and value.name in fed for value in node.inputs)
        if node.op_type not in _MOVES or node.inputs[0] is None:
            return False
        name = node.inputs[0].name
    return False


def _mask_or_float(value: ValueSpec, place: int, is_input: bool) -> str | None:
    if is_input and place == 3 and value.data_type is DataType.BOOL:
        return None
    return only_float(value, place, is_input)


def _rotary(node: NodeSpec, graph: GraphView) -> str | None:
    attributes, shape, cosines = node.attributes, shape_of(node, 0), shape_of(node, 1)
    half = cosines[-1] if cosines else None
    if attributes.get("interleaved", 0):
        return "it rotates pairs of neighbours: oneDNN is slow at reading every second element"
    if len(shape) not in {3, 4} or not isinstance(half, int) or not isinstance(shape[-1], int):
        return "the size of its heads is not known"
    size = shape[-1] if len(shape) == 4 else shape[-1] // (attributes.get("num_heads") or shape[-1] // (2 * half))
    if attributes.get("rotary_embedding_dim", 0) not in {0, size} or size != 2 * half:
        return "it rotates only a part of each head"
    positions = graph.constant(value_name(node, 3)) if value_name(node, 3) else None
    if positions is not None and (positions.size != 1 or not attributes.get(FIRST)):
        return "it chooses rows of a table"
    if positions is None and len(cosines) != 3:
        return "its cosines do not have three dimensions"
    if positions is not None and len(cosines) != 2:
        return "its table does not have two dimensions"
    return None


RULES: Rules = {
    ("", "Attention"): Rule(_attention, types=_mask_or_float, heavy=True),
    ("", "RotaryEmbedding"): Rule(_rotary, looked_at=frozenset({3})),
    ("com.microsoft", "GroupQueryAttention"): Rule(_grouped, types=_integer_or_float, heavy=True),
    ("com.microsoft", "MultiHeadAttention"): Rule(_several_heads, heavy=True),
}
