"""Other arithmetic than float32: what a session asks for, what a model is stored in, and what stays exact in both."""

from __future__ import annotations

import dataclasses
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from onnx import NodeProto, TensorProto

import ort_py as ort
from ort_py_kit.tolerances import assert_close, tolerance_of
from ort_py_onednn.binding.constants import F32, Argument, Element
from ort_py_onednn.binding.instructions import native_elements
from ort_py_onednn.binding.library import open_library
from ort_py_onednn.binding.primitive import Primitive
from ort_py_onednn.execution import arithmetic
from ort_py_onednn.execution.plan import Plan
from providers.onednn.tests.models import PROVIDER, model, node, open_session, run_here, run_plain

BF16 = np.dtype(ml_dtypes.bfloat16)
RNG = np.random.default_rng(21)


@pytest.fixture
def has_bfloat16() -> None:
    """For tests that compute in bfloat16."""
    if Element.BF16 not in native_elements(open_library().isa):
        pytest.skip("this CPU has no instructions for bfloat16: the provider computes in float32 and says so")


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(RNG.standard_normal(shape), np.float32)


def _short(*shape: int) -> np.ndarray[Any, Any]:
    """float32 numbers that bfloat16 holds exactly."""
    return _f(*shape).astype(BF16).astype(np.float32)


def _near(found: Sequence[Any], wanted: Sequence[Any], dtype: Any = BF16) -> None:
    """Within twice the tolerance of a type of the largest element."""
    relative, absolute = tolerance_of(np.dtype(dtype))
    for one, other in zip(found, wanted, strict=True):
        bound = 2 * max(relative, absolute) * float(np.abs(other).max())
        np.testing.assert_allclose(one.astype(np.float32), other, rtol=relative, atol=bound)


def _types(plan: Plan, code: int) -> list[Element]:
    """Type of one argument of each product, in order."""
    made = [step.primitive for step in plan.steps if step.primitive is not None]
    return [one.arguments[code].dtype for one in made if Argument.WEIGHTS in one.arguments]


# What a session asks for ----------------------------------------------------------------------------------------------

CHAIN = [
    node("Conv", "x w", "a", pads=[1, 1, 1, 1]),
    node("Relu", "a", "b"),
    node("Conv", "b v", "c", pads=[1, 1, 1, 1]),
    node("Add", "c b", "d"),
    node("GlobalAveragePool", "d", "p"),
    node("Flatten", "p", "f"),
    node("Gemm", "f g h", "y"),
]
WEIGHTS = {"w": _f(32, 3, 3, 3) / 8, "v": _f(32, 32, 3, 3) / 16, "g": _f(32, 10), "h": _f(10)}
PICTURE = {"x": _f(1, 3, 24, 24)}


@pytest.mark.usefixtures("has_bfloat16")
def test_products_run_in_bfloat16_and_the_last_writes_float32(plans: list[Plan]) -> None:
    """Inputs, outputs and the session's results keep the model's types; what a classifier says is not rounded."""
    data = model(CHAIN, PICTURE, WEIGHTS)
    (found,) = run_here(data, PICTURE, precision="bfloat16")
    assert found.dtype == np.float32
    (wanted,) = run_plain(data, PICTURE)
    _near([found], [wanted])
    assert not np.array_equal(found, run_here(data, PICTURE)[0])
    assert _types(plans[0], Argument.SRC) == [Element.BF16] * 3
    assert _types(plans[0], Argument.WEIGHTS) == [Element.BF16] * 3
    assert _types(plans[0], Argument.DST) == [Element.BF16, Element.BF16, F32]


def test_float32_is_the_default_and_rounds_nothing(plans: list[Plan]) -> None:
    """Without a request for another precision, no primitive has another type."""
    run_here(model(CHAIN, PICTURE, WEIGHTS), PICTURE)
    for step in plans[0].steps:
        if step.primitive is not None:
            kept = {code: desc.dtype for code, desc in step.primitive.arguments.items() if code != Argument.SCRATCHPAD}
            assert set(kept.values()) == {F32}


