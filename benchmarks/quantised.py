"""`python -m benchmarks.quantised [NAME …] [--threads N]`: 8-bit models on ort-py, onnxruntime and OpenVINO.

ResNet-50 quantised by onnxruntime's own tool, between conversions (QDQ, activations of uint8 and of int8) and with
QLinear operators, SqueezeNet and ShuffleNet between conversions, and MiniLM quantised at run time. The error is against
onnxruntime on the quantised model: integers differ where a number lies at a half. OpenVINO is optional, as in
`benchmarks.providers`.
"""

from __future__ import annotations

import argparse
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import numpy_helper, version_converter

from benchmarks.alternating import BLOCKS, Refused, Runtimes, Timing
from benchmarks.providers import relative_error
from examples.model_zoo import by_name, fetch
from tests.support.model_inputs import cases_of

__all__ = ["MODELS", "main"]

OURS, PEERS = "ort_py", ("onnxruntime", "openvino")
_CALIBRATED_WITH = 3
_PICTURE = (1, 3, 224, 224)
Feeds = Mapping[str, Any]


def main(arguments: list[str]) -> int:
    """Print a row for each model as it is measured."""
    parser = argparse.ArgumentParser(prog="benchmarks.quantised", description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("names", nargs="*", help=f"of {', '.join(MODELS)}; all where none is named")
    parser.add_argument("--threads", type=int, default=1, help="threads of every runtime (1)")
    parser.add_argument("--blocks", type=int, default=BLOCKS, help=f"blocks of 0.3 s for each ({BLOCKS})")
    parser.add_argument("--openvino-python", default=None, help="interpreter that has OpenVINO")
    chosen = parser.parse_args(arguments)
    pythons = {"openvino": chosen.openvino_python} if chosen.openvino_python else {}
    columns = (("ort-py ms", 10), ("ort ms", 9), ("openvino", 9), ("/ort", 6), ("/ov", 6), ("error", 8))
    print(f"{'model':16} {' '.join(f'{title:>{width}}' for title, width in columns)}   (fastest runs)")
    with Runtimes(chosen.threads, names=(OURS, *PEERS), pythons=pythons) as runtimes:
        for name in chosen.names or MODELS:
            model, feeds = MODELS[name]()
            _row(name, runtimes.measure(model, feeds, chosen.blocks))
    return 0


def _row(name: str, found: Mapping[str, Timing | Refused]) -> None:
    ours = found[OURS]
    if isinstance(ours, Refused):
        print(f"{name:16} {ours}", flush=True)
        return
    peers = {peer: timing for peer in PEERS if isinstance(timing := found[peer], Timing)}
    times = [f"{peers[peer].fastest * 1e3:9.3f}" if peer in peers else f"{'–':>9}" for peer in PEERS]
    ratios = [f"{ours.fastest / peers[peer].fastest:6.2f}" if peer in peers else f"{'–':>6}" for peer in PEERS]
    peer = peers.get(PEERS[0])
    error = "–" if peer is None else f"{relative_error(ours.outputs, peer.outputs):.1e}"
    print(f"{name:16} {ours.fastest * 1e3:10.3f} {' '.join(times)} {' '.join(ratios)} {error:>8}", flush=True)


def _network(name: str, form: str, activations: str) -> Callable[[], tuple[Path, Feeds]]:
    def make() -> tuple[Path, Feeds]:
        path = _folder() / f"{name}-{form}-{activations}.onnx"
        if not path.exists():
            _quantised(name, path, form, activations)
        (given,) = onnx.load(path, load_external_data=False).graph.input
        return path, {given.name: _picture(100)}

    return make


def _folder() -> Path:
    folder = Path(tempfile.gettempdir()) / "ort-py-quantised-models"
    folder.mkdir(exist_ok=True)
    return folder


def _picture(seed: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(seed).standard_normal(_PICTURE, np.float32)


def _quantised(name: str, path: Path, form: str, activations: str) -> None:
    """Calibrated on a few seeded pictures, weights with a scale a channel."""
    from onnxruntime.quantization import CalibrationDataReader, QuantFormat, QuantType, quantize_static

    held = _folded(name, lambda: _with_weights(onnx.load(fetch(by_name(f"light-{name}")))))
    (given,) = onnx.load(held, load_external_data=False).graph.input

    class Pictures(CalibrationDataReader):  # type: ignore[misc]  # onnxruntime has no types
        def __init__(self) -> None:
            self._left: Iterator[Feeds] = iter([{given.name: _picture(seed)} for seed in range(_CALIBRATED_WITH)])

        def get_next(self) -> Feeds | None:
            return next(self._left, None)

    quantize_static(
        held,
        path,
        Pictures(),
        quant_format=QuantFormat[form],
        per_channel=True,
        activation_type=QuantType[activations],
        weight_type=QuantType.QInt8,
    )


def _folded(name: str, make: Callable[[], onnx.ModelProto]) -> Path:
    """A model with its constants folded: what the tool looks for are weights."""
    import onnxruntime

    path = _folder() / f"{name}-folded.onnx"
    if not path.exists():
        options = onnxruntime.SessionOptions()
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_BASIC
        options.optimized_model_filepath = str(path)
        onnxruntime.InferenceSession(make().SerializeToString(), options, providers=["CPUExecutionProvider"])
    return path


def _with_weights(model: onnx.ModelProto) -> onnx.ModelProto:
    """The model with seeded weights of a usual size in place of its constants of one number."""
    rng = np.random.default_rng(0)
    graph = model.graph
    known = {tensor.name: numpy_helper.to_array(tensor) for tensor in graph.initializer}
    read = {name: (node.op_type, place) for node in graph.node for place, name in enumerate(node.input)}
    made = []
    for node in graph.node:
        if node.op_type != "ConstantOfShape":
            continue
        name = node.output[0]
        shape = [int(dim) for dim in known[node.input[0]]]
        if read[name][0] == "BatchNormalization":
            low, high = {1: (0.5, 1.0), 2: (-0.1, 0.1), 3: (-0.1, 0.1), 4: (0.8, 1.2)}[read[name][1]]
            array = rng.uniform(low, high, shape)
        else:
            array = rng.standard_normal(shape) * np.sqrt(2 / np.prod(shape[1:] or shape))
        made.append(numpy_helper.from_array(array.astype(np.float32), name))
    kept = [node for node in graph.node if node.op_type != "ConstantOfShape"]
    used = {name for node in kept for name in node.input}
    others = [tensor for tensor in graph.initializer if tensor.name in used]
    names = {tensor.name for tensor in (*made, *others)}
    feeds = [value for value in graph.input if value.name in used - names]
    for field in (graph.node, graph.initializer, graph.input):
        del field[:]
    graph.node.extend(kept)
    graph.initializer.extend([*others, *made])
    graph.input.extend(feeds)
    model.ir_version = 8
    converted: onnx.ModelProto = version_converter.convert_version(model, 13)
    return converted


def _minilm() -> tuple[Path, Feeds]:
    model = by_name("minilm-int8")
    path = _folder() / "minilm-dynamic.onnx"
    if not path.exists():
        from onnxruntime.quantization import QuantType, quantize_dynamic

        folded = _folded("minilm", lambda: onnx.load(fetch(model)))
        quantize_dynamic(folded, path, weight_type=QuantType.QInt8)
    return path, cases_of(model)[0].runs[0]


MODELS: Mapping[str, Callable[[], tuple[Path, Feeds]]] = {
    "resnet50-qdq": _network("resnet50", "QDQ", "QUInt8"),
    "resnet50-qdq-s8": _network("resnet50", "QDQ", "QInt8"),
    "resnet50-qlinear": _network("resnet50", "QOperator", "QUInt8"),
    "squeezenet-qdq": _network("squeezenet", "QDQ", "QUInt8"),
    "shufflenet-qdq": _network("shufflenet", "QDQ", "QUInt8"),
    "minilm-dynamic": _minilm,
}
"""What is measured, by name."""


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
