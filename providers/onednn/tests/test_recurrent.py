"""LSTM, GRU and RNN against onnxruntime: shapes, directions, layouts, states, peepholes, outputs left out."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np
import onnxruntime
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import ort_py as ort
from ort_py_kit.tolerances import assert_close
from providers.onednn.tests.models import PROVIDER, model, node, open_session, run_here, run_plain

GATES = {"LSTM": 4, "GRU": 3, "RNN": 1}

ROOT = Path(__file__).parents[3]
Array = np.ndarray[Any, Any]


def _layer(
    kind: str,
    *,
    time: int = 5,
    batch: int = 2,
    inputs: int = 3,
    hidden: int = 4,
    direction: str = "forward",
    layout: int = 0,
    bias: bool = True,
    states: bool = True,
    peephole: bool = False,
    wanted: tuple[bool, ...] = (True, True, True),
    dynamic: bool = False,
    **attributes: Any,
) -> tuple[bytes, dict[str, Array]]:
    """A model of one layer and its feeds."""
    rng = np.random.default_rng(0)
    directions, gates = 1 + (direction == "bidirectional"), GATES[kind]

    def draw(*shape: int) -> Array:
        # Weights of a size that keeps cells away from where their functions are flat.
        return np.asarray(rng.uniform(-1, 1, shape) * min(0.8, 2 / np.sqrt(shape[-1])), np.float32)

    constants: dict[str, Array] = {
        "w": draw(directions, gates * hidden, inputs),
        "r": draw(directions, gates * hidden, hidden),
    }
    feeds = {"x": draw(batch, time, inputs) if layout else draw(time, batch, inputs)}
    names = ["x", "w", "r", "-", "-", "-", "-", "-"]
    if bias:
        constants["b"] = draw(directions, 2 * gates * hidden)
        names[3] = "b"
    if states:
        shape = (batch, directions, hidden) if layout else (directions, batch, hidden)
        feeds["h"] = draw(*shape)
        names[5] = "h"
        if kind == "LSTM":
            feeds["c"] = draw(*shape)
            names[6] = "c"
    if peephole:
        constants["p"] = draw(directions, 3 * hidden)
        names[7] = "p"
    while names[-1] == "-":
        names.pop()
    titles = ("y", "yh", "yc")[: 3 if kind == "LSTM" else 2]
    outputs = [title if use else "" for title, use in zip(titles, wanted, strict=False)]
    if not any(outputs):
        outputs[0] = "y"
    made = node(kind, " ".join(names), "", hidden_size=hidden, direction=direction, layout=layout, **attributes)
    made.output.extend(outputs)
    return model([made], feeds, constants, [name for name in outputs if name], dynamic=dynamic), feeds


def _agree(data: bytes, feeds: dict[str, Array], threads: int = 1) -> None:
    expected = run_plain(data, feeds)
    for actual, wanted in zip(run_here(data, feeds, threads), expected, strict=True):
        np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=2e-6)


@settings(max_examples=60, deadline=None)
@given(
    kind=st.sampled_from(sorted(GATES)),
    direction=st.sampled_from(["forward", "reverse", "bidirectional"]),
    time=st.integers(1, 6),
    batch=st.integers(1, 4),
    inputs=st.integers(1, 20),
    hidden=st.integers(1, 20),
    bias=st.booleans(),
    states=st.booleans(),
    wanted=st.tuples(st.booleans(), st.booleans(), st.booleans()),
    reset=st.booleans(),
    peephole=st.booleans(),
)
def test_layers_agree(kind: str, reset: bool, peephole: bool, **choices: Any) -> None:
    """Any shape, direction and choice of optional inputs and outputs gives onnxruntime's numbers."""
    if kind == "GRU":
        choices["linear_before_reset"] = int(reset)
    if kind == "LSTM":
        choices["peephole"] = peephole
    _agree(*_layer(kind, **choices))


@pytest.mark.parametrize("kind", sorted(GATES))
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
def test_batches_first(kind: str, direction: str) -> None:
    """Layout 1 is layout 0 with time and batch exchanged, in every input and output; onnxruntime has only 0."""
    first, feeds = _layer(kind, direction=direction, layout=1)
    second, others = _layer(kind, direction=direction)
    exchanged = {name: np.ascontiguousarray(array.swapaxes(0, 1)) for name, array in feeds.items()}
    assert {name: array.shape for name, array in exchanged.items()} == {n: a.shape for n, a in others.items()}
    y, *states = run_here(first, feeds)
    wanted, *last = run_here(second, exchanged)
    np.testing.assert_allclose(y, wanted.transpose(2, 0, 1, 3), rtol=1e-5, atol=2e-6)
    for state, other in zip(states, last, strict=True):
        np.testing.assert_allclose(state, other.swapaxes(0, 1), rtol=1e-5, atol=2e-6)


