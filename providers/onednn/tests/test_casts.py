"""Casts between floating types in regions: every element, on any number of threads, beside what else a region does."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import ml_dtypes
import numpy as np
import pytest
from onnx import TensorProto

from ort_py_onednn.binding.constants import F32, Element
from ort_py_onednn.binding.engine import engine
from ort_py_onednn.binding.half_floats import Conversion, converts
from providers.onednn.tests.checking import watched
from providers.onednn.tests.models import model, node, run_here

KINDS: dict[int, np.dtype[Any]] = {
    TensorProto.FLOAT16: np.dtype(np.float16),
    TensorProto.BFLOAT16: np.dtype(ml_dtypes.bfloat16),
}


@pytest.fixture(autouse=True)
def has_code() -> None:
    """Skip where other providers convert."""
    if not converts(engine().library, F32, Element.F16):
        pytest.skip("the CPU has no F16C, or the system allows no executable memory")


@pytest.mark.parametrize("threads", [1, 2, 3])
@pytest.mark.parametrize("kind", KINDS)
def test_a_cast_of_inputs_to_outputs(kind: int, threads: int) -> None:
    """Large enough for several threads, each of which takes what is left."""
    x = np.random.default_rng(1).standard_normal((5, 37, 911)).astype(np.float32)
    narrow = x.astype(KINDS[kind])
    (found,) = run_here(model([node("Cast", "x", "y", to=kind)], {"x": x}, kind=kind), {"x": x}, threads)
    assert np.array_equal(found.view(np.uint16), narrow.view(np.uint16))
    (found,) = run_here(model([node("Cast", "x", "y", to=TensorProto.FLOAT)], {"x": narrow}), {"x": narrow}, threads)
    assert np.array_equal(found, narrow.astype(np.float32))


@pytest.mark.parametrize("kind", KINDS)
def test_casts_between_other_operations_share_no_memory_with_what_is_read(kind: int) -> None:
    """What a region computes is checked byte by byte, also where its buffers lie apart."""
    x = np.random.default_rng(2).standard_normal((4, 64, 33)).astype(KINDS[kind])
    nodes = [
        node("Cast", "x", "a", to=TensorProto.FLOAT),
        node("Relu", "a", "b"),
        node("Cast", "b", "c", to=kind),
        node("Cast", "c", "d", to=TensorProto.FLOAT),
        node("Add", "d a", "e"),
        node("Transpose", "e", "f", perm=[1, 0, 2]),
        node("Cast", "f", "y", to=kind),
    ]
    with watched() as watch:
        (found,) = run_here(model(nodes, {"x": x}, kind=kind), {"x": x})
    assert watch.runs
    wide = x.astype(np.float32)
    wanted = (np.maximum(wide, 0) + wide).transpose(1, 0, 2).astype(KINDS[kind])
    np.testing.assert_array_equal(found.astype(np.float32), wanted.astype(np.float32))


def test_no_cast_runs_in_portable_code(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where oneDNN did not generate code for a Cast, the region's own runs."""
    made: list[Conversion] = []
    original = Conversion.calls

    def remember(self: Conversion, addresses: Mapping[int, int], threads: int) -> object:
        made.append(self)
        return original(self, addresses, threads)

    monkeypatch.setattr(Conversion, "calls", remember)
    monkeypatch.setattr("ort_py_onednn.binding.primitive.Primitive.is_tuned", False)
    x = np.ones((3, 50), np.float32)
    run_here(model([node("Cast", "x", "y", to=TensorProto.FLOAT16)], {"x": x}, kind=TensorProto.FLOAT16), {"x": x})
    assert {tuple(one.dtype for one in conversion.arguments.values()) for conversion in made} == {(F32, Element.F16)}
