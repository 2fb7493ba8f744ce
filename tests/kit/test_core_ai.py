"""Core AI at the door that every provider goes through."""

from __future__ import annotations

from pathlib import Path
from typing import ClassVar

import pytest

from ort_py_kit import ProviderSuite

pytest.importorskip("ort_py_coreml.plugin", reason="ort-py-coreml is not installed")
pytest.importorskip("coreai", reason="Core AI is not installed")


@pytest.mark.nightly  # a thousand assets
class TestCoreAI(ProviderSuite):
    """CoreMLExecutionProvider with its other back end."""

    provider = "CoreMLExecutionProvider"
    options: ClassVar[dict[str, object]] = {"claim_small": True, "backend": "coreai"}
    expected_failures = Path(__file__).parent / "core_ai.xfail.txt"
