"""Every operator that the provider takes, against onnxruntime: its program is computed as its package holds it."""

from __future__ import annotations

from typing import Any

import numpy as np
import onnxruntime
import pytest
from onnx.reference import ReferenceEvaluator

from ort_py_coreml.operators import CONTRIBUTED, FAMILIES
from ort_py_kit.tolerances import assert_close
from providers.coreml.tests.cases import CASES, Case
from providers.coreml.tests.models import MICROSOFT, run_here

pytestmark = pytest.mark.usefixtures("interpreted")

_UNKNOWN_TO_ONNXRUNTIME = {"Swish"}


def _expected(data: bytes, case: Case) -> list[np.ndarray[Any, Any]]:
    if case.nodes[0].op_type in _UNKNOWN_TO_ONNXRUNTIME:
        return list(ReferenceEvaluator(data).run(None, case.feeds()))
    options = onnxruntime.SessionOptions()
    if case.nodes[0].op_type == "DequantizeLinear":  # it would round the data of products to 8 bits, too
        options.graph_optimization_level = onnxruntime.GraphOptimizationLevel.ORT_DISABLE_ALL
    session = onnxruntime.InferenceSession(data, options, providers=["CPUExecutionProvider"])
    return list(session.run(None, case.feeds()))


@pytest.mark.parametrize("name", CASES)
def test_results(name: str) -> None:
    case = CASES[name]
    data = case.model()
    system = "macOS15" if case.nodes[0].op_type == "MatMulNBits" else "macOS14"
    found = run_here(data, case.feeds(), deployment_target=system)
    assert_close(found, _expected(data, case), context=name)


_LISTED = """
Add ArgMax AveragePool Cast Ceil Clip Concat Conv ConvTranspose Cos DepthToSpace Div Elu Erf Exp GatherND Gelu Gemm
GlobalAveragePool GlobalMaxPool GridSample GroupNormalization HardSigmoid Identity InstanceNormalization
LayerNormalization LeakyRelu MatMul Max MaxPool Mul PRelu Pow Range Reciprocal ReduceMax ReduceMean ReduceSum Relu
Reshape Resize Round Shape Sigmoid Sin Slice Softmax Softplus Split Sqrt Squeeze Sub Tanh Tile Transpose Unsqueeze
"""
"""ONNX's operators of onnxruntime's list for ML programs (`coreml_supported_mlprogram_ops.md`)."""


def test_every_operator_that_onnxruntime_takes_has_a_case() -> None:
    """Each case is a model that becomes one region, whose results are onnxruntime's; see `test_results`."""
    wanted = {("", name) for name in _LISTED.split()} | {(MICROSOFT, name) for name in ("FusedConv", "QuickGelu")}
    assert not wanted - {(made.domain, made.op_type) for case in CASES.values() for made in case.nodes}


def test_every_operator_has_a_case() -> None:
    there = {(made.domain, made.op_type) for case in CASES.values() for made in case.nodes}
    known = {
        (domain, name)
        for domain, families in (("", FAMILIES), (MICROSOFT, CONTRIBUTED))
        for words in families.values()
        for name in words.split()
    }
    assert there == known
