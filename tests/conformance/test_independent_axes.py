"""Every rule by which calls are cut: a session with a time limit gives what one without a limit gives.

Calls are cut from a few elements on here, so that small inputs take many blocks.
"""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import onnx
import pytest
from onnx import TensorProto, helper

import ort_py as ort
from ort_py.kernels import blocks, independent_axes

RNG = np.random.default_rng(5)
X = RNG.uniform(0.1, 0.9, (3, 8, 5)).astype(np.float32)
Y = RNG.uniform(0.1, 0.9, (8, 1)).astype(np.float32)
ABOVE = (X + 1).astype(np.float32)
WHOLE = RNG.integers(1, 9, (3, 8, 5)).astype(np.int64)
TRUTH = X > 0.5
BYTES = RNG.integers(0, 255, (3, 8, 5)).astype(np.uint8)
TEXT = np.array([["a", "bb", "1.5"], ["2", "abc", "a"]], object)
ROWS = RNG.uniform(0.1, 0.9, (9, 4)).astype(np.float32)
SCALE, ZERO = np.float32(0.1), np.uint8(3)

_CONTRIB, _ML = "com.microsoft", "ai.onnx.ml"
_REDUCTIONS = (
    "ReduceL1 ReduceL2 ReduceLogSum ReduceLogSumExp ReduceMax ReduceMean ReduceMin ReduceProd ReduceSum ReduceSumSquare"
)

_UNARY = """
    Abs Acos Asin Asinh Atan Atanh Ceil Celu Cos Cosh Elu Erf Exp Floor Gelu HardSigmoid HardSwish IsInf IsNaN LeakyRelu
    Log Mish Neg Reciprocal Relu Round Selu Shrink Sigmoid Sign Sin Sinh Softplus Softsign Sqrt Swish Tan Tanh
    ThresholdedRelu Hardmax LogSoftmax Softmax ArgMax ArgMin LpNormalization GlobalAveragePool GlobalLpPool
    GlobalMaxPool
"""
_BINARY = "Add Div Equal Greater GreaterOrEqual Less LessOrEqual Max Mean Min Mul PRelu Pow Sub Sum"

CASES: dict[str, tuple[list[Any], dict[str, Any]]] = {
    **{name: ([X], {}) for name in _UNARY.split()},
    "Acosh": ([ABOVE], {}),
    "BitCast": ([X], {"to": TensorProto.INT32}),
    "BitwiseNot": ([WHOLE], {}),
    "Cast": ([X], {"to": TensorProto.INT32}),
    "CastLike": ([X, WHOLE], {}),
    "Clip": ([X, np.float32(0.2), np.float32(0.7)], {}),
    "DequantizeLinear": ([BYTES, SCALE, ZERO], {}),
    "QuantizeLinear": ([X, SCALE, ZERO], {}),
    "Not": ([TRUTH], {}),
    "RegexFullMatch": ([TEXT], {"pattern": "a.*"}),
    **{name: ([X, Y], {}) for name in _BINARY.split()},
    **{name: ([TRUTH, TRUTH[:, :1]], {}) for name in ("And", "Or", "Xor")},
    **{name: ([WHOLE, WHOLE[:1]], {}) for name in ("BitwiseAnd", "BitwiseOr", "BitwiseXor", "Mod")},
    "BitShift": ([BYTES, BYTES % 7], {"direction": "LEFT"}),
    "StringConcat": ([TEXT, TEXT[:1]], {}),
    "Where": ([TRUTH, X, Y], {}),
    "TopK": ([X, np.array([2])], {"axis": 0}),
    "CumSum": ([X, np.array(1)], {"reverse": 1}),
    "CumProd": ([X, np.array(-1)], {"exclusive": 1}),
    **{name: ([X, np.array([0, -1])], {"keepdims": 0}) for name in _REDUCTIONS.split()},
    "MeanVarianceNormalization": ([X], {"axes": [0, 2]}),
    "LRN": ([X], {"size": 3}),
    f"{_ML}:Binarizer": ([ROWS], {"threshold": 0.5}),
    f"{_ML}:CategoryMapper": ([TEXT], {"cats_strings": ["a", "bb"], "cats_int64s": [3, 4]}),
    f"{_ML}:LabelEncoder": ([WHOLE], {"keys_int64s": [1, 2], "values_int64s": [7, 8]}),
    f"{_ML}:Imputer": (
        [ROWS],
        {"imputed_value_floats": [1.0, 2.0, 3.0, 4.0], "replaced_value_float": float(ROWS[0, 0])},
    ),
    f"{_ML}:LinearClassifier": (
        [ROWS],
        {"coefficients": [0.1, -0.2] * 6, "intercepts": [0.1] * 3, "classlabels_ints": [5, 6, 7]},
    ),
    f"{_ML}:LinearRegressor": ([ROWS], {"coefficients": [0.1, -0.2] * 4, "targets": 2}),
    f"{_ML}:Normalizer": ([ROWS], {"norm": "L2"}),
    f"{_ML}:OneHotEncoder": ([WHOLE[0]], {"cats_int64s": [1, 2, 3]}),
    f"{_ML}:Scaler": ([ROWS], {"scale": [1.0, 2.0, 3.0, 4.0], "offset": [0.5]}),
    f"{_CONTRIB}:Gelu": ([X], {}),
    f"{_CONTRIB}:QuickGelu": ([X], {}),
    f"{_CONTRIB}:QLinearLeakyRelu": ([BYTES, SCALE, ZERO, SCALE, ZERO], {}),
    f"{_CONTRIB}:QLinearSigmoid": ([BYTES, SCALE, ZERO, SCALE, ZERO], {}),
}
_TWO = {"TopK", f"{_ML}:LinearClassifier"}


