"""Rows of random operators: shape, element type, bounds and moments, which is all that is specified.

Moments are within six of their standard deviations, so that a correct generator never fails by chance.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_py.dtypes import data_type_of

from .row import Draw, Given, Row, is_floating

__all__ = ["ROWS"]

_MANY = (40, 50)


def _seed(d: Draw) -> dict[str, Any]:
    return {"seed": float(d.integer(0, 99))} if d.flag() else {}


def _near(values: Any, mean: float, deviation: float) -> None:
    """The mean of so many independent draws; those of narrow types are rounded too."""
    wide = values.astype(np.float64)
    if wide.size:
        assert abs(wide.mean() - mean) <= 6 * deviation / np.sqrt(wide.size) + abs(mean) * 2.0**-8


def _normal(values: Any, attributes: dict[str, Any]) -> None:
    mean, scale = attributes.get("mean", 0.0), attributes.get("scale", 1.0)
    _near(values, mean, scale)
    if values.size > 1000:
        assert abs(values.astype(np.float64).std() - scale) < 0.2 * scale


def _uniform(values: Any, attributes: dict[str, Any]) -> None:
    low, high = attributes.get("low", 0.0), attributes.get("high", 1.0)
    wide = values.astype(np.float64)
    assert not wide.size or low <= wide.min() <= wide.max() <= high
    _near(values, (low + high) / 2, (high - low) / 12**0.5)


_Looker = Callable[[Any, dict[str, Any]], None]


def _continuous(look: _Looker, like: bool, **ranges: tuple[float, float]) -> Callable[[Draw], Given]:
    """Numbers of the row's type: the attributes' shape, or that of an input of any type."""

    def draw(d: Draw) -> Given:
        shape = _MANY if d.flag() else d.shape()
        attributes: dict[str, Any] = _seed(d)
        if d.flag():
            attributes |= {name: d.pick(values) for name, values in ranges.items()}
        inputs = []
        if like:
            source = d.dtype if d.flag() else d.other("T1")
            inputs = [d.array(shape, source, low=0)]
            if source != d.dtype:
                attributes["dtype"] = int(data_type_of(d.dtype))
        else:
            attributes |= {"shape": shape, "dtype": int(data_type_of(d.dtype))}

        def check(outputs: Sequence[Any]) -> None:
            (values,) = outputs
            assert (values.shape, values.dtype) == (shape, d.dtype)
            look(values, attributes)

        return Given(inputs, attributes, check=check)

    return draw


def _bernoulli(d: Draw) -> Given:
    """Ones and zeros; certain where the chance is 1 or 0."""
    shape = _MANY if d.flag() else d.shape()
    source = d.other("T1")
    chances = d.array(shape, source, low=0.0, high=1.0, special=False)
    chances[chances < 0.1] = 0
    chances[chances > 0.9] = 1
    attributes = _seed(d)
    if source != d.dtype or d.flag():
        attributes["dtype"] = int(data_type_of(d.dtype))

    def check(outputs: Sequence[Any]) -> None:
        (values,) = outputs
        assert (values.shape, values.dtype) == (shape, d.dtype)
        wide, likely = values.astype(np.float64), chances.astype(np.float64)
        assert np.isin(wide, (0, 1)).all()
        assert (wide[likely == 0] == 0).all()
        assert (wide[likely == 1] == 1).all()
        _near(wide, float(likely.mean()) if likely.size else 0.0, 0.5)

    return Given([chances], attributes, check=check)


def _multinomial(d: Draw) -> Given:
    """Classes as often as their probabilities say; never an impossible one."""
    rows, classes, samples = d.integer(0, 3), d.integer(1, 4), d.pick((1, 2000))
    scores = d.array((rows, classes), low=-1, high=1, special=False)
    if classes > 1:
        scores[:, 0] = -np.inf
    kind = d.other("T2")
    attributes = {"sample_size": samples, "dtype": int(data_type_of(kind)), **_seed(d)}

    def check(outputs: Sequence[Any]) -> None:
        (drawn,) = outputs
        assert (drawn.shape, drawn.dtype) == ((rows, samples), kind)
        assert ((drawn >= min(1, classes - 1)) & (drawn < classes)).all()
        shares = np.exp(scores.astype(np.float64))
        for row, share in zip(drawn, shares / shares.sum(1, keepdims=True), strict=True):
            for which, chance in enumerate(share):
                _near(row == which, float(chance), 0.5)

    assert is_floating(scores.dtype)
    return Given([scores], attributes, check=check)


_MOMENTS: dict[str, Any] = {"mean": (-2.0, 3.0), "scale": (0.5, 4.0)}
_RANGE: dict[str, Any] = {"low": (-2.0, 0.5), "high": (0.5, 3.0)}

ROWS = [
    Row("RandomNormal", _continuous(_normal, False, **_MOMENTS)),
    Row("RandomNormalLike", _continuous(_normal, True, **_MOMENTS), variable="T2"),
    Row("RandomUniform", _continuous(_uniform, False, **_RANGE)),
    Row("RandomUniformLike", _continuous(_uniform, True, **_RANGE), variable="T2"),
    Row("Bernoulli", _bernoulli, variable="T2"),
    Row("Multinomial", _multinomial, variable="T1"),
]
