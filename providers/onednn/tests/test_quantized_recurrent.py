"""DynamicQuantizeLSTM against onnxruntime: types, scales, zero points, directions, states, batches, what is refused."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import onnx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ort_py_onednn.binding.dynamic_quantization import has_dynamic_quantization
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.features import has_exact_integers
from ort_py_onednn.binding.row_cells import has_row_cell
from ort_py_onednn.execution.plan import Plan
from ort_py_onednn.execution.repeat import Repeat
from providers.onednn.tests.models import PROVIDER, model, node, open_session, run_here, run_plain

Array = np.ndarray[Any, Any]

TOLERANCE = 2e-2
"""A sum on the other side of a tie, from another approximation of tanh, is one of 255 steps of the hidden state."""

_OUTPUTS = ("y", "yh", "yc")


def _layer(
    *,
    time: int = 7,
    batch: int = 1,
    inputs: int = 12,
    hidden: int = 16,
    direction: str = "forward",
    kind: str = "int8",
    by_column: bool = False,
    zeros: tuple[int, int] = (0, 0),
    bias: bool = True,
    states: bool = True,
    wanted: tuple[bool, ...] = (True, True, True),
    dynamic: bool = False,
    seed: int = 0,
    extra: Mapping[int, Array] | None = None,
    fed: str = "",
    **attributes: Any,
) -> tuple[bytes, dict[str, Array]]:
    """A model of one layer and its feeds; `extra` has more constants, by place, and `fed` names one that is fed."""
    rng = np.random.default_rng(seed)
    directions, columns = 1 + (direction == "bidirectional"), 4 * hidden
    # Of int8, 7 bits: with more of them onnxruntime's products saturate on processors with AVX2 only.
    low, high = (-64, 63) if kind == "int8" else (0, 255)
    shape = (directions, columns) if by_column else (directions,)
    constants: dict[str, Array] = {
        "w": rng.integers(low, high, (directions, inputs, columns), endpoint=True).astype(kind),
        "r": rng.integers(low, high, (directions, hidden, columns), endpoint=True).astype(kind),
    }
    names = ["x", "w", "r", *["-"] * 5]
    if bias:
        constants["b"] = rng.uniform(-0.2, 0.2, (directions, 2 * columns)).astype(np.float32)
        names[3] = "b"
    for side, zero, depth in (("w", zeros[0], inputs), ("r", zeros[1], hidden)):
        constants[f"{side}_scale"] = (
            rng.uniform(0.01, 0.02, shape) / np.sqrt(depth) * (2 if kind == "int8" else 1)
        ).astype(np.float32)
        # Of two directions, the second has another, but onnxruntime takes one for all columns only.
        points = zero + (zero != 0 and not by_column) * np.arange(directions)
        constants[f"{side}_zero"] = np.broadcast_to(points.reshape(-1, *[1] * by_column), shape).astype(kind)
        names += [f"{side}_scale", f"{side}_zero"]
    feeds = {"x": rng.normal(size=(time, batch, inputs)).astype(np.float32)}
    if states:
        for place, name in ((5, "h"), (6, "c")):
            feeds[name] = rng.uniform(-1, 1, (directions, batch, hidden)).astype(np.float32)
            names[place] = name
    for place, array in (extra or {}).items():
        names[place] = f"extra{place}"
        constants[names[place]] = array
    if fed:
        feeds[fed] = constants.pop(fed)
    outputs = [title if use else "" for title, use in zip(_OUTPUTS, wanted, strict=True)]
    made = node(
        "DynamicQuantizeLSTM",
        " ".join(names),
        "",
        domain="com.microsoft",
        hidden_size=hidden,
        direction=direction,
        **attributes,
    )
    made.output.extend(outputs)
    return model([made], feeds, constants, [name for name in outputs if name], dynamic=dynamic), feeds


def _agree(data: bytes, feeds: dict[str, Array], threads: int = 1) -> None:
    for actual, wanted in zip(run_here(data, feeds, threads), run_plain(data, feeds), strict=True):
        np.testing.assert_allclose(actual, wanted, atol=TOLERANCE)


@settings(max_examples=50, deadline=None)
@given(
    seed=st.integers(0, 1 << 30),
    direction=st.sampled_from(["forward", "reverse", "bidirectional"]),
    time=st.integers(1, 6),
    batch=st.sampled_from([1, 1, 2, 3]),
    inputs=st.integers(1, 20),
    hidden=st.integers(2, 20),
    kind=st.sampled_from(["int8", "uint8"]),
    by_column=st.booleans(),
    bias=st.booleans(),
    states=st.booleans(),
    wanted=st.tuples(st.booleans(), st.booleans(), st.booleans()).filter(any),
)
def test_layers_agree(kind: str, **choices: Any) -> None:
    """Any shape, direction, type and choice of optional inputs and outputs gives onnxruntime's numbers."""
    _agree(*_layer(kind=kind, zeros=(121, 130) if kind == "uint8" else (0, 0), **choices))


