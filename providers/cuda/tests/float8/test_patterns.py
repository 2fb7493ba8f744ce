"""Nodes that are products of float8, and the reasons why others are not."""

from __future__ import annotations

import re
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import pytest

from ort_py_cuda.float8.patterns import FROM, find, group_refusal, owns

from .models import bits, model, product, view_of

_E4M3 = ml_dtypes.float8_e4m3fn


def _found(made: onnx.ModelProto, capability: int = 90) -> tuple[list[list[str]], list[str]]:
    """Operators of each group, and the reasons."""
    view = view_of(made)
    found = find(view, range(len(view.nodes)), capability)
    names = [[view.nodes[index].op_type for index in group] for group in found.groups]
    return names, list(dict.fromkeys(found.refusals.values()))


def _model(text: str, **more: Any) -> onnx.ModelProto:
    weights: dict[str, Any] = {
        "s": np.float32(0.5),
        "z": np.zeros((), _E4M3),
        "t": np.float32(0.25),
        "w": bits("float8e4m3fn", (16, 16)),
        **more,
    }
    return model(text, **{name: array for name, array in weights.items() if name in text})


_D = "d = DequantizeLinear (w, t)"
_X = "xq = QuantizeLinear (x, s, z) xd = DequantizeLinear (xq, s, z)"


def test_a_product_and_what_surrounds_it() -> None:
    """Quantised, multiplied by a weight, dequantised; what is before and behind is not part of it."""
    text = f"g (float[M, 16] v) => (float[M, 16] y) {{ x = Neg (v) {_X} {_D} p = MatMul (xd, d) y = Neg (p) }}"
    assert _found(_model(text)) == ([["QuantizeLinear", "DequantizeLinear", "DequantizeLinear", "MatMul"]], [])


def test_products_that_share_go_together() -> None:
    text = f"""g (float[M, 16] x) => (float[M, 16] a, float[M, 16] b, float[M, 16] c) {{ {_X}
        u = DequantizeLinear (w, t) v = DequantizeLinear (w, t)
        a = MatMul (xd, u) b = MatMul (xd, v)
        n = Neg (b) nq = QuantizeLinear (n, s, z) nd = DequantizeLinear (nq, s, z)
        q = DequantizeLinear (w, t) c = MatMul (nd, q) }}"""
    groups, reasons = _found(_model(text))
    assert sorted(len(group) for group in groups) == [4, 6]
    assert not reasons


def test_older_hardware() -> None:
    """Says which it is, and what it takes."""
    assert _found(product(), 80) == ([], ["products of float8 need compute capability 8.9, and this GPU has 8.0"])
    assert _found(product(), FROM)[0]


_REFUSED = [
    (f"{_D} y = MatMul (x, d)", {}, "'x', the first factor, is not quantised"),
    (f"{_X} d = Identity (x) y = MatMul (xd, d)", {}, "'d', the second factor, is not a constant of float8"),
    (f"{_X} y = MatMul (xd, xd)", {}, "'xd', the second factor, is not a constant of float8"),
    (f"{_X} {_D} y = Gemm <transA = 1> (xd, d)", {}, "Gemm transposes its first factor"),
    (f'{_X} {_D} y = com.microsoft.FusedGemm <activation = "Tanh"> (xd, d)', {}, "Tanh follows inside of FusedGemm"),
    (f"{_X} {_D} y = com.microsoft.FusedMatMul <transA = 1> (xd, d)", {}, "FusedMatMul transposes its first factor"),
    (
        f"xq = QuantizeLinear <saturate = 0> (x, s, z) xd = DequantizeLinear (xq, s, z) {_D} y = MatMul (xd, d)",
        {},
        "does not saturate",
    ),
    (f"{_X} {_D} y = MatMul (xd, d)", {"t": np.full(16, 0.5, np.float32)}, "has more than one scale"),
    (f"{_X} {_D} y = MatMul (xd, d)", {"s": np.float32(np.inf)}, "QuantizeLinear .* is inf"),
    (f"{_X} {_D} y = MatMul (xd, d)", {"z": np.ones((), _E4M3)}, "is not zero"),
    (
        f"{_X} {_D} y = MatMul (xd, d)",
        {"w": bits("float8e4m3fn", (2, 16, 16))},
        "'w', the second factor, is not a matrix",
    ),
    (
        f"{_X} {_D} y = MatMul (xd, d)",
        {"w": np.ones((16, 16), ml_dtypes.float8_e4m3fnuz)},
        "no GPU multiplies float8e4m3fnuz",
    ),
    (
        f"{_X} {_D} y = MatMul (xd, d)",
        {"w": bits("float8e5m2", (16, 16)), "z": np.zeros((), ml_dtypes.float8_e5m2)},
        "no GPU multiplies float8e5m2 with float8e5m2",
    ),
    (f"{_X} {_D} p = MatMul (xd, d) y = Add (p, xd)", {}, "'xd' is read by others"),
    (f"{_X} {_D} y = Gemm (xd, d, d)", {}, "'d' is added to a product"),
    (
        f"{_X} {_D} e = DequantizeLinear (w, t) p = MatMul (xd, d) n = Neg (p) y = Gemm (xd, e, n)",
        {},
        "what one product makes goes into another that shares its bytes",
    ),
]


@pytest.mark.parametrize(("text", "more", "message"), _REFUSED)
def test_why_there_is_no_product(text: str, more: dict[str, Any], message: str) -> None:
    """For the nodes that hold float8: the product itself may run by itself."""
    made = _model(
        f"g (float[16, 16] x) => (float[{'2, ' if 'matrix' in message else ''}16, 16] y) {{ {text} }}", **more
    )
    groups, (reason,) = _found(made)
    assert not groups
    assert re.search(message, reason)


def test_a_scale_that_is_fed() -> None:
    text = f"g (float[16, 16] x, float t) => (float[16, 16] y) {{ {_X} {_D} y = MatMul (xd, d) }}"
    made = _model(text)
    del made.graph.initializer[[one.name for one in made.graph.initializer].index("t")]
    assert "is not a constant" in _found(made)[1][0]


def test_products_of_other_types_are_nobody_s() -> None:
    """Integers, and numbers that were never quantised."""
    text = "g (float[16, 16] x, float[16, 16] v) => (float[16, 16] y) { y = MatMul (x, v) }"
    assert _found(_model(text)) == ([], [])
    view = view_of(_model(text))
    assert not owns(view.nodes)


def test_what_is_left_of_a_region() -> None:
    """Whole products can run, parts of one cannot."""
    view = view_of(product())
    assert owns(view.nodes)
    assert group_refusal(view.nodes, view) is None
    assert group_refusal(view.nodes[1:], view) == "what is left is not a whole product of float8"
