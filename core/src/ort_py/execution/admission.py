"""The checks between a run and a compiled region: the region's gate and the limits of the session.

A frame's instance of a region is wrapped once, unless it hands shapes that are new to it to the gate itself. New shapes
go through the gate and are remembered; known ones cost a comparison. It is independent of operators and providers; the
rules are in `ort_py.constraints`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, TypeVar

import numpy as np

from ort_py.constraints import check_elements
from ort_py.contracts import RegionInstance, RequiredOutputs, RunDeclined
from ort_py.errors import KernelInputError

if TYPE_CHECKING:
    from ort_py.constraints import Admission, Admissions

T = TypeVar("T")


def admitted(
    admissions: Admissions | None,
    make: Callable[[Callable[[Sequence[Any]], RequiredOutputs] | None], RegionInstance],
    *,
    declines: bool,
    compared: frozenset[int] = frozenset(),
) -> RegionInstance:
    """The instance of a region whose inputs are checked, by itself or by a wrapper.

    Args:
        admissions: The gate and the limits; None where nothing is checked.
        make: Makes the instance, given what checks new shapes.
        compared: Inputs whose elements the instance compares too, if it checks new shapes.
    """
    if admissions is None:
        return make(None)
    check = ShapeCheck(admissions, declines=declines)
    if admissions.gate.reads_beyond(compared):  # equal shapes are not enough to know that a run is right
        return AdmittedInstance(make(None), check)
    instance = make(check.required)
    return instance if instance.admits_shapes else AdmittedInstance(instance, check)


class ShapeCheck:
    """The gate of a region as one frame's instance meets it.

    Args:
        declines: Whether the kernels of the region's nodes may answer what the gate refuses: they say what is wrong in
            their own words, and where they take more than the gate does, they are right.
    """

    __slots__ = ("_declines", "admissions")

    def __init__(self, admissions: Admissions, *, declines: bool) -> None:
        self.admissions = admissions
        self._declines = declines

    def required(self, inputs: Sequence[Any]) -> RequiredOutputs:
        """Check inputs that are new to an instance, and return the outputs that the region has to make of them."""
        seen = tuple([np.asarray(inputs[place]).tobytes() for place in self.admissions.gate.reads])
        admission = self.admit((tuple([array.shape for array in inputs]), seen), inputs)
        if admission.bounds:  # of inputs whose elements the instance compares too
            self.guarded(check_elements, self.admissions.gate, admission, inputs)
        return self.outputs_of(admission)

    def outputs_of(self, admission: Admission) -> RequiredOutputs:
        """The outputs that the region has to make of inputs that were admitted."""
        return RequiredOutputs(admission.outputs, self.admissions.gate.output_dtypes)

    def admit(self, key: Any, inputs: Sequence[Any]) -> Admission:
        """Look up or compute the admission for a set of shapes.

        Raises:
            RunDeclined: Kernels may answer, and a constraint is violated, or the provider does not compute such sizes.
            KernelInputError: One is violated, and they may not.
            LimitError: A limit of the session would be exceeded.
        """
        admission = self.guarded(self.admissions.admit, key, inputs)
        if admission.empty and not self.admissions.empty_values:
            # Kernels answer as they do for all runs of these shapes; where there are none, the engine says so.
            raise RunDeclined(f"'{admission.empty}' is empty, which the provider does not compute", early=True)
        if admission.late and not self.admissions.late_broadcasts:
            reason = "a size that only the run shows repeats an operand or is less than a window, which the provider"
            raise RunDeclined(f"{admission.late}: {reason} does not compute", early=True)
        return admission

    def guarded(self, check: Callable[..., T], *arguments: Any) -> T:
        """Return the result of a check. A refusal is left to the kernels if they may answer."""
        try:
            return check(*arguments)
        except KernelInputError as error:
            if not self._declines:
                raise
            raise RunDeclined(error.what, early=True) from error


class AdmittedInstance(RegionInstance):
    """An instance behind its region's gate."""

    __slots__ = ("_admission", "_bind", "_check", "_instance", "_reads", "_run", "_seen", "_shapes")

    def __init__(self, instance: RegionInstance, check: ShapeCheck) -> None:
        self._instance = instance
        self._bind, self._run = instance.bind, instance.__call__
        self._check = check
        self._reads = check.admissions.gate.reads
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        self._seen: tuple[bytes, ...] = ()
        self._admission: Admission | None = None

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        """Check what is new about the inputs, then hand them on.

        Raises:
            RunDeclined, KernelInputError, LimitError: As `ShapeCheck.admit`.
        """
        shapes = tuple([array.shape for array in inputs])
        if shapes != self._shapes or self._reads:
            self._admit(shapes, inputs)
        if self._admission.bounds:  # type: ignore[union-attr]  # `_admit` came first
            self._check.guarded(check_elements, self._check.admissions.gate, self._admission, inputs)
        self._bind(inputs, outputs)

    def __call__(self) -> Sequence[Any]:
        """Run.

        Raises:
            EPFail: The region made outputs of other shapes or types than the specification says.
        """
        made = self._run()
        admission = self._admission
        assert admission is not None
        if not admission.fits:
            required = self._check.outputs_of(admission)
            required.check([tuple(array.shape) for array in made], [array.dtype for array in made])
            admission.fits = True
        return made

    def _admit(self, shapes: tuple[tuple[int, ...], ...], inputs: Sequence[Any]) -> None:
        """Ask the gate, unless shapes and the elements that decide shapes are those of the run before."""
        seen = tuple([np.asarray(inputs[place]).tobytes() for place in self._reads])
        if shapes == self._shapes and seen == self._seen:
            return
        self._shapes = None
        self._admission = self._check.admit((shapes, seen), inputs)
        self._shapes, self._seen = shapes, seen

    def reserved_bytes(self) -> int:
        """Bytes that the provider's instance holds."""
        return self._instance.reserved_bytes()

    def close(self) -> None:
        self._instance.close()
