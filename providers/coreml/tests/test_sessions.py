"""Sessions: what is claimed, shapes that change, options, the cache, threads."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
import pytest
from onnx import NodeProto, TensorProto, helper

import ort_py as ort
from ort_py.errors import OptionError
from ort_py_coreml.runtime import Loading
from ort_py_kit.suites.threads import on_threads
from ort_py_kit.tolerances import assert_close
from providers.coreml.tests.cases import CASES
from providers.coreml.tests.mil_interpreter import InterpretedRuntime
from providers.coreml.tests.models import MICROSOFT, PROVIDER, model, node, open_session, run_plain
from providers.coreml.tests.networks import NETWORKS, cnn, few_bits

RNG = np.random.default_rng(11)


def _numbers(*shape: int) -> Any:
    return RNG.normal(0, 1, shape).astype(np.float32)


def _expected(data: bytes, feeds: dict[str, Any]) -> list[Any]:
    return list(onnxruntime.InferenceSession(data, providers=["CPUExecutionProvider"]).run(None, feeds))


@pytest.mark.parametrize("make", NETWORKS)
def test_a_model_runs_as_one_region(make: Any, interpreted: InterpretedRuntime) -> None:
    data, feeds = make()
    with open_session(data) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        assert len(interpreted.loads) == 1
        assert_close(session.run(None, feeds), _expected(data, feeds))
        assert not session.fallback_report


@pytest.mark.parametrize("make", NETWORKS)
def test_a_model_that_onnxruntime_optimised_runs_as_one_region(
    make: Any, interpreted: InterpretedRuntime, tmp_path: Path
) -> None:
    """It has operators of com.microsoft."""
    data, feeds = make()
    options = onnxruntime.SessionOptions()
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_ENABLE_EXTENDED
    options.optimized_model_filepath = str(tmp_path / "m.onnx")
    wanted = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds)
    with open_session((tmp_path / "m.onnx").read_bytes()) as session:
        assert {one.provider for one in session.placement.nodes} == {PROVIDER}
        assert_close(session.run(None, feeds), list(wanted))
        assert len(interpreted.loads) == 1


def test_sizes_may_change_with_each_run(interpreted: InterpretedRuntime) -> None:
    """One package takes them all, up to the largest size that it was made for."""
    data, _ = cnn()
    with open_session(data, max_dimension=64) as session:
        for batch, size in ((1, 5), (3, 64), (2, 9)):
            feeds = {"x": _numbers(batch, 3, size, 7)}
            assert_close(session.run(None, feeds), _expected(data, feeds))
        assert "declined" not in session.plan
        feeds = {"x": _numbers(1, 3, 65, 7)}
        assert_close(session.run(None, feeds), _expected(data, feeds))
        assert "declined 1 run(s)" in session.plan
        assert not session.fallback_report
    assert len(interpreted.loads) == 1


@pytest.mark.parametrize("given", [{"max_dimension": 0}, {"max_dimension": 2**31}, {"max_regions": -1}])
def test_numbers_out_of_range_are_refused(given: dict[str, int], interpreted: InterpretedRuntime) -> None:
    data, _ = cnn()
    with pytest.raises(OptionError, match=r"(?s)it counts from 1.*from 1 to 2147483647"):
        open_session(data, **given)


def test_unknown_sizes_can_be_left_to_others(interpreted: InterpretedRuntime) -> None:
    data, _ = cnn()
    with open_session(data, RequireStaticInputShapes=True) as session:
        assert PROVIDER not in session.placement.counts()
        reasons = {
            reason for one in session.placement.nodes for provider, reason in one.refusals if provider == PROVIDER
        }
    assert reasons
    assert all(reason.endswith("are not known, and RequireStaticInputShapes is set") for reason in reasons)
    data, feeds = cnn(dynamic=False)
    with open_session(data, RequireStaticInputShapes=True) as session:
        assert set(session.placement.counts()) == {PROVIDER}
        assert_close(session.run(None, feeds), _expected(data, feeds))


def test_small_regions_are_left_to_others(interpreted: InterpretedRuntime) -> None:
    data = model([node("Relu", "x")], {"x": _numbers(3, 4)})
    with open_session(data, claim_small=False) as session:
        (one,) = session.placement.nodes
        assert any("does not pay" in reason for _, reason in one.refusals)
    large = model([node("Relu", "x")], {"x": np.zeros((300, 300), np.float32)})
    with open_session(large, claim_small=False) as session:
        assert set(session.placement.counts()) == {PROVIDER}


@pytest.mark.parametrize("level", ["ORT_DISABLE_ALL", "ORT_ENABLE_ALL"])
def test_constants_are_left_to_others(level: str, interpreted: InterpretedRuntime) -> None:
    """Core ML takes no program whose output does not depend on an input."""
    nodes = [node("Transpose", "c", "t"), node("Identity", "t", "z"), node("Neg", "x", "y")]
    c = _numbers(3, 4)
    data = model(nodes, {"x": _numbers(2)}, {"c": c}, outputs=("y", "z"))
    options = ort.SessionOptions()
    options.graph_optimization_level = getattr(ort.GraphOptimizationLevel, level)
    with ort.InferenceSession(data, options, providers=[PROVIDER], provider_options=[{"claim_small": True}]) as session:
        _, found = session.run(None, {"x": _numbers(2)})
        np.testing.assert_array_equal(found, c.T)
        assert {one.provider for one in session.placement.nodes if one.op_type == "Neg"} == {PROVIDER}
        assert not session.fallback_report


@pytest.mark.parametrize(
    ("made", "constants", "shape", "reason"),
    [
        (node("Slice", "x s e a"), {"s": [7], "e": [5], "a": [1]}, (2, 9), "'y' is empty"),
        (
            node("Slice", "x s e a t"),
            {"s": [7], "e": [1], "a": [2], "t": [-2]},
            (2, 3, 9),
            "it goes backwards along a part of axis 2, whose size is not known",
        ),
        (node("Squeeze", "x a"), {"a": [2]}, (2, 3, 1), "it removes axes whose sizes are not known"),
        (
            node("Slice", "x s e a"),
            {"s": [0], "e": [5], "a": [2]},
            (2, 3, 9),
            "it cuts axis 2, whose size is not known, at a place that may be behind its end",
        ),
        (node("ReduceSum", "x"), {}, (), "its first input has no axes, and ReduceSum is written for some"),
        (
            node("GatherND", "x i"),
            {"i": [[0, 1, 2]]},
            (2, 3, 4),
            "the sizes of the axes that its indices name are not known",
        ),
        (node("Pad", "x p", mode="edge"), {"p": [1, 1, 1, 1]}, (2, 3), "it pads in mode edge"),
        (node("MaxPool", "x", kernel_shape=[3], dilations=[2]), {}, (1, 2, 9), "its window has gaps"),
        (
            node("MaxPool", "x", kernel_shape=[2], strides=[2], ceil_mode=1),
            {},
            (1, 2, 9),
            "it rounds sizes up that are not known",
        ),
        (
            node("AveragePool", "x", kernel_shape=[2], strides=[2], ceil_mode=1, count_include_pad=1),
            {},
            (1, 2, 9),
            "it rounds sizes up, and divides by elements of the padding",
        ),
        (
            node("GridSample", "x g", mode="nearest"),
            {},
            (1, 2, 3, 4),
            "its mode is nearest: Apple does not say which of two elements is nearest, and has no cubic mode",
        ),
        (
            node("GridSample", "x g", padding_mode="reflection"),
            {},
            (1, 2, 3, 4),
            "it reflects at the borders of the first and last elements, MIL at their centres",
        ),
        (
            node("Resize", "x - f", mode="linear", coordinate_transformation_mode="asymmetric"),
            {"f": [1, 1, 2, 2]},
            (1, 2, 3, 4),
            "sizes of its data are not known, and it has asymmetric coordinates",
        ),
        (
            node("Resize", "x - f"),
            {"f": [1, 1, 1.5, 2]},
            (1, 2, 4, 4),
            "it takes nearest elements, and its scales are not whole numbers",
        ),
        (
            node("AveragePool", "x", kernel_shape=[3], strides=[2]),
            {},
            (1, 2, 2),
            "its window is larger than its data",
        ),
        (node("MatMul", "x z"), {}, (3, 4), "an operand is a vector"),
        (node("Softmax", "x"), {}, (1, 1, 1, 1, 1, 2), "'x' has 6 axes; Core ML supports at most 5"),
        (
            node("GatherElements", "x i"),
            {"i": [[0], [1]]},
            (3, 4),
            "its indices have other sizes than its data on another axis than that of the indices",
        ),
    ],
)
def test_forms_that_core_ml_does_not_compute(
    made: NodeProto,
    constants: dict[str, list[Any]],
    shape: tuple[int, ...],
    reason: str,
    interpreted: InterpretedRuntime,
) -> None:
    """The node is left to another provider, and the reason says why."""
    feeds = {"x": _numbers(*shape)} | ({"z": _numbers(4)} if "z" in made.input else {})
    feeds |= {"g": _numbers(1, 5, 6, 2)} if "g" in made.input else {}
    given = {name: np.array(numbers, np.float32 if name == "f" else np.int64) for name, numbers in constants.items()}
    data = model([made], feeds, given, dynamic=frozenset({2}) if "not known" in reason else False)
    with open_session(data) as session:
        reasons = {why for one in session.placement.nodes for provider, why in one.refusals if provider == PROVIDER}
        assert reason in reasons
        assert_close(session.run(None, feeds), _expected(data, feeds))


@pytest.mark.parametrize("name", ["AveragePool", "MaxPool"])
def test_runs_with_windows_that_are_larger_than_the_data_are_left_to_others(
    name: str, interpreted: InterpretedRuntime
) -> None:
    """onnxruntime divides by the elements that there are, Core AI by those of the window."""
    nodes = [node("Conv", "x w", "a"), node(name, "a", kernel_shape=[3], strides=[2])]
    weights = {"w": _numbers(2, 2, 2)}
    data = model(nodes, {"x": _numbers(1, 2, 9)}, weights, dynamic=frozenset({2}))
    with open_session(data) as session:
        assert set(session.placement.counts()) == {PROVIDER}
        for size, declined in ((9, False), (3, True)):
            feeds = {"x": _numbers(1, 2, size)}
            assert_close(session.run(None, feeds), _expected(data, feeds))
            assert ("declined" in session.plan) is declined
        assert not session.fallback_report


def _reasons(session: ort.InferenceSession) -> set[str]:
    return {why for one in session.placement.nodes for provider, why in one.refusals if provider == PROVIDER}


@pytest.mark.parametrize(
    ("made", "feeds", "kind", "reason"),
    [
        (
            node("Add", "x x"),
            {"x": np.arange(3)},
            TensorProto.INT64,
            "it computes int64, and Core ML's integers are int32",
        ),
        (
            node("Cast", "x", to=TensorProto.INT64),
            {"x": np.ones(3, np.float32)},
            TensorProto.INT64,
            "it makes int64 of float32, which may be too large for int32, the only integers of Core ML",
        ),
        (
            node("Where", "c x z"),
            {"c": np.ones((2, 3), np.bool_), "x": np.ones((1, 3), np.float32), "z": np.zeros((1, 3), np.float32)},
            TensorProto.FLOAT,
            "its condition is larger than both values",
        ),
        (
            node("ArgMax", "x", select_last_index=1),
            {"x": np.ones((2, 3), np.float32)},
            TensorProto.INT64,
            "it gives the last of several equal elements",
        ),
        (
            node("Add", "x x"),
            {"x": np.ones(3)},
            TensorProto.DOUBLE,
            "'x' is double; float32, int32, int64 is supported",
        ),
    ],
)
def test_types_that_core_ml_does_not_compute(
    made: NodeProto, feeds: dict[str, Any], kind: int, reason: str, interpreted: InterpretedRuntime
) -> None:
    data = model([made], feeds, kind=kind)
    with open_session(data) as session:
        assert reason in _reasons(session)
        assert_close(session.run(None, feeds), _expected(data, feeds))


def test_integers_that_are_too_large_are_left_to_others(interpreted: InterpretedRuntime) -> None:
    """Core ML's integers are int32; constants of that kind are refused, and runs are declined."""
    data = model([node("Less", "x z")], {"x": np.arange(3), "z": np.arange(3)}, kind=TensorProto.BOOL)
    with open_session(data) as session:
        for last in (5, 2**31 - 1, 2**40):
            feeds = {"x": np.array([3, -1, last]), "z": np.array([3, 0, 7])}
            assert session.run(None, feeds)[0].tolist() == [False, True, last < 7]
        assert "declined 1 run(s)" in session.plan
        assert not session.fallback_report
    fixed = model([node("Less", "x z")], {"x": np.arange(3)}, {"z": np.array([2**31])}, kind=TensorProto.BOOL)
    with open_session(fixed) as session:
        assert "a number of 'z' is too large for int32, the only integers of Core ML" in _reasons(session)


