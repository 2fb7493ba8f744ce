"""Every kind of bad input ends in a typed error that says what, where, why and what to do: in Python and in a shell.

Each case is a test of `ort_py.InferenceSession` and one of ``ort-py run``, which must leave standard output empty.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import pytest

import ort_py
from ort_py import errors
from ort_py.cli.main import main

CPU = ["CPUExecutionProvider"]
X = np.zeros((2, 3), np.float32)
RELU = "g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }"


def text_model(graph: str, opset: int = 21) -> bytes:
    """A model from ONNX text."""
    model = onnx.parser.parse_model(f'<ir_version: 10, opset_import: ["" : {opset}]> {graph}')
    return bytes(model.SerializeToString())


def external_model(location: str) -> bytes:
    """A model whose weight lies in another file."""
    model = onnx.load_from_string(text_model("g (float[4] x) => (float[4] y) { y = Add(x, w) }"))
    entries = {"location": location, "offset": "0", "length": "16"}
    model.graph.initializer.add(
        name="w",
        data_type=onnx.TensorProto.FLOAT,
        dims=[4],
        data_location=onnx.TensorProto.EXTERNAL,
        external_data=[onnx.StringStringEntryProto(key=key, value=value) for key, value in entries.items()],
    )
    return bytes(model.SerializeToString())


@dataclass(frozen=True, slots=True)
class Case:
    """A bad input.

    Attributes:
        model: Content of the model file; None where the path is a folder, ``""`` where there is none.
        error: Class that is raised.
        what, where, why, fix: What each part of the message must contain (regular expressions).
        feed: What is fed; None where the session cannot be created.
    """

    model: bytes | str | None
    error: type[errors.OrtPyError]
    what: str
    where: str
    why: str
    fix: str
    feed: Mapping[str, Any] | None = field(default=None)


FILE = r"file '.*model\.onnx'"

CASES = {
    "truncated file": Case(
        text_model(RELU)[:35],
        errors.InvalidProtobuf,
        "The bytes are not an ONNX model",
        FILE,
        "35 bytes",
        "truncated",
    ),
    "garbage": Case(
        b"this is not a model at all" * 3,
        errors.InvalidProtobuf,
        "not an ONNX model",
        FILE,
        "starting with b'this",
        "damaged",
    ),
    "empty file": Case(b"", errors.InvalidArgument, "No graph was found", FILE, "0 bytes", "The file is empty"),
    "directory": Case(None, errors.InvalidProtobuf, "is a directory, not a model", FILE, "", "Pass the path"),
    "missing file": Case("", errors.NoSuchFile, r"the file '.*model\.onnx' does not exist", FILE, "", "Check the path"),
    "dangling input": Case(
        text_model("g (float[2] x) => (float[2] y) { y = Add(x, nowhere) }"),
        errors.DanglingInputError,
        "The model is not valid ONNX",
        FILE,
        r"Input 'nowhere' of node 'y' \(Add\) is written by no node",
        "Export the model again",
    ),
    "cycle": Case(
        text_model("g (float[2] x) => (float[2] y) { a = Add(x, b) b = Relu(a) y = Neg(b) }"),
        errors.InconsistentGraph,
        "The model is not valid ONNX",
        FILE,
        "Nodes depend on each other in a cycle: .*Add.*Relu|Relu.*Add",
        "Export the model again",
    ),
    "unknown operator": Case(
        text_model("g (float[2] x) => (float[2] y) { y = Rellu(x) }"),
        errors.InvalidGraph,
        "The model is not valid ONNX",
        FILE,
        r"node 'y' \(Rellu\).*did you mean Relu",
        "plug-in that defines the unknown operators",
    ),
    "unknown opset": Case(
        text_model(RELU, opset=999),
        errors.Fail,
        "imports opset 999 of ai.onnx; the newest supported one is",
        FILE,
        "onnx .* is installed",
        "Update onnx",
    ),
    "attribute of a wrong type": Case(
        text_model('g (float[2] x) => (float[2] y) { y = LeakyRelu <alpha = "x"> (x) }'),
        errors.InvalidGraph,
        "The model is not valid ONNX",
        FILE,
        r"node 'y' \(LeakyRelu\): its attribute 'alpha' is STRING, LeakyRelu wants FLOAT",
        "Export the model again",
    ),
    "missing external file": Case(
        external_model("weights.bin"),
        errors.Fail,
        r"The external file 'weights\.bin' does not exist",
        r"value 'w', file 'weights\.bin'",
        "looked in",
        "Put the file next to the model",
    ),
    "path that leaves the folder": Case(
        external_model("../secret.bin"),
        errors.Fail,
        r"The external file '\.\./secret\.bin' is outside the model's folder",
        "value 'w'",
        r"the path contains '\.\.'",
        "Move the file into the model's folder",
    ),
    "absolute path": Case(
        external_model("/etc/hostname"),
        errors.Fail,
        "The external file '/etc/hostname' is outside the model's folder",
        "value 'w'",
        "the path is absolute",
        "Move the file into the model's folder",
    ),
    "wrong feed name": Case(
        text_model(RELU),
        errors.InvalidArgument,
        "The model has no input 'xx'",
        "value 'xx'",
        "its inputs are 'x'",
        "Did you mean 'x'",
        {"x": X, "xx": X},
    ),
    "missing feed": Case(
        text_model(RELU),
        errors.MissingInputError,
        r"Required input\(s\) 'x' are missing",
        "value 'x'",
        "fed: 'xx'",
        "Is 'xx' in the feed meant for 'x'",
        {"xx": X},
    ),
    "wrong dtype": Case(
        text_model(RELU),
        errors.InvalidArgument,
        "Input 'x' has element type double, the model declares float",
        "value 'x'",
        "dtype 'float64' was fed",
        r"\.astype\('float32'\)",
        {"x": X.astype(np.float64)},
    ),
    "wrong rank": Case(
        text_model(RELU),
        errors.InvalidArgument,
        "Input 'x' has rank 1, the model declares 2",
        "value 'x'",
        r"shape \(3,\) was fed, \[2, 3\] is declared",
        "Add or remove axes",
        {"x": X[0]},
    ),
    "wrong dimension": Case(
        text_model(RELU),
        errors.InvalidArgument,
        "Input 'x' has size 1 along axis 0, the model declares 2",
        "value 'x'",
        r"shape \(1, 3\) was fed, \[2, 3\] is declared",
        "Resize, pad or crop",
        {"x": X[:1]},
    ),
}


@pytest.fixture(params=CASES)
def case(request: pytest.FixtureRequest) -> Case:
    """One of the bad inputs."""
    return CASES[request.param]


@pytest.fixture
def path(case: Case, tmp_path: Path) -> Path:
    """Folder of the case's model; a file outside its folder is there to be stolen."""
    (tmp_path / "secret.bin").write_bytes(bytes(16))
    folder = tmp_path / "folder"
    folder.mkdir()
    path = folder / "model.onnx"
    if case.model is None:
        path.mkdir()
    elif isinstance(case.model, bytes):
        path.write_bytes(case.model)
    return path