@pytest.mark.parametrize("function", ["Tanh", "Relu", "Sigmoid", "LeakyRelu"])
def test_functions_of_plain_layers(function: str) -> None:
    """A plain recurrent layer may have another function, the same in both directions."""
    extra: dict[str, Any] = {"activation_alpha": [0.3, 0.3]} if function == "LeakyRelu" else {}
    _agree(*_layer("RNN", direction="bidirectional", activations=[function] * 2, **extra))


def test_sizes_of_real_models() -> None:
    """A layer that is large enough for two threads and blocked weights."""
    for kind in GATES:
        _agree(*_layer(kind, time=20, batch=3, inputs=96, hidden=64, direction="bidirectional"), threads=2)


def test_many_lengths_share_weights() -> None:
    """New lengths and batches are new plans of one region, and give the same as layers made for them."""
    data, _ = _layer("LSTM", direction="bidirectional", dynamic=True)
    with open_session(data) as session:
        for time, batch in ((5, 2), (1, 1), (9, 4), (5, 2)):
            _, feeds = _layer("LSTM", direction="bidirectional", time=time, batch=batch)
            for actual, wanted in zip(session.run(None, feeds), run_plain(data, feeds), strict=True):
                np.testing.assert_allclose(actual, wanted, rtol=1e-5, atol=2e-6)
        assert {found.provider for found in session.placement.nodes} == {PROVIDER}
        assert not session.fallback_report


def test_layers_in_a_row() -> None:
    """Directions side by side become channels of the next layer, as exporters write it."""
    rng = np.random.default_rng(1)
    constants = {
        "w0": rng.uniform(-0.5, 0.5, (2, 24, 5)),
        "r0": rng.uniform(-0.5, 0.5, (2, 24, 6)),
        "w1": rng.uniform(-0.5, 0.5, (1, 32, 12)),
        "r1": rng.uniform(-0.5, 0.5, (1, 32, 8)),
    }
    weights = {name: array.astype(np.float32) for name, array in constants.items()}
    nodes = [
        node("LSTM", "x w0 r0", "a", hidden_size=6, direction="bidirectional"),
        node("Transpose", "a", "b", perm=[0, 2, 1, 3]),
        node("Reshape", "b s", "c"),
        node("LSTM", "c w1 r1", "d h", hidden_size=8),
        node("Squeeze", "h axis", "y"),
    ]
    extra = {"s": np.array([0, 0, -1]), "axis": np.array([0])}
    feeds = {"x": rng.uniform(-1, 1, (7, 2, 5)).astype(np.float32)}
    _agree(model(nodes, feeds, {**weights, **extra}), feeds)


REFUSED: Mapping[str, tuple[str, dict[str, Any], str]] = {
    "clip": ("LSTM", {"clip": 1.0}, "clipped cells"),
    "coupled": ("LSTM", {"input_forget": 1}, "its input and forget gates are coupled"),
    "functions": ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}, "activations Sigmoid, Relu, Tanh"),
    "function": ("RNN", {"activations": ["Softsign"]}, "activations Softsign"),
    "differing": (
        "RNN",
        {"activations": ["Tanh", "Relu"], "direction": "bidirectional"},
        "its directions have different activations",
    ),
}


@pytest.mark.parametrize("name", sorted(REFUSED))
def test_refusals_say_why(name: str) -> None:
    """Variants that oneDNN's cells lack are left to others, with the reason in the placement report."""
    kind, attributes, reason = REFUSED[name]
    data, _ = _layer(kind, **attributes)
    assert _refusals(data) == [reason]


def _refusals(data: bytes) -> list[str]:
    with open_session(data) as session:
        return [why for found in session.placement.nodes for who, why in found.refusals if who == PROVIDER]


@pytest.mark.parametrize("kind", sorted(GATES))
def test_weights_without_elements_are_refused(kind: str) -> None:
    """A sequence of no features, of which only the number of axes is known: there is nothing to multiply."""
    feeds = {"x": np.zeros((5, 2, 0), np.float32)}
    constants = {
        "w": np.ones((1, GATES[kind] * 4, 0), np.float32),
        "r": np.ones((1, GATES[kind] * 4, 4), np.float32),
    }
    data = model([node(kind, "x w r", "y", hidden_size=4)], feeds, constants, dynamic=True)
    assert _refusals(data) == ["'w' has no elements"]
    with open_session(data) as session:
        assert session.run(None, feeds)[0].shape == (5, 1, 2, 4)
        assert not session.fallback_report


def _with_lengths(lengths: list[int]) -> bytes:
    feeds = {"x": np.ones((5, 2, 3), np.float32)}
    constants = {
        "w": np.ones((1, 16, 3), np.float32),
        "r": np.ones((1, 16, 4), np.float32),
        "l": np.array(lengths, np.int32),
    }
    return model([node("LSTM", "x w r - l", "y", hidden_size=4)], feeds, constants)


def test_lengths_of_whole_sequences_are_none() -> None:
    """Lengths are taken where they are constants that cut nothing off."""
    assert _refusals(_with_lengths([5, 5])) == []
    assert _refusals(_with_lengths([5, 3])) == ["its sequences have different lengths"]


