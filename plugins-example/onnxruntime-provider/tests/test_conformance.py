"""The kit's checks of every provider, as ort-py ships them."""

from __future__ import annotations

from pathlib import Path

from ort_py_kit import ProviderSuite


class TestConformance(ProviderSuite):
    """Its sessions run in another runtime, and are held to the same rules. `cases` picks some of ONNX's own tests."""

    provider = "OnnxruntimeExecutionProvider"
    graphs = 20
    cases = ("test_conv", "test_layer_normalization", "test_reduce_sum", "test_softmax")
    expected_failures = Path(__file__).with_name("onnxruntime.xfail.txt")
