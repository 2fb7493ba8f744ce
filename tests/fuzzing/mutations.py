"""Changes of a model's structure and bytes: whatever a file from a stranger may hold."""

from __future__ import annotations

import random
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import onnx
from onnx import AttributeProto, TensorProto, helper, numpy_helper

__all__ = ["EXTREMES", "mutate", "mutate_bytes"]

EXTREMES = (
    *(0, 1, -1, 2, 3, 7, 8, -2, -3, 127, 255, 256, -128, 1000, 65535, 65536, 10**6, 10**9),
    *(2**31 - 1, 2**31, -(2**31), 2**32, 2**32 + 1, 2**40, 2**53, 2**62, 2**63 - 1, -(2**63), -(2**63) + 1),
)
FLOAT_EXTREMES = (0.0, -1.0, 1.0, 0.5, 1e38, -1e38, 1e-40, float("nan"), float("inf"), float("-inf"), 1e10)
TEXTS = (
    "",
    "SAME_UPPER",
    "VALID",
    "linear",
    "reflect",
    "wrap",
    "max",
    "add",
    "LEFT",
    "bidirectional",
    "x" * 500,
    "\n",
    "ij,jk->ik",
    "../../etc/passwd",
)
TYPES = tuple(range(25))
_OPERATOR_NAMES = """
Add Conv Reshape Gather Slice Concat Split Transpose MatMul Gemm Softmax MaxPool AveragePool Pad Tile Expand
Resize LSTM GRU ReduceSum TopK ScatterND ScatterElements GatherElements GatherND OneHot Range ConstantOfShape
Where Cast Squeeze Unsqueeze DequantizeLinear QuantizeLinear QLinearConv QLinearMatMul Loop If Scan Relu Clip
LayerNormalization NonMaxSuppression RoiAlign Einsum CumSum ConvTranspose Upsample DepthToSpace SpaceToDepth
BatchNormalization Identity EyeLike Trilu STFT BlackmanWindow MelWeightMatrix DFT Col2Im MaxUnpool CenterCropPad
SequenceAt SplitToSequence Unique StringSplit NonZero
"""
_OPERATORS = _OPERATOR_NAMES.split()


def graphs_of(model: onnx.ModelProto) -> list[onnx.GraphProto]:
    """The graph of a model and those nested in it."""

    def nested(graph: onnx.GraphProto) -> Iterator[onnx.GraphProto]:
        yield graph
        for node in graph.node:
            for attribute in node.attribute:
                for inner in (attribute.g, *attribute.graphs):
                    if inner.node:
                        yield from nested(inner)

    return list(nested(model.graph))


def mutate(model: onnx.ModelProto, rng: random.Random) -> onnx.ModelProto:
    """A copy with one to four changes of its structure."""
    made = onnx.ModelProto()
    made.CopyFrom(model)
    for _ in range(rng.choice((1, 1, 1, 2, 3, 4))):
        change = rng.choice(_WILD)
        try:
            change(made, rng.choice(graphs_of(made)), rng)
        except Exception:  # nothing there to change, or too much for protobuf
            continue
    return made


def mutate_bytes(data: bytes, rng: random.Random) -> bytes:
    """A copy with bytes flipped, cut out, doubled or moved."""
    found = bytearray(data)
    for _ in range(rng.choice((1, 1, 2, 4, 16))):
        if not found:
            break
        place = rng.randrange(len(found))
        roll = rng.random()
        if roll < 0.5:
            found[place] ^= 1 << rng.randrange(8)
        elif roll < 0.7:
            found[place] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
        elif roll < 0.8:
            del found[place : place + rng.randrange(1, 9)]
        elif roll < 0.9:
            found[place:place] = found[place : place + rng.randrange(1, 33)]
        else:
            del found[place:]
    return bytes(found)