def _shattered(parts: int) -> bytes:
    """Products with an operator between them that the provider does not take."""
    nodes = []
    for part in range(parts):
        nodes += [node("MatMul", f"x{part} w", f"a{part}"), node("CumSum", f"a{part} axis", f"x{part + 1}")]
    nodes.append(node("Identity", f"x{parts}", "y"))
    constants = {"w": np.eye(4, dtype=np.float32), "axis": np.array(0)}
    return model(nodes, {"x0": _numbers(3, 4)}, constants)


def test_a_graph_that_would_shatter_is_left_to_others(interpreted: InterpretedRuntime) -> None:
    """The reason names the operators that cut it."""
    with open_session(_shattered(3), max_regions=3, claim_small=False) as session:
        assert session.placement.counts()[PROVIDER] == 3
    with open_session(_shattered(4), max_regions=3, claim_small=False) as session:
        assert PROVIDER not in session.placement.counts()
        reasons = {dict(one.refusals).get(PROVIDER) for one in session.placement.nodes if one.op_type == "MatMul"}
    assert reasons == {
        "the graph would fall into 4 regions, and max_regions is 3; nodes that Core ML does not take: CumSum (4)"
    }


def test_operators_that_do_not_pay_are_not_said_to_cut_a_graph(interpreted: InterpretedRuntime) -> None:
    """They stay with others because they are small, between nodes that Core ML does not take."""
    nodes = []
    for part in range(4):
        nodes += [
            node("MatMul", f"x{part} w", f"a{part}"),
            node("CumSum", f"a{part} axis", f"b{part}"),
            node("Relu", f"b{part}", f"c{part}"),
            node("Mod", f"c{part} divisor", f"x{part + 1}", fmod=1),
        ]
    nodes.append(node("Identity", "x4", "y"))
    constants = {"w": np.eye(4, dtype=np.float32), "axis": np.array(0), "divisor": np.array(3, np.float32)}
    feeds = {"x0": _numbers(3, 4)}
    data = model(nodes, feeds, constants)
    with open_session(data, max_regions=3, claim_small=False) as session:
        assert PROVIDER not in session.placement.counts()
        reasons = {dict(one.refusals).get(PROVIDER) for one in session.placement.nodes if one.op_type == "MatMul"}
        assert_close(session.run(None, feeds), _expected(data, feeds))
    assert {reason.rpartition(": ")[2] for reason in reasons if reason} == {"CumSum (4), Mod (4)"}


