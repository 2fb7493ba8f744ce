"""IOBinding: inputs and outputs named once, run many times; results land in memory the caller chose.

A binding holds values by name and runs its session with them; `SessionIOBinding` is the part onnxruntime keeps in C,
which a few applications call directly. Inputs are not copied: what is written to a bound array before a run is seen by
it. A bound output receives the result by a copy at the end of the run, so a buffer that is input and output at once is
read in full before it is written.

A binding belongs to one thread at a time. Knows nothing of plans, slots or frames.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from ort_py.api.options import RunOptions
from ort_py.api.values.device import OrtDevice, expect_host
from ort_py.api.values.element_types import SUB_BYTE, element_type_of, shape_of
from ort_py.api.values.ort_value import OrtValue
from ort_py.api.values.vector import OrtValueVector
from ort_py.dtypes import DataType, data_type_of
from ort_py.errors import ArgumentTypeError, BindingError, Location, OrtPyError, UsageError
from ort_py.suggestions import did_you_mean

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.api.session_handle import SessionHandle

__all__ = ["IOBinding", "SessionIOBinding"]

_EMPTY = OrtValue.of(None)


class SessionIOBinding:
    """Values bound to the inputs and outputs of a session.

    Args:
        session: The session, or its handle; held.
    """

    def __init__(self, session: InferenceSession | SessionHandle) -> None:
        # A handle answers for its session, but only the session knows its own bindings.
        unwrapped: Any = getattr(session, "handled_session", session)
        self._session: InferenceSession = unwrapped
        arguments = (*self._session.get_inputs(), *self._session.get_overridable_initializers())
        self._input_names = [argument.name for argument in arguments]
        self._types = {argument.name: argument.type for argument in self._session.get_outputs()}
        self._inputs: dict[str, Any] = {}
        self._targets: dict[str, OrtValue | None] = {}
        self._results: dict[str, OrtValue] = {}
        self._vector = OrtValueVector()
        self._names: list[str] | None = None
        self._into_memory = False

    def bind_input(self, name: str, *arguments: Any) -> None:
        """Bind an input: `(name, array)`, or `(name, device, element_type, shape, address)`.

        Raises:
            UsageError: No such input, no array, a type ONNX lacks, or another device than the host.
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
            ArgumentTypeError: It is no OrtValue.
        """
        _expect_value(value)
        # A tensor stays the same array for the life of its value; other values may be exchanged by a run that they are
        # bound to the output of.
        self._bind(name, value.value if value.is_tensor() else value)

    def bind_output(self, name: str, *arguments: Any) -> None:
        """Bind an output: `(name, device)`, or `(name, device, element_type, shape, address)`.

        Raises:
            UsageError: A type ONNX lacks, a negative size, or an address on another device than the host.
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
            self._names = None

    def bind_ortvalue_output(self, name: str, value: OrtValue) -> None:
        """Bind an output to a value, which every run writes to.

        Raises:
            UsageError: The value is over read-only memory.
            ArgumentTypeError: It is no OrtValue.
        """
        _expect_name(name)
        content = _expect_value(value).value
        if isinstance(content, np.ndarray) and not content.flags.writeable:
            raise UsageError(
                f"The value bound to output '{name}' is over read-only memory.",
                where=Location(value=name),
                fix="Make it with ortvalue_from_shape_and_type().",
            )
        self._targets[name] = self._results[name] = value
        self._names = None

    def get_outputs(self) -> OrtValueVector:
        """The results of the last run, in the order the outputs were bound; the same vector every time."""
        self._vector._assign(self._results.get(name, _EMPTY) for name in self._targets)
        return self._vector

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the results, in the form `run` returns."""
        return [_copied(value.value) for value in self.get_outputs()]

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._inputs.clear()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs and results."""
        self._targets.clear()
        self._results.clear()
        self._names = None

    def synchronize_inputs(self) -> None:
        """Does nothing: runs wait for their copies themselves."""

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
            found = self._session.run(self._names, self._inputs, run_options)
        except OrtPyError as error:
            raise BindingError(
                f"Error in execution: {error.what}", where=error.where, why=error.why, fix=error.fix
            ) from error
        if self._into_memory:
            # All are looked at before any is written to: a run that fails leaves the caller's memory as it was.
            for (name, target), result in zip(targets.items(), found, strict=True):
                if target is not None:
                    _expect_fit(name, target, result)
        results = self._results
        for name, result in zip(targets, found, strict=True):
            before = results.get(name)
            if before is not None and _same_form(old := before._value, result):
                # onnxruntime writes later results into the memory of the first, and applications read them there.
                old[...] = result
            elif before is not None and targets[name] is not None:
                before._value = result
            else:
                results[name] = OrtValue.of_output(result, self._types[name])

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


