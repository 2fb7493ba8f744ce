"""One frame's state of a region: a form for each of the last few sets of shapes. Used by one thread at a time."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.contracts import RegionInstance, RequiredOutputs, RunDeclined
from ort_py_xnnpack.binding.memory import Array, begin_of, can_be_overread, padded, roomy
from ort_py_xnnpack.binding.pool import pools
from ort_py_xnnpack.execution.builder import Refused
from ort_py_xnnpack.execution.form import Form, Shapes, are_alike

if TYPE_CHECKING:
    from ort_py_xnnpack.execution.region import XnnpackRegion

__all__ = ["XnnpackInstance"]

_MOST_FORMS = 8
"""Sets of shapes that are remembered; the one that was not used for the longest time goes."""

_asarray = np.asarray


class XnnpackInstance(RegionInstance):
    """A frame's state.

    Args:
        region: The region.
        threads: Threads of a run.
        shared, admit: See `FrameResources`.
    """

    def __init__(
        self,
        region: XnnpackRegion,
        threads: int,
        shared: dict[Any, Any],
        admit: Callable[[Sequence[Any]], RequiredOutputs] | None = None,
    ) -> None:
        self._region = region
        self._shared = shared
        self._dtypes = region.dtypes
        self._threads = threads
        self._admit = admit
        self._forms: dict[Shapes, Form] = {}
        self._form: Form | None = None
        self._shapes: Shapes | None = None
        self._arrays: list[Array] = []
        self._written: list[Array] = []
        self._results: list[Array] = []

    @property
    def admits_shapes(self) -> bool:
        """Shapes are compared here anyway, to find their form."""
        return True

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        """Note this run's arrays, and tell XNNPACK where they are if that has changed.

        Raises:
            RunDeclined: XNNPACK has nothing for these shapes.
            Exception: What `FrameResources.admit` raises.
        """
        shapes: Shapes = tuple([array.shape for array in inputs])
        form = self._form
        if form is not None and form.runtime.workspace.lock.locked():
            # Another region of the frame runs at the same time: from now on this one has a workspace of its own.
            self._shared = {}
            self.close()
            form = None
        if form is None or shapes != self._shapes or form.generation != pools.generation:
            form = self._form = self._form_for(shapes, inputs)
            self._shapes = shapes
        self._arrays, self._results, self._written = [], [], []  # those of a run that was bound and never begun
        arrays, addresses = self._arrays, []
        for array in map(_asarray, inputs):
            begin = begin_of(array)
            if not can_be_overread(array, begin):
                array = padded(array)  # noqa: PLW2901 - the copy takes its place
                begin = begin_of(array)
            arrays.append(array)
            addresses.append(begin)
        results, written = self._results, self._written
        for given, shape, dtype in zip(outputs, form.outputs, self._dtypes, strict=True):
            result = array = roomy(shape, dtype) if given is None or given.shape != shape else given
            begin = begin_of(array)
            if array is given and not can_be_overread(array, begin):
                array = roomy(shape, dtype)  # what is written may be read again inside the region, beyond its end too
                begin = begin_of(array)
            results.append(result)
            written.append(array)
            addresses.append(begin)
        if addresses != form.addresses:
            form.runtime.set_up([*addresses, *form.flag_address])
            form.addresses = addresses

    def __call__(self) -> Sequence[Any]:
        """Run; one array an output."""
        form = self._form
        assert form is not None, "bind() comes before the call"
        form.runtime.run()
        results, self._results = self._results, []
        for result, written in zip(results, self._written, strict=True):
            if written is not result:
                result[...] = written
        self._arrays, self._written = [], []
        if form.flag is not None and not math.isfinite(form.flag[0]):
            raise RunDeclined("a value of which the largest or the mean is wanted is not finite, and might be lost")
        return results

    def close(self) -> None:
        """Let go of the runtimes."""
        forms, self._forms = self._forms, {}
        self._form, self._shapes = None, None
        for form in forms.values():
            form.runtime.close()

    def _changed(self, shapes: Shapes) -> Form | None:
        """Return the form of other shapes, reshaped to these, where it can follow them."""
        for known, form in self._forms.items():
            if form.follows and form.generation == pools.generation and are_alike(known, shapes):
                del self._forms[known]
                self._region.change(form, shapes)
                return form
        return None

    def _form_for(self, shapes: Shapes, inputs: Sequence[Any]) -> Form:
        form = self._forms.pop(shapes, None)
        if form is None or form.generation != pools.generation:
            required = None if self._admit is None else self._admit(inputs)
            try:
                workspace = self._region.workspaces.of(self._shared)
                form = self._changed(shapes) or self._region.form(shapes, self._threads, workspace)
            except Refused as error:
                raise RunDeclined(error.what, early=True) from error
            if required is not None:
                required.check(form.outputs, self._dtypes)
            if len(self._forms) >= _MOST_FORMS:
                self._forms.pop(next(iter(self._forms))).runtime.close()
        self._forms[shapes] = form
        return form
