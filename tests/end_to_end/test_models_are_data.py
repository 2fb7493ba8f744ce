"""A model is data: loading and running it writes no file, imports nothing that it names and starts no program.

A child process creates and runs one session to import everything that sessions need. It then records Python's audit
events while it loads and runs a second model, whose every text is the name of a module or an expression.
"""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import onnx
import onnx.helper as oh
import pytest

MODULE = "antigravity"  # a module of the standard library that nothing here imports
EXPRESSION = "__import__('os').system('touch written')"

CHILD = """
import json, os, sys
import numpy as np
import ort_py as ort

feeds = {"x": np.zeros(2, np.float32)}
source = open(sys.argv[2], "rb").read() if sys.argv[3] == "bytes" else sys.argv[2]


def use(source, options):
    session = ort.InferenceSession(source, options, providers=["CPUExecutionProvider"])
    return session.run(None, feeds)


def strict():
    options = ort.SessionOptions()
    options.limits = ort.Limits.untrusted()
    return options


for options in (ort.SessionOptions(), strict()):
    use(sys.argv[1], options)
events = []


def record(event, arguments):
    if event == "open":
        path, _, flags = arguments
        if flags & (os.O_WRONLY | os.O_RDWR | os.O_CREAT):
            events.append([event, str(path)])
    elif event == "import":
        events.append([event, str(arguments[0])])
    elif event == "compile":
        source = arguments[0]
        events.append([event, source.decode() if isinstance(source, bytes) else str(source)])
    elif event.startswith(("os.", "shutil.", "socket.", "subprocess.", "pickle.", "ctypes.dlopen")):
        if event not in ("os.listdir", "os.scandir", "os.getxattr"):
            events.append([event, str(arguments)])


sys.addaudithook(record)
results = [use(source, options) for options in (ort.SessionOptions(), strict())]
seen = list(events)
print(json.dumps({"events": seen, "results": [one[0].tolist() for one in results]}))
"""


def _model(text: str, domain: str) -> onnx.ModelProto:
    """A model that calls a function of a domain and carries a text wherever the format has room for one."""
    nodes = [oh.make_node("Call", ["x"], ["y"], text, text, domain, overload="")]
    graph = oh.make_graph(
        nodes,
        text,
        [oh.make_tensor_value_info("x", 1, [2])],
        [oh.make_tensor_value_info("y", 1, [2])],
        doc_string=text,
    )
    opsets = [oh.make_opsetid("", 21), oh.make_opsetid(domain, 1)]
    body = [oh.make_node("Add", ["a", "a"], ["b"], text)]
    function = oh.make_function(domain, "Call", ["a"], ["b"], body, opsets[:1])
    model = oh.make_model(graph, functions=[function], opset_imports=opsets, ir_version=10, producer_name=text)
    oh.set_model_props(model, {text: text})
    return model


def _observe(folder: Path, form: str, **variables: str) -> dict[str, Any]:
    onnx.save(_model("plain", "local"), folder / "warm.onnx")
    onnx.save(_model(EXPRESSION, MODULE), folder / "model.onnx")
    outcome = subprocess.run(
        [sys.executable, "-c", CHILD, "warm.onnx", "model.onnx", form],
        cwd=folder,
        env={**os.environ, **variables},
        capture_output=True,
        text=True,
        timeout=120,
        check=True,
    )
    seen: dict[str, Any] = json.loads(outcome.stdout)
    assert seen["results"] == [[0.0, 0.0]] * 2
    return seen


@pytest.mark.parametrize("form", ["path", "bytes"])
def test_nothing_is_written_or_started(tmp_path: Path, form: str) -> None:
    """No file is opened for writing, and none is made, moved or removed. No program, socket or library is opened."""
    before = {"warm.onnx", "model.onnx"}
    events = [event for event in _observe(tmp_path, form, ORT_PY_CACHE="off")["events"] if event[0] != "compile"]
    assert [event for event in events if event[0] != "import"] == []
    assert {path.name for path in tmp_path.iterdir()} == before


def test_bytes_are_not_written_to_the_cache(tmp_path: Path) -> None:
    """A model that is given as bytes stays out of the cache, which is on by default and may hold the other model."""
    cache = tmp_path / "cache"
    _observe(tmp_path, "bytes", ORT_PY_CACHE=str(cache))
    written = [path.read_bytes() for path in cache.rglob("*") if path.is_file()]
    assert not any(MODULE.encode() in content for content in written)


def test_no_module_is_imported_for_a_name_in_the_model(tmp_path: Path) -> None:
    """The domain of an operator, for one, is not looked up among the modules."""
    events = _observe(tmp_path, "path", ORT_PY_CACHE="off")["events"]
    assert [name for event, name in events if event == "import" and MODULE in name] == []


def test_no_code_is_made_from_texts_of_the_model(tmp_path: Path) -> None:
    """Sources that are compiled in a run contain none of the model's texts."""
    events = _observe(tmp_path, "path", ORT_PY_CACHE="off")["events"]
    sources = [source for event, source in events if event == "compile"]
    assert [source for source in sources if MODULE in source or "touch" in source] == []


def test_nothing_is_unpickled(tmp_path: Path) -> None:
    """No class is looked up for a pickle."""
    events = _observe(tmp_path, "path", ORT_PY_CACHE="off")["events"]
    assert [event for event in events if event[0].startswith("pickle.")] == []
