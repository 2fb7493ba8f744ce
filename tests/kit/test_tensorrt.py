"""TensorRT and TensorRT-RTX at the door that every provider goes through: on a machine with a GPU, cases included.

Without one, what the provider says of this machine is the reason of the skip. What can be shown without a device is
beside the provider: engines are built by TensorRT-RTX itself, and run by a stand-in.
"""

from __future__ import annotations

from typing import ClassVar

import pytest

import ort_py
from ort_py_kit import ProviderSuite

pytest.importorskip("ort_py_tensorrt", reason="ort-py-tensorrt is not installed")

NAMES = ("TensorrtExecutionProvider", "NvTensorRTRTXExecutionProvider")
_records = {record.name: record for record in ort_py.get_provider_records() if record.name in NAMES}
_reasons = [f"{name}: {_records[name].reason}" for name in NAMES if name not in ort_py.get_available_providers()]
if len(_reasons) == len(NAMES):
    pytest.skip(f"neither can be used on this machine: {'; '.join(_reasons)}", allow_module_level=True)

pytestmark = pytest.mark.nightly  # an engine for each case


class _OnDevice(ProviderSuite):
    """One of the two providers; skipped where it cannot be used, with its own reason."""

    options: ClassVar[dict[str, object]] = {"claim_small": True}

    @pytest.fixture(autouse=True)
    def _usable(self) -> None:
        if self.provider not in ort_py.get_available_providers():
            (record,) = (one for one in ort_py.get_provider_records() if one.name == self.provider)
            pytest.skip(f"{self.provider} cannot be used on this machine: {record.reason}")


class TestTensorrt(_OnDevice):
    """Engines of TensorRT."""

    provider = "TensorrtExecutionProvider"


class TestTensorrtRtx(_OnDevice):
    """Engines of TensorRT-RTX."""

    provider = "NvTensorRTRTXExecutionProvider"
