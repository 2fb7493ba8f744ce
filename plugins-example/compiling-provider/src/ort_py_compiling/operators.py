"""The operators: for each the NumPy function that computes it, and the schema versions that mean the same.

Comes before `compiler`, which chains them, and `provider`, which claims them. Knows no graph.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np

__all__ = ["OPERATORS", "Operator"]

Ufunc: TypeAlias = Callable[..., Any]
"""``f(*inputs, out=None)``: element by element, with NumPy's broadcasting."""


@dataclass(frozen=True, slots=True)
class Operator:
    """One operator.

    Attributes:
        function: Computes it.
        since: First schema version that is computed so.
        last: Last one: a newer version is left alone until somebody has read what changed.
    """

    function: Ufunc
    since: int
    last: int


def _relu(x: Any, out: Any = None) -> Any:
    return np.maximum(x, x.dtype.type(0), out=out)


OPERATORS = {
    "Abs": Operator(np.absolute, 6, 13),
    "Add": Operator(np.add, 7, 14),
    "Ceil": Operator(np.ceil, 6, 13),
    "Div": Operator(np.divide, 7, 14),
    "Exp": Operator(np.exp, 6, 13),
    "Floor": Operator(np.floor, 6, 13),
    "Log": Operator(np.log, 6, 13),
    "Mul": Operator(np.multiply, 7, 14),
    "Neg": Operator(np.negative, 6, 13),
    "Relu": Operator(_relu, 6, 14),
    "Sqrt": Operator(np.sqrt, 6, 13),
    "Sub": Operator(np.subtract, 7, 14),
    "Tanh": Operator(np.tanh, 6, 13),
}