@pytest.mark.parametrize("zeros", [(3, 0), (0, -7), (-100, 90)])
@pytest.mark.parametrize("batch", [1, 2])
def test_zero_points_of_int8(zeros: tuple[int, int], batch: int) -> None:
    _agree(*_layer(direction="bidirectional", zeros=zeros, batch=batch))


def test_a_state_of_zeroes_stays_one() -> None:
    """A range of nothing has no scale to divide by."""
    data, feeds = _layer(states=False, bias=False)
    feeds["x"] = np.zeros_like(feeds["x"])
    for found in run_here(data, feeds):
        np.testing.assert_array_equal(found, 0)


def test_a_sequence_of_one_number() -> None:
    """There is nothing to reduce for its scale."""
    _agree(*_layer(time=1, inputs=1))


def test_sizes_of_real_models() -> None:
    """A layer whose products are large enough for two threads, for some lengths of one session."""
    choices: dict[str, Any] = {"inputs": 96, "hidden": 520, "direction": "bidirectional", "dynamic": True}
    data, _ = _layer(**choices)
    with open_session(data, 2) as session:
        for time, batch in ((9, 1), (3, 2), (9, 1)):
            _, feeds = _layer(time=time, batch=batch, **choices)
            for actual, wanted in zip(session.run(None, feeds), run_plain(data, feeds), strict=True):
                np.testing.assert_allclose(actual, wanted, atol=TOLERANCE)
        assert {found.provider for found in session.placement.nodes} == {PROVIDER} or not has_exact_integers()
        assert not session.fallback_report


def test_an_output_of_the_caller() -> None:
    """Parts write the value, and it is moved to the binding's array, also from one run to the next."""
    data, feeds = _layer(direction="bidirectional", wanted=(True, False, False))
    expected = run_plain(data, feeds)[0]
    with open_session(data) as session:
        for _ in range(2):
            binding = session.io_binding()
            target = np.full_like(expected, np.nan)
            for name, array in feeds.items():
                binding.bind_cpu_input(name, array)
            binding.bind_output("y", "cpu", 0, np.float32, list(target.shape), target.ctypes.data)
            session.run_with_iobinding(binding)
            np.testing.assert_allclose(target, expected, atol=TOLERANCE)


@pytest.mark.usefixtures("needs_exact_integers")
def test_a_longer_sequence_has_no_more_primitives(plans: list[Plan]) -> None:
    """The steps in time are one step of the plan; of both directions, too."""
    for time in (5, 50):
        data, feeds = _layer(time=time, direction="bidirectional", hidden=20)
        run_here(data, feeds)
    short, long = plans
    assert len(short.steps) == len(long.steps)
    repeats = [step.body for step in long.steps if isinstance(step, Repeat)]
    (body,) = [steps for steps in repeats if any(one.primitive is not None for one in steps)]
    counts = 7 if has_dynamic_quantization(engine().library, 20) else 10
    counts -= 3 if has_row_cell(engine().library) else 0
    assert sum(one.primitive is not None for one in body) == counts
    assert not any(one.primitive.is_reference for one in body if one.primitive is not None)


_OWN_STEPS = "own:steps:vnni"


@pytest.fixture
def needs_own_steps(plans: list[Plan]) -> None:
    """Skip where there is no code for all steps of a layer."""
    run_here(*_layer())
    if not _names(plans.pop()) & {_OWN_STEPS}:
        pytest.skip("this machine has no code of our own for all steps")


def _names(plan: Plan) -> set[str]:
    return {step.primitive.implementation for step in plan.steps if step.primitive is not None}


