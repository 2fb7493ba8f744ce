"""Memory of sessions, measured from outside: each case is a process of its own that prints bytes.

Bounds are wide enough for another allocator or page size, and narrow enough that a second copy of anything passes them.
"""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from onnx import TensorProto, helper, numpy_helper

MIB = 1 << 20

LINUX = pytest.mark.skipif(not sys.platform.startswith("linux"), reason="memory is read from /proc")

PRELUDE = """
import gc, json, os, sys
import numpy as np
import ort_py as ort
from tests.support.process_memory import (
    peak_resident_bytes, private_bytes, resident_bytes, shared_bytes, virtual_bytes
)

MIB = 1 << 20
path, tiny, more = sys.argv[1:4]


def private():
    gc.collect()
    return private_bytes()


def session(source, **options):
    chosen = ort.SessionOptions()
    for name, value in options.items():
        setattr(chosen, name, value)
    return ort.InferenceSession(source, chosen, providers=["CPUExecutionProvider"])


# Everything that the first session imports and makes is there before anything is measured.
session(tiny).run(None, {"x": np.zeros((2, 8), np.float32)})
os.environ["ORT_PY_CACHE"] = "off"
"""


def model(count: int, size: int, kind: type[np.generic] = np.float32) -> bytes:
    """A chain of products with `count` square matrices of `size`, in float32, or int8 with one scale each."""
    rng = np.random.default_rng(0)
    weights, nodes, last = [], [], "x"
    for number in range(count):
        values = rng.integers(-20, 20, (size, size)).astype(kind)
        weights.append(numpy_helper.from_array(values, f"w{number}"))
        if kind is np.float32:
            nodes.append(helper.make_node("MatMul", [last, f"w{number}"], [f"y{number}"]))
        else:
            weights.append(numpy_helper.from_array(np.array(0.01, np.float32), f"s{number}"))
            inputs = [last, f"w{number}", f"s{number}"]
            nodes.append(helper.make_node("DynamicQuantizeMatMul", inputs, [f"y{number}"], domain="com.microsoft"))
        last = f"y{number}"
    x, y = (helper.make_tensor_value_info(name, TensorProto.FLOAT, ["N", size]) for name in ("x", last))
    graph = helper.make_graph(nodes, "chain", [x], [y], weights)
    imports = [helper.make_opsetid("", 17), helper.make_opsetid("com.microsoft", 1)]
    return bytes(helper.make_model(graph, opset_imports=imports, ir_version=8).SerializeToString())


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, Path, Path]:
    """A model of 32 MiB, a tiny one, and one of 4 MiB in int8, which takes 16 MiB as float32."""
    folder = tmp_path_factory.mktemp("models")
    paths = (folder / "large.onnx", folder / "tiny.onnx", folder / "int8.onnx")
    for path, content in zip(paths, (model(8, 1024), model(1, 8), model(4, 1024, np.int8)), strict=True):
        path.write_bytes(content)
    return paths


def measured(files: tuple[Path, ...], code: str) -> Any:
    """The JSON that a process prints."""
    done = subprocess.run(
        [sys.executable, "-c", PRELUDE + code, *map(str, files)],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parents[2],  # where `tests` can be imported
    )
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@LINUX
@pytest.mark.parametrize("source", ["path", "open(path, 'rb').read()"])
def test_four_sessions_hold_the_weights_once(files: tuple[Path, ...], source: str) -> None:
    """A model of 32 MiB, given as a path or as bytes: less than 40 MiB for four sessions that have run."""
    used = measured(
        files,
        f"""
before = private()
sessions = [session({source}) for _ in range(4)]
for one in sessions:
    one.run(None, {{"x": np.zeros((2, 1024), np.float32)}})
print(json.dumps(private() - before))
""",
    )
    assert 16 * MIB < used < 40 * MIB  # less than the weights, where memory that was freed before is used again


@LINUX
def test_loading_holds_the_weights_once(files: tuple[Path, ...]) -> None:
    """No second copy while a model is read: neither the file, nor a message, nor an array beside the last one."""
    peak = measured(
        files,
        """
before = resident_bytes()
one = session(path)
print(json.dumps(peak_resident_bytes() - before))
""",
    )
    assert peak < 52 * MIB


@LINUX
def test_a_forked_child_shares_the_weights(files: tuple[Path, ...]) -> None:
    """Children that run the session, and make another one of the same model, write to none of its pages."""
    used = measured(
        files,
        """
one = session(path)
feed = {"x": np.zeros((2, 1024), np.float32)}
one.run(None, feed)
child = os.fork()
if not child:
    before = private()
    one.run(None, feed)
    session(path).run(None, feed)
    print(json.dumps([private() - before, shared_bytes()]), flush=True)
    os._exit(0)
os.waitpid(child, 0)
""",
    )
    assert used[0] < 8 * MIB
    assert used[1] > 32 * MIB


