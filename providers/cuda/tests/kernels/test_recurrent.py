"""RNN, GRU and LSTM through cuDNN: gates in its order, directions, layouts and states as ONNX has them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from ort_py_array import kernel_defs
from ort_py_cuda.kernels.recurrent import KERNELS
from ort_py_kit.kernel_runner import run_kernel
from providers.cuda.tests.cudnn.on_host import Host, close, cudnn_on_host

STEPS, BATCH, INPUTS, HIDDEN = 6, 3, 4, 5
GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """cuDNN on the host."""
    return cudnn_on_host(monkeypatch)


def _inputs(kind: str, directions: int, layout: int, *, bias: bool = True, states: bool = True) -> list[Any]:
    rng = np.random.default_rng(51)

    def values(*shape: int) -> Any:
        return (rng.standard_normal(shape) * 0.5).astype(np.float32)

    x, rows = values(STEPS, BATCH, INPUTS), GATES[kind] * HIDDEN
    w, r, b = values(directions, rows, INPUTS), values(directions, rows, HIDDEN), values(directions, 2 * rows)
    state = [values(directions, BATCH, HIDDEN) for _ in range(2 if kind == "LSTM" else 1)]
    if layout:
        x, state = np.ascontiguousarray(x.swapaxes(0, 1)), [np.ascontiguousarray(s.swapaxes(0, 1)) for s in state]
    return [x, w, r, b if bias else None, None, *(state if states else [])]


_CELLS: list[tuple[str, dict[str, Any]]] = [
    ("LSTM", {}),
    ("GRU", {"linear_before_reset": 1}),
    ("RNN", {}),
    ("RNN", {"activations": ["Relu", "Relu"]}),
]


@pytest.mark.parametrize(("kind", "attributes"), _CELLS)
@pytest.mark.parametrize("direction", ["forward", "reverse", "bidirectional"])
@pytest.mark.parametrize("layout", [0, 1])
@pytest.mark.parametrize("constant", [False, True])
@pytest.mark.parametrize("refused", [False, True])
def test_layers(
    refused: bool, constant: bool, layout: int, direction: str, kind: str, attributes: dict[str, Any], host: Host
) -> None:
    """All outputs agree with the array library's, also where cuDNN refuses after weights were packed."""
    directions = 2 if direction == "bidirectional" else 1
    options: dict[str, Any] = {"outputs": 3 if kind == "LSTM" else 2, "hidden_size": HIDDEN, "direction": direction}
    options |= {"layout": layout, **attributes}
    if refused:
        host.library.statuses["cudnnRNNForward"] = 3000
    for with_states in (False, True):
        inputs = _inputs(kind, directions, layout, bias=with_states, states=with_states)
        expected = run_kernel(kernel_defs(), kind, inputs, **options)
        found = host.run(KERNELS, kind, inputs, constants=[1, 2, *([3] if with_states else [])] * constant, **options)
        for one, other in zip(found, expected, strict=True):
            assert one.flags.c_contiguous
            close(one, other, "float32")
    assert host.executed == ([] if refused else ["recurrent"] * 2)


@pytest.mark.parametrize(("constants", "blocks"), [([1, 2, 3], 1), ([], 3)])
def test_weights_are_put_in_order_once(constants: list[int], blocks: int, host: Host) -> None:
    """Where they are constant, runs only read the block; else it is made for each run."""
    call, arrays = host.kernel(
        KERNELS, "LSTM", _inputs("LSTM", 1, 0), outputs=3, hidden_size=HIDDEN, constants=constants
    )
    for _ in range(3):
        call(*arrays)
    asked = host.library.calls.count("cudnnGetRNNWeightParams")
    assert asked == blocks * 2 * GATES["LSTM"]
    assert host.library.calls.count("cudnnSetRNNDescriptor_v8") == 1


@pytest.mark.parametrize(
    ("kind", "attributes"),
    [
        ("GRU", {}),  # resets before the product
        ("LSTM", {"clip": 1.0}),
        ("LSTM", {"input_forget": 1}),
        ("LSTM", {"activations": ["Sigmoid", "Relu", "Tanh"]}),
        ("RNN", {"activations": ["Sigmoid"]}),
    ],
)
def test_cells_that_cudnn_lacks_are_the_librarys(kind: str, attributes: dict[str, Any], host: Host) -> None:
    """Other activations, bounds, coupled gates, and ONNX's own GRU."""
    inputs = _inputs(kind, 1, 0)
    options: dict[str, Any] = {"outputs": 3 if kind == "LSTM" else 2, "hidden_size": HIDDEN, **attributes}
    expected = run_kernel(kernel_defs(), kind, inputs, **options)
    for one, other in zip(host.run(KERNELS, kind, inputs, **options), expected, strict=True):
        close(one, other, "float32")
    assert host.executed == []


def test_lengths_and_peepholes_are_the_librarys(host: Host) -> None:
    """Sequences of several lengths end where each says; peepholes look at the cell."""
    rng = np.random.default_rng(52)
    plain = _inputs("LSTM", 1, 0)
    lengths = [*plain[:4], np.array([6, 2, 4], np.int32), *plain[5:]]
    peepholes = [*plain, rng.standard_normal((1, 3 * HIDDEN)).astype(np.float32)]
    for inputs in (lengths, peepholes):
        expected = run_kernel(kernel_defs(), "LSTM", inputs, outputs=3, hidden_size=HIDDEN)
        found = host.run(KERNELS, "LSTM", inputs, outputs=3, hidden_size=HIDDEN)
        for one, other in zip(found, expected, strict=True):
            close(one, other, "float32")
    assert host.executed == []


def test_without_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    """And where a version lacks a type while weights are packed: the array library computes."""
    inputs = _inputs("LSTM", 1, 0)
    expected = run_kernel(kernel_defs(), "LSTM", inputs, outputs=3, hidden_size=HIDDEN)
    shut = cudnn_on_host(monkeypatch, with_library=False)
    close(shut.run(KERNELS, "LSTM", inputs, outputs=3, hidden_size=HIDDEN)[0], expected[0], "float32")
    refusing = cudnn_on_host(monkeypatch)
    refusing.library.statuses["cudnnSetRNNDescriptor_v8"] = 3003
    found = refusing.run(KERNELS, "LSTM", inputs, outputs=3, hidden_size=HIDDEN, constants=[1, 2, 3])
    close(found[0], expected[0], "float32")
    assert refusing.executed == []
