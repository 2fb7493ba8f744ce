"""Normalisations of rows in models: one call each, with the sum in front, whatever the rows, the scale and the threads;
and what the definition says where there is no code of our own."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import NodeProto
from onnx.reference import ReferenceEvaluator

from ort_py_kit.tolerances import assert_close
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.own_code import OwnCode
from ort_py_onednn.binding.row_normalization import RowNormalization, has_row_normalization
from ort_py_onednn.execution.instance import DnnlInstance
from providers.onednn.tests.checking import watched
from providers.onednn.tests.models import model, node, run_here

Array = np.ndarray[Any, Any]
ROOT = Path(__file__).parents[3]
SKIPS = ("SkipLayerNormalization", "SkipSimplifiedLayerNormalization")

needs_code = pytest.mark.skipif(
    not has_row_normalization(engine().library), reason="this machine has no AVX2, or no executable memory"
)


def _f(*shape: int, draw: int = 0) -> Array:
    return np.random.default_rng((draw, *shape)).standard_normal(shape).astype(np.float32)


def _exact(x: Array, scale: Array | float, bias: Array | float, axis: int, epsilon: float, *, centred: bool) -> Array:
    """The closed form in float64."""
    wide = x.astype(np.float64)
    axes = tuple(range(axis % x.ndim, x.ndim))
    centre = wide.mean(axis=axes, keepdims=True) if centred else 0.0
    spread = np.sqrt(((wide - centre) ** 2).mean(axis=axes, keepdims=True) + epsilon)
    return np.asarray((wide - centre) / spread * scale + bias, np.float32)


def _check(kind: str, shape: tuple[int, ...], axis: int, threads: int) -> None:
    """A normalisation of an operator's own, with its scale and, where it has one, its bias."""
    x, inner = _f(*shape), shape[axis:]
    scale, bias = _f(*inner, draw=1), _f(*inner, draw=2)
    centred = kind == "LayerNormalization"
    nodes = [node(kind, "x s b" if centred else "x s", "y", axis=axis, epsilon=1e-5)]
    data = model(nodes, {"x": x}, {"s": scale, "b": bias} if centred else {"s": scale}, opset=23)
    wanted = _exact(x, scale, bias if centred else 0.0, axis, 1e-5, centred=centred)
    assert_close(run_here(data, {"x": x}, threads)[0], wanted, context=f"{kind} {shape} {axis}")


def _check_skip(kind: str, shape: tuple[int, ...], *, kept: bool, bias: bool, threads: int) -> None:
    """An operator with the sum in it, which it may return."""
    x, z = _f(*shape), _f(*shape, draw=3)
    constants = {"s": _f(shape[-1], draw=1)}
    centred = kind == "SkipLayerNormalization"
    if centred:
        constants["b"] = _f(shape[-1], draw=2)
    if bias:
        constants["a"] = _f(shape[-1], draw=4)
    names = ["x", "z", "s", *(["b"] if centred else []), *(["a"] if bias else [])]
    made = node(kind, " ".join(names), "y 1 2 t" if kept else "y", domain="com.microsoft", epsilon=1e-5)
    made.output[1:3] = [""] * len(made.output[1:3])  # mean and variance are absent
    data = model([made], {"x": x, "z": z}, constants, ("y", "t") if kept else ("y",))
    total = x + z + constants["a"] if bias else x + z
    wanted = [_exact(total, constants["s"], constants.get("b", 0.0), -1, 1e-5, centred=centred), total]
    for found, exact in zip(run_here(data, {"x": x, "z": z}, threads), wanted, strict=False):
        assert_close(found, exact, context=f"{kind} {shape} {kept} {bias}")


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization", "SimplifiedLayerNormalization"])
@pytest.mark.parametrize(
    ("shape", "axis"),
    [((7,), -1), ((1, 1, 32), -1), ((2, 5, 33), -1), ((3, 4, 10), 1), ((2, 3, 5), 0), ((300, 257), -1)],
    ids=str,
)
def test_an_operator(shape: tuple[int, ...], axis: int, kind: str, threads: int) -> None:
    """Few rows and many, short and long, over one axis and over several: those of float64."""
    with watched():
        _check(kind, shape, axis, threads)


@pytest.mark.parametrize("kind", SKIPS)
@pytest.mark.parametrize("kept", [False, True])
@pytest.mark.parametrize("bias", [False, True])
@pytest.mark.parametrize("shape", [(1, 1, 32), (2, 3, 45), (1, 300, 257)], ids=str)
def test_a_sum_in_front(shape: tuple[int, ...], bias: bool, kept: bool, kind: str) -> None:
    """With the sum returned and without, and one more summand."""
    with watched():
        _check_skip(kind, shape, kept=kept, bias=bias, threads=1)


_SUMS: dict[str, tuple[list[NodeProto], dict[str, tuple[int, ...]], tuple[str, ...]]] = {
    "of two inputs": ([node("Add", "x z", "t"), node("LayerNormalization", "t s b", "y")], {}, ("y",)),
    "that is returned": ([node("Add", "x z", "t"), node("RMSNormalization", "t s", "y")], {}, ("y", "t")),
    "that broadcasts": (
        [node("Add", "x z", "t"), node("LayerNormalization", "t s b", "y")],
        {"x": (1, 3, 20), "z": (2, 1, 20)},
        ("y", "t"),
    ),
    "that is read before": (
        [
            node("Add", "x z", "t"),
            node("Tanh", "t", "u"),
            node("LayerNormalization", "t s b", "n"),
            node("Add", "n u", "y"),
        ],
        {},
        ("y",),
    ),
    "of one value twice": ([node("Add", "x x", "t"), node("RMSNormalization", "t s", "y")], {}, ("y", "t")),
    "that two read": (
        [
            node("Add", "x z", "t"),
            node("RMSNormalization", "t s", "y"),
            node("LayerNormalization", "t s b", "u"),
        ],
        {},
        ("y", "u", "t"),
    ),
    "with a residual behind": (
        [
            node("Add", "x z", "t"),
            node("LayerNormalization", "t s b", "n"),
            node("MatMul", "n w", "m"),
            node("Add", "m t", "v"),
            node("RMSNormalization", "v s", "y"),
        ],
        {},
        ("y", "v"),
    ),
}


