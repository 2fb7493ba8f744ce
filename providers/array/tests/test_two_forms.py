"""Kernels that write into given arrays, beyond ONNX's own cases: large arrays, narrow floats, contrib.

ONNX's cases are run in both forms in `test_declarations`.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import pytest

from ort_py.contracts.graph_view import NodeSpec
from ort_py.contracts.kernel import KernelContext, KernelDef, KernelForms
from ort_py_array.two_forms import two_forms
from ort_py_kit.kernel_runner import LocalKernelContext, make_node_spec

from .contrib.closed_forms import DOMAIN
from .contrib.fused_cases import CASES as CONTRIBUTED
from .oracle import BF16, DEFINITIONS, SCHEMAS, i64, sample
from .standin import array_module, to_device, to_host

_Case = tuple[str, Sequence[Any], dict[str, Any]]
"""Operator, inputs, and arguments as of `run_kernel`."""

_HALF = np.float16
_LONG = sample((2, 3, 150, 200), np.float32)
_SMALL = sample((2, 3, 7, 9), np.float32)
_FACTORS = sample((3,), np.float32, 1, 0.5, 2.0)
_STATISTICS = [sample((3,), np.float32, seed, 0.5, 2.0) for seed in range(4)]
_FILTERS = sample((4, 3, 3, 3), np.float32, 2)
_SCALES = np.array([1, 1, 2, 3], np.float32)

_OWN: list[_Case] = [
    ("Relu", [_LONG], {}),
    ("PRelu", [_LONG, sample((3, 1, 1), np.float32, 1)], {}),
    ("PRelu", [_LONG.astype(_HALF), sample((1,), _HALF, 1)], {}),
    ("PRelu", [_SMALL, _FACTORS], {"opset": 6}),
    ("Softmax", [_LONG], {}),
    ("Softmax", [_LONG.astype(BF16)], {"axis": 1}),
    ("LogSoftmax", [_LONG], {"opset": 11, "axis": 2}),
    ("Where", [_LONG > 0, _LONG, -_LONG], {}),
    ("Where", [_LONG[:, :1] > 0, np.ones(1, np.float32), _LONG], {}),
    ("Where", [_LONG > 0, np.ones(1, np.float32), np.full(1, 2, np.float32)], {}),
    ("Cast", [_LONG], {"to": 10}),
    ("Cast", [_LONG], {"to": 7}),
    ("Cast", [_SMALL], {"to": 17}),
    ("Cast", [_SMALL], {"to": 9}),
    ("MatMul", [_LONG, sample((200, 4), np.float32, 1)], {}),
    ("MatMul", [_SMALL, sample((3, 9, 4), np.float32, 1)], {}),
    ("MatMul", [_SMALL.astype(_HALF), sample((9, 4), _HALF, 1)], {}),
    ("MatMul", [_SMALL, sample((9,), np.float32, 1)], {}),
    ("MatMul", [_FACTORS, _FACTORS], {}),
    ("Gemm", [_SMALL[0, 0], _SMALL[0, 1], sample((7,), np.float32)], {"transB": 1, "alpha": 0.5, "beta": 2.0}),
    ("Gemm", [_SMALL[0, 0].astype(BF16), _SMALL[0, 1].astype(BF16)], {"transB": 1}),
    ("Gemm", [np.arange(6).reshape(2, 3), np.arange(3).reshape(3, 1)], {"alpha": 1.5}),
    ("Conv", [_LONG, _FILTERS, sample((4,), np.float32)], {"pads": [1, 1, 1, 1]}),
    ("Conv", [_LONG, _FILTERS], {"strides": [2, 2]}),
    ("Conv", [_SMALL, sample((4, 3, 1, 1), np.float32), sample((4,), np.float32)], {}),
    ("Conv", [_SMALL, sample((3, 1, 3, 3), np.float32)], {"group": 3}),
    ("Conv", [sample((1, 3, 4, 4), np.float32), _FILTERS, None], {}),
    ("Conv", [_SMALL.astype(_HALF), _FILTERS.astype(_HALF), sample((4,), _HALF)], {}),
    ("Conv", [sample((1, 2, 1, 9000), np.float32), sample((3, 2, 1, 40), np.float32)], {"strides": [1, 2]}),
    ("ConvTranspose", [_SMALL, sample((3, 2, 2, 2), np.float32), sample((2,), np.float32)], {"strides": [2, 2]}),
    ("ConvTranspose", [_SMALL, sample((3, 2, 3, 3), np.float32)], {"pads": [1, 1, 1, 1]}),
    ("ConvTranspose", [_SMALL.astype(_HALF), sample((3, 2, 3, 3), _HALF), sample((2,), _HALF)], {}),
    ("MaxPool", [_LONG], {"kernel_shape": [3, 3], "strides": [2, 2], "pads": [1, 1, 1, 1]}),
    ("MaxPool", [_SMALL.astype(BF16)], {"kernel_shape": [2, 2]}),
    ("MaxPool", [_SMALL], {"kernel_shape": [2, 2], "outputs": 2}),
    ("MaxPool", [_SMALL[:, :, :1].copy()], {"kernel_shape": [2, 2]}),
    ("AveragePool", [_LONG], {"kernel_shape": [3, 3], "pads": [1, 1, 1, 1]}),
    ("AveragePool", [_SMALL.astype(_HALF)], {"kernel_shape": [2, 2]}),
    ("BatchNormalization", [_SMALL, *_STATISTICS], {}),
    ("BatchNormalization", [_SMALL.astype(_HALF), *(one.astype(_HALF) for one in _STATISTICS)], {}),
    ("BatchNormalization", [_SMALL, *_STATISTICS], {"training_mode": 1, "outputs": 3}),
    ("LayerNormalization", [_SMALL, sample((9,), np.float32), sample((9,), np.float32, 1)], {"outputs": 3}),
    ("LayerNormalization", [_SMALL.astype(_HALF), sample((9,), _HALF)], {}),
    ("RMSNormalization", [_SMALL, sample((9,), np.float32)], {}),
    ("InstanceNormalization", [_SMALL, _FACTORS, _FACTORS], {}),
    ("GroupNormalization", [_SMALL, _FACTORS, _FACTORS], {"num_groups": 3}),
    ("GroupNormalization", [_SMALL.astype(_HALF), _FACTORS.astype(_HALF), _FACTORS.astype(_HALF)], {"num_groups": 1}),
    ("LRN", [_SMALL], {"size": 3}),
    ("LRN", [_SMALL.astype(_HALF)], {"size": 3, "beta": 0.5}),
    ("ReduceMean", [_SMALL, i64(1, 3)], {}),
    ("ReduceMean", [_SMALL.astype(_HALF), i64(-1)], {"keepdims": 0}),
    ("ReduceMax", [np.zeros((2, 0), np.float32), i64(1)], {}),
    ("ReduceLogSumExp", [_SMALL], {}),
    ("Pad", [_SMALL, i64(0, 1, 2, 0, 0, 0, 1, 3), np.float32(7)], {}),
    ("Pad", [_SMALL, i64(0, 0, -2, 1, 0, 0, 3, -1)], {}),
    ("Pad", [_SMALL, i64(0, 0, 2, 2, 0, 0, 1, 1)], {"mode": "reflect"}),
    ("Resize", [_SMALL, None, _SCALES], {"mode": "nearest", "coordinate_transformation_mode": "asymmetric"}),
    ("Resize", [_SMALL, None, _SCALES], {"mode": "linear"}),
    ("Resize", [_SMALL.astype(_HALF), None, _SCALES], {"mode": "cubic"}),
    ("Resize", [_SMALL, None, np.ones(4, np.float32)], {}),
    ("Resize", [_SMALL, None, None, i64(2, 3, 5, 11)], {"mode": "nearest"}),
    ("Upsample", [_SMALL, _SCALES], {"opset": 9}),
    ("QuantizeLinear", [_LONG, np.float32(0.02), np.uint8(128)], {}),
    ("QuantizeLinear", [_SMALL, _FACTORS, np.zeros(3, np.int8)], {}),
    ("QuantizeLinear", [_SMALL.astype(_HALF), _HALF(0.1), np.int8(3)], {}),
    ("DequantizeLinear", [sample((2, 3, 7), np.int8), _FACTORS, np.zeros(3, np.int8)], {}),
    ("DequantizeLinear", [sample((2, 3, 7), np.int32), np.float32(0.5), np.int32(7)], {}),
    ("DequantizeLinear", [sample((2, 3, 7), np.uint8), _HALF(0.5), np.uint8(7)], {}),
    ("DynamicQuantizeLinear", [_LONG], {"outputs": 3}),
]


def _covers(definition: KernelDef, node: NodeSpec) -> bool:
    named = (definition.op_type, definition.domain) == (node.op_type, node.domain)
    fits = named and definition.since <= node.since_version <= definition.last
    return fits and all(kind in definition.types.get(name, (kind,)) for name, kind in node.type_bindings.items())


def _bind(case: _Case, xp: Any = np, constants: bool = True) -> tuple[KernelDef, Any]:
    op_type, inputs, given = case
    arguments = dict(given)
    opset, outputs = arguments.pop("opset", None), arguments.pop("outputs", 1)
    domain = arguments.pop("domain", "")
    node = make_node_spec(
        op_type, inputs, domain=domain, opset=opset, outputs=outputs, attributes=arguments, schemas=SCHEMAS
    )
    definition = next(one for one in DEFINITIONS if _covers(one, node))
    known = {index: value for index, value in enumerate(inputs) if constants and index and value is not None}
    return definition, definition.factory(LocalKernelContext(node, xp, known))


def _writes(case: _Case) -> bool:
    definition, kernel = _bind(case)
    wanted = definition.out and definition.outputs in (None, case[2].get("outputs", 1))
    return wanted and not (isinstance(kernel, KernelForms) and kernel.into is None)


_CONTRIBUTED: list[_Case] = [
    (op_type, inputs, {"domain": DOMAIN, "opset": 1, **given}) for op_type, inputs, given in CONTRIBUTED
]
_CASES = [*_OWN, *(case for case in _CONTRIBUTED if _writes(case))]
_IDS = [f"{op_type}-{number}" for number, (op_type, *_) in enumerate(_CASES)]


def _listed(definition: KernelDef, result: Any) -> list[Any]:
    return [result] if definition.outputs == 1 else list(result)


def _garbage(like: Any) -> Any:
    out = np.empty(like.shape, like.dtype)
    out.reshape(-1).view(np.uint8)[...] = 1 if like.dtype.kind == "b" else 0x55
    return out


@pytest.mark.parametrize("case", _CASES, ids=_IDS)
def test_both_forms_give_the_same_bits(case: _Case) -> None:
    """The former content of the outputs has no effect; the stand-in array module is tested too."""
    assert _writes(case)
    definition, kernel = _bind(case)
    expected = [np.asarray(one) for one in _listed(definition, kernel(*case[1]))]
    outs = [_garbage(one) for one in expected]
    returned = _listed(definition, kernel(*case[1], *outs))
    assert all(left is right for left, right in zip(returned, outs, strict=True))
    assert [one.tobytes() for one in outs] == [one.tobytes() for one in expected]
    definition, kernel = _bind(case, array_module)
    elsewhere = [to_device(_garbage(one)) for one in expected]
    hosted = definition.host_inputs
    kernel(*(x if index in hosted else to_device(x) for index, x in enumerate(case[1])), *elsewhere)
    for out, one in zip(elsewhere, expected, strict=True):
        np.testing.assert_allclose(
            to_host(out).astype(np.float64), one.astype(np.float64), rtol=1e-2 if one.itemsize == 2 else 1e-5, atol=1e-6
        )


@pytest.mark.parametrize("case", [case for case in _CASES if _bind(case)[0].inplace], ids=lambda case: case[0])
def test_an_input_may_be_the_output(case: _Case) -> None:
    """Where it has its shape and type, and the kernel declares the pair."""
    definition, kernel = _bind(case)
    expected = [np.asarray(one) for one in _listed(definition, kernel(*case[1]))]
    for source, target in definition.inplace:
        x = case[1][source] if source < len(case[1]) else None
        if x is None or x.shape != expected[target].shape or x.dtype != expected[target].dtype:
            continue
        shared = x.copy()
        outs = [shared if index == target else _garbage(one) for index, one in enumerate(expected)]
        kernel(*(shared if index == source else given for index, given in enumerate(case[1])), *outs)
        assert [one.tobytes() for one in outs] == [one.tobytes() for one in expected]


@pytest.mark.parametrize(
    "case",
    [
        ("ReduceSum", [_SMALL, i64(1)], {}),
        ("Pad", [_SMALL, i64(0, 1, 2, 0, 0, 0, 1, 3)], {}),
        ("Resize", [_SMALL, None, _SCALES], {}),
        ("Upsample", [_SMALL, _SCALES], {"opset": 9}),
    ],
    ids=lambda case: case[0],
)
def test_shapes_that_data_decide_have_no_second_form(case: _Case) -> None:
    """Axes, pads and scales that are fed decide the shape: such a node declines."""
    _, kernel = _bind(case, constants=False)
    assert kernel.into is None


@pytest.mark.parametrize("outputs", [1, 2])
def test_two_forms_hand_over_outputs(outputs: int) -> None:
    """One as it is, several as a tuple; the first form never sees the argument."""
    spec = make_node_spec("Frob", [_FACTORS, None, _FACTORS], domain="com.example", outputs=outputs)
    context: KernelContext = LocalKernelContext(spec)
    forms = two_forms(context, lambda *inputs, out=None: (len(inputs), out))
    assert forms.call("a", None, "b") == (3, None)
    assert forms.into is not None
    assert forms.into("a", None, "b", *range(outputs)) == (3, 0 if outputs == 1 else (0, 1))
