"""Sets of shapes that passed a region's gate, and the limits that they have to keep.

One for each region, shared by all frames. Elements of indices are compared here in each run. Comes after `gate`;
`ort_py.execution` asks it before each run of a region.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import field
from typing import Any

from ort_py.constraints.gate import Admission, Gate
from ort_py.errors import LimitError, Location
from ort_py.lazy_dataclass import dataclass
from ort_py.limits.allocation import human_bytes
from ort_py.limits.limits import Limits

_REMEMBERED = 256
"""Sets of shapes of a region that are remembered to have passed its gate."""


@dataclass(slots=True, eq=False)
class Admissions:
    """The gate of one region with the limits of its session; shared by all frames.

    Attributes:
        _limits: Bounds for memory and time, None for none.
        rate: Multiplications that no thread exceeds in a second; None where nothing is known, so that no time is
            estimated.
        empty_values: Whether the region's provider computes values without elements as the specification says.
        late_broadcasts: As `IExecutionProvider.computes_late_broadcasts`.
    """

    gate: Gate
    _limits: Limits | None
    _threads: int
    _where: Location
    rate: float | None = None
    empty_values: bool = True
    late_broadcasts: bool = True
    _known: dict[Any, Admission] = field(default_factory=dict, init=False)

    def admit(self, key: Any, inputs: Sequence[Any]) -> Admission:
        """Look up or compute the admission for a set of shapes.

        Raises:
            KernelInputError: A constraint does not hold.
            LimitError: A value inside would be larger than one allocation may be, or the run would take too long.
        """
        found = self._known.get(key)
        if found is None:
            found = self.gate.admit(inputs)
            self._check_limits(found)
            if len(self._known) >= _REMEMBERED:
                self._known.pop(next(iter(self._known)), None)
            self._known[key] = found
        return found

    def _check_limits(self, admission: Admission) -> None:
        limits = self._limits
        if limits is None:
            return
        check_memory(admission.largest, limits.single_allocation_bytes)
        if limits.run_seconds is not None and self.rate is not None:
            check_work(admission.work, limits.run_seconds, self._threads * self.rate, self._where)


def check_work(work: float, seconds: float, rate: float, where: Location) -> None:
    """Refuse to begin what cannot end in time, of a region or of one kernel.

    Args:
        rate: Multiplications that this machine cannot exceed in a second.

    Raises:
        LimitError: This machine cannot do as much in that time.
    """
    if work > seconds * rate:
        raise LimitError(
            f"{work:.3g} multiplications are more than fit into {seconds:g} s.",
            where=where,
            why="native code cannot be interrupted, so its work is estimated before it begins",
            fix="Feed smaller inputs, or raise Limits.run_seconds.",
        )


def check_elements(gate: Gate, admission: Admission, arrays: Sequence[Any]) -> None:
    """Compare the elements of index inputs with their bounds.

    Args:
        admission: The gate's answer for the shapes.

    Raises:
        KernelInputError: An element is out of range.
    """
    for place, low, high, node, text in admission.bounds:
        array = arrays[place]
        if array.size:
            least, most = int(array.min()), int(array.max())
            if least < low or most > high:
                raise gate.refusal(node, text.format(least if least < low else most, low, high))


def check_memory(largest: tuple[int, str], single: int | None) -> None:
    """Compare the largest value of a region with the bound on one allocation.

    Args:
        largest: Bytes of the value, and its name.
        single: The bound, in bytes; None for none.
    """
    size, name = largest
    if single is not None and size > single:
        raise LimitError(
            f"A value of {human_bytes(size)} inside of a compiled region is larger than one allocation may be "
            f"({human_bytes(single)}).",
            where=Location(value=name),
            why="Limits.single_allocation_bytes bounds every value of a model",
            fix="If the model is right, raise Limits.single_allocation_bytes.",
        )
