"""CUDA at the door that every provider goes through: on a machine with a GPU, the backend suite of ONNX included.

Without one the whole module is skipped, with what the provider says of this machine. What can be shown without a device
is beside the provider: its order and lifetimes on a stand-in, its kernels and graphs compiled and validated.
"""

from __future__ import annotations

import pytest

import ort_py
from ort_py_kit import ProviderSuite

pytest.importorskip("ort_py_cuda", reason="ort-py-cuda is not installed")

PROVIDER = "CUDAExecutionProvider"
(_record,) = (record for record in ort_py.get_provider_records() if record.name == PROVIDER)
if PROVIDER not in ort_py.get_available_providers():
    pytest.skip(f"{PROVIDER} cannot be used on this machine: {_record.reason}", allow_module_level=True)

pytestmark = pytest.mark.slow  # two thousand sessions


class TestCuda(ProviderSuite):
    """CUDAExecutionProvider, which has kernels and compiles regions."""

    provider = PROVIDER
