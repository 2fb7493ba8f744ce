"""Tests of `ort_py.onnx_parts`: sessions without the package `onnx`, and the package after them.

Each test asks a fresh interpreter, because this one has imported the package.
"""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper, numpy_helper

import ort_py
from core.tests.interpreters import answer
from core.tests.small_models import model_bytes, typed_identity

MODELS = {
    "product": "g (float[N, 2] x) => (float[N, 2] y) <float[2, 2] w = {1, 2, 3, 4}> { y = MatMul(x, w) }",
    "branches": """g (float[N, 2] x) => (float[N, 2] y) {
        s = ReduceSum <keepdims = 0> (x)
        b = Cast <to = 9> (s)
        y = If (b) <
            then_branch = a () => (float[N, 2] t) { t = Neg(x) },
            else_branch = c () => (float[N, 2] e) { e = Abs(x) }
        >
    }""",
    "function of ONNX": "g (float[N, 2] x) => (float[N, 2] y) { y = Softplus(x) z = Celu(y) w = Mish(z) }",
    "shapes": """g (float[N, 2] x) => (float[M] y) {
        s = Shape(x) p = ReduceProd <keepdims = 1> (s) y = Reshape(x, p)
    }""",
    "defaults": "g (float[N, 2] x) => (float[N, 2] y) { h = HardSigmoid(x) l = LeakyRelu(h) y = Elu(l) }",
}
"""Models of operators with defaults, bodies, functions and inferred shapes. Each takes ``x`` of two rows."""

FUNCTION = """<ir_version: 10, opset_import: ["" : 21, "own" : 1]>
g (float[N, 2] x) => (float[N, 2] y) { y = own.Twice(x) }
<domain: "own", opset_import: ["" : 21]> Twice (a) => (b) { b = Add(a, a) }"""


@pytest.fixture
def model(tmp_path: Path) -> str:
    """A file with a model of one node."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes(typed_identity("float[2]")))
    return str(path)


SESSION = "import sys, ort_py; ort_py.InferenceSession(sys.argv[1], providers=['CPUExecutionProvider'])\n"

MESSAGES = f"{SESSION}from ort_py.onnx_parts import onnx as parts\nparts.ModelProto\n"
"""A session, and the messages, which most sessions do without."""


def test_a_session_does_without_the_package(model: str) -> None:
    assert answer(f"{SESSION}print('onnx' in sys.modules)", model) == "False"


def test_models_give_the_same_results_with_and_without_the_package(tmp_path: Path) -> None:
    """Operators with defaults and bodies, functions, inferred and computed shapes, isolated inference."""
    for name, text in {**MODELS, "function": FUNCTION}.items():
        (tmp_path / f"{name}.onnx").write_bytes(model_bytes(text))
    code = """
import json, sys, numpy, ort_py
x = numpy.array([[-1, 2], [3, -4]], numpy.float32)
found = {}
for path in sys.argv[1:]:
    for limits in (None, ort_py.Limits.untrusted()):
        options = ort_py.SessionOptions()
        options.cache_dir = "off"
        if limits is not None:
            options.limits = limits
        session = ort_py.InferenceSession(path, options, providers=["CPUExecutionProvider"])
        types = [(one.name, one.type, one.shape) for one in session.get_outputs()]
        found[f"{path} {limits}"] = [types, [one.tolist() for one in session.run(None, {"x": x})]]
print(json.dumps(found))
"""
    paths = sorted(map(str, tmp_path.glob("*.onnx")))
    assert json.loads(answer(code, *paths)) == json.loads(answer(f"import onnx\n{code}", *paths))


def test_the_package_can_be_imported_afterwards(model: str) -> None:
    """Its submodules are attributes as ever, and its classes are those that messages were made of."""
    code = f"""{SESSION}
from ort_py.onnx_parts import onnx as parts
message, native = parts.ModelProto, parts.onnx_cpp2py_export
import onnx, onnx.checker, onnx.shape_inference
assert onnx.ModelProto is message is onnx.onnx_ml_pb2.ModelProto
assert onnx.onnx_cpp2py_export is native is sys.modules["onnx.onnx_cpp2py_export"]
loaded = onnx.load(sys.argv[1])
onnx.checker.check_model(loaded, full_check=True)
print(onnx.helper.printable_graph(onnx.shape_inference.infer_shapes(loaded).graph)[:5], onnx.__version__)
"""
    assert answer(code, model) == f"graph {onnx.__version__}"


def test_protobuf_in_python_is_imported_when_it_is_asked_for(model: str) -> None:
    """The messages import none of it; whoever imports the module gets it, and so do those who have its stand-in."""
    code = f"""{MESSAGES}
