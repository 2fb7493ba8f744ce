"""`python -m benchmarks.decoders [--threads N]`: one word of decoders, fed and bound, ort-py against onnxruntime.

The first table is for GPT-2 of several sizes with random weights of float32 and a past of 16 to 1,024 words. *Fed* runs
get and return arrays, and *bound* ones use IO binding. The second table is for a layer of GroupQueryAttention with one
buffer for past and present: its time must not depend on the buffer's length. Runtimes take turns, and medians count.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import TensorProto, helper

from benchmarks.alternating import BLOCKS, Runtimes, timings
from benchmarks.providers import relative_error
from benchmarks.transformer_models import Shape, gpt2, gpt2_feeds

__all__ = ["SHARED", "main", "shared_layer", "shared_layer_feeds"]

SIZES = (Shape(256, 4, 8, known=5_000), Shape(768, 12, 12), Shape(512, 24, 8))
"""Decoders of 4, 12 and 24 layers."""

PAST = (16, 64, 256, 1024)

BUFFERS = (64, 1024, 8192)
"""Lengths of shared buffers, in which 16 words are known."""

_KNOWN = 16
_HEADS, _KEPT, _EACH = 9, 3, 64
SHARED = {"present_key": "past_key", "present_value": "past_value"}
"""Outputs of the layer that are written over an input."""

_WAYS = {"fed": "", "bound": "@bound"}


def main(arguments: list[str]) -> int:
    """Print a row for each measurement."""
    parser = argparse.ArgumentParser(prog="benchmarks.decoders", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--threads", type=int, default=1, help="threads of both runtimes (1)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of 0.3 s for each ({BLOCKS})")
    parser.add_argument("--past", type=int, nargs="+", default=PAST, help="words before the one that is computed")
    parser.add_argument("--layers", type=int, nargs="+", default=[size.layers for size in SIZES], help="decoders")
    chosen = parser.parse_args(arguments)
    with tempfile.TemporaryDirectory() as folder:
        sizes = [size for size in SIZES if size.layers in chosen.layers]
        _words(Path(folder), chosen.threads, chosen.blocks, sizes, chosen.past)
        _shared(Path(folder), chosen.threads, chosen.blocks)
    return 0


def _words(folder: Path, threads: int, blocks: int, sizes: Sequence[Shape], pasts: Sequence[int]) -> None:
    columns = " ".join(f"{f'{way} ms':>9} {'ort ms':>9} {'ratio':>6} {'by cpu':>6}" for way in _WAYS)
    print(f"{'decoder':26} {'past':>5} {columns} {'error':>8}   {threads} thread(s)")
    names = [name + suffix for name in ("ort_py", "onnxruntime") for suffix in _WAYS.values()]
    bound: dict[str, Mapping[str, Any]] = {name: {"bound": {}} for name in names if "@" in name}
    shown: dict[str, list[float]] = {way: [] for way in _WAYS}
    with Runtimes(threads, names=names, variants=bound) as runtimes:
        for size in sizes:
            model = folder / f"{size.layers}.onnx"
            onnx.save(gpt2(size), model)
            for past in pasts:
                found = timings(runtimes.measure(model, gpt2_feeds(1, past, size), blocks))
                cells = []
                for way, suffix in _WAYS.items():
                    ours, peer = found["ort_py" + suffix], found["onnxruntime" + suffix]
                    shown[way].append(ours.median / peer.median)
                    cells.append(
                        f"{ours.median * 1e3:9.3f} {peer.median * 1e3:9.3f} {shown[way][-1]:6.2f} "
                        f"{ours.worked / peer.worked:6.2f}"
                    )
                error = relative_error(found["ort_py"].outputs, found["onnxruntime"].outputs)
                title = f"{size.layers} layers, {size.width}, {size.known}"
                print(f"{title:26} {past:5} {' '.join(cells)} {error:8.1e}", flush=True)
    for way, ratios in shown.items():
        print(f"geometric mean, {way}: {statistics.geometric_mean(ratios):.2f}, worst {max(ratios):.2f}")


def _shared(folder: Path, threads: int, blocks: int) -> None:
    print(f"\n{'shared buffer of':26} {'bound us':>14} {'ort us':>9} {'ratio':>6}   {_KNOWN} words known")
    model = folder / "shared.onnx"
    onnx.save(shared_layer(), model)
    names = ("ort_py@shared", "onnxruntime@shared")
    with Runtimes(threads, names=names, variants={name: {"bound": SHARED} for name in names}) as runtimes:
        for length in BUFFERS:
            found = timings(runtimes.measure(model, shared_layer_feeds(length), blocks))
            ours, peer = (found[name] for name in names)
            ratio = ours.median / peer.median
            print(f"{length:<26} {ours.median * 1e6:14.1f} {peer.median * 1e6:9.1f} {ratio:6.2f}", flush=True)


def shared_layer() -> onnx.ModelProto:
    """One GroupQueryAttention of 9 heads of queries and 3 of keys, 64 numbers each, with rotation."""
    half = _EACH // 2
    places = np.arange(BUFFERS[-1])[:, np.newaxis] / 10_000.0 ** (np.arange(half) / half)
    tables = [
        onnx.numpy_helper.from_array(made.astype(np.float32), name)
        for name, made in (("cos", np.cos(places)), ("sin", np.sin(places)))
    ]
    states = ["past_key", "past_value"]
    node = helper.make_node(
        "GroupQueryAttention",
        ["query", "key", "value", *states, "seqlens_k", "total", "cos", "sin"],
        ["output", "present_key", "present_value"],
        domain="com.microsoft",
        num_heads=_HEADS,
        kv_num_heads=_KEPT,
        do_rotary=1,
    )
    kept: list[int | str | None] = [1, _KEPT, "length", _EACH]
    inputs = [
        helper.make_tensor_value_info("query", TensorProto.FLOAT, [1, 1, _HEADS * _EACH]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, [1, 1, _KEPT * _EACH]) for name in ("key", "value")),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, kept) for name in states),
        helper.make_tensor_value_info("seqlens_k", TensorProto.INT32, [1]),
        helper.make_tensor_value_info("total", TensorProto.INT32, []),
    ]
    outputs = [
        helper.make_tensor_value_info("output", TensorProto.FLOAT, [1, 1, _HEADS * _EACH]),
        *(helper.make_tensor_value_info(name, TensorProto.FLOAT, kept) for name in SHARED),
    ]
    graph = helper.make_graph([node], "layer", inputs, outputs, tables)
    opsets = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=8)


def shared_layer_feeds(length: int) -> dict[str, Any]:
    """Feeds of a new word after those that are known, with buffers of a length."""
    random = np.random.default_rng(9)
    shapes = {
        "query": (1, 1, _HEADS * _EACH),
        "key": (1, 1, _KEPT * _EACH),
        "value": (1, 1, _KEPT * _EACH),
        "past_key": (1, _KEPT, length, _EACH),
        "past_value": (1, _KEPT, length, _EACH),
    }
    feeds: dict[str, Any] = {name: random.standard_normal(shape, np.float32) for name, shape in shapes.items()}
    return feeds | {"seqlens_k": np.array([_KNOWN], np.int32), "total": np.array(_KNOWN + 1, np.int32)}


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
