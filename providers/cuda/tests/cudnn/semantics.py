"""cuDNN's operations as its documentation defines them, on NumPy arrays with axes (N, C, space…).

Written for clarity and in float64, independent of the code under test; both stand-ins of cuDNN compute with it.
"""

from __future__ import annotations

from collections.abc import Sequence
from itertools import product
from typing import Any

import numpy as np
from numpy.typing import NDArray

__all__ = ["conv_dgrad", "conv_fprop", "instancenorm", "pool", "recurrent", "sdpa"]

Array = NDArray[Any]


def _taps(
    sizes: Sequence[int], kernel: Sequence[int], begin: Sequence[int], stride: Sequence[int], dilation: Sequence[int]
) -> Any:
    """For each tap of the kernel: which output positions read which input positions, as (outputs, inputs) by axis."""
    for tap in product(*(range(k) for k in kernel)):
        yield (
            tap,
            [
                [(o, o * s + t * d - b) for o in range(out)]
                for out, t, b, s, d in zip(sizes, tap, begin, stride, dilation, strict=True)
            ],
        )


def _reached(positions: Any, sizes: Sequence[int]) -> Any:
    """`np.ix_` of the outputs and of the inputs that lie on the picture; None where none does."""
    kept = [[(o, i) for o, i in axis if 0 <= i < size] for axis, size in zip(positions, sizes, strict=True)]
    if not all(kept):
        return None
    return np.ix_(*([o for o, _ in axis] for axis in kept)), np.ix_(*([i for _, i in axis] for axis in kept))


def _at(array: Array, places: Any) -> Any:
    """Index of these places behind the first two axes."""
    return (slice(None), slice(None), *places)


def conv_fprop(x: Array, w: Array, out: Sequence[int], begin: Any, stride: Any, dilation: Any) -> Array:
    """Cross-correlation; groups follow from the channels."""
    group = x.shape[1] // w.shape[1]
    y = np.zeros((x.shape[0], w.shape[0], *out))
    m = w.shape[0] // group
    for tap, positions in _taps(out, w.shape[2:], begin, stride, dilation):
        reached = _reached(positions, x.shape[2:])
        if reached is None:
            continue
        to, source = reached
        part = x[_at(x, source)].astype(np.float64)
        for g in range(group):
            channels = part[:, g * w.shape[1] : (g + 1) * w.shape[1]]
            weights = w[(slice(g * m, (g + 1) * m), slice(None), *tap)].astype(np.float64)
            view = y[:, g * m : (g + 1) * m]
            view[_at(view, to)] += np.einsum("nc...,mc->nm...", channels, weights)
    return y


def conv_dgrad(dy: Array, w: Array, out: Sequence[int], begin: Any, stride: Any, dilation: Any) -> Array:
    """The gradient of `conv_fprop` by its picture, whose channels and spatial sizes are `out`."""
    channels = w.shape[1]
    group, out = out[0] // channels, out[1:]
    m = w.shape[0] // group
    dx = np.zeros((dy.shape[0], channels * group, *out))
    for tap, positions in _taps(dy.shape[2:], w.shape[2:], begin, stride, dilation):
        reached = _reached(positions, out)
        if reached is None:
            continue
        source, to = reached
        for g in range(group):
            part = dy[:, g * m : (g + 1) * m]
            weights = w[(slice(g * m, (g + 1) * m), slice(None), *tap)].astype(np.float64)
            view = dx[:, g * channels : (g + 1) * channels]
            view[_at(view, to)] += np.einsum("nm...,mc->nc...", part[_at(part, source)].astype(np.float64), weights)
    return dx


