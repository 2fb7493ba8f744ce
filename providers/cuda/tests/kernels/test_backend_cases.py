"""ONNX's own cases of the operators that cuDNN serves, through our kernels with stand-ins behind both doors.

Whatever of a case cuDNN does not have falls back inside the kernel, so that all of them must pass; the count says that
cuDNN was asked for a good part.
"""

from __future__ import annotations

from importlib import import_module
from typing import Any

import numpy as np
import onnx
import pytest

from ort_py_cuda.kernels import fused_attention
from ort_py_kit.backend_cases import SuiteCase, suite_cases
from providers.cuda.tests.cudnn.on_host import Host, cudnn_on_host

_OPERATORS = {
    "Conv": "convolution",
    "ConvTranspose": "convolution_transpose",
    "MaxPool": "pooling",
    "AveragePool": "pooling",
    "GlobalMaxPool": "pooling",
    "GlobalAveragePool": "pooling",
    "BatchNormalization": "normalization",
    "InstanceNormalization": "normalization",
    "Attention": "attention",
    "RNN": "recurrent",
    "GRU": "recurrent",
    "LSTM": "recurrent",
}


def _cases(operator: str) -> list[SuiteCase]:
    """Single-node cases of an operator, of types that it is declared for."""
    floats = (onnx.TensorProto.FLOAT, onnx.TensorProto.FLOAT16)
    found = []
    for case in suite_cases():
        if case.kind == "node":
            nodes = case.model.graph.node
            kind = case.model.graph.input[0].type.tensor_type.elem_type if case.model.graph.input else 0
            if [(node.op_type, node.domain) for node in nodes] == [(operator, "")] and kind in floats:
                found.append(case)
    return found


def _attributes(node: onnx.NodeProto) -> dict[str, Any]:
    def plain(value: Any) -> Any:
        if isinstance(value, list):
            return [plain(one) for one in value]
        return value.decode() if isinstance(value, bytes) else value

    return {one.name: plain(onnx.helper.get_attribute_value(one)) for one in node.attribute}


def _run(host: Host, case: SuiteCase) -> None:
    model = case.model
    (node,) = model.graph.node
    family = import_module(f"ort_py_cuda.kernels.{_OPERATORS[node.op_type]}")
    for given, expected in case.data_sets():
        wanted = dict(zip([one.name for one in model.graph.output], expected, strict=True))
        result = host.run(
            family.KERNELS,
            node.op_type,
            [given.get(name) for name in node.input],
            outputs=len(node.output),
            output_mask=[bool(name) for name in node.output],
            opset=next(one.version for one in model.opset_import if not one.domain),
            **_attributes(node),
        )
        results = result if isinstance(result, tuple) else (result,)
        for name, value in zip(node.output, results, strict=False):
            if name:
                tolerance = 1e-2 if wanted[name].dtype == np.float16 else 1e-4
                np.testing.assert_allclose(
                    np.asarray(value), wanted[name], rtol=tolerance, atol=tolerance, err_msg=case.name
                )


@pytest.mark.slow  # ONNX makes its two thousand cases in seconds
@pytest.mark.parametrize("operator", _OPERATORS)
def test_cases(operator: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All of an operator's cases pass, those that cuDNN computes among them."""
    host = cudnn_on_host(monkeypatch)
    monkeypatch.setattr(fused_attention, "_FEW", 1)  # ONNX's cases have four queries
    cases = _cases(operator)
    assert cases
    for case in cases:
        _run(host, case)
    assert host.executed or operator == "GRU"  # whose cases all reset before the product
