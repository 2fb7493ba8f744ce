"""Trials of what a plug-in claims, in a process of their own, beside onnxruntime's provider for processors.

Some plug-ins say in their first run only that they do not compute what they took; one ends the process. So each node is
run once before it is taken, and each region before it is used. The file is the child's program too. Comes after
`region`, before `provider`.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import onnx
from onnx import helper

from ort_py.contracts import FrameResources
from ort_py_onnxruntime.region import OnnxruntimeRegion
from ort_py_onnxruntime.routes import CPU
from ort_py_onnxruntime.sessions import Model, make_session
from ort_py_onnxruntime.settings import Settings, Used, settings_of_one

__all__ = ["failures"]

_COMMAND: tuple[str, ...] = (sys.executable, "-m", "ort_py_onnxruntime.trials")
_MINUTES = 5
_CLOSE = 0.02
"""Part of the largest number by which results may differ: weights may be rounded on purpose."""

_RUNS = 5
"""Runs of each model: the first one makes the outputs, and later ones write where they are bound."""

_WRONG = "tried once, it gives other numbers than onnxruntime's own provider"


_known: dict[bytes, str] = {}
"""Reasons of trials that failed in this process, empty for others, by what was tried."""


def failures(models: Sequence[Model], settings: Settings) -> dict[int, str]:
    """Numbers of the models that a provider does not run as it should, with the reason.

    Args:
        models: Of known sizes.
        settings: With one provider.
    """
    used = settings.providers[0]
    wishes = json.dumps({"name": used.name, "options": dict(used.options), "threads": settings.threads})
    contents = [_whole(model).SerializeToString(deterministic=True) for model in models]
    keys = [hashlib.blake2b(content, key=hashlib.blake2b(wishes.encode()).digest()).digest() for content in contents]
    new = [(key, content) for key, content in dict(zip(keys, contents, strict=True)).items() if key not in _known]
    with tempfile.TemporaryDirectory(prefix="ort-py-onnxruntime-", ignore_cleanup_errors=True) as folder:
        for number, (_, content) in enumerate(new):
            (Path(folder) / f"{number}.onnx").write_bytes(content)
        (Path(folder) / "provider.json").write_text(wishes)
        found: dict[int, str] = {}
        first = 0
        while first < len(new):
            first = _from(first, folder, found)
    for number, (key, _) in enumerate(new):
        _known[key] = found.get(number, "")
    return {number: _known[key] for number, key in enumerate(keys) if _known[key]}


def _from(first: int, folder: str, found: dict[int, str]) -> int:
    """Try the models from a number on; the number that is left to begin with after the child ended."""
    command = [*_COMMAND, folder, str(first)]
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    try:
        done = subprocess.run(  # noqa: S603 - Python, with this file
            command,
            check=False,
            capture_output=True,
            text=True,
            timeout=60 * _MINUTES,
            env=environment,
            errors="replace",
        )
        output, ending = done.stdout, f"tried once, it ends the process ({done.returncode})"
    except subprocess.TimeoutExpired as error:
        output, ending = (error.stdout or b"").decode(errors="replace"), f"tried once, it takes over {_MINUTES} minutes"
    begun = first
    for line in output.splitlines():
        if line.startswith("trial "):
            begun, reason = json.loads(line.removeprefix("trial "))
            if reason is not None:
                if reason:
                    found[begun] = reason
                begun += 1
    if not _exists(folder, begun):
        return begun
    found[begun] = ending
    return begun + 1


def _exists(folder: str, number: int) -> bool:
    return (Path(folder) / f"{number}.onnx").exists()


def _whole(model: Model) -> onnx.ModelProto:
    """A model with the data of its weights in it."""
    proto = onnx.ModelProto()
    proto.CopyFrom(model.proto)
    for tensor in proto.graph.initializer:
        if tensor.name in model.weights:
            tensor.ClearField("external_data")
            tensor.ClearField("data_location")
            tensor.raw_data = model.weights[tensor.name].numpy().tobytes()
    return proto


def _child(folder: str, first: int) -> None:
    """Try models and say for each that it begins, and how it ended."""
    given = json.loads((Path(folder) / "provider.json").read_text())
    options = {"further_options": json.dumps(given["options"])}
    settings = settings_of_one(given["name"], options, given["threads"])
    own = Settings((Used(CPU, {}),), given["threads"], completes=True)
    number = first
    while _exists(folder, number):
        _say(number, None)
        proto = onnx.load(Path(folder) / f"{number}.onnx")
        try:
            reason = _compared(proto, settings, own)
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            reason = f"tried once, it fails: {' '.join(str(error).split())[-200:]}"
        _say(number, reason)
        number += 1


def _compared(proto: onnx.ModelProto, settings: Settings, own: Settings) -> str:
    names = [value.name for value in proto.graph.output]
    reference = make_session(Model(proto, {}), own)
    instance = OnnxruntimeRegion(make_session(Model(proto, {}), settings), {}, 1).instantiate(FrameResources())
    for run in range(_RUNS):
        feeds = {
            value.name: _numbers(value.type.tensor_type, (run, place)) for place, value in enumerate(proto.graph.input)
        }
        instance.bind(list(feeds.values()), [None] * len(names))
        for left, right in zip(instance(), reference.run(names, feeds, None), strict=True):
            if left.shape != right.shape or left.dtype != right.dtype or not _is_close(left, right):
                return _WRONG
    return ""


def _is_close(left: Any, right: Any) -> bool:
    if right.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    finite = np.abs(right[np.isfinite(right)]).max(initial=0)
    return bool(np.allclose(left, right, rtol=_CLOSE, atol=_CLOSE * float(finite), equal_nan=True))


def _numbers(declared: onnx.TypeProto.Tensor, seed: tuple[int, int]) -> Any:
    """Numbers to try with: of both signs, others for each input, and zeros where they may be indices."""
    dtype = helper.tensor_dtype_to_np_dtype(declared.elem_type)
    shape = tuple(dim.dim_value for dim in declared.shape.dim)
    if dtype.kind == "f":
        return np.random.default_rng(seed).standard_normal(shape).astype(dtype)
    return np.zeros(shape, dtype)


def _say(number: int, reason: str | None) -> None:
    sys.stdout.write(f"trial {json.dumps([number, reason])}\n")
    sys.stdout.flush()


if __name__ == "__main__":
    _child(sys.argv[1], int(sys.argv[2]))