def test_float16_is_computed_where_the_session_asks_for_it(interpreted: InterpretedRuntime) -> None:
    """Inputs and outputs of the package stay float32."""
    data, feeds = cnn(dynamic=False)
    options = ort.SessionOptions()
    options.precision = "float16"
    with ort.InferenceSession(data, options, providers=[PROVIDER], provider_options=[{"claim_small": True}]) as session:
        (found,) = session.run(None, feeds)
        assert found.dtype == np.float32
        assert not session.fallback_report
        np.testing.assert_allclose(found, _expected(data, feeds)[0], atol=1e-2)
        assert not np.array_equal(found, run_plain(data, feeds)[0])


def test_rows_that_look_at_nothing_are_zero_in_float16(interpreted: InterpretedRuntime) -> None:
    """There is no number for such scores that float16 and float32 share."""
    feeds = {name: _numbers(1, 2, 3, 4) for name in "xzu"} | {"m": np.array([[1, 0, 1], [0, 0, 0], [0, 1, 1]]) > 0}
    options = ort.SessionOptions()
    options.precision = "float16"
    data = model([node("Attention", "x z u m")], feeds, opset=23)
    with ort.InferenceSession(data, options, providers=[PROVIDER], provider_options=[{"claim_small": True}]) as session:
        (found,) = session.run(None, feeds)
        assert not session.fallback_report
    np.testing.assert_array_equal(found[:, :, 1], 0)
    np.testing.assert_allclose(found, _expected(data, feeds)[0], atol=1e-2)


