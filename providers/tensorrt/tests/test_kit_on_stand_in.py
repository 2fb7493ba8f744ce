"""The suite that every provider goes through, with engines of TensorRT-RTX and the stand-in for its runtime.

onnxruntime computes what an engine stands for: that results are right is no proof of TensorRT's. What is shown is that
regions are cut, fed, ordered and released as the engine of ort-py demands, in every sample and random graph of the kit.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any, ClassVar

import pytest

from ort_py_kit import ProviderSuite
from ort_py_tensorrt import engine_source
from ort_py_tensorrt.building import build
from ort_py_tensorrt.job_files import Request
from ort_py_tensorrt.parsing import ask
from ort_py_tensorrt.questions import Asker
from ort_py_tensorrt.toolkit import Toolkit
from providers.tensorrt.tests.stand_in import StandInLibrary

pytestmark = pytest.mark.slow  # hundreds of engines


class TestTensorrtRtx(ProviderSuite):
    """NvTensorRTRTXExecutionProvider, which compiles regions."""

    provider = "NvTensorRTRTXExecutionProvider"
    options: ClassVar[dict[str, object]] = {"claim_small": True, "nv_engine_cache_enable": False}
    cases = False
    expected_failures = Path(__file__).with_name("stand_in.xfail.txt")

    @pytest.fixture(autouse=True)
    def _engines(self, toolkit: Toolkit, gpu: StandInLibrary, monkeypatch: pytest.MonkeyPatch) -> None:
        """Ask and build in this process, which takes a tenth of the time."""

        def built(asked: Request, **_options: Any) -> tuple[bytes, None]:
            plan, _ = build(toolkit, asked.model, asked.profile, asked.wishes)
            return gpu.know(plan, asked), None

        monkeypatch.setattr(engine_source, "run_build", built)
        monkeypatch.setattr(Asker, "ask", lambda _, model: ask(toolkit, model))


@pytest.mark.nightly  # a thousand engines
class TestEveryCase(TestTensorrtRtx):
    """The same with ONNX's own cases."""

    cases = True