def _model(name: str) -> tuple[bytes, dict[str, Any]]:
    domain, _, op_type = name.rpartition(":")
    values, attributes = CASES[name]
    feeds = {f"x{place}": np.asarray(value) for place, value in enumerate(values)}
    results = [f"y{place}" for place in range(2 if name in _TWO else 1)]
    node = helper.make_node(op_type, list(feeds), results, domain=domain, **attributes)
    kinds = {
        key: TensorProto.STRING if array.dtype.kind == "O" else helper.np_dtype_to_tensor_dtype(array.dtype)
        for key, array in feeds.items()
    }
    graph = helper.make_graph(
        [node],
        "g",
        [helper.make_tensor_value_info(key, kind, None) for key, kind in kinds.items()],
        [onnx.ValueInfoProto(name=result) for result in results],
    )
    opsets = [helper.make_opsetid("", 26), helper.make_opsetid(_ML, 2), helper.make_opsetid(_CONTRIB, 1)]
    return helper.make_model(graph, opset_imports=opsets, ir_version=10).SerializeToString(), feeds


def _ran(name: str, seconds: float | None) -> list[Any]:
    model, feeds = _model(name)
    options = ort.SessionOptions()
    options.limits = dataclasses.replace(ort.Limits(), run_seconds=seconds)
    options.graph_optimization_level = ort.GraphOptimizationLevel.ORT_DISABLE_ALL
    providers = ["CPUExecutionProvider"]
    with ort.InferenceSession(model, options, providers=providers) as session:
        return list(session.run(None, feeds))


def test_every_rule_has_a_case() -> None:
    """A rule without a case would be believed."""
    known = {f"{domain}:{name}" if domain else name for domain, name in independent_axes._RULES}
    assert known == set(CASES)


@pytest.mark.parametrize("name", sorted(CASES))
def test_blocks_give_the_same(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each operator gives the same in blocks of one entry."""
    expected = _ran(name, None)
    cut: list[independent_axes.Cut] = []
    made = blocks._Cut._in_blocks

    def noted(self: Any, place: independent_axes.Cut, *rest: Any) -> Any:
        cut.append(place)
        return made(self, place, *rest)

    monkeypatch.setattr(blocks, "WORTH_CUTTING", 2)
    monkeypatch.setattr(blocks._Cut, "_in_blocks", noted)
    found = _ran(name, 100.0)
    assert cut
    for one, wanted in zip(found, expected, strict=True):
        assert one.dtype == wanted.dtype
        if one.dtype.kind == "f":
            np.testing.assert_allclose(one, wanted, rtol=2e-6, atol=1e-7)
        else:
            np.testing.assert_array_equal(one, wanted)
