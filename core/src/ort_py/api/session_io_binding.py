"""Values bound to inputs and outputs of a session, and runs with them: the part of a binding that onnxruntime has in C.

A few applications call it directly, others by `IOBinding`. Inputs are not copied: what is written to a bound array
before a run is seen by it. A bound output is written by the step that makes it, from the second run of the same shapes
on, if the step can write into a given array; otherwise the result is copied at the end of the run. A buffer that is
the memory of an input is updated in place if the step can do that and is the last to read the input, so that a step of
a decoder costs what it writes to its cache. One that overlaps an input in another way is always copied to, so it is
read in full before it is written. A run that fails may have written to the others.

Values on devices are read and written there, where a provider of the session can; see `device_runs`.

A binding belongs to one thread at a time. It does not depend on plans, slots or frames.
"""

from __future__ import annotations

from typing import Any, Protocol

import numpy as np

from ort_py.devices import HOST, Device
from ort_py.dtypes import DataType, data_type_of
from ort_py.engine.device_runs import run_on_devices
from ort_py.engine.engine import Engine
from ort_py.engine.runner import BoundMemory
from ort_py.engine.runs import run, run_bound
from ort_py.errors import ArgumentTypeError, BindingError, Location, OrtPyError, UsageError
from ort_py.execution.bound_outputs import WORTH_BYTES
from ort_py.options import RunOptions
from ort_py.suggestions import did_you_mean
from ort_py.values.device import OrtDevice
from ort_py.values.device_memory import memory_of, place_of, wanted_place
from ort_py.values.device_tensor import DeviceTensor
from ort_py.values.element_types import SUB_BYTE, element_type_of, shape_of
from ort_py.values.ort_value import OrtValue
from ort_py.values.vector import OrtValueVector

_EMPTY = OrtValue.of(None)


class HasEngine(Protocol):
    """A session, as far as bindings know it."""

    @property
    def engine(self) -> Engine:
        """The engine that runs the model now."""


