"""One time step of RNN, GRU and LSTM, and the activation functions the specification lets them use.

It is independent of sequences, directions and layouts: that is `recurrent`. Gates are the last axis of what comes in,
already projected from the input; a cell adds what the hidden state contributes.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, TypeAlias

from ort_py.contracts.graph_view import Array
from ort_py.dtypes import float_attribute
from ort_py.errors import InvalidArgument, Location
from ort_py.lazy_dataclass import dataclass

__all__ = [
    "DEFAULT_ACTIVATIONS",
    "GATES",
    "Activation",
    "Cell",
    "Project",
    "activation_of",
    "gru",
    "is_standard",
    "lstm",
    "parameters_of",
    "rnn",
]

Activation: TypeAlias = Callable[[Array], Array]
Project: TypeAlias = Callable[[Array], Array]
"""``f(h)``: a hidden state ``(batch, hidden)`` times (some of) the recurrence weights."""

GATES = {"RNN": 1, "GRU": 3, "LSTM": 4}

DEFAULT_ACTIVATIONS = {"RNN": ("Tanh",), "GRU": ("Sigmoid", "Tanh"), "LSTM": ("Sigmoid", "Tanh", "Tanh")}

_PARAMETERS = {
    "Affine": (1.0, 0.0),
    "LeakyRelu": (float_attribute(0.01), None),
    "ThresholdedRelu": (1.0, None),
    "ScaledTanh": (1.0, 1.0),
    "HardSigmoid": (float_attribute(0.2), 0.5),
    "Elu": (1.0, None),
}


@dataclass(frozen=True, slots=True)
class Cell:
    """Arguments of one direction's steps besides the projected input.

    Attributes:
        xp: Array module.
        hidden: Hidden size.
        activations: The functions f, g and (LSTM) h.
        project: Hidden state times all recurrence weights; the GRU's reset form projects its last gate by itself.
        project_last: As `project`, for the last gate alone (GRU).
        bias: Recurrence bias of the GRU's last gate, which cannot be added to the input's; None elsewhere.
        peepholes: Weights of the LSTM's i, o and f peepholes, or None.
        clip: Bound of what goes into the activations, or None.
        linear_before_reset: GRU: project before the reset gate is applied.
        input_forget: LSTM: the forget gate is 1 - i.
        reverse: Run from the last step to the first.
    """

    xp: Any
    hidden: int
    activations: tuple[Activation, ...]
    project: Project
    project_last: Project | None = None
    bias: Array | None = None
    peepholes: tuple[Array, Array, Array] | None = None
    clip: float | None = None
    linear_before_reset: bool = False
    input_forget: bool = False
    reverse: bool = False

    def clipped(self, x: Array) -> Array:
        """`x` within ±clip."""
        return x if self.clip is None else self.xp.clip(x, -self.clip, self.clip)


def rnn(cell: Cell, projected: Array, h: Array, c: Array | None) -> tuple[Array, Array | None]:
    """``f(x W + h R + b)``."""
    return cell.activations[0](cell.clipped(projected + cell.project(h))), c


def gru(cell: Cell, projected: Array, h: Array, c: Array | None) -> tuple[Array, Array | None]:
    """Gates z, r and the candidate; ``(1 - z) · candidate + z · h``."""
    f, g = cell.activations[:2]
    size = cell.hidden
    assert cell.project_last is not None
    if cell.linear_before_reset:
        recurrent = cell.project(h)
        gates = f(cell.clipped(projected[:, : 2 * size] + recurrent[:, : 2 * size]))
        last = recurrent[:, 2 * size :]
        if cell.bias is not None:
            last = last + cell.bias
        last = gates[:, size:] * last
    else:
        gates = f(cell.clipped(projected[:, : 2 * size] + cell.project(h)))
        last = cell.project_last(gates[:, size:] * h)
        if cell.bias is not None:
            last = last + cell.bias
    candidate = g(cell.clipped(projected[:, 2 * size :] + last))
    z = gates[:, :size]
    return candidate + z * (h - candidate), c


def lstm(cell: Cell, projected: Array, h: Array, c: Array | None) -> tuple[Array, Array | None]:
    """Gates i, o, f and the candidate; ``c' = f · c + i · candidate``, ``h' = o · activation(c')``."""
    f, g, last = cell.activations[:3]
    size = cell.hidden
    sums = projected + cell.project(h)
    assert c is not None
    if cell.peepholes is None:
        gates = f(cell.clipped(sums[:, : 3 * size]))
        i, o, forget = gates[:, :size], gates[:, size : 2 * size], gates[:, 2 * size :]
        if cell.input_forget:
            forget = 1 - i
        c = forget * c + i * g(cell.clipped(sums[:, 3 * size :]))
        return o * last(c), c
    peep_i, peep_o, peep_f = cell.peepholes
    i = f(cell.clipped(sums[:, :size] + peep_i * c))
    forget = 1 - i if cell.input_forget else f(cell.clipped(sums[:, 2 * size : 3 * size] + peep_f * c))
    c = forget * c + i * g(cell.clipped(sums[:, 3 * size :]))
    o = f(cell.clipped(sums[:, size : 2 * size] + peep_o * c))
    return o * last(c), c


def is_standard(kind: str, names: Sequence[str]) -> bool:
    """Return whether these are the default activations, in any case."""
    return tuple(name.lower() for name in names) == tuple(name.lower() for name in DEFAULT_ACTIVATIONS[kind])


def activation_of(xp: Any, name: str, alpha: float | None, beta: float | None, where: Location) -> Activation:
    """An activation function by its name in the specification, in any case.

    Raises:
        InvalidArgument: No such activation.
    """
    names = {known.lower(): known for known in (*_PARAMETERS, "Relu", "Tanh", "Sigmoid", "Softsign", "Softplus")}
    if name.lower() not in names:
        raise InvalidArgument(
            f"'{name}' is not an activation function of recurrent operators.",
            where=where,
            fix=f"Use one of {', '.join(sorted(names.values()))}.",
        )
    known = names[name.lower()]
    defaults = _PARAMETERS.get(known, (0.0, 0.0))
    a = defaults[0] if alpha is None else alpha
    b = (defaults[1] or 0.0) if beta is None else beta
    functions: dict[str, Activation] = {
        "Relu": lambda x: xp.maximum(x, 0),
        "Tanh": xp.tanh,
        "Sigmoid": lambda x: _sigmoid(xp, x),
        "Softsign": lambda x: x / (1 + xp.abs(x)),
        "Softplus": lambda x: xp.logaddexp(x, xp.zeros_like(x)),
        "Affine": lambda x: a * x + b,
        "LeakyRelu": lambda x: xp.where(x < 0, a * x, x),
        "ThresholdedRelu": lambda x: xp.where(x > a, x, xp.zeros_like(x)),
        "ScaledTanh": lambda x: a * xp.tanh(b * x),
        "HardSigmoid": lambda x: xp.clip(a * x + b, 0, 1),
        "Elu": lambda x: xp.where(x < 0, a * xp.expm1(xp.minimum(x, 0)), x),
    }
    return functions[known]


def _sigmoid(xp: Any, x: Array) -> Array:
    """1 / (1 + e^-x) through tanh: no overflow, and one transcendental function."""
    y = xp.tanh(x * x.dtype.type(0.5))
    y *= x.dtype.type(0.5)
    y += x.dtype.type(0.5)
    return y


def parameters_of(names: Sequence[str], values: Sequence[float], which: int) -> list[float | None]:
    """``activation_alpha`` (0) or ``activation_beta`` (1), one entry an activation.

    The lists hold entries only for activations that have such a parameter, in order; missing ones are defaults.
    """
    given = iter(values)
    known = {name.lower(): pair for name, pair in _PARAMETERS.items()}
    return [next(given, None) if known.get(name.lower(), (None, None))[which] is not None else None for name in names]