@LINUX
@pytest.mark.parametrize("source", ["more", "open(more, 'rb').read()"])
def test_packed_weights_replace_the_originals(files: tuple[Path, ...], source: str) -> None:
    """4 MiB of int8 weights are 16 MiB as NumPy's kernels read them, less as a compiler does; once for all sessions.

    Originals of a file go.
    """
    used, reports = measured(
        files,
        f"""
before = private()
sessions = [session({source}) for _ in range(3)]
for one in sessions:
    one.run(None, {{"x": np.zeros((2, 1024), np.float32)}})
print(json.dumps([private() - before, [one.memory_report().to_dict() for one in sessions]]))
""",
    )
    kept = 0 if source == "more" else 4 * MIB
    assert used < kept + 22 * MIB
    for report in reports:
        assert 4 * MIB <= report["packed"] <= 16 * MIB
        assert report["weights"] < kept + MIB
        assert 4 * MIB <= report["weights"] + report["weights_released"] < 5 * MIB


@LINUX
def test_trim_gives_a_large_batch_back(files: tuple[Path, ...]) -> None:
    """After one run on a large batch and a few on small ones, trim leaves about what there was before it."""
    small, large, trimmed = measured(
        files,
        """
one = session(path)
def run(rows):
    one.run(None, {"x": np.zeros((rows, 1024), np.float32)})
for _ in range(3):
    run(4)
small = resident_bytes()
for _ in range(2):
    run(6144)
large = resident_bytes()
for _ in range(3):
    run(4)
one.trim()
print(json.dumps([small, large, resident_bytes()]))
""",
    )
    assert large - small > 30 * MIB, "the large batch left nothing to give back"
    assert trimmed - small < 6 * MIB


@LINUX
def test_closing_gives_everything_back(files: tuple[Path, ...]) -> None:
    """Sessions that are closed leave nothing: neither weights nor packed forms."""
    left = measured(
        files,
        """
from ort_py.platform.heap import give_back

def use():
    for source in (path, more, open(path, "rb").read()):
        with session(source) as one:
            one.run(None, {"x": np.zeros((2, 1024), np.float32)})

use()
gc.collect()  # graphs are cycles, and what has gone by now can be given back
give_back()
before = private()
use()
gc.collect()
give_back()
print(json.dumps(private() - before))
""",
    )
    assert left < 2 * MIB


@LINUX
@pytest.mark.parametrize("what", ["memory", "error", "cancelled", "limit"])
def test_failed_runs_leave_nothing(files: tuple[Path, ...], what: str) -> None:
    """Out of memory, an exception in a kernel, a cancelled run, a passed limit: 300 of each leave nothing behind, not
    even until cycles are collected, and the session runs as before.
    """
    grown, ends, equal = measured(
        files,
        f"""
import resource
import onnx

what = {what!r}
text = '''
<ir_version: 8, opset_import: ["": 17]>
g (float[N] x, int64 i) => (float y) {{ a = Abs(x) b = Neg(a) y = Gather(b, i) }}
'''
content = onnx.parser.parse_model(text).SerializeToString()
one = session(content, **({{"memory_limit_bytes": 3 * MIB}} if what == "limit" else {{}}))
good = {{"x": np.ones(1000, np.float32), "i": np.array(1)}}
size = 25 * MIB if what == "memory" else MIB
bad = {{"x": np.ones(size, np.float32), "i": np.array(size if what == "error" else 1)}}
options = ort.RunOptions()
options.terminate = what == "cancelled"
ends = set()
expected = one.run(None, good)[0]


def fail():
    try:
        one.run(None, bad, options)
    except ort.OrtPyError as error:
        ends.add(f"{{type(error).__name__}} by {{type(error.__cause__).__name__}}")
    else:
        ends.add("no error")


gc.disable()
if what == "memory":  # no room for a result of 100 MiB, also with what the heap has in store
    room = virtual_bytes() + 20 * MIB
    resource.setrlimit(resource.RLIMIT_AS, (room, resource.RLIM_INFINITY))
for _ in range(20):
    fail()
before = private()
for _ in range(300):
    fail()
grown = private_bytes() - before
resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
print(json.dumps([grown, sorted(ends), bool((one.run(None, good)[0] == expected).all())]))
""",
    )
    names = {
        "memory": "ExecutionError by MemoryError",
        "error": "KernelInputError by NoneType",
        "cancelled": "Fail by NoneType",
        "limit": "MemoryLimitError by NoneType",
    }
    assert ends == [names[what]]
    assert grown < 4 * MIB
    assert equal
