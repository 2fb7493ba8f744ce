"""Convolutions by the older calls: which algorithm is taken, and what is refused. Values: see the kernels' tests."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from ort_py_cuda.cudnn import legacy
from ort_py_cuda.cudnn.choice import Choice
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.graphs import Activation, Tensor, WindowOf, channels_first
from ort_py_cuda.settings import Settings
from providers.cuda.tests.cudnn.host_module import to_device
from providers.cuda.tests.cudnn.on_host import Host, cudnn_on_host

_X, _W, _Y = (
    Tensor(name, dims, channels_first(dims), "float32")
    for name, dims in (("x", (1, 2, 4, 4)), ("w", (3, 2, 2, 2)), ("y", (1, 3, 3, 3)))
)
_WINDOW = WindowOf((1, 1), (1, 1), (0, 0), (0, 0))


@pytest.fixture
def host(monkeypatch: pytest.MonkeyPatch) -> Host:
    """cuDNN on the host."""
    return cudnn_on_host(monkeypatch)


def _convolution(host: Host) -> legacy.Convolution:
    return legacy.Convolution(host.binding, _X, _W, _Y, _WINDOW, 1)


def _run(host: Host, choice: Choice) -> None:
    call = _convolution(host)
    arrays = [to_device(np.ones(one.dims, np.float32)) for one in (_X, _W, _Y)]
    addresses = [one.data.ptr for one in arrays]
    call.choose(host.xp, 0, addresses, choice)
    call(host.xp, 0, addresses)


def test_the_first_that_works_is_taken(host: Host) -> None:
    """The list is ranked; entries with a status of their own do not count."""
    _run(host, Choice())
    assert host.executed == ["convolution 1"]
    assert host.library.found == ["forward"]


def test_a_bound_on_scratch_memory_and_determinism(host: Host) -> None:
    """The first asks for twice the memory and differs from run to run."""
    _run(host, Choice(workspace=host.library.scratch))
    _run(host, Choice(deterministic=True))
    assert host.executed == ["convolution 0"] * 2


def test_math_is_that_of_the_algorithm(host: Host) -> None:
    """An entry holds for its own kind of math; float32 that must stay float32 takes none of them."""
    x, w, y = (replace(one, dtype="float16") for one in (_X, _W, _Y))
    legacy.Convolution(host.binding, x, w, y, _WINDOW, 1).choose(host.xp, 0, [0, 0, 0], Choice())
    _convolution(host).choose(host.xp, 0, [0, 0, 0], Choice())
    assert host.library.math == [1, host.library.entry_math, 3]


def test_an_algorithm_that_serves_nothing_after_all(host: Host) -> None:
    """The library is asked for its memory with the math that it will run with; the next one may serve."""
    host.library.unsized = {1}
    _run(host, Choice())
    assert host.executed == ["convolution 0"]


def test_sizes_beyond_an_int_are_refused(host: Host) -> None:
    large = replace(_X, strides=(2**31, 16, 4, 1))
    with pytest.raises(Unsupported, match="32 bits"):
        legacy.Convolution(host.binding, large, _W, _Y, _WINDOW, 1)


def test_nothing_within_the_bounds(host: Host) -> None:
    """Then it is another's to compute."""
    with pytest.raises(Unsupported, match="no algorithm"):
        _run(host, Choice(workspace=1))


def test_timing_asks_the_library(host: Host) -> None:
    """EXHAUSTIVE times algorithms on the arrays; not while a stream is captured."""
    _run(host, Choice.of(Settings(convolution_search="EXHAUSTIVE")))
    host.xp.capturing = True
    _run(host, Choice(timed=True))
    assert host.library.found == ["forward", "timed forward", "forward"]


@pytest.mark.parametrize(("search", "timed"), [("EXHAUSTIVE", True), ("HEURISTIC", False), ("DEFAULT", False)])
def test_choices_of_a_session(search: str, timed: bool) -> None:
    """onnxruntime's three words are two ways of choosing."""
    found = Choice.of(Settings(convolution_search=search, convolution_workspace=9, deterministic=True))
    assert found == Choice(timed, 9, True)


def test_scratch_memory_and_stream(host: Host) -> None:
    """The stream is set before the call, and the memory outlives it."""
    host.xp.stream = 31
    _run(host, Choice())
    order = [what for what in host.xp.order if what[0] != "stream"]
    assert [what[0] for what in order] == ["allocated", "execute", "freed"]
    assert order[1][2] == 31


def test_unequal_padding_is_refused(host: Host) -> None:
    """The kernels pad explicitly where sides differ."""
    uneven = WindowOf((1, 1), (1, 1), (0, 0), (1, 0))
    with pytest.raises(Unsupported, match="pad both sides alike"):
        legacy.Convolution(host.binding, _X, _W, _Y, uneven, 1)


def test_activations_without_a_mode_are_refused(host: Host) -> None:
    """A Clip from zero is a clipped ReLU, any other is not."""
    assert legacy.activation_mode(Activation("Clip", low=0.0, high=6.0)) == (3, 6.0)
    assert legacy.activation_mode(Activation("Clip", low=-1.0, high=6.0)) is None
    with pytest.raises(Unsupported, match="no activation LeakyRelu"):
        legacy.Finish(host.binding, _Y, None, None, Activation("LeakyRelu", 0.1))
