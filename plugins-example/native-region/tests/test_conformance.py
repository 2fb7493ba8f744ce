"""The kit's checks of every provider, as ort-py ships them."""

from __future__ import annotations

from ort_py_kit import ProviderSuite


class TestConformance(ProviderSuite):
    """`cases` keeps to the ONNX cases of its operators; without that line all of them run, which takes minutes."""

    provider = "NativeExecutionProvider"
    graphs = 20
    cases = ("test_add", "test_relu", "test_sqrt")
