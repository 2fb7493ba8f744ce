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
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, TypeAlias

import numpy as np
import onnx
from onnx import helper

from ort_py.contracts import FrameResources
from ort_py_onnxruntime.region import OnnxruntimeRegion
from ort_py_onnxruntime.routes import CPU
from ort_py_onnxruntime.sessions import Model, make_session
from ort_py_onnxruntime.settings import Settings, Used, settings_of_one

__all__ = ["failures"]

Feeds: TypeAlias = dict[str, Any]

_COMMAND: tuple[str, ...] = (sys.executable, "-P", "-m", "ort_py_onnxruntime.trials")
_MINUTES = 5
_CLOSE = 0.02
"""Part of the largest number by which results may differ: weights may be rounded on purpose."""

_RUNS = 6
"""Runs that are compared: the first one makes the outputs, and later ones write where they are bound. The last one has
infinities, which masks are made of; only finite results are compared there.
"""

_AGAIN, _SECONDS = 40, 1.0
"""Further runs, as long as they take this time together: a graph was seen that ends the process in the first or the
sixth run.
"""

_SPAN = 128
"""Integers lie between this number and its negative: larger ones could be sizes that no memory has."""

_ANSWERS = "answers.jsonl"
_LARGE = "it is too large to be tried: models of onnxruntime end at 2 GB"
_VARIES = "its sizes follow from values: the plug-in is used for sizes that were tried only"
_WRONG = "tried once, it gives other numbers than onnxruntime's own provider"

_known: dict[bytes, str] = {}
"""Reasons of trials that failed in this process, empty for others, by what was tried."""