def pool(x: Array, mode: int, out: Sequence[int], kernel: Any, begin: Any, stride: Any) -> Array:
    """Mode 0 takes maxima, 1 means over the whole window, 2 means over what of it lies on the picture."""
    y = np.zeros((*x.shape[:2], *out))
    for place in product(*(range(o) for o in out)):
        start = [o * s - b for o, s, b in zip(place, stride, begin, strict=True)]
        inside = (slice(max(0, a), min(n, a + k)) for a, k, n in zip(start, kernel, x.shape[2:], strict=True))
        part = x[_at(x, tuple(inside))].astype(np.float64)
        axes = tuple(range(2, x.ndim))
        if mode == 0:
            found = part.max(axis=axes)
        else:
            found = part.sum(axis=axes) / (np.prod(kernel) if mode == 1 else np.prod(part.shape[2:]))
        y[_at(y, place)] = found
    return y


def sdpa(q: Array, k: Array, v: Array, scale: float, bias: Array | None, alignment: str | None, right: Any) -> Array:
    """Scaled dot-product attention; a row with no key at all is NaN, as sums over nothing are."""
    group = q.shape[1] // k.shape[1]
    keys, values = (np.repeat(x.astype(np.float64), group, axis=1) for x in (k, v))
    scores = np.einsum("bhqd,bhkd->bhqk", q.astype(np.float64), keys) * scale
    if bias is not None:
        scores = scores + bias.astype(np.float64)
    if right is not None:
        rows, columns = np.arange(q.shape[2])[:, None], np.arange(k.shape[2])[None]
        shift = k.shape[2] - q.shape[2] if alignment == "BOTTOM_RIGHT" else 0
        scores = np.where(columns <= rows + shift + right, scores, -np.inf)
    with np.errstate(invalid="ignore"):
        weights = np.exp(scores - scores.max(axis=-1, keepdims=True))
        result: Array = np.einsum("bhqk,bhkd->bhqd", weights / weights.sum(axis=-1, keepdims=True), values)
    return result


def instancenorm(x: Array, scale: Array, bias: Array, epsilon: float) -> Array:
    """Each channel of each picture standardised, then scaled and shifted."""
    axes = tuple(range(2, x.ndim))
    wide = x.astype(np.float64)
    centred = wide - wide.mean(axis=axes, keepdims=True)
    result: Array = centred / np.sqrt((centred**2).mean(axis=axes, keepdims=True) + epsilon) * scale + bias
    return result


def _sigmoid(x: Array) -> Array:
    return 1 / (1 + np.exp(-x))


def recurrent(
    cell: int, x: Array, gates: Sequence[Sequence[tuple[Array, Array]]], h: Array, c: Array | None
) -> tuple[Array, Array, Array | None]:
    """A layer as in cuDNN's documentation of ``cudnnRNNMode_t``.

    Args:
        cell: ``cudnnRNNMode_t``.
        x: (time, batch, input).
        gates: For each direction matrices and biases, the input's first.
        h, c: States (directions, batch, hidden).

    Returns:
        y (time, batch, directions · hidden), and the last states.
    """
    steps, directions = x.shape[0], len(gates)
    y = np.zeros((steps, x.shape[1], directions, h.shape[2]))
    last_h, last_c = h.astype(np.float64), None if c is None else c.astype(np.float64)
    for d, parts in enumerate(gates):
        count = len(parts) // 2
        state, memory = last_h[d], None if last_c is None else last_c[d]
        for t in range(steps) if d == 0 else reversed(range(steps)):
            given = [x[t] @ w.T.astype(np.float64) + b for w, b in parts[:count]]
            back = [state @ w.T.astype(np.float64) + b for w, b in parts[count:]]
            if cell == 0:
                state = np.maximum(given[0] + back[0], 0)
            elif cell == 1:
                state = np.tanh(given[0] + back[0])
            elif cell == 2:
                i, f, o = (_sigmoid(given[g] + back[g]) for g in (0, 1, 3))
                memory = f * memory + i * np.tanh(given[2] + back[2])
                state = o * np.tanh(memory)
            else:
                r, z = (_sigmoid(given[g] + back[g]) for g in (0, 1))
                new = np.tanh(given[2] + r * back[2])
                state = (1 - z) * new + z * state
            y[t, :, d] = state
        last_h[d] = state
        if last_c is not None:
            last_c[d] = memory
    return y.reshape((steps, x.shape[1], -1)), last_h, last_c