def test_options_reach_core_ml(interpreted: InterpretedRuntime, tmp_path: Path) -> None:
    data, _ = cnn()
    more: dict[str, Any] = {
        "MLComputeUnits": "CPUAndGPU",
        "ModelCacheDirectory": str(tmp_path),
        "SpecializationStrategy": "FastPrediction",
        "AllowLowPrecisionAccumulationOnGPU": "1",
        "ProfileComputePlan": "1",
    }
    open_session(data, **more).close()
    assert interpreted.loads == [Loading("CPUAndGPU", str(tmp_path), "FastPrediction", True, True)]


@pytest.mark.parametrize(
    ("kind", "block", "axis"),
    [(ml_dtypes.int4, 0, 0), (ml_dtypes.uint4, 4, 0), (ml_dtypes.int4, 3, 1), (np.int8, 2, 0)],
)
def test_weights_of_few_bits(kind: Any, block: int, axis: int, interpreted: InterpretedRuntime) -> None:
    """Packages for macOS 15 have them as they are, those for macOS 14 as float32."""
    data, feeds = few_bits(kind, block, axis)
    options = onnxruntime.SessionOptions()  # onnxruntime would round the data of the product to 8 bits, too
    options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    wanted = list(onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"]).run(None, feeds))
    for system, operators in (("macOS15", {"DequantizeLinear", "MatMul"}), ("macOS14", {"MatMul"})):
        with open_session(data, deployment_target=system) as session:
            assert {one.op_type for one in session.placement.nodes if one.provider == PROVIDER} == operators
            assert_close(session.run(None, feeds), wanted)
            assert not session.fallback_report


@pytest.mark.parametrize("enabled", [False, True])
def test_bodies_are_taken_if_they_are_enabled(enabled: bool, interpreted: InterpretedRuntime) -> None:
    """They are left to others, as in onnxruntime, unless `EnableOnSubgraphs` is set."""
    result = helper.make_tensor_value_info("r", TensorProto.FLOAT, [3, 4])
    bodies = [helper.make_graph([node(name, "x", "r")], name, [], [result]) for name in ("Exp", "Neg")]
    feeds = {"c": np.array(True), "x": _numbers(3, 4)}
    data = model([node("If", "c", then_branch=bodies[0], else_branch=bodies[1])], feeds)
    with open_session(data, EnableOnSubgraphs=enabled) as session:
        assert_close(session.run(None, feeds), _expected(data, feeds))
    assert bool(interpreted.loads) is enabled


def test_wrong_options_are_refused(interpreted: InterpretedRuntime) -> None:
    data, _ = cnn()
    with pytest.raises(OptionError, match="MLComputeUnits"):
        open_session(data, MLComputeUnits="Everything")


def test_a_region_comes_back_from_the_cache(interpreted: InterpretedRuntime, tmp_path: Path) -> None:
    """Another session with other options does not get it."""
    data, feeds = cnn()
    options = ort.SessionOptions()
    options.cache_dir = str(tmp_path)
    found = []
    for more in ({}, {}, {"max_dimension": 32}):
        with ort.InferenceSession(
            data, options, providers=[PROVIDER], provider_options=[{"claim_small": True, **more}]
        ) as session:
            found.append(session.run(None, feeds))
    for one in found:
        assert_close(one, _expected(data, feeds))


def test_threads_take_turns(interpreted: InterpretedRuntime) -> None:
    data, feeds = cnn()
    wanted = _expected(data, feeds)
    with open_session(data) as session:

        def work(_: int) -> None:
            for _ in range(5):
                assert_close(session.run(None, feeds), wanted)

        on_threads(work, 3)


def test_arrays_that_are_read_only_or_reversed_are_taken(interpreted: InterpretedRuntime) -> None:
    """coremltools gives Core ML the memory of arrays, for which they have to be writable."""
    data, feeds = cnn(dynamic=False)
    fixed, turned = feeds["x"].copy(), feeds["x"][..., ::-1].copy()[..., ::-1]
    fixed.flags.writeable = False
    with open_session(data) as session:
        for given in (fixed, turned):
            assert_close(session.run(None, {"x": given}), _expected(data, feeds))
        assert not session.fallback_report


def test_closed_sessions_leave_no_packages(
    interpreted: InterpretedRuntime, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    data, feeds = cnn()
    with open_session(data) as session:
        session.run(None, feeds)
        assert list(tmp_path.glob("ort-py-coreml-*"))
    assert not list(tmp_path.glob("ort-py-coreml-*"))


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (node("GRU", "x w r", hidden_size=5, clip=1.0), "it clips the gates, or has the batch first"),
        (node("GRU", "x w r", hidden_size=5, activations=["Sigmoid", "Relu"]), "its activations are sigmoid, relu"),
    ],
)
def test_gated_units_that_core_ml_does_not_compute(
    made: NodeProto, reason: str, interpreted: InterpretedRuntime
) -> None:
    feeds = {"x": _numbers(4, 2, 3)}
    data = model([made], feeds, {"w": _numbers(1, 15, 3), "r": _numbers(1, 15, 5)})
    with open_session(data) as session:
        assert reason in _reasons(session)
        assert_close(session.run(None, feeds), _expected(data, feeds))


