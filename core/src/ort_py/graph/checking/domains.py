"""Operator domains and their opsets: those that the installed onnx defines, and those that models use without an
import.

Data for `loader`, which refuses opsets that are newer than the installed onnx, and for `schema`, which looks operators
up.
"""

from __future__ import annotations

from collections.abc import Mapping

from ort_py.onnx_operators import newest_opsets

WELL_KNOWN: Mapping[str, int] = {
    "com.microsoft": 1,
    "com.microsoft.experimental": 1,
    "com.microsoft.nchwc": 1,
    "com.microsoft.dml": 1,
    "com.ms.internal.nhwc": 1,
    "ai.onnx.training": 1,
    "org.pytorch.aten": 1,
}
"""Domains outside ONNX that onnxruntime registers, each with its only opset. Models use them without an import."""


def normalised(domain: str) -> str:
    """The domain as the graph stores it: ``ai.onnx`` is ``""``."""
    return "" if domain == "ai.onnx" else domain


def onnx_domains() -> Mapping[str, int]:
    """Domains that the installed onnx defines, each with its newest opset."""
    return newest_opsets()


def newest_opset(domain: str) -> int | None:
    return WELL_KNOWN.get(domain) or onnx_domains().get(domain)
