"""Three tiny models to try a runtime with, by the names onnxruntime ships them under.

They are made here when they are asked for, into a temporary folder of the process, and have the same inputs, outputs
and operators; coefficients of the classifier are round numbers of its own. It is independent of sessions.
"""

from __future__ import annotations

import atexit
import functools
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path

import numpy as np
import onnx
from onnx import TensorProto, helper, numpy_helper

from ort_py.errors import NoSuchFile
from ort_py.suggestions import did_you_mean

__all__ = ["get_example"]


def get_example(name: str) -> str:
    """Path of an example model.

    Args:
        name: ``logreg_iris.onnx``, ``mul_1.onnx`` or ``sigmoid.onnx``.

    Raises:
        NoSuchFile: The example does not exist; a builtin FileNotFoundError too.
    """
    make = _MODELS.get(name)
    if make is None:
        raise NoSuchFile(
            f"There is no example model '{name}'.",
            why=f"there are {', '.join(_MODELS)}",
            fix=did_you_mean(name, _MODELS) or "Use one of these.",
        )
    path = _folder() / name
    if not path.exists():
        onnx.save(make(), path)
    return str(path)


@functools.cache
def _folder() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="ort-py-examples-"))
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def _logreg_iris() -> onnx.ModelProto:
    """A linear classifier of iris flowers by two measurements: labels, and a list of maps of probabilities."""
    classes = [0, 1, 2]
    nodes = [
        helper.make_node(
            "LinearClassifier",
            ["float_input"],
            ["label", "scores"],
            domain="ai.onnx.ml",
            classlabels_ints=classes,
            coefficients=[0.4, -1.0, 0.5, -1.2, -0.9, 2.2],
            intercepts=[0.25, 0.6, -0.95],
            multi_class=0,
            post_transform="LOGISTIC",
        ),
        helper.make_node("Normalizer", ["scores"], ["shares"], domain="ai.onnx.ml", norm="L1"),
        helper.make_node("ZipMap", ["shares"], ["probabilities"], domain="ai.onnx.ml", classlabels_int64s=classes),
    ]
    row = helper.make_map_type_proto(TensorProto.INT64, helper.make_tensor_type_proto(TensorProto.FLOAT, []))
    graph = helper.make_graph(
        nodes,
        "logreg_iris",
        [helper.make_tensor_value_info("float_input", TensorProto.FLOAT, [3, 2])],
        [
            helper.make_tensor_value_info("label", TensorProto.INT64, [3]),
            helper.make_value_info("probabilities", helper.make_sequence_type_proto(row)),
        ],
    )
    return _model(graph, ("ai.onnx.ml", 1))


def _mul_1() -> onnx.ModelProto:
    """The input times the numbers from 1 to 6."""
    factor = numpy_helper.from_array(np.arange(1, 7, dtype=np.float32).reshape(3, 2), "W")
    graph = helper.make_graph(
        [helper.make_node("Mul", ["X", "W"], ["Y"], name="mul_1")],
        "mul_1",
        [helper.make_tensor_value_info("X", TensorProto.FLOAT, [3, 2])],
        [helper.make_tensor_value_info("Y", TensorProto.FLOAT, [3, 2])],
        [factor],
    )
    return _model(graph, ("", 7))


def _sigmoid() -> onnx.ModelProto:
    graph = helper.make_graph(
        [helper.make_node("Sigmoid", ["x"], ["y"])],
        "sigmoid",
        [helper.make_tensor_value_info("x", TensorProto.FLOAT, [3, 4, 5])],
        [helper.make_tensor_value_info("y", TensorProto.FLOAT, [3, 4, 5])],
    )
    return _model(graph, ("", 9))


def _model(graph: onnx.GraphProto, opset: tuple[str, int]) -> onnx.ModelProto:
    return helper.make_model(graph, opset_imports=[helper.make_opsetid(*opset)], producer_name="ort-py", ir_version=4)


_MODELS: dict[str, Callable[[], onnx.ModelProto]] = {
    "logreg_iris.onnx": _logreg_iris,
    "mul_1.onnx": _mul_1,
    "sigmoid.onnx": _sigmoid,
}
