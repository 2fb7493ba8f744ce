"""A compiled region: a written region, the model that was loaded from it, and the state of a frame.

The model is shared by threads, whose runs take turns. A forked child has neither the threads nor the services that run
it: there a region refuses its runs, and is never released.
"""

from __future__ import annotations

import ctypes
import threading
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from ort_py.contracts import CompiledRegion, FrameResources, RegionInstance, RunDeclined, current_time_check
from ort_py.errors import EPFail
from ort_py.platform.forks import notify_after_fork
from ort_py_coreml.artifact import Border, pack
from ort_py_coreml.back_end import Array, Model
from ort_py_coreml.folder import Folder

__all__ = ["CoreMLRegion"]


class CoreMLRegion(CompiledRegion):
    """A region.

    Args:
        package: A package or an asset, in a folder that the region owns.
        folder: That folder.
        border: Its inputs and outputs.
        model: The model that was loaded from it.
        facts: What has to be equal for its bytes to be valid elsewhere.
    """

    def __init__(
        self,
        package: Path,
        folder: Folder,
        border: Border,
        model: Model,
        facts: Mapping[str, Any],
    ) -> None:
        self._package, self._folder = package, folder
        self._facts = facts
        self.border = border
        self._model: Model | None = model
        self._lock = threading.Lock()
        self._inherited = False
        notify_after_fork(self)

    def after_fork(self) -> None:
        """Note that this is a child. The model goes nowhere: its end would wait for threads of the parent."""
        self._inherited = True
        if self._model is not None:
            ctypes.pythonapi.Py_IncRef(ctypes.py_object(self._model))
            self._model = None

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """Return a frame's state."""
        return _Instance(self)

    def predict(self, feeds: Mapping[str, Array], check: Callable[[], None] | None) -> Mapping[str, Array]:
        """Run once, when no other thread does.

        Raises:
            EPFail: This is a child of the process that loaded the model.
        """
        if self._inherited:
            raise EPFail(
                "This process was forked from the one that loaded a region, whose threads it does not have.",
                fix="start processes with multiprocessing's 'spawn', or fork before the first session",
            )
        with self._lock:
            assert self._model is not None, "frames are closed before their region"
            return self._model.predict(feeds, check)

    def serialize(self) -> bytes:
        """Return the package as bytes."""
        return pack(self._package, self.border, self._facts)

    def close(self) -> None:
        """Release the model, and delete the package."""
        model, self._model = self._model, None
        if model is not None:
            model.close()
        self._folder.remove()


class _Instance(RegionInstance):
    """A frame's state of a region."""

    def __init__(self, region: CoreMLRegion) -> None:
        self._region = region
        self._feeds: dict[str, Array] = {}
        self._wanted: Sequence[Array | None] = ()

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        """Note this run's arrays.

        Raises:
            RunDeclined: The package was not made for these shapes.
        """
        arrays = [np.atleast_1d(np.asarray(array)) for array in inputs]
        reason = self._region.border.refusal(tuple(array.shape for array in arrays))
        if reason is not None:
            raise RunDeclined(reason, early=True)
        self._feeds = {f"in{number}": _narrowed(array) for number, array in enumerate(arrays)}
        self._wanted = outputs

    def __call__(self) -> Sequence[Any]:
        """Run, and copy the results to where they are wanted, or have to have another type."""
        feeds, self._feeds = self._feeds, {}
        found = self._region.predict(feeds, current_time_check())
        results: list[Array] = []
        for number, (wanted, kind) in enumerate(zip(self._wanted, self._region.border.results, strict=True)):
            result = np.asarray(found[f"out{number}"])
            result = result.reshape(()) if number in self._region.border.bare else result
            if wanted is not None and wanted.shape == result.shape:
                wanted[...] = result
                results.append(wanted)
            else:
                results.append(np.asarray(result, kind, order="C"))
        self._wanted = ()
        return results


def _narrowed(array: Array) -> Array:
    """Return an input in the type that the package reads.

    Raises:
        RunDeclined: A number is too large for int32, the only integers of Core ML.
    """
    if array.dtype == np.int64 and array.size and (array.min() < -(2**31) or array.max() >= 2**31):
        raise RunDeclined("an integer is too large for int32, the only integers of Core ML", early=True)
    return array if array.dtype == np.float32 else array.astype(np.int32)
