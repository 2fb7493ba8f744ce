"""The runs of one frame with inputs and outputs on a device.

Comes after `device_values`, before `region`. Values are bound as they are, and outputs are onnxruntime's own: a region
behind this one reads them without a copy.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from ort_py.contracts import FrameResources, RegionInstance
from ort_py_onnxruntime.device_arrays import OrtArray
from ort_py_onnxruntime.device_values import Queue, Residence
from ort_py_onnxruntime.native import native

__all__ = ["DeviceInstance"]

_NO_WAIT = "disable_synchronize_execution_providers"
"""Key of a run's entry with which onnxruntime does not wait for the device."""


class DeviceInstance(RegionInstance):
    """A binding of its own.

    Args:
        session: Of onnxruntime.
        frame: What the frame lends; its stream is a queue, or None where onnxruntime waits after each run.
        residence: The device.
    """

    def __init__(self, session: Any, frame: FrameResources, residence: Residence) -> None:
        real = native()
        self._session = session
        self._admit = frame.admit
        self._place = residence.place
        self._queue = frame.stream if isinstance(frame.stream, Queue) else None
        self._options = real.RunOptions()
        if self._queue is not None:
            self._options.add_run_config_entry(_NO_WAIT, "1")
        self._inputs = [value.name for value in session.inputs_meta]
        self._outputs = [value.name for value in session.outputs_meta]
        self._binding = real.SessionIOBinding(session)
        self._shapes: tuple[tuple[int, ...], ...] | None = None
        self._required: Any = None
        self._checked = False
        self._given: Sequence[OrtArray] = ()

    @property
    def admits_shapes(self) -> bool:
        """True, as on the host."""
        return True

    def bind(self, inputs: Sequence[OrtArray], outputs: Sequence[Any]) -> None:
        """Take this run's values.

        Raises:
            RunDeclined: The engine's check of new shapes leaves them to others.
        """
        shapes = tuple([array.shape for array in inputs])
        if shapes != self._shapes:
            self._shapes, self._checked = None, False
            self._required = None if self._admit is None else self._admit(inputs)
            self._shapes = shapes
        self._given = tuple(inputs)

    def __call__(self) -> Sequence[OrtArray]:
        """Run, or queue a run.

        Raises:
            EPFail: An output has another shape than the operators require.
            Exception: Whatever onnxruntime raises.
        """
        given, self._given = self._given, ()
        binding = self._binding
        try:
            for name, array in zip(self._inputs, given, strict=True):
                binding.bind_ortvalue_input(name, array.value)
            for name in self._outputs:
                # Bound for each run: onnxruntime would write to the value of the run before.
                binding.bind_output(name, self._place)
            self._session.run_with_iobinding(binding, self._options)
            made = [self._owned(value) for value in binding.get_outputs()]
        finally:
            binding.clear_binding_inputs()
            binding.clear_binding_outputs()
        if not self._checked:
            if self._required is not None:
                self._required.check([array.shape for array in made], [array.dtype for array in made])
            self._checked = True
        seen = {array.address for array in given} - {0}
        results: list[OrtArray] = []
        for array in made:
            # A value that passes through onnxruntime unchanged must still be an array of its own.
            shared = array.address in seen
            if shared and self._queue is not None:
                self._wait(given, made)
            results.append(array.copy() if shared else array)
            seen.add(results[-1].address or -1)
        if self._queue is not None:
            self._queue.queued(binding, (*given, *made))
            for array in made:
                array.wait = self._queue.synchronize
        return results

    def _owned(self, value: Any) -> OrtArray:
        """A value that outlives the binding's own, which the next run replaces: a vector takes a share in it."""
        vector = native().OrtValueVector()
        vector.push_back(value)
        return OrtArray(vector[0], self._place, owner=vector)

    def _wait(self, given: Sequence[OrtArray], made: Sequence[OrtArray]) -> None:
        assert self._queue is not None, "otherwise onnxruntime has waited"
        self._queue.queued(self._binding, (*given, *made))
        self._queue.synchronize()

    def close(self) -> None:
        """Let go of the binding before the session."""
        self._binding = None
        self._session = None
