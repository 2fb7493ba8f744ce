"""The Gauss error function as array formulas: the array modules have none without SciPy or cupyx.

float32: ``erf(x) = tanh(x * p(x**2))``. The polynomial is our own minimax fit of ``atanh(erf(x)) / x`` on 0 <= x <= 4,
weighted so that the error of erf itself is level: 7e-8 relative before rounding, at most 2.2e-7 (two units in the last
place) in float32 arithmetic, and monotonous to infinity beyond. float64: W. J. Cody's rational forms ("Rational
Chebyshev approximation for the error function", Mathematics of Computation 23, 1969), at most 4e-16 relative.

Gelu needs no tanh, because ``(1 + tanh(u)) / 2`` is ``1 / (1 + exp(-2u))``. It is independent of operators.
"""

from __future__ import annotations

from typing import Any

from ort_py.contracts.graph_view import Array

__all__ = ["erf_into", "normal_exponent"]

_ATANH_ERF = (
    1.1283792470924447,
    1.0276986500133745e-01,
    -1.9529027061083743e-04,
    -6.148362246699579e-04,
    8.459568137092591e-05,
    -4.7944070929024874e-06,
    2.7555671304198525e-08,
    5.422382511552912e-09,
)
"""Coefficients of p, constant first."""

_NORMAL = tuple(-2 * 0.5**0.5 * coefficient * 0.5**power for power, coefficient in enumerate(_ATANH_ERF))
"""Coefficients of ``-2 * sqrt(0.5) * p`` in the square of ``sqrt(2) * x``."""

# Cody's coefficients, leading first: erf(x)/x in x**2 for |x| <= 0.46875, and erfc(x)*exp(x*x) in |x| above.
_SMALL_P = (
    1.85777706184603153e-1,
    3.16112374387056560e00,
    1.13864154151050156e02,
    3.77485237685302021e02,
    3.20937758913846947e03,
)
_SMALL_Q = (
    1.0,
    2.36012909523441209e01,
    2.44024637934444173e02,
    1.28261652607737228e03,
    2.84423683343917062e03,
)
_LARGE_P = (
    2.15311535474403846e-8,
    5.64188496988670089e-1,
    8.88314979438837594e00,
    6.61191906371416295e01,
    2.98635138197400131e02,
    8.81952221241769090e02,
    1.71204761263407058e03,
    2.05107837782607147e03,
    1.23033935479799725e03,
)
_LARGE_Q = (
    1.0,
    1.57449261107098347e01,
    1.17693950891312499e02,
    5.37181101862009858e02,
    1.62138957456669019e03,
    3.29079923573345963e03,
    4.36261909014324716e03,
    3.43936767414372164e03,
    1.23033935480374942e03,
)


def _horner(xp: Any, coefficients: tuple[float, ...], t: Array) -> Array:
    value = xp.multiply(t, coefficients[0])
    for coefficient in coefficients[1:-1]:
        xp.add(value, coefficient, value)
        xp.multiply(value, t, value)
    return xp.add(value, coefficients[-1], value)


def normal_exponent(xp: Any, x: Array) -> Array:
    """``e`` with ``1 / (1 + exp(e)) = (1 + erf(x / sqrt(2))) / 2`` for float32 `x`, the normal distribution.

    A fresh array; float64 `x` gives no more digits.
    """
    value = _horner(xp, _NORMAL[::-1], xp.multiply(x, x))
    return xp.multiply(value, x, value)


def erf_into(xp: Any, x: Array, out: Array) -> None:
    """erf of a float32 or float64 array of at least one axis, written to `out`, which may be `x`."""
    if x.dtype.itemsize < 8:
        value = _horner(xp, _ATANH_ERF[::-1], xp.multiply(x, x))
        xp.tanh(xp.multiply(value, x, value), out)
        return
    # Beyond 6, erf is 1 to the last bit; the middle form serves up to there because erfc is then below 2e-8.
    size = xp.minimum(xp.absolute(x), 6.0)
    square = xp.multiply(size, size)
    # exp(-x*x) in two factors, the first with few enough bits for its square to be exact.
    coarse = xp.divide(xp.trunc(xp.multiply(size, 16.0)), 16.0)
    rest = xp.multiply(xp.subtract(size, coarse), xp.add(size, coarse))
    decay = xp.multiply(xp.exp(xp.negative(xp.multiply(coarse, coarse))), xp.exp(xp.negative(rest)))
    large = xp.divide(xp.multiply(decay, _horner(xp, _LARGE_P, size)), _horner(xp, _LARGE_Q, size))
    small = xp.divide(xp.multiply(size, _horner(xp, _SMALL_P, square)), _horner(xp, _SMALL_Q, square))
    magnitude = xp.where(xp.less_equal(size, 0.46875), small, xp.subtract(1.0, large))
    xp.copysign(magnitude, x, out)
