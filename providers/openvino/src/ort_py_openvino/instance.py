"""One frame's infer request, its tensors set on the arrays of each run.

Outputs of known shapes are written where they are wanted. Those whose shape a run decides stay in the request's own
memory and are copied out: a tensor of ours that is too small keeps its size without a word, and the result is cut.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import RegionInstance, RunDeclined
from ort_py.dtypes import DataType, numpy_dtype
from ort_py.errors import InvalidArgument
from ort_py.lazy_dataclass import dataclass
from ort_py_openvino.build import writable
from ort_py_openvino.elements import new_array, tensor
from ort_py_openvino.forks import CALLS, Inheritance
from ort_py_openvino.not_finite import NO_LOOKS, Looks
from ort_py_openvino.turns import Turns

__all__ = ["Copy", "OpenVINOInstance", "Port"]


_INT32 = np.iinfo(np.int32)

_OF_SHAPES = ("shape_inference", "isCompatible(dims)")
"""Parts of what OpenVINO says where shapes are new to it in a run: its check of shapes, and memory of other sizes."""


@dataclass(frozen=True, slots=True)
class Port:
    """An input or output of a compiled model.

    Attributes:
        index: Its number there.
        data_type: Element type.
        shape: Its shape where that is known.
        name: Its name, of an input.
        bounds: The sizes that its model was compiled for, where the caller promised them.
    """

    index: int
    data_type: DataType
    shape: tuple[int, ...] | None
    name: str = ""
    bounds: str = ""


@dataclass(frozen=True, slots=True)
class Copy:
    """An output that OpenVINO does not write, because it is another array of the run.

    Attributes:
        number: Of the region's input or output that it equals.
        of_input: Whether that is an input.
    """

    number: int
    of_input: bool


class OpenVINOInstance(RegionInstance):
    """A frame's state.

    Args:
        request: An infer request of its own.
        inputs: Ports of the model's inputs.
        places: The region's input that each of them is.
        outputs: Ports of the region's outputs, or what they are copies of.
        inheritance: Whether a forked child can run it.
        turns: Shared with the other requests of its compiled model.
        looks: What keeps it from answering a run.
        flag: Number of the output that tells of values inside that are not finite; None where there is none.
    """

    def __init__(
        self,
        request: Any,
        inputs: Sequence[Port],
        places: Sequence[int],
        outputs: Sequence[Port | Copy],
        inheritance: Inheritance,
        turns: Turns,
        looks: Looks = NO_LOOKS,
        flag: int | None = None,
    ) -> None:
        self._request = request
        self._inheritance = inheritance
        self._turns = turns
        self._looks = looks
        self._flag = flag
        self._inputs = list(zip(places, inputs, strict=True))
        self._outputs = list(outputs)
        self._given: Sequence[Any] = ()
        self._held: list[Any] = []
        self._made: list[np.ndarray[Any, Any] | None] = []

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any | None]) -> None:
        """Set tensors on this run's arrays.

        Args:
            inputs: C-contiguous.
            outputs: Arrays to write to, or None for new ones; one of another shape is left alone.

        Raises:
            RunDeclined: An input contains not-a-number or infinities that would be lost, or integers that are too
                large.
            InvalidArgument: An input has a size that `reshape_input` excluded.
            RuntimeError: OpenVINO's, where a tensor does not fit for another reason.
        """
        request = self._request
        given = self._given = [np.asarray(array) for array in inputs]  # a kernel of NumPy's may give a scalar
        found = self._looks.in_inputs(given) or _too_large(given)
        if found:
            raise RunDeclined(found)
        held = self._held = []
        for place, port in self._inputs:
            read = tensor(writable(given[place]), port.data_type)
            try:
                request.set_input_tensor(port.index, read)
            except RuntimeError as error:
                raise self._unfit(port, given[place]) or error from error
            held.append(read)
        made = self._made = []
        for number, output in enumerate(self._outputs):
            array = outputs[number]
            if isinstance(output, Port) and output.shape is not None:
                if array is None or array.shape != output.shape:
                    array = new_array(output.shape, output.data_type)
                written = tensor(array, output.data_type)
                request.set_output_tensor(output.index, written)
                held.append(written)
            made.append(array)

    def __call__(self) -> Sequence[Any]:
        """Run; one array an output.

        Raises:
            RunDeclined: A result, or a value inside, is not-a-number, and others may have lost it; or OpenVINO does not
                take the shapes of this run.
            EPFail: In a forked child, for a device whose threads it does not have.
            RuntimeError: OpenVINO's.
        """
        if self._inheritance.unusable:
            self._inheritance.check()
        self._infer()
        results: list[Any] = []
        for output, array in zip(self._outputs, self._made, strict=True):
            if isinstance(output, Port):
                results.append(array if output.shape is not None else self._copied(output, array))
            else:
                source = self._given[output.number] if output.of_input else results[output.number]
                results.append(_filled(array, source))
        self._held, self._made, self._given = [], [], ()
        found = self._looks.in_outputs(results)
        if found:
            raise RunDeclined(found)
        return results

    def _infer(self) -> None:
        """Run the request.

        Raises:
            RunDeclined: See `__call__`.
            RuntimeError: OpenVINO's.
        """
        CALLS.begin()
        self._turns.begin_run()
        try:
            self._request.infer()
        except RuntimeError as error:
            if any(words in str(error) for words in _OF_SHAPES):
                raise RunDeclined("OpenVINO does not take the shapes of this run") from error
            raise
        finally:
            self._turns.end_run()
            CALLS.end()
        if self._flag is not None and self._request.get_output_tensor(self._flag).data.any():
            raise RunDeclined(
                "a value inside of the region is not finite, which OpenVINO may have lost in other places"
            )

    def _unfit(self, port: Port, array: np.ndarray[Any, Any]) -> InvalidArgument | None:
        """The caller's own mistake, where OpenVINO does not take an input of this shape."""
        if not port.bounds:
            return None
        return InvalidArgument(
            f"'{port.name}' has shape {list(array.shape)}; reshape_input promised {port.bounds}.",
            fix="feed sizes within these bounds, or give wider ones in the provider option reshape_input",
        )

    def _copied(self, port: Port, array: np.ndarray[Any, Any] | None) -> np.ndarray[Any, Any]:
        """An output whose shape the run decided, out of the request's own memory."""
        found = self._request.get_output_tensor(port.index)
        dtype = numpy_dtype(port.data_type)
        data = found.data
        return _filled(array, data if data.dtype == dtype else data.view(dtype))

    def close(self) -> None:
        """Let go of the request."""
        self._inheritance.release(self._request)
        self._request = None


def _too_large(arrays: Sequence[np.ndarray[Any, Any]]) -> str:
    """Explain why integers of 64 bits would be computed wrongly; ``""`` if all are within 32 bits."""
    for array in arrays:
        if array.dtype == np.int64 and (array.max() > _INT32.max or array.min() < _INT32.min):
            return "an input has integers beyond 32 bits, in which OpenVINO computes"
    return ""


def _filled(array: np.ndarray[Any, Any] | None, source: np.ndarray[Any, Any]) -> np.ndarray[Any, Any]:
    """`source` copied to an array that is given and has its shape, or to a new one."""
    if array is None or array.shape != source.shape:
        return np.array(source)
    array[...] = source
    return array
