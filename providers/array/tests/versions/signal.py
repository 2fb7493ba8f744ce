"""Rows of Fourier transforms and windows: the sums of their definitions, as matrices."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from ort_py.dtypes import data_type_of

from .row import Draw, Given, Row, as_type, is_floating, wide

__all__ = ["ROWS"]


def _transformed(x: Any, length: int, *, inverse: bool) -> Any:
    """The transform along the last axis, which is cut or filled with zeros."""
    steps = np.arange(length)
    turns = np.exp((2j if inverse else -2j) * np.pi * np.outer(steps, steps) / length)
    used = min(length, x.shape[-1])
    y = x[..., :used] @ turns[:used]
    return y / length if inverse else y


def _complex(x: Any) -> Any:
    values = wide(x).astype(np.float64)
    return values[..., 0] + (1j * values[..., 1] if x.shape[-1] == 2 else 0)


def _pairs(y: Any, dtype: Any) -> Any:
    return as_type(np.stack((y.real, y.imag), axis=-1), dtype)


def _dft(d: Draw) -> Given:
    """Forward and back, of one half or both, along any axis, cut or filled."""
    shape = list(d.shape(1, 3))
    axis = d.integer(0, len(shape) - 1)
    inverse, half = bool(d.flag()), bool(d.flag())
    shape[axis] = d.integer(2, 5)
    parts = (2 if inverse else 1) if half else d.pick((1, 2))
    x = d.array((*shape, parts), special=False)
    length = d.integer(1, 7) if d.flag() else None
    size = length or (2 * (shape[axis] - 1) if half and inverse else shape[axis])
    values = np.moveaxis(_complex(x), axis, -1)
    if half and inverse:
        full = np.zeros((*values.shape[:-1], size), complex)
        for k in range(size):
            source = k if k <= size // 2 else size - k  # the other half mirrors this one
            if source < values.shape[-1]:
                full[..., k] = values[..., source] if k <= size // 2 else values[..., source].conj()
        values = full
    y = np.moveaxis(_transformed(values, size, inverse=inverse), -1, axis)
    if half and inverse:
        made = as_type(y.real[..., None], d.dtype)
    else:
        made = _pairs(y.take(range(size // 2 + 1), axis) if half else y, d.dtype)
    attributes: dict[str, Any] = {"inverse": int(inverse), "onesided": int(half)}
    given = None if length is None else np.array(length, d.other("T2"))
    named = axis - d.pick((0, len(shape) + 1))  # from the end, the parts of the numbers count as an axis
    if d.version < 20:
        return Given([x, given], {**attributes, "axis": named}, [made])
    return Given([x, given, np.array(named, np.int64)], attributes, [made])


def _stft(d: Draw) -> Given:
    """Frame by frame, with a window or without."""
    batch, length, step = d.integer(0, 2), d.integer(4, 9), d.integer(1, 3)
    frame = d.integer(1, 4)
    parts = d.pick((1, 2))
    half = 0 if parts == 2 else d.flag()
    x = d.array((batch, length, parts), special=False)
    window = d.array((frame,), special=False) if d.flag() else None
    named = np.array(frame, d.other("T2")) if window is None or d.flag() else None
    factors = np.ones(frame) if window is None else wide(window)
    starts = range(0, length - frame + 1, step)
    frames = [_transformed(_complex(x)[:, start : start + frame] * factors, frame, inverse=False) for start in starts]
    y = np.stack(frames, axis=1)
    kind = named.dtype if named is not None else d.other("T2")
    inputs = [x, np.array(step, kind), window, named]
    return Given(inputs, {"onesided": half}, [_pairs(y[..., : frame // 2 + 1] if half else y, d.dtype)])


def _window(*weights: float) -> Callable[[Draw], Given]:
    """A sum of cosines. Of integers, which cut off, only windows without a sample at their peak of 1."""

    def draw(d: Draw) -> Given:
        whole = not is_floating(d.dtype)
        size = 2 * d.integer(1, 4) if whole else d.integer(2, 9)
        periodic = 0 if whole else d.flag()
        angles = 2 * np.pi * np.arange(size) / (size if periodic else size - 1)
        made = sum(weight * np.cos(order * angles) for order, weight in enumerate(weights))
        attributes = {"periodic": periodic, "output_datatype": int(data_type_of(d.dtype))}
        return Given([np.array(size, d.other("T1"))], attributes, [as_type(np.trunc(made) if whole else made, d.dtype)])

    return draw


ROWS = [
    Row("DFT", _dft, variable="T1"),
    Row("STFT", _stft, variable="T1"),
    Row("HannWindow", _window(0.5, -0.5), variable="T2"),
    Row("HammingWindow", _window(25 / 46, -21 / 46), variable="T2"),
    Row("BlackmanWindow", _window(0.42, -0.5, 0.08), variable="T2"),
]
