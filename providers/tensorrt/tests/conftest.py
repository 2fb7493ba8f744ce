"""Fixtures of this provider's tests: TensorRT-RTX, which builds engines without a GPU, and a stand-in for running them.

A test that builds asks for `toolkit`, and is skipped where TensorRT-RTX is not installed. A test that runs engines asks
for `gpu`: the simulated GPU of ort-py-cuda's tests, with a stand-in for the library's runtime.
"""

from __future__ import annotations

from collections.abc import Callable
from importlib.util import find_spec
from typing import Any

import pytest

from ort_py_tensorrt import availability, engine_source, jobs
from ort_py_tensorrt import toolkit as toolkit_room
from ort_py_tensorrt.installed import Installed
from ort_py_tensorrt.job_files import Request
from ort_py_tensorrt.toolkit import Toolkit, open_toolkit
from ort_py_tensorrt.variants import RTX, VARIANTS
from providers.cuda.tests.capture.capturing import CapturingModule
from providers.cuda.tests.conftest import use_machine as use_machine  # noqa: PLC0414 - found by its name
from providers.cuda.tests.stand_in.machine import Machine
from providers.tensorrt.tests.stand_in import StandInLibrary

NEEDS_RTX = "tensorrt-rtx-cu13 is not installed: its parser and its builder are what is tested (90 MB, no GPU needed)"


@pytest.fixture(scope="session")
def toolkit() -> Toolkit:
    """TensorRT-RTX itself; skips where it is not installed."""
    if find_spec(RTX.module) is None:
        pytest.skip(NEEDS_RTX)
    return open_toolkit(RTX)


@pytest.fixture
def gpu(
    use_machine: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest
) -> StandInLibrary:
    """A simulated GPU, and TensorRT-RTX with a stand-in for its runtime. Engines are really built, if it is there."""
    machine = Machine()
    use_machine(machine, CapturingModule)
    real = open_toolkit(RTX).module if find_spec(RTX.module) is not None else None
    library = StandInLibrary(machine, real)
    build = jobs.run_build

    def building(asked: Request, **options: Any) -> tuple[bytes, bytes | None]:
        plan, times = build(asked, **options)
        return library.know(plan, asked), times

    monkeypatch.setattr(engine_source, "run_build", building)
    monkeypatch.setattr(availability, "find", lambda variant: Installed(variant.distributions[0], "99.0"))
    both = {variant.module: Toolkit(variant, library) for variant in VARIANTS}
    monkeypatch.setattr(toolkit_room, "_open", both)
    return library