class SessionIOBinding:
    """Values bound to the inputs and outputs of a session.

    Args:
        session: The session, or its handle; held.
    """

    def __init__(self, session: HasEngine) -> None:
        # A handle answers for its session, but only the session knows its own bindings.
        unwrapped: Any = getattr(session, "handled_session", session)
        self._session: HasEngine = unwrapped
        model = self._session.engine.description
        arguments = (*model.inputs, *model.overridable)
        self._input_names = [argument.name for argument in arguments]
        self._types = {argument.name: argument.type for argument in model.outputs}
        self._inputs: dict[str, Any] = {}
        self._targets: dict[str, OrtValue | None] = {}
        self._placed = False  # whether an input is on a device
        self._places: dict[str, Device] = {}  # of outputs wanted on one
        self._results: dict[str, OrtValue] = {}
        self._vector = OrtValueVector()
        self._names: list[str] | None = None
        self._into_memory = False
        self._memory: BoundMemory | None = None

    def bind_input(self, name: str, *arguments: Any) -> None:
        """Bind an input: `(name, array)`, or `(name, device, element_type, shape, address)`.

        Raises:
            UsageError: No such input, no array, a type ONNX lacks, or a device without memory here.
            ArgumentTypeError: Another number of arguments, or no integers where there should be.
        """
        if len(arguments) == 4:
            self.bind_ortvalue_input(name, _at(*arguments))
            return
        if len(arguments) != 1:
            raise ArgumentTypeError(
                f"bind_input takes a name and 1 or 4 values, not {len(arguments)}.", fix="Use IOBinding.bind_input."
            )
        (array,) = arguments
        if not isinstance(array, np.ndarray):
            raise UsageError(
                f"A {type(array).__name__} cannot be bound to input '{name}'.",
                where=Location(value=name),
                fix="Bind a NumPy array: numpy.asarray(value, dtype).",
            )
        element_type_of(array.dtype)
        self._bind(name, array)

    def bind_ortvalue_input(self, name: str, value: OrtValue) -> None:
        """Bind an input to a value.

        Raises:
            UsageError: No such input.
            ArgumentTypeError: It is not an OrtValue.
        """
        _expect_value(value)
        # A tensor stays the same array for the life of its value; other values may be exchanged by a run that they are
        # bound to the output of.
        self._bind(name, value._value if value.is_tensor() else value)

    def bind_output(self, name: str, *arguments: Any) -> None:
        """Bind an output: `(name, device)`, or `(name, device, element_type, shape, address)`.

        Raises:
            UsageError: A type ONNX lacks, a negative size, or an address on a device without memory here.
            ArgumentTypeError: Another number of arguments, no text for the name, or no integers where there should be.
        """
        _expect_name(name)
        if len(arguments) == 4:
            self.bind_ortvalue_output(name, _at(*arguments))
        elif len(arguments) > 1:
            raise ArgumentTypeError(
                f"bind_output takes a name and 1 or 4 values, not {len(arguments)}.", fix="Use IOBinding.bind_output."
            )
        else:
            self._targets[name] = None
            self._results.pop(name, None)
            self._want_on(name, wanted_place(*arguments) if arguments else HOST)

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        """Bind an output to a value, which every run writes to.

        Raises:
            UsageError: The value is over read-only memory.
            ArgumentTypeError: It is not an OrtValue.
        """
        _expect_name(name)
        content = _expect_value(value)._value
        if isinstance(content, np.ndarray) and not content.flags.writeable:
            raise UsageError(
                f"The value bound to output '{name}' uses read-only memory.",
                where=Location(value=name),
                fix="Make it with ortvalue_from_shape_and_type().",
            )
        self._targets[name] = self._results[name] = value
        self._want_on(name, content.device if isinstance(content, DeviceTensor) else HOST)

    def get_outputs(self) -> OrtValueVector:
        """The results of the last run, in the order the outputs were bound; the same vector every time."""
        self._vector._assign(self._results.get(name, _EMPTY) for name in self._targets)
        return self._vector

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the results, in the form `run` returns."""
        return [_copied(value._value) for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()
        self._placed = False

    def clear_binding_outputs(self) -> None:
        """Forget all outputs and results."""
        self._targets.clear()
        self._places.clear()
        self._results.clear()
        self._names = self._memory = None

    def synchronize_inputs(self) -> None:
        """Wait for all work on the devices that inputs are bound on: of other libraries too, which may write them."""
        for device in {value.device for value in self._inputs.values() if isinstance(value, DeviceTensor)}:
            memory = memory_of(device)
            if memory is not None:
                memory.synchronize()

    def synchronize_outputs(self) -> None:
        """Does nothing: a run has ended when its call returns."""

    def run(self, run_options: RunOptions | None = None) -> None:
        """Run the session with what is bound.

        Raises:
            BindingError: Nothing is bound to any output, the run failed, or a bound buffer does not fit its result.
        """
        targets = self._targets
        if not targets:
            raise BindingError("Error in execution: no output is bound.", fix="Call bind_output() for those you want.")
        if self._names is None:
            self._names = self._wanted()
        try:
            if self._places or self._placed:
                found = run_on_devices(self._session.engine, self._names, self._inputs, self._places, run_options)
            else:
                found = self._run_on_host(self._names, run_options)
        except OrtPyError as error:
            raise BindingError(
                f"Error in execution: {error.what}", where=error.where, why=error.why, fix=error.fix
            ) from error
        results = self._results
        known = [results.get(name) for name in targets]
        fits = [
            before is not None and _same_form(before._value, result)
            for before, result in zip(known, found, strict=True)
        ]
        if self._into_memory and not all(fits):
            # All are looked at before any is written to: a run that fails leaves the caller's memory as it was.
            for (name, target), result in zip(targets.items(), found, strict=True):
                if target is not None:
                    _expect_fit(name, target, result)
        for name, result, before, fit in zip(targets, found, known, fits, strict=True):
            if before is not None and fit:
                # onnxruntime writes later results into the memory of the first, and applications read them there.
                old = before._value
                if isinstance(old, DeviceTensor):
                    old.write(result, "run_with_iobinding")
                elif old is not result:
                    old[...] = result
            elif before is not None and targets[name] is not None:
                before._value = result
            else:
                results[name] = OrtValue.of_output(result, self._types[name])
                self._memory = None

    def _run_on_host(self, names: list[str], run_options: RunOptions | None) -> list[Any]:
        memory = self._memory if self._memory is not None else self._memory_of_outputs()
        if memory.arrays and run_options is None:
            return run_bound(self._session.engine, names, self._inputs, memory)
        return run(self._session.engine, names, self._inputs, run_options)

    def _want_on(self, name: str, device: Device) -> None:
        """Remember where an output is wanted, and forget what was prepared for others."""
        self._places.pop(name, None)
        if device.kind != HOST.kind:
            self._places[name] = device
        self._names = self._memory = None

    def _memory_of_outputs(self) -> BoundMemory:
        """The memory that steps might write to; without arrays where all are so small that a copy is quicker."""
        values = {name: value._value for name, value in self._results.items()}
        arrays = {name: array for name, array in values.items() if type(array) is np.ndarray}
        self._memory = BoundMemory(arrays if any(array.nbytes >= WORTH_BYTES for array in arrays.values()) else {})
        return self._memory

    def _wanted(self) -> list[str]:
        """Names of the outputs to ask for; empty for all in their order, which `run` answers fastest."""
        self._into_memory = any(target is not None for target in self._targets.values())
        names = list(self._targets)
        return [] if names == list(self._types) else names

    def _bind(self, name: str, value: Any) -> None:
        if name not in self._input_names:
            _expect_name(name)
            raise UsageError(
                f"The model has no input '{name}' to bind.",
                where=Location(value=str(name)),
                why=f"its inputs are {', '.join(map(repr, self._input_names)) or 'none'}",
                fix=did_you_mean(str(name), self._input_names) or "Use a name that get_inputs() lists.",
            )
        self._inputs[name] = value
        self._placed = any(isinstance(bound, DeviceTensor) for bound in self._inputs.values())


def _at(device: OrtDevice | Device, element_type: Any, shape: Any, address: Any) -> OrtValue:
    """A value over memory at an address of a device."""
    place = place_of(device)
    data_type, sizes = element_type_of(element_type), shape_of(shape)
    if not isinstance(address, int | np.integer):
        raise ArgumentTypeError(f"An address must be an integer, not {address!r}.", fix="Pass e.g. array.ctypes.data.")
    if data_type is DataType.STRING or data_type in SUB_BYTE:
        raise UsageError(
            f"Memory at an address cannot hold {data_type.onnx_name} here.",
            why="strings are Python objects, and a session uses one byte per element for packed types",
            fix="Bind an OrtValue instead.",
        )
    if not address and 0 not in sizes:
        raise UsageError("The address is null.", fix="Pass the address of the first byte.")
    if place.kind != HOST.kind:
        return OrtValue._on_device(DeviceTensor.at_address(place, int(address), data_type, sizes))
    return OrtValue._at(int(address), data_type, sizes)


def _expect_name(name: Any) -> None:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"The name to bind is {name!r}.", fix="Pass the name of an input or output.")


def _expect_value(value: Any) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise ArgumentTypeError(
            f"The argument must be an OrtValue, not {type(value).__name__}.",
            fix="Make one with OrtValue.ortvalue_from_numpy().",
        )
    return value


def _same_form(before: Any, result: Any) -> bool:
    if before is result and type(before) is np.ndarray:
        return True
    if type(before) is DeviceTensor and type(result) is DeviceTensor and before.device != result.device:
        return False
    return (
        type(before) in (np.ndarray, DeviceTensor)
        and type(result) is type(before)
        and before.shape == result.shape
        and before.dtype == result.dtype
    )


def _expect_fit(name: str, target: OrtValue, result: Any) -> None:
    bound = target._value
    if not isinstance(bound, np.ndarray | DeviceTensor) or _same_form(bound, result):
        return
    found = (
        f"{data_type_of(result.dtype).onnx_name} {list(result.shape)}"
        if isinstance(result, np.ndarray | DeviceTensor)
        else "no tensor"
    )
    raise BindingError(
        f"Error in execution: the memory bound to output '{name}' does not fit its result.",
        where=Location(value=name),
        why=f"bound: {data_type_of(bound.dtype).onnx_name} {list(bound.shape)}; result: {found}",
        fix="Bind memory of the result's type and shape, or bind_output() without memory.",
    )


def _copied(value: Any) -> Any:
    if isinstance(value, np.ndarray):
        return value.copy()
    if isinstance(value, DeviceTensor):
        return value.to_host()
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return dict(value) if isinstance(value, dict) else value
