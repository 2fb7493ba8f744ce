"""Models written as text, in sessions that OpenVINO runs as far as it can."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import onnx.parser
from onnx.reference import ReferenceEvaluator

import ort_py
from ort_py_kit.tolerances import assert_close

__all__ = ["NAME", "check", "opened", "parsed", "refusals", "runners"]

NAME = "OpenVINOExecutionProvider"


def parsed(text: str, opset: int = 21, functions: str = "") -> onnx.ModelProto:
    """A model from the text of its graph."""
    header = f'<ir_version: 10, opset_import: ["" : {opset}, "com.microsoft" : 1, "org.example" : 1]>'
    return onnx.parser.parse_model(f"{header}\n{text}\n{functions}")


def opened(model: str | onnx.ModelProto, opset: int = 21, **options: Any) -> ort_py.InferenceSession:
    """A session with OpenVINO in front of the provider that completes, optimisation off: a test's node is its node."""
    proto = parsed(model, opset) if isinstance(model, str) else model
    wishes = ort_py.SessionOptions()
    wishes.graph_optimization_level = ort_py.GraphOptimizationLevel.ORT_DISABLE_ALL
    return ort_py.InferenceSession(
        proto.SerializeToString(),
        wishes,
        providers=[(NAME, {"claim_small": True, **options}), "CPUExecutionProvider"],
    )


def runners(session: ort_py.InferenceSession) -> dict[str, str]:
    """Provider of each node, by its operator."""
    return {node.op_type: node.provider for node in session.placement.nodes}


def refusals(session: ort_py.InferenceSession, op_type: str) -> str:
    """OpenVINO's refusals of an operator's nodes."""
    found = [
        reason
        for node in session.placement.nodes
        if node.op_type == op_type
        for provider, reason in node.refusals
        if provider == NAME
    ]
    return "; ".join(found)


def check(text: str, feeds: Mapping[str, Any], opset: int = 21) -> ort_py.InferenceSession:
    """Run with OpenVINO and compare with the reference; the session, still open."""
    session = opened(text, opset)
    expected = ReferenceEvaluator(parsed(text, opset)).run(None, dict(feeds))
    for actual, wanted in zip(session.run(None, dict(feeds)), expected, strict=True):
        assert_close(actual, np.asarray(wanted))
    assert not session.fallback_report, session.fallback_report
    return session