def failures(models: Sequence[Model], settings: Settings) -> dict[int, str]:
    """Numbers of the models that a provider does not run as it should, with the reason.

    Args:
        models: Of known sizes.
        settings: With one provider.
    """
    if getattr(sys, "frozen", False):
        return dict.fromkeys(range(len(models)), "it cannot be tried: this program has no Python of its own")
    used = settings.providers[0]
    wishes = json.dumps({"name": used.name, "options": dict(used.options), "threads": settings.threads})
    kind = hashlib.blake2b(wishes.encode()).digest()
    keys: list[bytes | None] = []
    new: list[bytes] = []
    with tempfile.TemporaryDirectory(prefix="ort-py-onnxruntime-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        for model in models:
            try:
                content = _whole(model).SerializeToString(deterministic=True)
            except Exception:  # protobuf's, which has one for each of its implementations
                keys.append(None)
                continue
            key = hashlib.blake2b(content, key=kind).digest()
            if key not in _known and key not in new:
                (folder / f"{len(new)}.onnx").write_bytes(content)
                new.append(key)
            keys.append(key)
        (folder / "provider.json").write_text(wishes)
        found: dict[int, str] = {}
        first = 0
        while first < len(new):
            first = _from(first, folder, found)
    _known.update({key: found.get(number, "") for number, key in enumerate(new)})
    reasons = [_LARGE if key is None else _known[key] for key in keys]
    return {number: reason for number, reason in enumerate(reasons) if reason}


def _from(first: int, folder: Path, found: dict[int, str]) -> int:
    """Try the models from a number on; the number that is left to begin with after the child ended."""
    environment = os.environ | {"PYTHONPATH": os.pathsep.join(path or str(Path.cwd()) for path in sys.path)}
    try:
        done = subprocess.run(  # noqa: S603 - Python, with this file
            [*_COMMAND, str(folder), str(first)],
            check=False,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            timeout=60 * _MINUTES,
            env=environment,
        )
        ending = f"tried once, it ends the process ({done.returncode})"
    except subprocess.TimeoutExpired:
        ending = f"tried once, it takes over {_MINUTES} minutes"
    answers = folder / _ANSWERS
    lines = answers.read_text().splitlines() if answers.exists() else ()
    new = [answer for answer in map(json.loads, lines) if answer[0] >= first]
    found.update({number: reason for number, reason in new if reason})
    begun, reason = new[-1] if new else (first, None)
    if reason is None and _exists(folder, begun):
        found[begun] = ending
    return begun + 1


def _exists(folder: Path, number: int) -> bool:
    return (folder / f"{number}.onnx").exists()


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


def _child(folder: Path, first: int) -> None:
    """Try models, and note for each that it begins, and how it ended."""
    given = json.loads((folder / "provider.json").read_text())
    options = {"further_options": json.dumps(given["options"])}
    settings = settings_of_one(given["name"], options, given["threads"])
    own = Settings((Used(CPU, {}),), given["threads"], completes=True)
    number = first
    while _exists(folder, number):
        _note(folder, number, None)
        proto = onnx.load(folder / f"{number}.onnx")
        try:
            reason = _compared(proto, settings, own)
        except Exception as error:  # onnxruntime's exceptions have no base of their own
            reason = f"tried once, it fails: {' '.join(str(error).split())[-200:]}"
        _note(folder, number, reason)
        number += 1


def _compared(proto: onnx.ModelProto, settings: Settings, own: Settings) -> str:
    names = [value.name for value in proto.graph.output]
    reference = make_session(Model(proto, {}), own)
    instance = OnnxruntimeRegion(make_session(Model(proto, {}), settings), {}, 1).instantiate(FrameResources())
    for run in range(_RUNS):
        feeds, wanted = _answered(proto, run, lambda feeds: reference.run(names, feeds, None))
        if [array.shape for array in wanted] != [_shape_of(value) for value in proto.graph.output]:
            return _VARIES
        instance.bind(list(feeds.values()), [None] * len(names))
        for left, right in zip(instance(), wanted, strict=True):
            same = left.shape == right.shape and left.dtype == right.dtype
            compared = np.isfinite(right) if run == _RUNS - 1 and right.dtype.kind == "f" else ...
            if not same or not _is_close(left[compared], right[compared]):
                return _WRONG
    end = time.monotonic() + _SECONDS
    for _ in range(_AGAIN):
        instance.bind(list(feeds.values()), [None] * len(names))
        instance()
        if time.monotonic() > end:
            break
    return ""


def _answered(proto: onnx.ModelProto, run: int, reference: Callable[[Feeds], Any]) -> tuple[Feeds, Any]:
    """Feeds that the reference has an answer to, and the answer.

    Integers are those of a byte, indices of the shortest axis, or 0.

    Raises:
        Exception: Whatever the reference raises for zeros.
    """
    shapes = [_shape_of(value) for value in proto.graph.input]
    least = min(
        (size for shape in (*shapes, *(one.dims for one in proto.graph.initializer)) for size in shape), default=1
    )
    for bound in (0, max(least, 1), 1):
        feeds = {
            value.name: _numbers(value.type.tensor_type.elem_type, shape, (run, place), bound)
            for place, (value, shape) in enumerate(zip(proto.graph.input, shapes, strict=True))
        }
        try:
            return feeds, reference(feeds)
        except Exception:  # onnxruntime's exceptions have no base of their own
            if bound == 1:
                raise
    raise AssertionError("the last bound is 1")


def _shape_of(value: onnx.ValueInfoProto) -> tuple[int, ...]:
    return tuple([dim.dim_value for dim in value.type.tensor_type.shape.dim])


def _is_close(left: Any, right: Any) -> bool:
    if right.dtype.kind != "f":
        return bool(np.array_equal(left, right))
    finite = np.abs(right[np.isfinite(right)]).max(initial=0)
    return bool(np.allclose(left, right, rtol=_CLOSE, atol=_CLOSE * float(finite), equal_nan=True))


def _numbers(data_type: int, shape: Sequence[int], seed: tuple[int, int], bound: int) -> Any:
    """Numbers to try with: of both signs, others for each input; integers below a bound, if it is not 0."""
    dtype, random = helper.tensor_dtype_to_np_dtype(data_type), np.random.default_rng(seed)
    if dtype.kind == "f":
        numbers = random.standard_normal(shape).astype(dtype)
        if seed[0] == _RUNS - 1:
            some = slice(seed[1] % 3, None, 3)  # elsewhere for each input, for choices between them
            numbers.flat[some] = np.copysign(np.inf, numbers.flat[some])
        return numbers
    if dtype.kind == "b":
        return random.integers(0, 2, shape).astype(dtype)
    whole = np.iinfo(dtype)
    low, high = (0, bound) if bound else (max(whole.min, -_SPAN), min(whole.max, _SPAN))
    return random.integers(low, high, shape, dtype)


def _note(folder: Path, number: int, reason: str | None) -> None:
    """Write to a file: what libraries write to the standard output may come between."""
    with (folder / _ANSWERS).open("a") as file:
        file.write(f"{json.dumps([number, reason])}\n")


if __name__ == "__main__":
    _child(Path(sys.argv[1]), int(sys.argv[2]))