class IOBinding:
    """Inputs and outputs bound to a session; run it with `InferenceSession.run_with_iobinding`.

    Args:
        session: The session; `InferenceSession.io_binding` makes a binding too.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session
        self._iobinding = SessionIOBinding(session)

    def bind_cpu_input(self, name: str, arr_on_cpu: Any) -> None:
        """Bind an input to an array, which is not copied: later writes to it are seen by later runs.

        Args:
            name: The input.
            arr_on_cpu: NumPy array; its type and shape are checked by the run.

        Raises:
            UsageError: No such input, no array, or a dtype ONNX lacks.
        """
        self._iobinding.bind_input(name, arr_on_cpu)

    def bind_input(
        self, name: str, device_type: str, device_id: int, element_type: Any, shape: Any, buffer_ptr: int
    ) -> None:
        """Bind an input to memory at an address, which must stay valid until the last run with this binding.

        Args:
            name: The input.
            device_type: ``"cpu"``.
            device_id: Number of the device.
            element_type: NumPy dtype or type, or a number of ``TensorProto.DataType``.
            shape: Shape; the memory is C-contiguous.
            buffer_ptr: Address of the first byte.

        Raises:
            UsageError: No such input, no memory of that device here, or an impossible type, shape or address.
            ArgumentTypeError: The address or the shape are no integers.
        """
        self._iobinding.bind_input(name, OrtDevice.make(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value.

        Raises:
            UsageError: No such input.
            ArgumentTypeError: It is no OrtValue.
        """
        self._iobinding.bind_ortvalue_input(name, ortvalue)

    def bind_output(
        self,
        name: str,
        device_type: str = "cpu",
        device_id: int = 0,
        element_type: Any = None,
        shape: Any = None,
        buffer_ptr: int | None = None,
    ) -> None:
        """Ask for an output, with or without memory for it.

        Without an address the first run allocates; later runs write into the same memory as long as the shape stays.
        With one, the memory must stay valid as long as the binding, and the result must have this type and shape.

        Args:
            name: The output; the run says where there is none of this name.
            device_type, device_id: Where it is wanted: on the host, whatever is said here without an address.
            element_type, shape, buffer_ptr: As in `bind_input`.

        Raises:
            ValueError: An address without element type or shape.
            UsageError: An impossible type, shape or address.
        """
        device = OrtDevice.make(device_type, device_id)
        if buffer_ptr is None:
            self._iobinding.bind_output(name, device)
        elif element_type is None or shape is None:
            raise ValueError(f"Output '{name}': element_type and shape are needed with a buffer_ptr.")
        else:
            self._iobinding.bind_output(name, device, element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to a value, whose memory every run writes to.

        Raises:
            UsageError: It is over read-only memory.
            ArgumentTypeError: It is no OrtValue.
        """
        self._iobinding.bind_ortvalue_output(name, ortvalue)

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order the outputs were bound."""
        return list(self._iobinding.get_outputs())

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """`get_outputs` as a vector, which later calls fill anew."""
        return self._iobinding.get_outputs()

    def copy_outputs_to_cpu(self) -> list[Any]:
        """Copies of the results, in the form `run` returns: arrays, lists, dicts, None."""
        return self._iobinding.copy_outputs_to_cpu()

    def clear_binding_inputs(self) -> None:
        """Forget all inputs."""
        self._iobinding.clear_binding_inputs()

    def clear_binding_outputs(self) -> None:
        """Forget all outputs and results."""
        self._iobinding.clear_binding_outputs()

    def synchronize_inputs(self) -> None:
        """Does nothing: runs wait for their copies themselves."""

    def synchronize_outputs(self) -> None:
        """Does nothing: a run has ended when its call returns."""

    def __repr__(self) -> str:
        inputs, outputs = self._iobinding._inputs, self._iobinding._targets
        return f"<IOBinding: inputs {', '.join(inputs) or 'none'}; outputs {', '.join(outputs) or 'none'}>"


def _at(device: OrtDevice, element_type: Any, shape: Any, address: Any) -> OrtValue:
    """A value over memory at an address on the host."""
    expect_host(device)
    data_type, sizes = element_type_of(element_type), shape_of(shape)
    if not isinstance(address, int | np.integer):
        raise ArgumentTypeError(f"An address is an integer, not {address!r}.", fix="Pass e.g. array.ctypes.data.")
    if data_type is DataType.STRING or data_type in SUB_BYTE:
        raise UsageError(
            f"Memory at an address cannot hold {data_type.onnx_name} here.",
            why="strings are Python's, and packed types have a byte an element inside a session",
            fix="Bind an OrtValue instead.",
        )
    if not address and 0 not in sizes:
        raise UsageError("The address is null.", fix="Pass the address of the first byte.")
    return OrtValue._at(int(address), data_type, sizes)


def _expect_name(name: Any) -> None:
    if not isinstance(name, str):
        raise ArgumentTypeError(f"The name to bind is {name!r}.", fix="Pass the name of an input or output.")


def _expect_value(value: Any) -> OrtValue:
    if not isinstance(value, OrtValue):
        raise ArgumentTypeError(
            f"An OrtValue is wanted, not {type(value).__name__}.", fix="Make one with OrtValue.ortvalue_from_numpy()."
        )
    return value


def _same_form(before: Any, result: Any) -> bool:
    return (
        type(before) is np.ndarray
        and type(result) is np.ndarray
        and before.shape == result.shape
        and before.dtype == result.dtype
    )


def _expect_fit(name: str, target: OrtValue, result: Any) -> None:
    bound = target.value
    if not isinstance(bound, np.ndarray) or _same_form(bound, result):
        return
    found = (
        f"{data_type_of(result.dtype).onnx_name} {list(result.shape)}"
        if isinstance(result, np.ndarray)
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
    if isinstance(value, list):
        return [_copied(item) for item in value]
    return dict(value) if isinstance(value, dict) else value