def test_a_layer_of_many_steps_without_a_function_of_its_own(interpreted: InterpretedRuntime) -> None:
    """Each step would become a dozen operators."""
    feeds = {"x": _numbers(65, 2, 3)}
    data = model([node("GRU", "x w r", hidden_size=5)], feeds, {"w": _numbers(1, 15, 3), "r": _numbers(1, 15, 5)})
    with open_session(data) as session:
        reason = "it resets the state before the product, MIL behind it, and it has not at most 64 steps"
        assert reason in _reasons(session)
        assert_close(session.run(None, feeds), _expected(data, feeds))


def test_images_of_any_size_are_resized(interpreted: InterpretedRuntime) -> None:
    """One package serves all sizes where each element becomes a whole number of them."""
    for mode in ("nearest", "linear"):
        x, factors = _numbers(2, 3, 4, 5), np.array([1, 1, 2, 3], np.float32)
        data = model([node("Resize", "x - f", mode=mode)], {"x": x}, {"f": factors}, dynamic=True)
        with open_session(data) as session:
            for height, width in ((4, 5), (1, 7), (3, 1)):
                feeds = {"x": _numbers(1, 3, height, width)}
                assert_close(session.run(None, feeds), _expected(data, feeds))
            assert set(session.placement.counts()) == {PROVIDER}
            assert "declined" not in session.plan


