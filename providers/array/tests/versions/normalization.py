"""Rows of normalisations and recurrent layers: closed forms in float64."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from .row import Draw, Given, Row, as_type, wide

__all__ = ["ROWS"]


def _picture(d: Draw, rank: int | None = None) -> tuple[int, ...]:
    axes = d.integer(1, 3) if rank is None else rank
    return (d.integer(1, 2), d.integer(1, 4), *d.shape(axes, axes, least=1))


def _per_channel(parameter: Any, rank: int) -> Any:
    return wide(parameter).reshape(-1, *(1,) * (rank - 2))


def _standardised(x: Any, axes: tuple[int, ...], epsilon: float = 1e-5) -> Any:
    return (x - x.mean(axes, keepdims=True)) / np.sqrt(x.var(axes, keepdims=True) + epsilon)


def _batch_normalization(d: Draw) -> Given:
    shape = _picture(d, 2 if d.version < 6 else None)
    by_position = d.version < 9 and d.version >= 7 and bool(d.flag())
    sizes = shape[1:] if by_position else shape[1:2]
    x = d.array(shape, special=False)
    scale, bias, mean = (d.array(sizes, special=False) for _ in range(3))
    var = d.array(sizes, low=0.5, special=False)
    training = bool(d.flag())
    attributes: dict[str, Any] = {"epsilon": 1e-3, "momentum": 0.75}
    if by_position:
        attributes["spatial"] = 0
    if d.version == 1:
        attributes["consumed_inputs"] = (0, 0, 0, 1, 1)
    if d.version < 7:
        attributes["is_test"] = int(not training)
    elif d.version >= 14:
        attributes["training_mode"] = int(training)
    values = wide(x)
    axes = (0,) if by_position else tuple(axis for axis in range(x.ndim) if axis != 1)
    seen = (values.mean(axes), values.var(axes)) if training else (wide(mean), wide(var))

    def spread(parameter: Any) -> Any:
        return wide(parameter) if by_position else _per_channel(parameter, x.ndim)

    y = (values - spread(seen[0])) / np.sqrt(spread(seen[1]) + 1e-3) * spread(scale) + spread(bias)
    made = [as_type(y, x.dtype)]
    if training:
        running = [wide(old) * 0.75 + new * 0.25 for old, new in zip((mean, var), seen, strict=True)]
        more = running if d.version >= 14 else [*running, *seen]
        made += [as_type(one, mean.dtype) for one in more]
    return Given([x, scale, bias, mean, var], attributes, made, outputs=len(made))


def _instance_normalization(d: Draw) -> Given:
    x = d.array(_picture(d, 2 if d.version < 6 else None), special=False)
    scale, bias = (d.array((x.shape[1],), special=False) for _ in range(2))
    made = _standardised(wide(x), tuple(range(2, x.ndim))) * _per_channel(scale, x.ndim) + _per_channel(bias, x.ndim)
    return Given([x, scale, bias], {}, [as_type(made, x.dtype)])


def _group_normalization(d: Draw) -> Given:
    groups, size = d.integer(1, 3), d.integer(1, 3)
    x = d.array((2, groups * size, *d.shape(1, 2, least=1)), special=False)
    count = groups if d.version == 18 else groups * size
    scale, bias = (d.array((count,), special=False) for _ in range(2))
    parts = wide(x).reshape(2, groups, -1)
    made = _standardised(parts, (2,)).reshape(x.shape)
    factors = [np.repeat(one, size) if d.version == 18 else one for one in (scale, bias)]
    made = as_type(made, x.dtype).astype(np.float64) if d.version >= 21 else made
    made = made * _per_channel(factors[0], x.ndim) + _per_channel(factors[1], x.ndim)
    return Given([x, scale, bias], {"num_groups": groups}, [as_type(made, x.dtype)])


def _layer_normalization(d: Draw) -> Given:
    x = d.array(d.shape(1, 3, least=1), special=False)
    axis = d.axis(x.ndim)
    scale, bias = (d.array(x.shape[axis:], special=False) for _ in range(2))
    made = _standardised(wide(x), tuple(range(axis % x.ndim, x.ndim)))
    made = as_type(made, x.dtype).astype(np.float64) * wide(scale) + wide(bias)
    return Given([x, scale, bias], {"axis": axis}, [as_type(made, x.dtype)])


def _rms_normalization(d: Draw) -> Given:
    x = d.array(d.shape(1, 3, least=1), special=False)
    axis = d.axis(x.ndim)
    scale = d.array(x.shape[axis:], special=False)
    square = np.mean(wide(x) ** 2, tuple(range(axis % x.ndim, x.ndim)), keepdims=True)
    made = as_type(wide(x) / np.sqrt(square + 1e-5), x.dtype).astype(np.float64) * wide(scale)
    return Given([x, scale], {"axis": axis}, [as_type(made, x.dtype)])


def _lp_normalization(d: Draw) -> Given:
    x = d.array(d.shape(1, 3), special=False)
    axis, p = d.axis(x.ndim), d.pick((1, 2))
    norm = np.sum(np.abs(wide(x)) ** p, axis, keepdims=True) ** (1 / p)
    return Given([x], {"axis": axis, "p": p}, [as_type(wide(x) / np.where(norm == 0, 1, norm), x.dtype)])


def _lrn(d: Draw) -> Given:
    x = d.array(_picture(d), special=False)
    size, beta = d.integer(1, 5), d.pick((0.75, 0.5))
    squares, sums = wide(x) ** 2, np.zeros(x.shape)
    for channel in range(x.shape[1]):
        low, high = max(0, channel - (size - 1) // 2), min(x.shape[1] - 1, channel + size // 2)
        sums[:, channel] = squares[:, low : high + 1].sum(1)
    made = wide(x) / (1.5 + 0.01 / size * sums) ** beta
    attributes = {"size": size, "alpha": 0.01, "beta": beta, "bias": 1.5}
    return Given([x], attributes, [as_type(made, x.dtype)])


def _mean_variance(d: Draw) -> Given:
    x = d.array((2, 3, *d.shape(2, 2, least=2)), special=False)
    axes = d.pick(((0, 2, 3), (2, 3), (1,)))
    values = wide(x)
    made = (values - values.mean(axes, keepdims=True)) / (np.sqrt(values.var(axes, keepdims=True)) + 1e-9)
    return Given([x], {"axes": axes}, [as_type(made, x.dtype)])


def _sigmoid(x: Any) -> Any:
    return 1 / (1 + np.exp(-x))


def _rnn_step(x: Any, r: Any, bias: Any, h: Any, _c: Any) -> tuple[Any, Any]:
    return np.tanh(x + h @ r.T + bias), None


def _gru_step(x: Any, r: Any, bias: Any, h: Any, _c: Any) -> tuple[Any, Any]:
    n = h.shape[1]
    z = _sigmoid(x[:, :n] + h @ r[:n].T + bias[:n])
    reset = _sigmoid(x[:, n : 2 * n] + h @ r[n : 2 * n].T + bias[n : 2 * n])
    candidate = np.tanh(x[:, 2 * n :] + (reset * h) @ r[2 * n :].T + bias[2 * n :])
    return (1 - z) * candidate + z * h, None


def _lstm_step(x: Any, r: Any, bias: Any, h: Any, c: Any) -> tuple[Any, Any]:
    gates = x + h @ r.T + bias
    i, o, f, g = np.split(gates, 4, axis=1)
    c = _sigmoid(f) * c + _sigmoid(i) * np.tanh(g)
    return _sigmoid(o) * np.tanh(c), c


def _recurrent(gates: int, step: Callable[..., tuple[Any, Any]]) -> Callable[[Draw], Given]:
    """One layer in one or both directions with bias and initial states; `layout` 1 from version 14 on."""

    def draw(d: Draw) -> Given:
        steps, batch, size, hidden = d.integer(1, 4), d.integer(1, 3), d.integer(1, 3), d.integer(1, 3)
        direction = d.pick(("forward", "reverse", "bidirectional"))
        count = 2 if direction == "bidirectional" else 1
        small: dict[str, Any] = {"low": -1.0, "high": 1.0, "special": False}
        x = d.array((steps, batch, size), **small)
        w = d.array((count, gates * hidden, size), **small)
        r = d.array((count, gates * hidden, hidden), **small)
        b = d.array((count, 2 * gates * hidden), **small)
        h, c = (d.array((count, batch, hidden), **small) for _ in range(2))
        y = np.zeros((steps, count, batch, hidden))
        last_h, last_c = np.zeros((count, batch, hidden)), np.zeros((count, batch, hidden))
        for k in range(count):
            backwards = direction == "reverse" or k == 1
            state, cell = wide(h)[k], wide(c)[k]
            bias = wide(b)[k, : gates * hidden] + wide(b)[k, gates * hidden :]
            for t in range(steps)[:: -1 if backwards else 1]:
                state, cell = step(wide(x)[t] @ wide(w)[k].T, wide(r)[k], bias, state, cell)
                y[t, k] = state
            last_h[k], last_c[k] = state, 0 if cell is None else cell
        attributes: dict[str, Any] = {"hidden_size": hidden, "direction": direction}
        made = [y, last_h, *([last_c] if d.op_type == "LSTM" else [])]
        inputs = [x, w, r, b, None, h, *([c] if d.op_type == "LSTM" else [])]
        if d.version < 7:
            attributes["output_sequence"] = 1
        if d.version >= 14 and d.flag():
            attributes["layout"] = 1
            inputs = [x.swapaxes(0, 1), w, r, b, None, *(one.swapaxes(0, 1) for one in inputs[5:])]
            inputs = [None if one is None else np.ascontiguousarray(one) for one in inputs]
            made = [y.transpose(2, 0, 1, 3), *(one.swapaxes(0, 1) for one in made[1:])]
        return Given(inputs, attributes, [as_type(one, d.dtype) for one in made], outputs=len(made))

    return draw


ROWS = [
    Row("BatchNormalization", _batch_normalization, until=14),
    Row("BatchNormalization", _batch_normalization, since=15),
    Row("InstanceNormalization", _instance_normalization),
    Row("GroupNormalization", _group_normalization),
    Row("LayerNormalization", _layer_normalization),
    Row("RMSNormalization", _rms_normalization, variable="V"),
    Row("LpNormalization", _lp_normalization),
    Row("LRN", _lrn),
    Row("MeanVarianceNormalization", _mean_variance),
    Row("RNN", _recurrent(1, _rnn_step)),
    Row("GRU", _recurrent(3, _gru_step)),
    Row("LSTM", _recurrent(4, _lstm_step)),
]
