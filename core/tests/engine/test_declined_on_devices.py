"""Regions on a device that decline a run: their nodes run on the host, and the values go there and back."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import pytest

import ort_py
from core.tests.small_models import model_bytes
from ort_py.contracts import (
    CompiledRegion,
    FrameResources,
    IExecutionProvider,
    ProviderFactory,
    RegionInstance,
    RegionView,
    RunDeclined,
    SessionContext,
)
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory, FakeProvider

NAME = "FakeExecutionProvider"
W = np.array([1, 2, 3], np.float32)
CHAIN = "g (float[N, 3] x) => (float[N, 3] y) <float[3] w = {1, 2, 3}> { a = Mul(x, w) b = Relu(a) y = Add(b, w) }"
AROUND = """g (float[N, 3] x) => (float[N, 3] y, int64[2] s) {
    a = Relu(x) b = Cast <to = 16> (a) c = Cast <to = 1> (b) y = Add(a, c) s = Shape(a)
}"""


class _Region(CompiledRegion):
    """Declines runs whose first input has two rows."""

    def __init__(self, region: CompiledRegion) -> None:
        self._region = region

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        return _Instance(self._region.instantiate(frame))

    @property
    def host_inputs(self) -> frozenset[int]:
        return self._region.host_inputs


class _Instance(RegionInstance):
    def __init__(self, instance: RegionInstance) -> None:
        self._instance = instance
        self._declines = False

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        self._declines = inputs[0].shape[0] == 2
        self._instance.bind(inputs, outputs)

    def __call__(self) -> Sequence[Any]:
        found = self._instance()
        if self._declines:
            raise RunDeclined("it has two rows")
        return found


class _Provider(FakeProvider):
    def compile(self, region: RegionView) -> CompiledRegion:
        return _Region(super().compile(region))


class _Factory(FakeFactory):
    def create(self, options: Mapping[str, Any], context: SessionContext) -> IExecutionProvider:
        return _Provider(self.owner, FakeBehaviour(compiles=True, cost_us=-math.inf), NAME)


def _open(text: str, register: Callable[[ProviderFactory], None]) -> ort_py.InferenceSession:
    register(_Factory(NAME))
    return ort_py.InferenceSession(model_bytes(text), providers=[NAME, "CPUExecutionProvider"])


def _x(rows: int) -> np.ndarray[Any, Any]:
    return np.random.default_rng(rows).standard_normal((rows, 3)).round(2).astype(np.float32)


def test_a_declined_run_is_answered_on_the_host(register: Callable[[ProviderFactory], None]) -> None:
    with _open(CHAIN, register) as session:
        for rows in (3, 2, 1, 2):
            x = _x(rows)
            expected = np.maximum(x * W, 0) + W
            np.testing.assert_array_equal(session.run(None, {"x": x})[0], expected)
        assert "declined 2 run(s)" in str(session.plan)
        assert session.placement.counts()[NAME] == 3


def test_neighbours_get_the_values_where_they_read_them(register: Callable[[ProviderFactory], None]) -> None:
    """Behind the region that declined are others, on the host and on the device."""
    with (
        _open(AROUND, register) as session,
        ort_py.InferenceSession(model_bytes(AROUND), providers=["CPUExecutionProvider"]) as plain,
    ):
        for rows in (2, 3, 2):
            ours, theirs = session.run(None, {"x": _x(rows)}), plain.run(None, {"x": _x(rows)})
            for left, right in zip(ours, theirs, strict=True):
                np.testing.assert_array_equal(left, right)


@pytest.mark.parametrize("rows", [2, 3])
def test_bindings_keep_the_result_on_the_device(register: Callable[[ProviderFactory], None], rows: int) -> None:
    with _open(CHAIN, register) as session:
        binding = session.io_binding()
        binding.bind_ortvalue_input("x", ort_py.OrtValue.ortvalue_from_numpy(_x(rows), "fake", 0))
        binding.bind_output("y", "fake", 0)
        session.run_with_iobinding(binding)
        (value,) = binding.get_outputs()
        assert value.device_name() == "fake"
        np.testing.assert_array_equal(value.numpy(), session.run(None, {"x": _x(rows)})[0])
