"""Nodes of float16: each result is that of float64, rounded to float16, within the table of tolerances.

Processors without arithmetic of float16 have kernels for it too, which are slower. They are tested like the others.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper
from onnx.reference import ReferenceEvaluator

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from providers.xnnpack.tests.cases import CASES, Case
from providers.xnnpack.tests.models import PROVIDER, model, node, run_plain

Array = np.ndarray[Any, Any]
_HALF = np.dtype(np.float16)
_PLACES = ("ort_py_xnnpack.operators.has_half_arithmetic", "ort_py_xnnpack.graph.flat_graph.has_half_arithmetic")
_OF_HALVES = [
    name
    for name, case in CASES.items()
    if not any(made.op_type == "Cast" or made.op_type.endswith("antizeLinear") for made in case.nodes)
]
_FUNCTIONS: dict[str, Callable[[Array], Array]] = {
    "Abs": np.abs,
    "HardSwish": lambda x: x * np.clip(x / 6 + 0.5, 0, 1),
    "LeakyRelu": lambda x: np.where(x < 0, 0.01 * x, x),
    "Neg": np.negative,
    "Relu": lambda x: np.maximum(x, 0),
    "Round": np.rint,
    "Sigmoid": lambda x: 1 / (1 + np.exp(-x)),
    "Tanh": np.tanh,
}
_EVERY = np.arange(65536, dtype=np.uint16).view(_HALF)
_EVERY = _EVERY[np.isfinite(_EVERY)]


def _session(data: bytes, *, level: Any = ort.GraphOptimizationLevel.ORT_DISABLE_ALL) -> ort.InferenceSession:
    options = ort.SessionOptions()
    options.intra_op_num_threads = 1
    options.graph_optimization_level = level
    return ort.InferenceSession(
        data, options, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=[{"claim_small": True}, {}]
    )


def _run(data: bytes, feeds: dict[str, Array], **more: Any) -> Array:
    """The result, after checking that XNNPACK ran every node."""
    with _session(data, **more) as session:
        others = [(one.op_type, one.refusals) for one in session.placement.nodes if one.provider != PROVIDER]
        assert not others, others
        (found,) = session.run(None, feeds)
        assert not session.fallback_report, session.fallback_report
        assert "declined" not in session.plan, session.plan
    return np.asarray(found)


@pytest.fixture
def halves(monkeypatch: pytest.MonkeyPatch) -> None:
    """Take nodes of float16 as on a processor that computes with them."""
    for place in _PLACES:
        monkeypatch.setattr(place, lambda: True)
    x = np.ones((1, 8), _HALF)
    with _session(model([node("Add", "x x")], {"x": x}, kind=TensorProto.FLOAT16)) as session:
        session.run(None, {"x": x})
        if "declined" in session.plan:
            pytest.skip("XNNPACK has no kernels of float16 for this processor")


def _narrow(arrays: dict[str, Array]) -> dict[str, Array]:
    return {name: one.astype(_HALF) if one.dtype == np.float32 else one for name, one in arrays.items()}


def _of_half(case: Case) -> tuple[bytes, dict[str, Array], dict[str, Array]]:
    """The model of a case in float16, its feeds and its constants; scales of Resize stay float32."""
    feeds = _narrow(case.feeds())
    constants = {name: one if name == "scales" else _narrow({name: one})[name] for name, one in case.constants.items()}
    return model(case.nodes, feeds, constants, opset=case.opset, kind=TensorProto.FLOAT16), feeds, constants


def _computed(made: NodeProto, known: dict[str, Array], opset: int) -> list[Array]:
    """The results of one node in float64; of operators that ONNX's reference lacks or errs in, onnxruntime's."""
    own = made.domain or made.op_type in {"ConvTranspose", "MaxPool", "SimplifiedLayerNormalization"}
    wide = np.float32 if own else np.float64
    given = {name: known[name] for name in made.input if name}
    given = {name: one.astype(wide) if one.dtype in {_HALF, np.float64} else one for name, one in given.items()}
    infos = [
        helper.make_tensor_value_info(name, helper.np_dtype_to_tensor_dtype(one.dtype), one.shape)
        for name, one in given.items()
    ]
    kind = helper.np_dtype_to_tensor_dtype(np.dtype(wide))
    results = [helper.make_tensor_value_info(name, kind, None) for name in made.output if name]
    opsets = [helper.make_opsetid("", opset), helper.make_opsetid("com.microsoft", 1)]
    proto = helper.make_model(helper.make_graph([made], "g", infos, results), opset_imports=opsets, ir_version=10)
    if own:
        session = onnxruntime.InferenceSession(proto.SerializeToString(), providers=["CPUExecutionProvider"])
        return list(session.run(None, given))
    return list(ReferenceEvaluator(proto).run(None, given))


def _exact(case: Case, feeds: dict[str, Array], constants: dict[str, Array]) -> Array:
    """The result of a case whose values are rounded to float16 between nodes, as the model says."""
    known = feeds | constants
    for made in case.nodes:
        found = _computed(made, known, case.opset)
        names = [name for name in made.output if name]
        known |= {name: one.astype(_HALF) for name, one in zip(names, found, strict=True)}
    return known["y"]


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize("name", _OF_HALVES)
def test_results(name: str) -> None:
    """Nodes are computed as they stand in the model."""
    case = CASES[name]
    data, feeds, constants = _of_half(case)
    assert_close(_run(data, feeds), _exact(case, feeds, constants), context=name)


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize("name", _FUNCTIONS)
def test_functions_of_every_number(name: str) -> None:
    """All finite numbers of the type."""
    data = model([node(name, "x")], {"x": _EVERY}, kind=TensorProto.FLOAT16)
    with np.errstate(all="ignore"):
        wanted = _FUNCTIONS[name](_EVERY.astype(np.float64)).astype(_HALF)
    assert_close(_run(data, {"x": _EVERY}), wanted, context=name)


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize("count", [64, 1000, 5000])
def test_long_sums(count: int) -> None:
    """Products are added in float32, whatever the processor has for float16."""
    rng = np.random.default_rng(count)
    x, w = (rng.normal(0, 1, shape).astype(_HALF) for shape in ((7, count), (count, 33)))
    w = (w / np.sqrt(count)).astype(_HALF)
    data = model([node("MatMul", "x w")], {"x": x}, {"w": w}, kind=TensorProto.FLOAT16)
    wanted = (x.astype(np.float64) @ w.astype(np.float64)).astype(_HALF)
    assert_close(_run(data, {"x": x}), wanted)


@pytest.mark.usefixtures("halves")
def test_large_numbers_are_not_declined() -> None:
    """Whether a node loses NaN is asked of a mean: a sum would be infinite."""
    x = np.full((1, 3, 40, 50), 60000, _HALF)
    data = model([node("GlobalMaxPool", "x")], {"x": x}, kind=TensorProto.FLOAT16)
    np.testing.assert_array_equal(_run(data, {"x": x}), np.full((1, 3, 1, 1), 60000, _HALF))


@pytest.mark.usefixtures("halves")
@pytest.mark.parametrize("name", _OF_HALVES)
def test_nothing_is_lost(name: str) -> None:
    """NaN and infinities are where NumPy's kernels have them, wherever one stands in an input."""
    data, feeds, _ = _of_half(CASES[name])
    with _session(data) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        for given, array in feeds.items():
            for number, place in zip((np.nan, np.inf, -np.inf), (0, array.size // 2, -1), strict=True):
                changed = array.copy()
                changed.reshape(-1)[place] = number
                spoiled = feeds | {given: changed}
                (found,), (wanted,) = session.run(None, spoiled), run_plain(data, spoiled)
                np.testing.assert_array_equal(_kinds(found), _kinds(wanted))
        assert not session.fallback_report


def _kinds(array: Array) -> Array:
    """A mark for each element: 1 and -1 for infinities, 2 for NaN, 0 for numbers."""
    return np.where(np.isnan(array), 2, np.where(np.isinf(array), np.sign(array), 0)).astype(int)


@pytest.mark.parametrize("halves", [False, True])
def test_graphs_are_computed_in_float32(monkeypatch: pytest.MonkeyPatch, halves: bool) -> None:
    """Sessions that optimise round what enters and what leaves, and nothing between, on every processor."""
    for place in _PLACES:
        monkeypatch.setattr(place, lambda: halves)
    rng = np.random.default_rng(5)
    x, w, v = (rng.normal(0, 1, shape).astype(_HALF) for shape in ((2, 6, 9, 8), (8, 6, 3, 3), (5, 8, 1, 1)))
    nodes = [node("Conv", "x w", "c"), node("Relu", "c", "r"), node("Conv", "r v")]
    data = model(nodes, {"x": x}, {"w": w, "v": v}, kind=TensorProto.FLOAT16)
    known = {name: one.astype(np.float64) for name, one in (("x", x), ("w", w), ("v", v))}
    for made in nodes:
        known[made.output[0]] = _computed(made, known, 20)[0]
    assert_close(_run(data, {"x": x}, level=ort.GraphOptimizationLevel.ORT_ENABLE_ALL), known["y"].astype(_HALF))


def test_conversions_are_those_of_numpy() -> None:
    """Every float16 to float32, and numbers between two of float16, at halves, beyond the largest and back."""
    exact = _EVERY.astype(np.float32)
    data = model([node("Cast", "x", to=TensorProto.FLOAT)], {"x": _EVERY})
    np.testing.assert_array_equal(_run(data, {"x": _EVERY}), exact)
    ordered = np.sort(exact)
    middle = (ordered[1:] + ordered[:-1]) / 2
    rng = np.random.default_rng(6)
    x = np.concatenate(
        [exact, middle, np.nextafter(middle, np.inf), rng.normal(0, 1e5, 9999), [np.nan, np.inf, -np.inf]]
    )
    x = x.astype(np.float32)
    data = model([node("Cast", "x", to=TensorProto.FLOAT16)], {"x": x}, kind=TensorProto.FLOAT16)
    with np.errstate(all="ignore"):
        np.testing.assert_array_equal(_run(data, {"x": x}), x.astype(_HALF))


def test_a_processor_without_it_is_a_reason(monkeypatch: pytest.MonkeyPatch) -> None:
    for place in _PLACES:
        monkeypatch.setattr(place, lambda: False)
    x = np.ones((1, 8), _HALF)
    with _session(model([node("Add", "x x")], {"x": x}, kind=TensorProto.FLOAT16)) as session:
        (placed,) = session.placement.nodes
        assert "on processors that compute with it" in str(placed.refusals)
        np.testing.assert_array_equal(session.run(None, {"x": x})[0], x + x)