@pytest.mark.usefixtures("has_bfloat16")
def test_weights_take_two_bytes_each(plans: list[Plan]) -> None:
    """They are rounded as they are packed, and no form in float32 stays."""
    data = model([node("MatMul", "x w", "m"), node("MatMul", "m v", "y")], {"x": _f(8, 512)}, BIG := _big())
    with open_session(data, precision="bfloat16") as session:
        session.run(None, {"x": _f(8, 512)})
        constants = {
            buffer.data.nbytes for step in plans[0].steps for buffer in step.buffers.values() if buffer.data is not None
        }
    assert constants == {array.nbytes // 2 for array in BIG.values()}


def _big() -> dict[str, np.ndarray[Any, Any]]:
    return {"w": _f(512, 512), "v": _f(512, 512)}


@pytest.mark.usefixtures("has_bfloat16")
def test_scores_reach_a_softmax_in_float32(plans: list[Plan]) -> None:
    """An error of rounding before an exponential would multiply the result's error."""
    nodes = [node("MatMul", "x k", "s"), node("Softmax", "s", "p"), node("MatMul", "p v", "y")]
    feeds = {"x": _short(16, 64), "k": _short(64, 48), "v": _short(48, 32)}
    data = model(nodes, feeds)
    (found,) = run_here(data, feeds, precision="bfloat16")
    (wanted,) = run_plain(data, feeds)
    _near([found], [wanted])
    assert _types(plans[0], Argument.DST) == [F32, F32]


@pytest.mark.usefixtures("has_bfloat16")
def test_statistics_stay_float32(plans: list[Plan]) -> None:
    """A normalisation written out: its mean and its variance are not rounded to eight bits."""
    nodes = [
        node("MatMul", "x w", "h"),
        node("ReduceMean", "h a", "m"),
        node("Sub", "h m", "d"),
        node("Mul", "d d", "q"),
        node("ReduceMean", "q a", "v"),
        node("Add", "v e", "s"),
        node("Sqrt", "s", "r"),
        node("Div", "d r", "n"),
        node("MatMul", "n u", "y"),
    ]
    feeds = {"x": _f(24, 96)}
    constants = {"w": _f(96, 256), "u": _f(256, 8) / 16, "a": np.array([-1]), "e": np.array(1e-5, np.float32)}
    data = model(nodes, feeds, constants)
    found, wanted = run_here(data, feeds, precision="bfloat16"), run_plain(data, feeds)
    _near(found, wanted)
    reductions = [one for step in plans[0].steps if isinstance(one := step.primitive, Primitive) and _reduces(one)]
    assert reductions
    assert {one.arguments[Argument.DST].dtype for one in reductions} == {F32}


def _reduces(primitive: Primitive) -> bool:
    source, result = (primitive.arguments[code].dims for code in (Argument.SRC, Argument.DST))
    return result[-1] == 1 < source[-1]


@pytest.mark.usefixtures("has_bfloat16")
def test_the_providers_option_comes_before_the_sessions() -> None:
    """A session in float32 with one provider in bfloat16, and the other way round."""
    data = model(CHAIN, PICTURE, WEIGHTS)
    exact, short = run_here(data, PICTURE)[0], run_here(data, PICTURE, precision="bfloat16")[0]
    for asked, option, wanted in (
        ("bfloat16", "float32", exact),
        ("float32", "bfloat16", short),
        ("bfloat16", "", short),
    ):
        options = ort.SessionOptions()
        options.precision, options.intra_op_num_threads = asked, 1
        choice = [{"claim_small": True, "precision": option}, {}]
        with ort.InferenceSession(
            data, options, providers=[PROVIDER, "CPUExecutionProvider"], provider_options=choice
        ) as s:
            np.testing.assert_array_equal(s.run(None, PICTURE)[0], wanted)


def test_a_name_that_is_no_precision_is_refused() -> None:
    with pytest.raises(ort.errors.OrtPyError, match="bfloat16"):
        open_session(model(CHAIN, PICTURE, WEIGHTS), precision="bf16")


@st.composite
def convolutions(draw: st.DrawFn) -> tuple[tuple[int, ...], tuple[int, ...], dict[str, Any]]:
    """Shapes of a picture and of weights, and attributes."""
    group = draw(st.sampled_from([1, 1, 2, 4]))
    rank = draw(st.integers(1, 2))
    kernel = [draw(st.integers(1, 4)) for _ in range(rank)]
    inner, outer = draw(st.integers(1, 9)), draw(st.integers(1, 9))
    sizes = [draw(st.integers(width + 2, 14)) for width in kernel]
    attributes = {
        "group": group,
        "pads": [width // 2 for width in kernel] * 2,
        "strides": [draw(st.integers(1, 2))] * rank,
    }
    return (draw(st.integers(1, 2)), group * inner, *sizes), (group * outer, inner, *kernel), attributes


@pytest.mark.usefixtures("has_bfloat16")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(case=convolutions())
def test_convolutions_of_short_numbers_are_exact(case: tuple[Any, Any, dict[str, Any]]) -> None:
    """Products of bfloat16 numbers fit float32, in which they are summed: nothing is lost that float32 keeps."""
    feeds, weights = {"x": _short(*case[0])}, {"w": _short(*case[1])}
    data = model([node("Conv", "x w", "y", **case[2])], feeds, weights)
    assert_close(run_here(data, feeds, precision="bfloat16"), run_plain(data, feeds), context=str(case))


@pytest.mark.usefixtures("has_bfloat16")
@settings(max_examples=40, deadline=None, derandomize=True)
@given(
    sizes=st.tuples(*[st.integers(1, 40)] * 3),
    batch=st.lists(st.integers(1, 3), max_size=2),
    constant=st.booleans(),
)
def test_products_of_any_numbers_are_rounded_once_a_factor(
    sizes: tuple[int, int, int], batch: list[int], constant: bool
) -> None:
    """Each factor is off by 2⁻⁸ of itself at most, so a product by 2⁻⁷ of the sum of the absolute terms."""
    rows, depth, columns = sizes
    left = _f(*batch, rows, depth)
    right = _f(depth, columns) if constant else _f(*batch, depth, columns)
    feeds = {"a": left} if constant else {"a": left, "b": right}
    data = model([node("MatMul", "a b", "y")], feeds, {"b": right} if constant else {})
    (found,) = run_here(data, feeds, precision="bfloat16")
    bound = np.abs(left).astype(np.float64) @ np.abs(right) * 2**-6.99 + 1e-6
    assert (np.abs(found - left.astype(np.float64) @ right) <= bound).all()


# What the CPU has -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("isa", "bfloat16", "float16"),
    [
        (0x7, False, False),
        (0x1F, True, False),
        (0x67, False, False),
        (0xE7, True, False),
        (0x1EF, True, True),
        (0xFEF, True, True),
    ],
    ids=["AVX2", "AVX-NE-CONVERT", "VNNI", "AVX512_BF16", "AVX512_FP16", "AMX"],
)
def test_a_precision_needs_instructions(isa: int, bfloat16: bool, float16: bool) -> None:
    """Computing in numbers that a CPU has to emulate is slower than float32: refused, with what it lacks."""
    library = dataclasses.replace(open_library(), isa=isa)
    for name, wanted in (("bfloat16", bfloat16), ("float16", float16)):
        refusal = arithmetic.precision_refusal(name, library)
        assert (refusal is None) == wanted
        assert refusal is None or f"{name} needs AVX" in refusal
        expected = arithmetic.PRECISIONS[name] if wanted else F32
        assert arithmetic.product_type(name, library) is expected
    assert arithmetic.precision_refusal("float32", library) is None


@pytest.mark.parametrize("precision", ["bfloat16", "float16"])
def test_a_session_without_the_instructions_computes_in_float32_and_says_so(
    precision: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The reason is in the load report; the results are those of float32."""
    monkeypatch.setattr(arithmetic, "native_elements", lambda isa: frozenset({F32}))
    data = model(CHAIN, PICTURE, WEIGHTS)
    with open_session(data, precision=precision) as session:
        notes = [note for stage in session.load_report.stages for note in stage.notes]
        (note,) = [note for note in notes if note.startswith(f"{PROVIDER} leaves")]
        assert f"leaves float32 models in float32: {precision} needs AVX" in note
        assert "this CPU has" in note
        np.testing.assert_array_equal(session.run(None, PICTURE)[0], run_here(data, PICTURE)[0])


# What a model is stored in --------------------------------------------------------------------------------------------


def _stored(nodes: list[NodeProto], feeds: dict[str, Any], constants: dict[str, Any], dtype: Any) -> tuple[bytes, Any]:
    """A model in a type of half the bits, and what it gives for the same numbers in float32."""
    kind = TensorProto.BFLOAT16 if dtype == BF16 else TensorProto.FLOAT16

    def cast(arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: array.astype(dtype) if array.dtype == np.float32 else array for name, array in arrays.items()}

    def widened(arrays: dict[str, Any]) -> dict[str, Any]:
        return {name: array.astype(np.float32) if array.dtype == dtype else array for name, array in arrays.items()}

    short = model(nodes, cast(feeds), cast(constants), kind=kind, opset=22)
    return short, run_plain(model(nodes, widened(cast(feeds)), widened(cast(constants))), widened(cast(feeds)))


STORED = {
    "Conv": (CHAIN, PICTURE, WEIGHTS),
    "LayerNormalization": (
        [node("LayerNormalization", "x s b", "n"), node("MatMul", "n w", "y")],
        {"x": _f(12, 64)},
        {"s": _f(64), "b": _f(64), "w": _f(64, 24) / 8},
    ),
    "attention": (
        [
            node("MatMul", "q k", "s"),
            node("Softmax", "s", "p"),
            node("MatMul", "p v", "o"),
            node("Transpose", "o", "t", perm=[1, 0]),
            node("Add", "t r", "y"),
        ],
        {"q": _f(16, 32), "k": _f(32, 16), "v": _f(16, 8), "r": _f(8, 16)},
        {},
    ),
    "InstanceNormalization": (
        [node("Conv", "x w", "c"), node("InstanceNormalization", "c s b", "n"), node("Conv", "n v", "y")],
        {"x": 3 + _f(1, 4, 10, 10)},
        {"w": _f(16, 4, 3, 3) / 6, "s": _f(16), "b": _f(16), "v": _f(8, 16, 1, 1) / 4},
    ),
    "several heads": (
        [node("MultiHeadAttention", "q k v", "a", num_heads=4, domain="com.microsoft"), node("MatMul", "a w", "y")],
        {"q": _f(2, 9, 32), "k": _f(2, 11, 32), "v": _f(2, 11, 32)},
        {"w": _f(32, 16) / 6},
    ),
    "functions": (
        [
            node("MatMul", "x w", "a"),
            node("Gelu", "a", "b"),
            node("Concat", "b x", "c", axis=1),
            node("Slice", "c from to", "d"),
            node("Sigmoid", "d", "e"),
            node("Mul", "d e", "f"),
            node("ReduceMean", "f axis", "y"),
        ],
        {"x": _f(8, 16)},
        {"w": _f(16, 16) / 4, "from": np.array([0, 2]), "to": np.array([8, 30]), "axis": np.array([1])},
    ),
}


@pytest.mark.usefixtures("has_bfloat16")
@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", STORED)
def test_bfloat16_is_near_float32(name: str, threads: int) -> None:
    """Graphs of several operators, in the tolerance of one rounding of their largest numbers or two."""
    nodes, feeds, constants = STORED[name]
    data = model(nodes, feeds, constants)
    _near(run_here(data, feeds, threads, "bfloat16"), run_plain(data, feeds))


@pytest.mark.usefixtures("has_bfloat16")
@pytest.mark.parametrize("name", STORED)
def test_a_model_stored_in_bfloat16_runs_in_it(name: str) -> None:
    """All of it in regions, results in its own type."""
    nodes, feeds, constants = STORED[name]
    data, wanted = _stored(nodes, feeds, constants, BF16)
    found = run_here(data, {key: array.astype(BF16) for key, array in feeds.items()})
    assert found[0].dtype == BF16
    _near(found, wanted)


@pytest.mark.parametrize("name", STORED)
def test_a_model_stored_in_float16_runs_in_float32_where_there_is_nothing_else(name: str) -> None:
    """The core widens what a provider would emulate; what is left between two Casts is oneDNN's."""
    nodes, feeds, constants = STORED[name]
    data, wanted = _stored(nodes, feeds, constants, np.dtype(np.float16))
    with open_session(data) as session:
        products = [one for one in session.placement.nodes if one.op_type in {"Conv", "Gemm", "MatMul"}]
        assert {one.provider for one in products} == {PROVIDER}
        found = session.run(None, {key: array.astype(np.float16) for key, array in feeds.items()})
        assert not session.fallback_report
    assert found[0].dtype == np.float16
    _near(found, wanted, np.float16)


@pytest.mark.parametrize("dtype", [BF16, np.dtype(np.float16)], ids=str)
def test_casts_round_as_the_type_does(dtype: np.dtype[Any]) -> None:
    """There and back inside one region loses what the short type has no bits for, not less and not more."""
    kind = TensorProto.BFLOAT16 if dtype == BF16 else TensorProto.FLOAT16
    nodes = [
        node("Relu", "x", "r"),
        node("Cast", "r", "s", to=kind),
        node("Cast", "s", "t", to=TensorProto.FLOAT),
        node("Sub", "r t", "y"),
    ]
    feeds = {"x": _f(64, 64)}
    (found,) = run_here(model(nodes, feeds), feeds)
    positive = np.maximum(feeds["x"], 0)
    np.testing.assert_array_equal(found, positive - positive.astype(dtype).astype(np.float32))
    assert found.any()
    short = model([node("Cast", "x", "y", to=kind)], feeds, kind=kind)
    np.testing.assert_array_equal(run_here(short, feeds)[0], feeds["x"].astype(dtype))


@pytest.mark.usefixtures("has_bfloat16")
def test_shapes_may_change_between_runs() -> None:
    """Each set of shapes has a plan; all read the weights as they were packed first."""
    data = model(CHAIN, PICTURE, WEIGHTS, dynamic=True)
    with open_session(data, precision="bfloat16") as session:
        for _ in range(2):
            for size in (24, 9, 17):
                feeds = {"x": _f(1, 3, size, size + 1)}
                _near(session.run(None, feeds), run_plain(data, feeds))
        assert not session.fallback_report
