"""A region for one set of shapes: the runtime that computes it, and what has to live as long as that."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_xnnpack.binding.memory import Array, begin_of, roomy
from ort_py_xnnpack.binding.subgraph import Runtime

__all__ = ["Form", "Shapes"]

Shapes = tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class Form:
    """What runs.

    Attributes:
        runtime: XNNPACK's.
        outputs: Shape of each output.
        flag: A number that is finite after a run that lost nothing; None where nothing can be lost.
        kept: Constants that runs read.
        generation: That of the pools when it was made.
        addresses: Where the arrays of the last run were.
        flag_address: Where the flag is, if there is one.
    """

    runtime: Runtime
    outputs: Shapes
    flag: Array | None
    kept: Sequence[Array]
    generation: int
    addresses: list[int]
    flag_address: list[int]

    @classmethod
    def of(cls, runtime: Runtime, outputs: Shapes, kept: Sequence[Array], generation: int, *, flagged: bool) -> Form:
        """A form that has not run."""
        flag = roomy((1,)) if flagged else None
        return cls(runtime, outputs, flag, kept, generation, [], [] if flag is None else [begin_of(flag)])
