"""Kernels of a plug-in that return what they must not: named with the plug-in and the node, in the first run."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.small_models import HEADER
from ort_py.contracts import Availability, IExecutionProvider, KernelDef, ProviderFactory, SessionContext
from ort_py.errors import PluginError

Register = Callable[[ProviderFactory], None]
NAME = "OddExecutionProvider"
X = np.array([[-1.0, 2.0, -3.0], [4.0, -5.0, 6.0]], np.float32)
KEPT = np.ones((2, 3), np.float32)


class OddProvider(IExecutionProvider):
    """A provider on the host with one kernel."""

    def __init__(self, kernels: Sequence[KernelDef]) -> None:
        self._kernels = kernels

    @property
    def name(self) -> str:
        return NAME

    def kernel_registry(self) -> Sequence[KernelDef]:
        return self._kernels


class OddFactory(ProviderFactory):
    """Makes the provider."""

    def __init__(self, *kernels: KernelDef) -> None:
        self._kernels = kernels

    @property
    def name(self) -> str:
        return NAME

    def probe(self) -> Availability:
        return Availability(True)

    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return OddProvider(self._kernels)


def opened(register: Register, body: str, *kernels: KernelDef) -> ort_py.InferenceSession:
    """A session of a model whose nodes the plug-in runs."""
    register(OddFactory(*kernels))
    import onnx

    options = ort_py.SessionOptions()
    options.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    content = onnx.parser.parse_model(HEADER + body).SerializeToString()
    return ort_py.InferenceSession(content, options, providers=[NAME, "CPUExecutionProvider"], enable_fallback=0)


def relu(call: Callable[[Any], Any], **declared: Any) -> KernelDef:
    """A kernel of Relu."""
    return KernelDef("Relu", lambda ctx: call, since=14, **declared)


RELU = "g (float[N, M] x) => (float[N, M] y) { y = Relu(x) }"


def read_only(x: Any) -> Any:
    """A read-only array."""
    y = np.maximum(x, 0)
    y.flags.writeable = False
    return y


WRONG: dict[str, tuple[Callable[[Any], Any], str]] = {
    "list": (lambda x: np.maximum(x, 0).tolist(), "a list instead of an array"),
    "tuple": (lambda x: (np.maximum(x, 0),), "a tuple instead of an array"),
    "nothing": (lambda x: None, "None instead of an array"),
    "wider": (lambda x: np.maximum(x, 0).astype(np.float64), "float64 instead of float32"),
    "byte order": (lambda x: x.astype(">f4"), ">f4 instead of float32"),
    "shape": (lambda x: np.maximum(x, 0)[:1].copy(), "the shape [1, 3] instead of [2, 3]"),
    "rank": (lambda x: np.maximum(x, 0).reshape(-1).copy(), "the shape [6] instead of [2, 3]"),
    "strided": (lambda x: np.asfortranarray(np.maximum(x, 0)), "not C-contiguous"),
    "input": (lambda x: x, "memory of its input 0"),
    "view": (lambda x: x[:], "memory of its input 0"),
    "read-only": (read_only, "a read-only array"),
}


@pytest.mark.parametrize(("call", "text"), WRONG.values(), ids=WRONG)
def test_a_wrong_result_names_the_plugin(register: Register, call: Callable[[Any], Any], text: str) -> None:
    """With the kernel, the node, the provider, what came and what was expected."""
    session = opened(register, RELU, relu(call))
    with pytest.raises(PluginError, match="A kernel of the plug-in 'core' returned a result") as caught:
        session.run(None, {"x": X})
    assert text in str(caught.value)
    assert "test_plugin_results" in str(caught.value)
    assert (caught.value.location.op_type, caught.value.location.provider) == ("Relu", NAME)


def test_every_shape_is_looked_at_once(register: Register) -> None:
    """A kernel that is right for one shape and wrong for another is found out by the other."""
    session = opened(register, RELU, relu(lambda x: np.maximum(x, 0)[:2].copy()))
    session.run(None, {"x": X})
    with pytest.raises(PluginError, match="A kernel of the plug-in"):
        session.run(None, {"x": np.ones((3, 3), np.float32)})


@pytest.mark.parametrize(
    ("call", "declared"),
    [
        (lambda x: np.maximum(x, 0), {}),
        (lambda x: np.asfortranarray(np.maximum(x, 0)), {"strided": True}),
        (lambda x: x, {"views": ((0, 0),)}),
    ],
    ids=["plain", "strided", "view"],
)
def test_what_is_declared_may_be(register: Register, call: Callable[[Any], Any], declared: dict[str, Any]) -> None:
    """A kernel that says what it does is left alone, in later runs too."""
    session = opened(register, RELU, relu(call, **declared))
    for _ in range(3):
        np.testing.assert_array_equal(session.run(None, {"x": X})[0], call(X))


@pytest.mark.parametrize(
    ("result", "text"),
    [
        (lambda x: (x[:, :1].copy(),), "1 results for 2 outputs"),
        (lambda x: x[:, :1].copy(), "ndarray for 2 outputs"),
        (lambda x: (x[:, :1].copy(), x[:, :1].copy()), "the shape [2, 1] instead of [2, 2]"),
    ],
    ids=["count", "bare", "shape"],
)
def test_several_outputs(register: Register, result: Callable[[Any], Any], text: str) -> None:
    """Their number counts, and each of them; their shapes follow from what an input says."""
    split = KernelDef("Split", lambda ctx: lambda x, sizes=None: result(x), since=18, outputs=2)
    body = (
        "g (float[N, M] x) => (float[N, A] y, float[N, B] z) <int64[2] s = {1, 2}> { y, z = Split <axis = 1> (x, s) }"
    )
    session = opened(register, body, split)
    with pytest.raises(PluginError) as caught:
        session.run(None, {"x": X})
    assert text in str(caught.value)


def test_later_runs_cost_nothing(register: Register) -> None:
    """A shape that passed once is not checked again: the instruction is only the kernel's call."""
    calls = []

    def counted(x: Any) -> Any:
        calls.append(1)
        return np.maximum(x, 0) if len(calls) < 2 else KEPT

    session = opened(register, RELU, relu(counted))
    session.run(None, {"x": X})
    np.testing.assert_array_equal(session.run(None, {"x": X})[0], KEPT)
