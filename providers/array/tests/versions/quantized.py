"""Rows of quantised operators: scales and zero points for a tensor, each channel or each block. All in float64.

Scales are powers of two and quotients exact, so that no way of dividing and rounding twice can differ.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, is_floating, quantized, wide

__all__ = ["ROWS"]


def _quantize(d: Draw) -> Given:
    kind = d.dtype
    source = d.other("T1")
    x = d.array(d.shape(1, 3, least=1), source, special=False)
    step = 0.25 if is_floating(source) else 2
    scale = np.array(step, np.float32 if d.version < 19 else source)
    zero = np.array(0 if is_floating(kind) or kind.name in ("int32", "int2", "uint2") else 1).astype(kind)
    values = wide(x).astype(np.float64) / step
    if not is_floating(kind):
        values = np.rint(values) + zero.astype(np.float64)  # the quotient is rounded, half to even, before the shift
    return Given([x, scale, zero], {}, [quantized(values, kind)])


def _dequantize(d: Draw) -> Given:
    kind = d.dtype
    x = d.array(d.shape(1, 3, least=1), special=False) if is_floating(kind) else d.array(d.shape(1, 3, least=1))
    zero = np.array(0 if is_floating(kind) or kind == np.int32 else 1).astype(kind)
    scale_kind = np.dtype(np.float32) if d.version < 19 else d.other("T2")
    if "e8m0" in scale_kind.name:
        scale_kind = np.dtype(np.float32)  # no type of an output: its own test gives output_dtype
    made = (x.astype(np.float64) - zero.astype(np.float64)) * 0.25
    return Given([x, np.array(0.25, scale_kind), zero], {}, [as_type(made, scale_kind)])


def _dynamic_quantize(d: Draw) -> Given:
    x = d.array(d.shape(1, 3, least=1), np.float32, special=False)
    low, high = min(0.0, float(x.min())), max(0.0, float(x.max()))
    scale = np.float32((high - low) / 255)
    zero = np.uint8(np.clip(np.rint(-low / scale), 0, 255)) if scale else np.uint8(0)
    made = np.clip(np.rint(x / scale) + zero, 0, 255) if scale else np.zeros(x.shape)
    return Given([x], {}, [made.astype(np.uint8), np.array(scale), np.array(zero)], outputs=3)


def _qlinear_matmul(d: Draw) -> Given:
    m, k, n = (d.integer(1, 4) for _ in range(3))
    other, result = d.other("T2"), d.other("T3")
    scales = np.dtype(np.float32) if d.version < 21 else d.other("TS")
    if is_floating(d.dtype) != is_floating(other) or is_floating(other) != is_floating(result):
        other = result = d.dtype
    small: dict[str, Any] = {"low": -2, "high": 4, "special": False}
    a, b = d.array((m, k), **small), d.array((k, n), other, **small)
    zeros = [np.array(0 if is_floating(kind) else 1).astype(kind) for kind in (d.dtype, other, result)]
    product = (wide(a).astype(np.float64) - float(zeros[0])) @ (wide(b).astype(np.float64) - float(zeros[1]))
    made = quantized(product * 0.5 * 0.5 / 0.25 + float(zeros[2]), result)
    half, quarter = np.array(0.5, scales), np.array(0.25, scales)
    return Given([a, half, zeros[0], b, half, zeros[1], quarter, zeros[2]], {}, [made])


def _matmul_integer(d: Draw) -> Given:
    m, k, n = (d.integer(1, 4) for _ in range(3))
    a, b = d.array((m, k)), d.array((k, n), d.other("T2"))
    zeros = [np.array(1, a.dtype), np.array(1, b.dtype)]
    made = (a.astype(np.int32) - 1) @ (b.astype(np.int32) - 1)
    return Given([a, b, *zeros], {}, [made])


def _granular(d: Draw, shape: tuple[int, ...]) -> tuple[dict[str, Any], tuple[int, ...], Any]:
    """Attributes, the shape of scales, and what spreads them: one per channel or, from version 21 on, one per block."""
    axis = d.axis(len(shape))
    size = shape[axis]
    if d.version < 21 or d.flag():
        apart = tuple(size if place == axis % len(shape) else 1 for place in range(len(shape)))
        return {"axis": axis}, (size,), lambda one: one.reshape(apart)
    block = d.integer(1, max(1, size))
    blocks = tuple(-(-size // block) if place == axis % len(shape) else one for place, one in enumerate(shape))
    # A block size is that many elements a scale, the last block excepted.
    return {"axis": axis, "block_size": block}, blocks, lambda one: np.repeat(one, block, axis).take(range(size), axis)


def _zeros(d: Draw, shape: tuple[int, ...], kind: Any) -> Any:
    plain = is_floating(kind) or kind == np.int32
    return np.zeros(shape, kind) if plain else d.array(shape, kind, low=0, high=1, special=False)


def _quantize_parts(d: Draw) -> Given:
    kind, source = d.dtype, d.other("T1")
    x = d.array(d.shape(1, 3, least=1), source, special=False)
    attributes, shape, spread = _granular(d, x.shape)
    exponents = d.array(shape, np.int64, low=0 if not is_floating(source) else -2, high=1, special=False)
    scale = (2.0**exponents).astype(np.float32 if d.version < 19 else source)
    zero = _zeros(d, shape, kind)
    values = wide(x).astype(np.float64) / spread(wide(scale).astype(np.float64))
    if not is_floating(kind):
        values = np.rint(values) + spread(zero.astype(np.float64))
    return Given([x, scale, zero], attributes, [quantized(values, kind)])


def _dequantize_parts(d: Draw) -> Given:
    x = d.array(d.shape(1, 3, least=1), special=not is_floating(d.dtype))
    attributes, shape, spread = _granular(d, x.shape)
    scale_kind = np.dtype(np.float32) if d.version < 19 else d.other("T2")
    if "e8m0" in scale_kind.name:
        scale_kind = np.dtype(np.float32)  # no type of an output: its own test gives output_dtype
    scale = (2.0 ** d.array(shape, np.int64, low=-3, high=1, special=False)).astype(scale_kind)
    zero = _zeros(d, shape, d.dtype)
    made = (x.astype(np.float64) - spread(zero.astype(np.float64))) * spread(scale.astype(np.float64))
    return Given([x, scale, zero], attributes, [as_type(made, scale_kind)])


def _matmul_integer_parts(d: Draw) -> Given:
    """Zero points of rows and columns: a vector for a matrix, with the product's axes for a stack of them."""
    lead, (m, k, n) = d.shape(0, 2), (d.integer(1, 4) for _ in range(3))
    a, b = d.array((*lead, m, k)), d.array((*lead, k, n), d.other("T2"))
    a_zero = d.array((*lead, m, 1), a.dtype)
    b_zero = d.array((*lead, 1, n), b.dtype)
    made = (a.astype(np.int64) - a_zero) @ (b.astype(np.int64) - b_zero)
    if not lead and d.flag():
        a_zero, b_zero = a_zero.reshape(m), b_zero.reshape(n)
    return Given([a, b, a_zero, b_zero], {}, [made.astype(np.int32)])


ROWS = [
    Row("QuantizeLinear", _quantize, until=21, variable="T2"),
    Row("QuantizeLinear", _quantize, since=23, variable="T3"),
    Row("DequantizeLinear", _dequantize, until=13),
    Row("DequantizeLinear", _dequantize, since=19, variable="T1"),
    Row("DynamicQuantizeLinear", _dynamic_quantize, variable=None),
    Row("QLinearMatMul", _qlinear_matmul, variable="T1"),
    Row("MatMulInteger", _matmul_integer, variable="T1"),
    Row("QuantizeLinear", _quantize_parts, since=13, until=21, variable="T2"),
    Row("QuantizeLinear", _quantize_parts, since=23, variable="T3"),
    Row("DequantizeLinear", _dequantize_parts, since=13, until=13),
    Row("DequantizeLinear", _dequantize_parts, since=19, variable="T1"),
    Row("MatMulInteger", _matmul_integer_parts, variable="T1"),
]
