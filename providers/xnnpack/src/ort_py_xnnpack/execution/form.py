"""A region for one set of shapes: the runtime that computes it, and what has to live as long as that. Some forms can
change to other shapes."""

from __future__ import annotations

from collections.abc import Sequence

from ort_py.lazy_dataclass import dataclass
from ort_py_xnnpack.binding.memory import Array, begin_of, roomy
from ort_py_xnnpack.binding.subgraph import Runtime

__all__ = ["Form", "Shapes", "are_alike"]

Shapes = tuple[tuple[int, ...], ...]


@dataclass(slots=True)
class Form:
    """The compiled form that runs.

    Attributes:
        runtime: XNNPACK's.
        outputs: Shape of each output.
        flag: A number that is finite after a run that lost nothing; None where nothing can be lost.
        kept: Constants that runs read.
        generation: That of the pools when it was made.
        addresses: Where the arrays of the last run were.
        flag_address: Where the flag is, if there is one.
        follows: Whether the runtime can be told other sizes of all axes but the last.
    """

    runtime: Runtime
    outputs: Shapes
    flag: Array | None
    kept: Sequence[Array]
    generation: int
    addresses: list[int]
    flag_address: list[int]
    follows: bool

    @classmethod
    def of(
        cls,
        runtime: Runtime,
        outputs: Shapes,
        kept: Sequence[Array],
        generation: int,
        *,
        flagged: bool,
        follows: bool = False,
    ) -> Form:
        """A form that has not run."""
        flag = roomy((1,)) if flagged else None
        return cls(runtime, outputs, flag, kept, generation, [], [] if flag is None else [begin_of(flag)], follows)

    def change(self, shapes: Shapes) -> None:
        """Compute with inputs of other shapes from now on.

        Raises:
            EPFail: XNNPACK has nothing for them.
        """
        self.runtime.reshape(shapes)
        count = len(shapes)
        self.outputs = tuple(self.runtime.shape(count + place, len(shape)) for place, shape in enumerate(self.outputs))
        self.addresses = []


def are_alike(one: Shapes, other: Shapes) -> bool:
    """Return whether two sets of shapes differ in other sizes than the last of each only."""
    return all(len(a) == len(b) and a[-1:] == b[-1:] for a, b in zip(one, other, strict=True))