from google.protobuf import descriptor_pool
from google.protobuf.internal import api_implementation
name = "google.protobuf.internal.python_message"
before = name in sys.modules
stand_in = descriptor_pool.python_message
from google.protobuf.internal.python_message import GeneratedProtocolMessageType
same = stand_in.GeneratedProtocolMessageType is GeneratedProtocolMessageType
print(before == (api_implementation.Type() == "python"), same, sys.modules[name].__name__ == name)
"""
    assert answer(code, model) == "True True True"


def test_the_calendar_is_imported_when_protobuf_needs_it(model: str) -> None:
    """The messages import no calendar; points in time are converted as ever, and an import finds the module itself."""
    code = f"""{MESSAGES}
before = "calendar" in sys.modules
import datetime
from google.protobuf.timestamp_pb2 import Timestamp
point = Timestamp()
point.FromDatetime(datetime.datetime(2001, 2, 3, 4, 5, 6))
import calendar
print(before, point.seconds, calendar.__spec__ is not None, calendar.isleap(2000))
"""
    assert answer(code, model) == "False 981173106 True True"


def test_a_calendar_that_is_loaded_stays(model: str) -> None:
    code = f"""import calendar
mine = calendar
{MESSAGES}
print(sys.modules["calendar"] is mine)
"""
    assert answer(code, model) == "True"


def test_messages_can_be_copied_and_pickled(model: str) -> None:
    code = f"""{SESSION}
import copy, pickle
from ort_py.onnx_parts import onnx
tensor = onnx.TensorProto(name="t")
print(copy.deepcopy(tensor) == tensor == pickle.loads(pickle.dumps(tensor)))
"""
    assert answer(code, model) == "True"


def test_a_package_that_was_imported_before_is_used(model: str) -> None:
    code = f"""import onnx
{SESSION}
from ort_py.onnx_parts import onnx as parts
print(parts.ModelProto is onnx.ModelProto, parts.onnx_cpp2py_export is onnx.onnx_cpp2py_export)
"""
    assert answer(code, model) == "True True"


def test_names_beside_the_parts_come_from_the_package() -> None:
    """Also submodules that the package does not import itself."""
    code = """
from ort_py.onnx_parts import onnx as parts
tools = parts.helper, parts.inliner, parts.__version__
import onnx, onnx.inliner
print(tools == (onnx.helper, onnx.inliner, onnx.__version__))
"""
    assert answer(code) == "True"


def test_two_threads_load_the_library_once(model: str) -> None:
    """One needs the parts, the other imports the package; loaded twice, the library would end the process."""
    code = """
import sys, threading, ort_py
from ort_py.onnx_parts import onnx as parts
ort_py.InferenceSession
barrier, failed = threading.Barrier(2), []
def opened():
    barrier.wait()
    ort_py.InferenceSession(sys.argv[1], providers=["CPUExecutionProvider"])
    parts.ModelProto, parts.onnx_cpp2py_export
def imported():
    barrier.wait()
    import onnx
    failed.append(not hasattr(onnx, "onnx_cpp2py_export"))
threads = [threading.Thread(target=one) for one in (opened, imported)]
for one in threads: one.start()
for one in threads: one.join()
print(failed)
"""
    sys_answers = {answer(code, model) for _ in range(3)}
    assert sys_answers == {"[False]"}


def test_an_interpreter_without_the_loading_functions_imports_the_package(model: str) -> None:
    code = f"""from importlib import _bootstrap
del _bootstrap._load
{MESSAGES}
print('onnx' in sys.modules)
"""
    assert answer(code, model) == "True"


def test_tensors_of_few_bits_are_read_and_written(tmp_path: Path) -> None:
    """Packing them is left to the package."""
    weight = numpy_helper.from_array(np.array([1, 2, 3], np.int8), "w")
    weight.data_type, weight.raw_data = TensorProto.INT4, bytes([0x21, 0x03])
    nodes = [helper.make_node("Cast", ["w"], ["y"], to=TensorProto.FLOAT)]
    y = helper.make_tensor_value_info("y", TensorProto.FLOAT, [3])
    graph = helper.make_graph(nodes, "g", [], [y], [weight])
    made = helper.make_model(graph, opset_imports=[helper.make_opsetid("", 21)], ir_version=10)
    path = tmp_path / "model.onnx"
    onnx.save(made, path)
    code = SESSION.replace("ort_py.Inf", "session = ort_py.Inf") + "print(session.run(None, {})[0].tolist())"
    assert answer(code, str(path)) == str(ort_py.InferenceSession(path).run(None, {})[0].tolist()) == "[1.0, 2.0, 3.0]"