@pytest.mark.parametrize("place", ["h", "- h"])
def test_one_initial_state_alone(place: str) -> None:
    """The other state of an LSTM begins with zeroes."""
    rng = np.random.default_rng(2)
    feeds = {"x": rng.random((5, 2, 3), np.float32), "h": rng.random((1, 2, 4), np.float32)}
    constants = {"w": rng.random((1, 16, 3), np.float32), "r": rng.random((1, 16, 4), np.float32)}
    _agree(model([node("LSTM", f"x w r - - {place}", "y", hidden_size=4)], feeds, constants), feeds)


def test_weights_that_are_inputs_are_refused() -> None:
    """Their gates are put in order once, when the region is compiled."""
    feeds = {
        "x": np.ones((5, 2, 3), np.float32),
        "w": np.ones((1, 4, 3), np.float32),
        "r": np.ones((1, 4, 4), np.float32),
    }
    assert _refusals(model([node("RNN", "x w r", "y", hidden_size=4)], feeds)) == ["input 1 is not a constant"]


def test_a_layer_pays_for_a_region() -> None:
    """Its steps are products: the default session gives it to oneDNN."""
    data, _ = _layer("GRU")
    with ort.InferenceSession(data, providers=["CPUExecutionProvider"]) as session:
        assert [found.provider for found in session.placement.nodes] == [PROVIDER]


@pytest.mark.parametrize("kind", GATES)
def test_a_sequence_of_one_row_may_come_from_a_convolution(kind: str) -> None:
    """Its dimensions of 1 have other strides than an array's. oneDNN takes the length of a row from one of them, and
    had no kernel then: the process ended."""
    rng = np.random.default_rng(6016625)
    constants = {
        "k": rng.uniform(-1, 1, (1, 16, 3)).astype(np.float32),
        "w": rng.uniform(-1, 1, (1, GATES[kind] * 8, 7)).astype(np.float32),
        "r": rng.uniform(-1, 1, (1, GATES[kind] * 8, 8)).astype(np.float32),
    }
    feeds = {"x": rng.uniform(-1, 1, (1, 16, 3)).astype(np.float32)}
    nodes = [
        node("Conv", "x k", "m", kernel_shape=[3], pads=[3, 3]),
        node(kind, "m w r", "y", hidden_size=8),
    ]
    data = model(nodes, feeds, constants, opset=17)
    for found, expected in zip(run_here(data, feeds), run_plain(data, feeds), strict=True):
        assert_close(found, expected)


@pytest.mark.parametrize("kind", GATES)
def test_an_empty_batch_inside_of_a_region(kind: str) -> None:
    """A Split may give a layer nothing. oneDNN divides by the batch, which ended the process."""
    rng = np.random.default_rng(7)
    constants = {
        "k": rng.uniform(-1, 1, (3, 3)).astype(np.float32),
        "parts": np.array([4, 0]),
        "w": rng.uniform(-1, 1, (1, GATES[kind] * 8, 3)).astype(np.float32),
        "r": rng.uniform(-1, 1, (1, GATES[kind] * 8, 8)).astype(np.float32),
    }
    nodes = [
        node("MatMul", "x k", "m"),
        node("Split", "m parts", "p q", axis=1),
        node(kind, "q w r", "y", hidden_size=8),
    ]
    feeds = {"x": rng.uniform(-1, 1, (5, 4, 3)).astype(np.float32)}
    data = model(nodes, feeds, constants, opset=17, outputs=("y", "p"))
    with open_session(data) as session:
        result, part = session.run(None, feeds)
    assert result.shape == (5, 1, 0, 8)
    assert_close(part, feeds["x"] @ constants["k"])


def narrow_work_on_two_threads() -> None:
    """Run layers whose work is for one thread in sessions of two, in a process of its own: it may end early."""
    for kind in ("LSTM", "GRU"):
        for inputs, hidden in ((80, 64), (54, 108), (64, 16)):
            made, feeds = _layer(kind, time=1, batch=3, inputs=inputs, hidden=hidden, states=False, dynamic=True)
            wanted = onnxruntime.InferenceSession(made).run(None, feeds)
            options = ort.SessionOptions()
            options.intra_op_num_threads = 2
            session = ort.InferenceSession(made, options, providers=[(PROVIDER, {"claim_small": True})])
            for _ in range(60):
                assert_close(session.run(None, feeds), wanted)


@pytest.mark.parametrize("isa", ["SSE41", "AVX", "AVX2"])
def test_weights_are_packed_by_as_many_threads_as_read_them(isa: str) -> None:
    """Packed weights have a part for each thread: more threads would write behind the end of what is for one."""
    code = "from providers.onednn.tests import test_recurrent; test_recurrent.narrow_work_on_two_threads()"
    environment = os.environ | {"ONEDNN_MAX_CPU_ISA": isa}
    done = subprocess.run(
        [sys.executable, "-c", code], cwd=ROOT, env=environment, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