def _attribute_extreme(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    node = rng.choice([one for one in graph.node if one.attribute])
    one = rng.choice(list(node.attribute))
    if one.type == AttributeProto.INT:
        one.i = rng.choice(EXTREMES)
    elif one.type == AttributeProto.FLOAT:
        one.f = rng.choice(FLOAT_EXTREMES)
    elif one.type == AttributeProto.STRING:
        one.s = rng.choice((*[text.encode() for text in TEXTS], b"\xff\xfe", b"\0"))
    elif one.type == AttributeProto.INTS:
        if rng.random() < 0.6 and one.ints:
            one.ints[rng.randrange(len(one.ints))] = rng.choice(EXTREMES)
        elif rng.random() < 0.5:
            one.ints.extend([rng.choice(EXTREMES) for _ in range(rng.choice((1, 2, 30)))])
        else:
            del one.ints[rng.randrange(len(one.ints)) :]
    elif one.type == AttributeProto.TENSOR:
        _spoil(one.t, rng)
    else:
        one.type = rng.choice(range(16))  # type: ignore[assignment]


def _attribute_odd(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    node = rng.choice(list(graph.node))
    try:
        version = next(one.version for one in model.opset_import if not one.domain)
        names = list(
            onnx.defs.get_schema(node.op_type, max(1, min(version, onnx.defs.onnx_opset_version()))).attributes
        )
    except (onnx.defs.SchemaError, StopIteration):
        names = []
    name = rng.choice([*names, "nothing", "axis"])
    values = (
        rng.choice(EXTREMES),
        [rng.choice(EXTREMES) for _ in range(rng.randrange(1, 5))],
        rng.choice(TEXTS),
        rng.choice(FLOAT_EXTREMES),
        [1.0],
        ["a"],
    )
    kept = [one for one in node.attribute if one.name != name or rng.random() < 0.1]
    del node.attribute[:]
    node.attribute.extend(kept)
    node.attribute.append(helper.make_attribute(name, rng.choice(values)))


def _tensor(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    _spoil(rng.choice(list(graph.initializer)), rng)


def _spoil(tensor: TensorProto, rng: random.Random) -> None:
    roll = rng.random()
    if roll < 0.2:
        if tensor.dims and rng.random() < 0.7:
            tensor.dims[rng.randrange(len(tensor.dims))] = rng.choice(EXTREMES)
        else:
            tensor.dims.append(rng.choice(EXTREMES))
    elif roll < 0.35:
        tensor.data_type = rng.choice(TYPES)
    elif roll < 0.5:
        size = len(tensor.raw_data)
        tensor.raw_data = rng.choice(
            (b"", tensor.raw_data[: size // 2], tensor.raw_data + b"\1" * 7, tensor.raw_data[:-1])
        )
    elif roll < 0.6:
        tensor.data_location = TensorProto.EXTERNAL
        entries = {
            "location": rng.choice(("weights.bin", "../secret", "/etc/passwd", "", "/dev/zero", "a" * 5000)),
            "offset": str(rng.choice(EXTREMES)),
            "length": str(rng.choice(EXTREMES)),
        }
        for key, value in entries.items():
            if rng.random() < 0.8:
                tensor.external_data.add(key=key, value=value)
    elif roll < 0.7:
        getattr(tensor, rng.choice(("float_data", "int32_data", "int64_data", "double_data", "uint64_data"))).extend(
            [1, 2, 3]
        )
    elif roll < 0.75:
        tensor.string_data.append(b"\xff text")
    elif tensor.data_type in {TensorProto.INT64, TensorProto.INT32}:
        array = numpy_helper.to_array(tensor).copy()
        for _ in range(rng.choice((1, 1, 2))):
            with np.errstate(all="ignore"):
                array.flat[rng.randrange(array.size)] = np.array(rng.choice(EXTREMES)).astype(array.dtype)
        tensor.CopyFrom(numpy_helper.from_array(array, tensor.name))
    else:
        array = numpy_helper.to_array(tensor)
        tensor.CopyFrom(
            numpy_helper.from_array(
                array.reshape(rng.choice(((-1,), (1, -1), (-1, 1), (*array.shape, 1)))), tensor.name
            )
        )


def _some(rng: random.Random, *among: Any) -> Any:
    return rng.choice([one for one in among if len(one)])


def _one(infos: Any, rng: random.Random) -> Any:
    return rng.choice(list(infos))


def _names(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    node = rng.choice(list(graph.node))
    everything = (
        [name for one in graph.node for name in (*one.input, *one.output)]
        + [one.name for infos in (graph.input, graph.output) for one in infos]
        + [one.name for one in graph.initializer]
        + ["", "nowhere", "new\nline", "é"]
    )
    roll = rng.random()
    if roll < 0.4 and node.input:
        node.input[rng.randrange(len(node.input))] = rng.choice(everything)
    elif roll < 0.6 and node.output:
        node.output[rng.randrange(len(node.output))] = rng.choice(everything)
    elif roll < 0.7:
        node.input.append(rng.choice(everything))
    elif roll < 0.75:
        node.output.append(rng.choice(everything))
    elif roll < 0.8 and node.input:
        del node.input[-1]
    elif roll < 0.85:
        node.name = rng.choice(everything)
    else:
        infos = _some(rng, graph.input, graph.output, graph.initializer)
        _one(infos, rng).name = rng.choice(everything)


def _operator(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    node = rng.choice(list(graph.node))
    if rng.random() < 0.85:
        node.op_type = rng.choice(_OPERATORS)
    else:
        node.domain = rng.choice(("com.microsoft", "ai.onnx.ml", "nowhere", "ai.onnx"))


def _nodes(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    nodes = list(graph.node)
    roll = rng.random()
    place = rng.randrange(len(nodes))
    if roll < 0.35:
        del nodes[place]
    elif roll < 0.55:
        nodes.append(nodes[place])
    elif roll < 0.75:
        rng.shuffle(nodes)
    else:
        name = nodes[place].output[0]
        op_type = rng.choice(("Concat", "Add", "Mul", "MatMul", "Tile", "Einsum"))
        count = rng.choice((3, 10, 30, 60))
        last = name
        for index in range(count):
            new = f"{name}_{index}"
            attributes = (
                {"axis": 0} if op_type == "Concat" else {"equation": "...i,...i->...i"} if op_type == "Einsum" else {}
            )
            nodes.append(helper.make_node(op_type, [last, last], [new], **attributes))
            last = new
        graph.output.append(helper.make_empty_tensor_value_info(last))
    copies = [onnx.NodeProto.FromString(one.SerializeToString()) for one in nodes]
    del graph.node[:]
    graph.node.extend(copies)


def _info(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    infos = _some(rng, graph.input, graph.output, graph.value_info)
    one = _one(infos, rng)
    roll = rng.random()
    if roll < 0.4:
        dims = one.type.tensor_type.shape.dim
        if dims and rng.random() < 0.7:
            rng.choice(list(dims)).dim_value = rng.choice(EXTREMES)
        else:
            dims.add().dim_value = rng.choice(EXTREMES)
    elif roll < 0.6:
        one.type.tensor_type.elem_type = rng.choice(TYPES)
    elif roll < 0.75:
        one.type.Clear()
    elif roll < 0.85:
        inner = onnx.TypeProto()
        inner.CopyFrom(one.type)
        wrapped = rng.choice((one.type.sequence_type, one.type.optional_type))
        wrapped.elem_type.CopyFrom(inner)
    elif roll < 0.93:
        infos.append(one)
    else:
        name = rng.choice([name for node in graph.node for name in node.output])
        graph.value_info.append(
            helper.make_tensor_value_info(
                name, rng.choice((1, 7, 10)), [rng.choice(EXTREMES) for _ in range(rng.randrange(4))]
            )
        )


def _versions(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    roll = rng.random()
    if roll < 0.6 and model.opset_import:
        rng.choice(list(model.opset_import)).version = rng.choice((*range(1, 30), -1, 0, 10**6, 2**63 - 1))
    elif roll < 0.75:
        model.ir_version = rng.choice((0, 1, 3, 4, 8, 10, 13, 99, -1, 2**63 - 1))
    elif roll < 0.85:
        del model.opset_import[:]
    else:
        model.opset_import.add(domain=rng.choice(("", "com.microsoft", "x")), version=rng.choice(EXTREMES))


def _nested(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    """A node put into an If or a Loop, deeper than it looks sometimes; or a body with other inputs."""
    place = rng.randrange(len(graph.node))
    node = onnx.NodeProto()
    node.CopyFrom(graph.node[place])
    outs = [helper.make_empty_tensor_value_info(name) for name in node.output if name]
    for depth in range(rng.choice((1, 1, 2, 5, 25))):
        if rng.random() < 0.6:
            condition = f"cond_{depth}_{place}"
            body = helper.make_graph([node], "inner", [], outs)
            flat = helper.make_graph(
                [graph.node[place]], "flat", [], outs
            )  # twice the body each time would have no end
            made = helper.make_node("If", [condition], list(node.output), then_branch=body, else_branch=flat)
            graph.initializer.append(numpy_helper.from_array(np.array(rng.random() < 0.5), condition))
        else:
            trips = f"trips_{depth}_{place}"
            ins = [helper.make_tensor_value_info(f"i{depth}", 7, []), helper.make_tensor_value_info(f"c{depth}", 9, [])]
            inner = helper.make_node("Identity", [f"c{depth}"], [f"co{depth}"])
            body = helper.make_graph(
                [node, inner], "inner", ins, [helper.make_tensor_value_info(f"co{depth}", 9, []), *outs]
            )
            made = helper.make_node("Loop", [trips, ""], list(node.output), body=body)
            graph.initializer.append(numpy_helper.from_array(np.array(rng.choice((0, 1, 3, 1000, 2**62))), trips))
        node = made
    graph.node[place].CopyFrom(node)


def _function(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    """A node replaced by a call of a function, which calls itself sometimes."""
    node = rng.choice(list(graph.node))
    inner = onnx.NodeProto()
    inner.CopyFrom(node)
    if rng.random() < 0.3:
        inner.op_type, inner.domain = "F", "local"
    imports = [onnx.OperatorSetIdProto.FromString(one.SerializeToString()) for one in model.opset_import]
    count = rng.choice((1, 1, 20))
    for number in range(count):
        name = "F" if number == 0 else f"F{number}"
        body = (
            [inner]
            if number == 0
            else [
                helper.make_node(
                    "F" if number == 1 else f"F{number - 1}", list(node.input), list(node.output), domain="local"
                )
            ]
            * 2
        )
        unique = list(dict.fromkeys(name_ for name_ in node.input if name_))
        model.functions.append(
            helper.make_function(
                "local", name, unique, list(node.output), body, [*imports, helper.make_opsetid("local", 1)]
            )
        )
    node.op_type, node.domain = ("F" if count == 1 else f"F{count - 1}"), "local"
    del node.attribute[:]
    model.opset_import.add(domain="local", version=1)


def _sparse(model: onnx.ModelProto, graph: onnx.GraphProto, rng: random.Random) -> None:
    tensor = rng.choice(list(graph.initializer))
    sparse = graph.sparse_initializer.add()
    sparse.values.CopyFrom(numpy_helper.from_array(np.ones(2, np.float32), tensor.name))
    sparse.indices.CopyFrom(numpy_helper.from_array(np.array([rng.choice(EXTREMES), 0], np.int64), ""))
    sparse.dims.extend([rng.choice(EXTREMES) for _ in range(rng.randrange(1, 4))])
    if rng.random() < 0.7:
        graph.initializer.remove(tensor)


_WILD: tuple[Callable[[onnx.ModelProto, onnx.GraphProto, random.Random], None], ...] = (
    _attribute_extreme,
    _attribute_extreme,
    _attribute_extreme,
    _attribute_odd,
    _attribute_odd,
    _tensor,
    _tensor,
    _tensor,
    _names,
    _names,
    _operator,
    _operator,
    _nodes,
    _info,
    _versions,
    _nested,
    _function,
    _sparse,
)