def check(case: Case, what: str, where: str, why: str, fix: str) -> None:
    """Each part of the message says what it should."""
    assert re.search(case.what, what), what
    assert re.search(case.where, where), where
    assert re.search(case.why, why, re.DOTALL), why
    assert re.search(case.fix, fix), fix


def test_session_refuses_it(case: Case, path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The session raises the right class, with all four parts, and prints nothing."""
    with pytest.raises(case.error) as caught:
        ort_py.InferenceSession(path, providers=CPU).run(None, case.feed or {})
    error = caught.value
    assert type(error) is case.error
    check(case, error.what, str(error.where), "\n".join(error.why), error.fix)
    assert capfd.readouterr() == ("", "")


def test_command_line_refuses_it(case: Case, path: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """``ort-py run`` says the same on standard error, without a traceback, prints nothing else, and ends with 1."""
    inputs: list[str] = []
    for name, array in (case.feed or {}).items():
        np.save(tmp_path / f"{name}.npy", array)
        inputs += ["--input", f"{name}={tmp_path / name}.npy"]
    assert main(["run", str(path), "--providers", CPU[0], *inputs]) == 1
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith(f"{case.error.__name__}: ")
    assert "Traceback" not in err
    check(case, err, err, err, err)


def bytes_session(model: bytes) -> ort_py.InferenceSession:
    """A session of a model that is not a file."""
    return ort_py.InferenceSession(model, providers=CPU)


MEMORY_CASES = [name for name, case in CASES.items() if isinstance(case.model, bytes) and case.feed is None]


@pytest.mark.parametrize("name", MEMORY_CASES)
def test_bytes_are_refused_alike(name: str) -> None:
    """Given as bytes, the same models end in the same classes; external data then has no folder."""
    case = CASES[name]
    assert isinstance(case.model, bytes)
    with pytest.raises(case.error) as caught:
        bytes_session(case.model)
    assert caught.value.what
    assert caught.value.fix


def test_all_problems_of_a_graph_are_in_one_message(tmp_path: Path) -> None:
    """A user who repairs a model sees all of its problems at once."""
    with pytest.raises(errors.InvalidGraph) as caught:
        bytes_session(
            text_model("g (float[2] x) => (float[2] y, float[2] z) { y = Rellu(x) z = LeakyRelu <alpha = 1> (x) }")
        )
    assert len(caught.value.why) == 2
