"""Normalisations and reductions that are made of other primitives give what onnxruntime gives."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
import pytest
from onnx import NodeProto

from ort_py_kit.tolerances import assert_close
from providers.onednn.tests.models import PROVIDER, model, node, open_session, run_here, run_plain

RNG = np.random.default_rng(29)


def _f(*shape: int) -> np.ndarray[Any, Any]:
    return np.asarray(RNG.standard_normal(shape), np.float32)


def _i(*numbers: int) -> np.ndarray[Any, Any]:
    return np.array(numbers, np.int64)


X = _f(2, 6, 5, 7)
Arrays = Mapping[str, np.ndarray[Any, Any]]

CASES: Mapping[str, tuple[NodeProto, Arrays, Arrays, int]] = {
    "AveragePool of rounded sizes": (
        node("AveragePool", "x", "y", kernel_shape=[3, 2], strides=[2, 2], ceil_mode=1),
        {"x": X},
        {},
        19,
    ),
    "BatchNormalization of computed numbers": (
        node("BatchNormalization", "x s b m v", "y"),
        {"x": X, "s": _f(6), "b": _f(6), "m": _f(6), "v": np.abs(_f(6)) + 1},
        {},
        15,
    ),
    "Clip between computed numbers": (
        node("Clip", "x l h", "y"),
        {"x": X, "l": np.array(-0.5, np.float32), "h": np.array(0.5, np.float32)},
        {},
        13,
    ),
    "ConvTranspose to a size": (
        node("ConvTranspose", "x w", "y", strides=[2, 2], output_shape=[11, 14]),
        {"x": X},
        {"w": _f(6, 3, 3, 3)},
        11,
    ),
    "GroupNormalization": (
        node("GroupNormalization", "x s b", "y", num_groups=3, epsilon=1e-3),
        {"x": X},
        {"s": _f(6), "b": _f(6)},
        21,
    ),
    "InstanceNormalization": (node("InstanceNormalization", "x s b", "y"), {"x": X}, {"s": _f(6), "b": _f(6)}, 13),
    "Mean": (node("Mean", "x z u", "y"), {"x": X, "z": _f(2, 6, 5, 7), "u": _f(5, 7)}, {}, 13),
    "MeanVarianceNormalization": (node("MeanVarianceNormalization", "x", "y", axes=[0, 2, 3]), {"x": X}, {}, 13),
    "ReduceL1": (node("ReduceL1", "x a", "y", keepdims=0), {"x": X}, {"a": _i(1)}, 18),
    "ReduceL1 of before": (node("ReduceL1", "x", "y", axes=[2, 3]), {"x": X}, {}, 13),
    "ReduceL2": (node("ReduceL2", "x a", "y"), {"x": X}, {"a": _i(-1)}, 18),
    "ReduceSumSquare of all": (node("ReduceSumSquare", "x", "y"), {"x": X}, {}, 18),
    "Softsign": (node("Softsign", "x", "y"), {"x": X}, {}, 13),
}


@pytest.mark.parametrize("dynamic", [False, True], ids=["known", "unknown"])
@pytest.mark.parametrize("name", sorted(CASES))
def test_statistics(name: str, dynamic: bool) -> None:
    """Within float32's tolerance, every node run here."""
    made, feeds, constants, opset = CASES[name]
    if dynamic and made.op_type in {"GroupNormalization", "InstanceNormalization", "ConvTranspose"}:
        nodes = [node("Conv", "feed v", "x"), made]  # the channels are known
        constants, feeds = {**constants, "v": _f(6, 6, 1, 1)}, {"feed": X}
    else:
        nodes = [made]
    data = model(nodes, feeds, constants, opset=opset, dynamic=dynamic)
    assert_close(run_here(data, feeds)[0], run_plain(data, feeds)[0])


@pytest.mark.parametrize("constant", [False, True], ids=["fed", "constant"])
def test_a_scale_for_each_group_is_left_to_others(constant: bool) -> None:
    """GroupNormalization of version 18 has a scale and a bias for each group, that of version 21 for each channel."""
    scale, bias = np.array([2, -1, 0.5], np.float32), np.array([1, 0, 3], np.float32)
    made = node("GroupNormalization", "r s b", "y", num_groups=3, epsilon=1e-3)
    numbers = {"s": scale, "b": bias}
    feeds, constants = ({"x": X}, numbers) if constant else ({"x": X, **numbers}, {})
    data = model([node("Relu", "x", "r"), made], feeds, constants, opset=18)
    with open_session(data) as session:
        assert PROVIDER not in {one.provider for one in session.placement.nodes if one.op_type == made.op_type}
        (y,) = session.run(None, dict(feeds))
        assert not session.fallback_report, session.fallback_report
    groups = np.maximum(X, 0).reshape(2, 3, -1).astype(np.float64)
    even = (groups - groups.mean(2, keepdims=True)) / np.sqrt(groups.var(2, keepdims=True) + 1e-3)
    assert_close(y, (even * scale[:, None] + bias[:, None]).reshape(X.shape).astype(np.float32))
