"""ONNX's node cases with the fake device in front of the CPU provider: copies, waits, order and lifetimes are right.

The fake device proves nothing about results of its own; what is looked for here is poison, arrays on the wrong side
and reads before the work was done. Run with its own few operators and with the whole array library, as kernels and as
compiled regions.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

import ort_py
import ort_py_array
from ort_py.discovery import default_catalog
from ort_py.errors import KernelNotFoundError, NotImplemented  # noqa: A004 - the engine's class is meant
from ort_py_cpu.plugin import CpuProviderFactory
from ort_py_kit.backend_cases import compare, suite_cases
from ort_py_kit.fake_device import FakeBehaviour, FakeFactory

FAKE, CPU = "FakeExecutionProvider", "CPUExecutionProvider"
LIBRARY = ort_py_array.kernel_defs()
BEHAVIOURS = {
    "own kernels": (FakeBehaviour(), 500),
    "own regions": (FakeBehaviour(compiles=True), 500),
    "library kernels": (FakeBehaviour(kernels=LIBRARY), 1400),
    "library regions": (FakeBehaviour(kernels=LIBRARY, compiles=True), 1400),
}
"""What the fake device does, and in how many cases it must have taken part for the test to mean anything."""


NIGHTLY = {"library regions", "library kernels"}
"""The two others show in a third of the time most of what these show."""


@pytest.fixture(
    params=[pytest.param(name, marks=pytest.mark.nightly) if name in NIGHTLY else name for name in sorted(BEHAVIOURS)]
)
def least(request: pytest.FixtureRequest) -> Iterator[int]:
    """A registered fake device, and the number of cases it has to take part in."""
    behaviour, count = BEHAVIOURS[request.param]
    catalog = default_catalog()
    catalog.register_provider(FakeFactory(FAKE, behaviour))
    if catalog.record(CPU) is None:  # run from a source tree, nothing installed
        catalog.register_provider(CpuProviderFactory())
    yield count
    catalog.reset()


def options() -> ort_py.SessionOptions:
    """Small islands would not pay; nothing is folded away before the device sees it; no third one takes part."""
    chosen = ort_py.SessionOptions()
    chosen.pin_cpu = True
    chosen.cost_model = "always"
    chosen.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    return chosen


def outcome(case: Any) -> bool | None:
    """Run a case twice, without fallback. Returns whether the device took part, or None without a kernel for the
    operator.
    """
    try:
        session = ort_py.InferenceSession(case.model.SerializeToString(), options(), [FAKE, CPU], enable_fallback=0)
    except (KernelNotFoundError, NotImplemented):
        return None
    with session:
        for feeds, expected in case.data_sets():
            for _ in range(2):
                for got, want in zip(session.run(None, dict(feeds)), expected, strict=True):
                    compare(got, want, case)
        return FAKE in session.placement.counts()


@pytest.mark.slow
def test_every_node_case_is_right_with_a_device_in_front(least: int) -> None:
    """No case fails, and the device took part in most."""
    took_part = 0
    failures: list[str] = []
    for case in (case for case in suite_cases() if case.kind == "node"):
        try:
            took_part += bool(outcome(case))
        except Exception as error:
            failures.append(f"{case.name}: {type(error).__name__}: {str(error).strip()[:300]}")
    assert not failures, "\n".join(failures[:20])
    assert took_part >= least
