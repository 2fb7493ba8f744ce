"""onnxruntime behind ort-py at the door that every provider goes through."""

from __future__ import annotations

from pathlib import Path

import pytest

from ort_py_kit import ProviderSuite

pytest.importorskip("ort_py_onnxruntime", reason="ort-py-onnxruntime is not installed")

KNOWN = Path(__file__).with_name("onnxruntime.xfail.txt")


@pytest.mark.slow
class TestOnnxruntime(ProviderSuite):
    """Its sessions run in another runtime, and are held to the same rules. What onnxruntime computes is its own
    business: a few operators show that it arrives here.
    """

    provider = "OnnxruntimeExecutionProvider"
    graphs = 20
    cases = ("test_conv", "test_layer_normalization", "test_reduce_sum", "test_softmax")
    expected_failures = KNOWN


@pytest.mark.nightly
class TestEveryOperator(ProviderSuite):
    """All of them, at all versions."""

    provider = "OnnxruntimeExecutionProvider"
    expected_failures = KNOWN