def test_sizes_that_another_provider_reads_stay_with_it(interpreted: InterpretedRuntime) -> None:
    """They would come back into the region, and cut it in two."""
    nodes = [
        node("MatMul", "x w", "a"),
        node("Shape", "a", "s"),
        node("RandomUniformLike", "s", "r", dtype=TensorProto.FLOAT),
        node("ReduceMin", "r", "z", keepdims=0),
        node("Mul", "z zero", "n"),
        node("Add", "a n", "y"),
    ]
    data = model(
        nodes, {"x": _numbers(3, 4)}, {"w": _numbers(4, 4), "zero": np.array(0, np.float32)}, dynamic=frozenset({0})
    )
    with open_session(data) as session:
        left = {one.op_type: dict(one.refusals).get(PROVIDER, "") for one in session.placement.nodes}
        assert left["Shape"].startswith("RandomUniformLike, which reads what follows from it, is left to another")


def test_readers_that_meet_again_are_asked_about_once(interpreted: InterpretedRuntime) -> None:
    """There are more than 2 ** 40 ways from the shape to the result."""
    nodes = [node("Shape", "x", "s"), node("Cast", "s", "v0", to=TensorProto.INT32)]
    for level in range(40):
        nodes += [
            node("Add", f"v{level} one", f"a{level}"),
            node("Mul", f"v{level} one", f"b{level}"),
            node("Sub", f"a{level} b{level}", f"c{level}"),
            node("Mul", f"c{level} v0", f"v{level + 1}"),
        ]
    nodes += [node("Cast", "v40", "z", to=TensorProto.FLOAT), node("ReduceSum", "z", "n"), node("Add", "x n", "y")]
    x = _numbers(3, 4)
    data = model(nodes, {"x": x}, {"one": np.array([1, 1], np.int32)}, dynamic=frozenset({0}))
    options = ort.SessionOptions()
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL  # else the chain is folded
    with ort.InferenceSession(data, options, providers=[(PROVIDER, {"claim_small": True})]) as session:
        assert set(session.placement.counts()) == {PROVIDER}
        assert_close(session.run(None, {"x": x}), [x + 7])