@pytest.mark.parametrize("name", _SUMS)
@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
def test_a_sum(name: str, dynamic: bool) -> None:
    """Whatever else reads it, it is what onnx.reference says."""
    nodes, shapes, outputs = _SUMS[name]
    shapes = {"x": (2, 3, 20), "z": (2, 3, 20)} | shapes
    feeds = {key: _f(*shape, draw=place) for place, (key, shape) in enumerate(shapes.items())}
    read = {value for one in nodes for value in one.input}
    constants = {"s": _f(20, draw=5), "b": _f(20, draw=6), "w": _f(20, 20, draw=7)}
    constants = {key: array for key, array in constants.items() if key in read}
    feeds = {key: array for key, array in feeds.items() if key in read}
    if dynamic and "LayerNormalization" in {one.op_type for one in nodes}:
        dynamic = False  # its scale is compared with the input's shape
    data = model(nodes, feeds, constants, outputs, opset=23, dynamic=dynamic)
    wanted = ReferenceEvaluator(onnx.load_from_string(data)).run(None, feeds)
    with watched():
        found = run_here(data, feeds)
    for one, other in zip(found, wanted, strict=True):
        assert_close(one, other, context=name)


@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
def test_a_sum_of_a_scalar_and_a_number(kind: str) -> None:
    """Has the axis of the second summand: both look the same to oneDNN, and the scalar has none to normalise."""
    feeds = {"x": _f(), "z": _f(1, draw=1)}
    data = model([node("Add", "x z", "t"), node(kind, "t s", "y")], feeds, {"s": _f(1, draw=2)}, ("y", "t"), opset=23)
    found = run_here(data, feeds)
    for one, other in zip(found, ReferenceEvaluator(onnx.load_from_string(data)).run(None, feeds), strict=True):
        assert_close(one, other, context=kind)
        assert one.shape == other.shape


@pytest.mark.parametrize("shape", [(), (1,), (20,), (3, 1), (3, 20), (1, 20)], ids=str)
@pytest.mark.parametrize("axis", [-1, 1, 0])
def test_a_scale_that_broadcasts(shape: tuple[int, ...], axis: int) -> None:
    """RMSNormalization takes any scale that broadcasts to its input."""
    x, scale = _f(2, 3, 20), _f(*shape, draw=1)
    data = model([node("RMSNormalization", "x s", "y", axis=axis)], {"x": x, "s": scale}, opset=23)
    wanted = _exact(x, scale, 0.0, axis, 1e-5, centred=False)
    assert_close(run_here(data, {"x": x, "s": scale})[0], wanted, context=f"{shape} {axis}")


@needs_code
@pytest.mark.parametrize("kind", [*SKIPS, "LayerNormalization", "RMSNormalization"])
def test_it_is_one_step(kind: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """A normalisation of few rows, with its sum, scale and bias, is one step of a plan."""
    steps: list[Any] = []
    original = DnnlInstance.bind

    def remember(self: DnnlInstance, *arguments: Any, **options: Any) -> Any:
        found = original(self, *arguments, **options)
        steps[:] = [step.primitive for form in self._forms.values() for step in form.plan.steps]
        return found

    monkeypatch.setattr(DnnlInstance, "bind", remember)
    if kind in SKIPS:
        _check_skip(kind, (2, 3, 45), kept=True, bias=False, threads=1)
    else:
        _check(kind, (2, 3, 45), -1, 1)
    assert [type(step) for step in steps if isinstance(step, OwnCode)] == [RowNormalization]
    assert len(steps) == 1


@pytest.mark.parametrize("kind", ["LayerNormalization", "RMSNormalization"])
def test_threads_change_nothing(kind: str) -> None:
    """Rows are computed by one thread each, in the same order of sums."""
    x, scale = _f(301, 259), _f(259, draw=1)
    data = model([node(kind, "x s", "y")], {"x": x}, {"s": scale}, opset=23)
    one, two = (run_here(data, {"x": x}, threads)[0] for threads in (1, 2))
    if kind == "RMSNormalization":
        np.testing.assert_array_equal(one, two)
    assert_close(one, _exact(x, scale, 0.0, -1, 1e-5, centred=kind == "LayerNormalization"))


@pytest.mark.parametrize("isa", ["AVX2", "SSE41"])
def test_with_other_instructions(isa: str) -> None:
    """The same in a process that is held to them; without AVX2, primitives do it."""
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": isa}
    command = [sys.executable, "-m", "providers.onednn.tests.test_row_normalization", isa]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


def _held(isa: str) -> None:
    assert has_row_normalization(engine().library) == (isa != "SSE41")
    for kind in ("LayerNormalization", "RMSNormalization"):
        for shape, axis in (((2, 5, 33), -1), ((3, 4, 10), 1), ((300, 257), -1)):
            _check(kind, shape, axis, 1)
    for kind in SKIPS:
        for kept in (False, True):
            _check_skip(kind, (2, 3, 45), kept=kept, bias=True, threads=1)


if __name__ == "__main__":
    _held(sys.argv[1])
