"""Cases as files, and as code that shows a finding: readable text where that keeps every bit, packed bytes else."""

from __future__ import annotations

import base64
import json
import zlib
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import onnx.parser
import onnx.printer

from tests.fuzzing.cases import Case
from tests.fuzzing.runners import requested
from tests.fuzzing.schemas import np_dtype

__all__ = ["as_code", "case_of", "read_case", "write_case"]


def _text_of(model: onnx.ModelProto) -> str:
    """The model as ONNX text; ``""`` where reading it back gives another model."""
    try:
        text = onnx.printer.to_text(model)
        back = onnx.parser.parse_model(text)
    except Exception:
        return ""
    plain = onnx.ModelProto()
    plain.CopyFrom(model)
    for one in (plain, back):
        one.graph.name = ""
        for tensor in one.graph.initializer:
            array = onnx.numpy_helper.to_array(tensor)
            tensor.CopyFrom(onnx.numpy_helper.from_array(array, tensor.name))
        for node in one.graph.node:
            node.name = ""
            for attribute in node.attribute:
                if attribute.type == onnx.AttributeProto.TENSOR:
                    attribute.t.CopyFrom(onnx.numpy_helper.from_array(onnx.numpy_helper.to_array(attribute.t), ""))
    return text if plain == back else ""


def _packed(model: onnx.ModelProto) -> str:
    return base64.b64encode(zlib.compress(model.SerializeToString(), 9)).decode()


def _array(array: np.ndarray[Any, Any]) -> dict[str, Any]:
    wide = array.astype(np.float64) if array.dtype.kind in "fV" else array
    exact = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode() if array.size > 64 else None
    found: dict[str, Any] = {"dtype": array.dtype.name, "shape": list(array.shape)}
    if exact is not None:
        found["packed"] = exact
    else:
        found["numbers"] = [
            repr(one) if isinstance(one, float) and not np.isfinite(one) else one for one in wide.ravel().tolist()
        ]
    return found


def _read_array(data: dict[str, Any]) -> np.ndarray[Any, Any]:
    dtype = np_dtype(data["dtype"])
    if "packed" in data:
        return np.frombuffer(zlib.decompress(base64.b64decode(data["packed"])), dtype).reshape(data["shape"]).copy()
    numbers = [float(one) if isinstance(one, str) else one for one in data["numbers"]]
    return np.array(numbers, np.float64 if dtype.kind in "fV" else dtype).astype(dtype).reshape(data["shape"])


def write_case(path: Path, case: Case, about: str) -> None:
    """Write a case as JSON."""
    text = _text_of(case.model)
    data: dict[str, Any] = {"about": about}
    data["model"] = (
        text.splitlines()
        if text
        else {"packed": _packed(case.model), "text": onnx.printer.to_text(case.model).splitlines()[:40]}
    )
    data["feeds"] = [{name: _array(array) for name, array in feeds.items()} for feeds in case.feeds]
    path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")


def read_case(path: Path) -> Case:
    """Read a case that `write_case` wrote."""
    return case_of(json.loads(path.read_text(encoding="utf-8")))


def case_of(data: dict[str, Any]) -> Case:
    """The case that a file's data describes."""
    shown = data["model"]
    if isinstance(shown, dict):
        model = onnx.load_model_from_string(zlib.decompress(base64.b64decode(shown["packed"])))
    else:
        model = onnx.parser.parse_model("\n".join(shown))
    feeds = [{name: _read_array(array) for name, array in some.items()} for some in data["feeds"]]
    return Case(model, feeds, data.get("about", ""))


def as_code(case: Case, level: str = "ORT_ENABLE_ALL", providers: Sequence[str] | None = None) -> str:
    """A program that shows what the default providers, the NumPy provider and onnxruntime give, run for run."""
    text = _text_of(case.model)
    lines = [
        "import os; os.environ['ORT_PY_CACHE'] = 'off'",
        "import base64, zlib, numpy as np, onnx, onnx.parser, ort_py, onnxruntime",
        "d = lambda s: zlib.decompress(base64.b64decode(s))",
    ]
    if text:
        lines.append(f"m = onnx.parser.parse_model('''{text}''').SerializeToString()")
    else:
        lines += [f"# {line[:300]}" for line in onnx.printer.to_text(case.model).splitlines()[:30]]
        lines.append(f"m = d('{_packed(case.model)}')")
    lines.append("fs = []")
    for feeds in case.feeds:
        shown = ", ".join([f"{name!r}: {_array_code(array)}" for name, array in feeds.items()])
        lines.append(f"fs.append({{{shown}}})")
    return "\n".join(lines) + _PROGRAM.replace("LEVEL", level).replace("PROVIDERS", repr(requested(providers)))


_PROGRAM = """
def t(session):
    for f in fs:
        try: print('   ', [(np.asarray(y).shape, np.asarray(y).ravel()[:8].tolist()) for y in session().run(None, f)])
        except Exception as error: print('   ', type(error).__name__, ' '.join(str(error).split())[:150])
o = ort_py.SessionOptions(); o.cost_model = 'always'; p = ort_py.SessionOptions(); p.pin_cpu = True
o.graph_optimization_level = ort_py.GraphOptimizationLevel.LEVEL
p.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
s = []
print('default'); t(lambda: s[0] if s else s.append(ort_py.InferenceSession(m, o, providers=PROVIDERS)) or s[0])
print('numpy'); t(lambda: ort_py.InferenceSession(m, p, providers=['CPUExecutionProvider']))
print('onnxruntime'); t(lambda: onnxruntime.InferenceSession(m, providers=['CPUExecutionProvider']))"""


def _array_code(array: np.ndarray[Any, Any]) -> str:
    """An expression that makes an array."""
    if array.dtype.name == "bfloat16":
        numbers = str(array.astype(np.float32).ravel().tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
        return f"np.array({numbers}).astype('bfloat16').reshape({array.shape})"
    kind = f"np.{array.dtype.name}" if array.dtype.kind != "b" else "bool"
    if array.size <= 64:
        numbers = str(array.tolist()).replace("nan", "np.nan").replace("inf", "np.inf")
        return f"np.array({numbers}, {kind}).reshape({array.shape})"
    if (array == array.ravel()[0]).all():
        return f"np.full({array.shape}, {array.ravel()[0].item()!r}, {kind})"
    packed = base64.b64encode(zlib.compress(array.tobytes(), 9)).decode()
    return f"np.frombuffer(d('{packed}'), {kind}).reshape({array.shape})"