@pytest.mark.usefixtures("needs_exact_integers", "needs_own_steps")
@pytest.mark.parametrize(
    ("choices", "own"),
    [
        ({"hidden": 32}, True),
        ({"hidden": 20}, False),
        ({"batch": 2}, False),
        ({"zeros": (0, -100)}, False),
        ({"zeros": (-100, 0)}, True),
    ],
    ids=["blocks", "no whole blocks", "two rows", "a zero point of the state's weights", "one of the sequence's"],
)
def test_which_layers_are_one_call(plans: list[Plan], choices: dict[str, Any], own: bool) -> None:
    _agree(*_layer(direction="bidirectional", **choices))
    assert (_OWN_STEPS in _names(plans[-1])) == own


@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_the_number_of_threads_changes_nothing(direction: str) -> None:
    """A direction is computed by one thread."""
    data, feeds = _layer(hidden=64, time=9, direction=direction)
    for one, two in zip(run_here(data, feeds, 1), run_here(data, feeds, 2), strict=True):
        assert one.tobytes() == two.tobytes()


def test_several_callers_at_once() -> None:
    """Each has memory of its own for gates and bytes, and a team of its own."""
    data, feeds = _layer(hidden=64, time=40, direction="bidirectional")
    with open_session(data, 2) as session, ThreadPoolExecutor(3) as pool:
        expected = [array.tobytes() for array in session.run(None, feeds)]
        found = list(pool.map(lambda _: session.run(None, feeds), range(30)))
    assert all([array.tobytes() for array in one] == expected for one in found)


def test_states_that_are_parts_of_others() -> None:
    """They begin behind the address of what they are cut from."""
    data, feeds = _layer(hidden=32, direction="bidirectional")
    expected = run_here(data, feeds)
    proto = onnx.load_from_string(data)
    for name in ("h", "c"):
        feeds[name] = np.concatenate([np.full_like(feeds[name], 9), feeds[name]])
        (fed,) = [one for one in proto.graph.input if one.name == name]
        fed.type.tensor_type.shape.dim[0].dim_value = 4
        cut = onnx.helper.make_node("Slice", [name, "from", "to"], [f"{name}_cut"])
        proto.graph.node[-1].input[5 if name == "h" else 6] = f"{name}_cut"
        proto.graph.node.insert(0, cut)
    for name, number in (("from", 2), ("to", 4)):
        proto.graph.initializer.append(onnx.numpy_helper.from_array(np.array([number]), name))
    for actual, wanted in zip(run_here(proto.SerializeToString(), feeds), expected, strict=True):
        np.testing.assert_array_equal(actual, wanted)


REFUSED: Mapping[str, tuple[dict[str, Any], str]] = {
    "clip": ({"clip": 1.0}, "clipped cells"),
    "coupled": ({"input_forget": 1}, "its input and forget gates are coupled"),
    "functions": ({"activations": ["Sigmoid", "Relu", "Tanh"]}, "activations Sigmoid, Relu, Tanh"),
    "lengths": ({"extra": {4: np.array([4], np.int32)}}, "its sequences have different lengths"),
    "peepholes": ({"extra": {7: np.zeros((1, 48), np.float32)}}, "peepholes"),
    "weights": ({"fed": "w"}, "input 1 is not a constant"),
    "scale": ({"fed": "r_scale"}, "input 10 is not a constant"),
    "bias": ({"fed": "b"}, "input 3 is not a constant"),
    "columns": (
        {"kind": "uint8", "by_column": True, "extra": {11: np.arange(64, dtype=np.uint8)[None]}},
        "its weights minus the zero points of their columns need more than 8 bits",
    ),
    "small": ({"hidden": 1}, "its state has a single number"),
}


@pytest.mark.parametrize("case", sorted(REFUSED))
def test_what_is_refused(monkeypatch: pytest.MonkeyPatch, case: str) -> None:
    """With the reason, which is this one wherever products are exact; another provider runs it."""
    monkeypatch.setattr("ort_py_onednn.graph.support.recurrent.has_exact_integers", lambda: True)
    choices, reason = REFUSED[case]
    data, feeds = _layer(**choices)
    with open_session(data) as session:
        (found,) = session.placement.nodes
        assert found.provider != PROVIDER
        assert reason in str(found.refusals)
        if case == "columns":
            return  # nor does onnxruntime run it
        for actual, wanted in zip(session.run(None, feeds), run_plain(data, feeds), strict=True):
            np.testing.assert_allclose(actual, wanted, atol=TOLERANCE)