def test_attention_of_lengths_that_runs_give_is_refused(interpreted: InterpretedRuntime) -> None:
    """GroupQueryAttention: how long its presents are is said by a number of a run."""
    made = helper.make_node(
        "GroupQueryAttention", ["x", "z", "u", "", "", "n", "t"], ["y"], domain=MICROSOFT, num_heads=2, kv_num_heads=1
    )
    feeds = {"x": _numbers(1, 3, 32), "z": _numbers(1, 3, 16), "u": _numbers(1, 3, 16)}
    counts = {"n": np.array([2], np.int32), "t": np.array(3, np.int32)}
    data = model([made], feeds | counts)
    with open_session(data) as session:
        assert "the lengths of its sequences come with each run, not with the model" in _reasons(session)
        assert_close(session.run(None, feeds | counts), _expected(data, feeds | counts))


_SEQUENCES = [
    name
    for name, case in CASES.items()
    if case.nodes[0].op_type in {"Attention", "EmbedLayerNormalization", "MultiHeadAttention", "RotaryEmbedding"}
]
_OPEN = {1: (0,), 2: (0, 1), 3: (0, 1), 4: (0, 2), 5: (1, 3)}
"""Axes of sequences and their lengths, by the number of all axes."""


@pytest.mark.parametrize("name", _SEQUENCES)
def test_sequences_whose_number_and_length_a_run_gives(name: str, interpreted: InterpretedRuntime) -> None:
    case = CASES[name]
    feeds = case.feeds()
    proto = onnx.load_from_string(case.model())
    for value in proto.graph.input:
        sizes = value.type.tensor_type.shape.dim
        for axis in _OPEN[len(sizes)]:
            sizes[axis].dim_param = f"{value.name}{axis}"
    data = proto.SerializeToString()
    with open_session(data) as session:
        assert_close(session.run(None, feeds), _expected(data, feeds))
        assert "declined" not in session.plan
        assert not session.fallback_report
        left = {why for one in session.placement.nodes for provider, why in one.refusals if provider == PROVIDER}
    assert left <= {
        "its mask is neither a number for each key nor, for as many sequences as there are, the length of each",
        "its mask may be shorter than the keys, which version 24 allows",
    }


