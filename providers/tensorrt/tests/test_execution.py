"""Engines and contexts alone, on the simulated GPU: what is asked of memory, and what becomes of contexts.

These tests need no library of TensorRT's: the engine is one of the stand-in's.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest

from ort_py.errors import EPFail
from ort_py_cuda.modules import cupy
from ort_py_tensorrt.execution import ContextSettings, Engine, load_engine
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.variants import RTX, TENSORRT
from providers.cuda.tests.stand_in.machine import Machine, Stream
from providers.tensorrt.tests.asking import request_of
from providers.tensorrt.tests.stand_in import StandInLibrary

TEXT = "g (float[N, 4] x) => (float[N, 4] y, float[N, 4] z) { y = Neg(x) z = Abs(x) }"
PLAN = b"an engine"


@pytest.fixture
def library(use_machine: Any) -> StandInLibrary:
    """The stand-in without the real library."""
    machine = Machine()
    use_machine(machine)
    made = StandInLibrary(machine)
    made.know(PLAN, request_of(TEXT))
    return made


@pytest.fixture
def stream(library: StandInLibrary) -> Stream:
    return Stream(library.machine, 0, library.machine.new_handle())


@pytest.fixture(params=[RTX, TENSORRT], ids=lambda one: one.module)
def engine(library: StandInLibrary, request: pytest.FixtureRequest) -> Iterator[Engine]:
    """The engine, for sizes from 2 to 8."""
    made = load_engine(Toolkit(request.param, library), PLAN, ContextSettings(cupy().empty))
    yield made
    made.close()


def _on_device(array: np.ndarray[Any, Any], offset: int = 0) -> Any:
    """Return an array of the device, that many bytes behind an aligned address."""
    raw = cupy().empty((array.nbytes + offset,), np.uint8)
    made = raw[offset:].view(array.dtype).reshape(array.shape)
    made[...] = cupy().asarray(array)
    return made


def _x(rows: int = 3) -> np.ndarray[Any, Any]:
    return np.random.default_rng(rows).normal(0, 1, (rows, 4)).astype(np.float32)


def _run(engine: Engine, stream: Stream, x: Any, outputs: list[Any]) -> list[Any]:
    context = engine.take()
    with stream:
        found = context.run([("x", x)], list(zip(("y", "z"), outputs, strict=True)), stream.ptr)
        stream.synchronize()
        arrays = [one.get() for one in found]
    engine.give(context)
    return [found, arrays]


@pytest.mark.parametrize("offset", [0, 64, 4])
def test_inputs_and_outputs_may_lie_anywhere(offset: int, engine: Engine, stream: Stream) -> None:
    """The library wants addresses that are multiples of 256, and the session's memory has multiples of 64."""
    x = _x()
    with stream:
        given = _on_device(x, offset)
        y, z = _on_device(np.zeros_like(x), offset), None
    found, (first, second) = _run(engine, stream, given, [y, z])
    assert found[0] is y
    np.testing.assert_array_equal(first, -x)
    np.testing.assert_array_equal(second, np.abs(x))


def test_copies_of_several_inputs_live_until_the_run(library: StandInLibrary, stream: Stream) -> None:
    """Otherwise one would lie in the memory of an output, or be poisoned."""
    plan = library.know(b"sum", request_of("g (float[N, 4] x, float[N, 4] w) => (float[N, 4] y) { y = Sub(x, w) }"))
    engine = load_engine(Toolkit(RTX, library), plan, ContextSettings(cupy().empty))
    context = engine.take()
    with stream:
        inputs = [("x", _on_device(_x(3), 64)), ("w", _on_device(_x(3) * 2, 64))]
        (found,) = context.run(inputs, [("y", None)], stream.ptr)
        stream.synchronize()
    np.testing.assert_array_equal(found.get(), -_x(3))
    engine.give(context)
    engine.close()


def test_an_output_of_another_shape_is_made(engine: Engine, stream: Stream) -> None:
    x = _x()
    with stream:
        given, wrong = _on_device(x), _on_device(np.zeros((2, 4), np.float32))
    found, (first, _) = _run(engine, stream, given, [wrong, None])
    assert found[0] is not wrong
    np.testing.assert_array_equal(first, -x)


@pytest.mark.parametrize("hides", [True, False])
def test_outputs_never_share_memory(hides: bool, library: StandInLibrary, engine: Engine, stream: Stream) -> None:
    """A second run leaves the first one's results alone."""
    library.hides_shapes = hides
    results = []
    for rows in (3, 3, 5):
        x = _x(rows)
        with stream:
            given = _on_device(x)
        results.append((x, _run(engine, stream, given, [None, None])[0]))
    for x, (y, z) in results:
        np.testing.assert_array_equal(y.get(), -x)
        np.testing.assert_array_equal(z.get(), np.abs(x))


def test_an_allocator_that_finds_no_memory_fails_the_run(
    library: StandInLibrary, engine: Engine, stream: Stream
) -> None:
    library.hides_shapes = True
    context = engine.take()
    with stream:
        x = _on_device(_x())
        library.machine.capacity = library.machine.held[0]
        with pytest.raises((EPFail, MemoryError)):
            context.run([("x", x)], [("y", None), ("z", None)], stream.ptr)
    engine.give(context, usable=False)


def test_a_shape_outside_of_the_profile_is_refused_in_the_librarys_words(engine: Engine, stream: Stream) -> None:
    context = engine.take()
    with stream, pytest.raises(EPFail, match=r"refuses the shape \(9, 4\) of 'x': x: \(9, 4\) is not in the profile"):
        context.run([("x", _on_device(_x(9)))], [("y", None), ("z", None)], stream.ptr)
    engine.give(context, usable=False)


def test_contexts_are_lent_again(engine: Engine) -> None:
    first = engine.take()
    second = engine.take()
    assert first is not second
    assert engine.lent == 2
    engine.give(first)
    assert engine.take() is first
    engine.give(first)
    engine.give(second)
    assert engine.lent == 0


def test_a_context_of_a_run_that_failed_is_not_lent_again(engine: Engine, library: StandInLibrary) -> None:
    first = engine.take()
    engine.give(first, usable=False)
    del first
    assert library.events == ["context gone"]
    second = engine.take()
    engine.give(second)


def test_a_context_has_scratch_memory_of_the_session(engine: Engine) -> None:
    context = engine.take()
    assert context.scratch_bytes == 4096
    engine.give(context)


def test_the_profile_is_the_engines(engine: Engine) -> None:
    (found,) = engine.profile(["x"]).ranges
    assert (found.least, found.largest) == ((2, 4), (8, 4))


def test_an_engine_that_does_not_load_says_why(library: StandInLibrary) -> None:
    with pytest.raises(EPFail, match="does not load an engine: the engine does not conform to the expected format"):
        load_engine(Toolkit(RTX, library), b"damaged", ContextSettings(cupy().empty))
