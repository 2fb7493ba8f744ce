"""IOBinding: inputs and outputs named once, run many times; results land in memory the caller chose.

It has the names of onnxruntime's Python class. `session_io_binding` below it holds the values and runs the session.
"""

from __future__ import annotations

from typing import Any

from ort_py.api.session_io_binding import HasEngine, SessionIOBinding
from ort_py.values.device_memory import place_of, wanted_place
from ort_py.values.ort_value import OrtValue
from ort_py.values.vector import OrtValueVector


class IOBinding:
    """Inputs and outputs bound to a session; run it with `InferenceSession.run_with_iobinding`.

    Args:
        session: The session; `InferenceSession.io_binding` makes a binding too.
    """

    def __init__(self, session: HasEngine) -> None:
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
            device_type: ``"cpu"``, or the kind of a device that a usable provider has memory of.
            device_id: Number of the device.
            element_type: NumPy dtype or type, or a number of ``TensorProto.DataType``.
            shape: Shape; the memory is C-contiguous.
            buffer_ptr: Address of the first byte.

        Raises:
            UsageError: No such input, no memory of that device here, or an impossible type, shape or address.
            ArgumentTypeError: The address or the shape are not integers.
        """
        self._iobinding.bind_input(name, place_of(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_input(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an input to a value.

        Raises:
            UsageError: No such input.
            ArgumentTypeError: It is not an OrtValue.
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
            device_type, device_id: Device of the result. Where no usable provider has memory of that device, a result
                without an address is on the host.
            element_type, shape, buffer_ptr: As in `bind_input`.

        Raises:
            ValueError: An address without element type or shape.
            UsageError: An impossible type, shape or address, or an address on a device without memory here.
        """
        if buffer_ptr is None:
            self._iobinding.bind_output(name, wanted_place(device_type, device_id))
        elif element_type is None or shape is None:
            raise ValueError(f"Output '{name}': element_type and shape are needed with a buffer_ptr.")
        else:
            self._iobinding.bind_output(name, place_of(device_type, device_id), element_type, shape, buffer_ptr)

    def bind_ortvalue_output(self, name: str, ortvalue: OrtValue) -> None:
        """Bind an output to a value, whose memory every run writes to.

        Raises:
            UsageError: It is over read-only memory.
            ArgumentTypeError: It is not an OrtValue.
        """
        self._iobinding.bind_ortvalue_output(name, ortvalue)

    def get_outputs(self) -> list[OrtValue]:
        """The results of the last run, in the order the outputs were bound."""
        return list(self._iobinding.get_outputs())

    def get_outputs_as_ortvaluevector(self) -> OrtValueVector:
        """`get_outputs` as a vector, which later calls fill again."""
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
        """Wait for all work on the devices that inputs are bound on: of other libraries too, which may write them."""
        self._iobinding.synchronize_inputs()

    def synchronize_outputs(self) -> None:
        """Does nothing: a run has ended when its call returns."""

    def __repr__(self) -> str:
        inputs, outputs = self._iobinding._inputs, self._iobinding._targets
        return f"<IOBinding: inputs {', '.join(inputs) or 'none'}; outputs {', '.join(outputs) or 'none'}>"