def test_a_mask_for_other_keys_is_an_error(interpreted: InterpretedRuntime) -> None:
    """The engine checks it before Core ML would repeat it."""
    made = helper.make_node("Attention", ["x", "w", "b", "m"], ["y"], domain=MICROSOFT, num_heads=2)
    feeds = {"x": _numbers(2, 5, 8), "m": np.ones((2, 5), np.int32)}
    data = model([made], feeds, {"w": _numbers(8, 24), "b": _numbers(24)}, dynamic=frozenset({1}))
    with open_session(data) as session:
        assert set(session.placement.counts()) == {PROVIDER}
        assert_close(session.run(None, feeds), _expected(data, feeds))
        with pytest.raises(Exception, match="mask"):
            session.run(None, feeds | {"m": np.ones((2, 4), np.int32)})


def test_a_cache_grows_with_each_run(interpreted: InterpretedRuntime) -> None:
    """One package serves a decoder's steps: the causal mask begins where the cache ends."""
    made = [
        node("Attention", "x z u - p q", "a r s", is_causal=1),
        node("Identity", "a", "y"),
    ]
    feeds = {name: _numbers(1, 2, rows, 4) for name, rows in zip("xzupq", (3, 3, 3, 1, 1), strict=True)}
    data = model(made, feeds, outputs=("y", "r", "s"), opset=23, dynamic=frozenset({2}))
    with open_session(data) as session:
        for rows in (3, 1, 1, 2):
            feeds |= {name: _numbers(1, 2, rows, 4) for name in "xzu"}
            found = session.run(None, feeds)
            assert_close(found, _expected(data, feeds))
            feeds |= {"p": found[1], "q": found[2]}
        assert set(session.placement.counts()) == {PROVIDER}
        assert "declined" not in session.plan
    assert len(interpreted.loads) == 1


@pytest.mark.parametrize(
    ("made", "reason"),
    [
        (
            helper.make_node(
                "MultiHeadAttention", ["x"] * 3 + [""] * 3 + ["p", "p", "n"], ["y"], domain=MICROSOFT, num_heads=2
            ),
            "it writes to a buffer of its cache, whose used length comes with each run",
        ),
        (
            helper.make_node("Attention", ["x"] * 3, ["r", "", "", "y"], q_num_heads=2, kv_num_heads=2),
            "it gives its scores",
        ),
        (
            helper.make_node("Attention", ["x"] * 3, ["y"], q_num_heads=2, kv_num_heads=2, is_causal=1, softcap=2.0),
            "it limits scores and masks them, in an order that versions of ONNX have changed",
        ),
    ],
)
def test_attention_that_core_ml_does_not_compute(made: NodeProto, reason: str, interpreted: InterpretedRuntime) -> None:
    feeds: dict[str, Any] = {"x": _numbers(1, 3, 8), "p": _numbers(1, 2, 4, 4), "n": np.array([2], np.int32)}
    data = model([made], {name: feeds[name] for name in feeds if name in made.input}, opset=23)
    with open_session(data) as session:
        assert reason in _reasons(session)


def _layer(directions: int = 1, **attributes: Any) -> tuple[NodeProto, dict[str, Any]]:
    made = node("LSTM", "x w r", hidden_size=5, **attributes)
    return made, {"w": _numbers(directions, 20, 3), "r": _numbers(directions, 20, 5)}


@pytest.mark.parametrize(
    ("attributes", "reason"),
    [
        ({"activations": ["Sigmoid", "Relu", "Tanh"]}, "its activations are sigmoid, relu, tanh"),
        ({"clip": 1.0}, "it clips the gates, which MIL does differently"),
        ({"input_forget": 1}, "it couples gates, or has the batch first"),
        ({}, "it has no initial state, and the size of the batch is not known"),
    ],
)
def test_layers_that_core_ml_does_not_compute(
    attributes: dict[str, Any], reason: str, interpreted: InterpretedRuntime
) -> None:
    made, weights = _layer(**attributes)
    feeds = {"x": _numbers(4, 2, 3)}
    data = model([made], feeds, weights, dynamic=frozenset() if attributes else frozenset({1}))
    with open_session(data) as session:
        reasons = {why for one in session.placement.nodes for provider, why in one.refusals if provider == PROVIDER}
        assert reason in reasons
        assert_close(session.run(None, feeds), _expected(data, feeds))
