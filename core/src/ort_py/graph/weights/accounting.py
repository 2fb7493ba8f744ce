"""The constants of one model: their number, their memory, and the release of those that no plan reads.

Used when a model is planned, and by reports. Does not depend on plans: a referenced array is in memory, no matter what
refers to it.
"""

from __future__ import annotations

from collections.abc import Iterable

from ort_py.graph.ir import Model, Weight, walk
from ort_py.graph.weights.weights import ArrayWeight, MappedWeight
from ort_py.lazy_dataclass import dataclass


@dataclass(frozen=True, slots=True)
class WeightBytes:
    """Bytes of constants on the host, each counted once.

    Attributes:
        held: Those in memory of their own.
        mapped: Those that are pages of a file; the system takes and drops them as it likes.
        released: Those that are not in memory: read from their file again at the next request.
    """

    held: int = 0
    mapped: int = 0
    released: int = 0


def named_weights(model: Model) -> dict[str, tuple[str, Weight]]:
    """(name of a value, weight) of each constant of a model, by the weight's key."""
    found: dict[str, tuple[str, Weight]] = {}
    for graph in walk(model.graph):
        for name, value in graph.initializers.items():
            if value.weight is not None:
                found.setdefault(value.weight.key, (name, value.weight))
    for weight in model.kept.weights if model.kept is not None else ():
        found.setdefault(weight.key, ("", weight))
    return found


def weight_bytes(weights: Iterable[Weight]) -> WeightBytes:
    """Memory that constants take."""
    held = mapped = released = 0
    for weight in weights:
        if isinstance(weight, ArrayWeight | MappedWeight) and not weight.loaded:
            released += weight.nbytes
        elif in_place(weight):
            mapped += weight.nbytes
        else:
            held += weight.nbytes
    return WeightBytes(held, mapped, released)


def in_place(weight: Weight) -> bool:
    """Return whether a constant is used where its file is mapped."""
    return bool(getattr(weight, "in_place", False))  # an ability of some kinds of weights only


def release_weights(model: Model) -> None:
    """Leave constants that can be read again to the plans that read them: what was packed, folded or moved goes."""
    for _, weight in named_weights(model).values():
        if isinstance(weight, ArrayWeight | MappedWeight):
            weight.release()
