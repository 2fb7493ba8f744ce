"""One recurrent layer of cuDNN: its weights in one block of memory, and its run over a whole sequence.

cuDNN's gates, by number: RNN one; LSTM input, forget, candidate, output; GRU reset, update, candidate; those of the
input first, then those of the state, each with a bias. Where each lies in the block is asked of the library. Comes
after `descriptors`; knows nothing of ONNX's order.
"""

from __future__ import annotations

import ctypes
from collections.abc import Callable, Sequence
from typing import Any, Literal, TypeAlias

from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.cudnn import descriptors
from ort_py_cuda.cudnn.descriptors import Descriptor
from ort_py_cuda.cudnn.element_types import HALVES, LEGACY_CODES
from ort_py_cuda.cudnn.graphs import Tensor, channels_first
from ort_py_cuda.cudnn.library import Cudnn
from ort_py_cuda.cudnn.workspace import Scratch, current_stream

__all__ = ["GATES", "Cell", "Layer", "Place", "Sequences"]

Cell: TypeAlias = Literal["RELU", "TANH", "LSTM", "GRU"]

_CELLS: dict[Cell, int] = {"RELU": 0, "TANH": 1, "LSTM": 2, "GRU": 3}

GATES: dict[Cell, int] = {"RELU": 1, "TANH": 1, "LSTM": 4, "GRU": 3}
"""Gates of the input; those of the state are as many."""

_STANDARD_ALGORITHM = 0
_DOUBLE_BIAS = 2
_LINEAR_INPUT = 0
_PADDED = 1
_SEQUENCE_MAJOR, _BATCH_MAJOR = 0, 2
_INFERENCE = 0


@dataclass(frozen=True, slots=True)
class Place:
    """Positions of one gate's matrix and bias in the block, in bytes from its start."""

    matrix: int
    bias: int


class Layer:
    """A layer of one or two directions.

    Args:
        library: libcudnn.
        cell: Kind of cell.
        inputs, hidden: Sizes of the input and of the state.
        bidirectional: Whether it also runs backwards.
        dtype: NumPy's name of the type of all data.
        tf32: float32 operands may be rounded to TF32.
        xp: CuPy.
        device: Number of the current device.
    """

    def __init__(
        self,
        library: Cudnn,
        cell: Cell,
        inputs: int,
        hidden: int,
        *,
        bidirectional: bool,
        dtype: str,
        tf32: bool,
        xp: Any,
        device: int,
    ) -> None:
        self.library = library
        self.cell = cell
        self.inputs = inputs
        self.hidden = hidden
        self.directions = 2 if bidirectional else 1
        self.dtype = dtype
        self.descriptor = Descriptor(library, "RNN")
        # Dropout is off; its descriptor has to exist all the same.
        self._dropout = Descriptor(library, "Dropout")
        library.call("cudnnSetDropoutDescriptor", self._dropout.handle, self.handle(xp, device), 0.0, None, 0, 0)
        math = 1 if dtype in HALVES else 0 if tf32 else 3
        library.call(
            "cudnnSetRNNDescriptor_v8",
            self.descriptor.handle,
            _STANDARD_ALGORITHM,
            _CELLS[cell],
            _DOUBLE_BIAS,
            int(bidirectional),
            _LINEAR_INPUT,
            LEGACY_CODES[dtype],
            LEGACY_CODES["float32"],
            math,
            inputs,
            hidden,
            hidden,
            1,
            self._dropout.handle,
            _PADDED,
        )
        size = ctypes.c_size_t()
        library.call("cudnnGetRNNWeightSpaceSize", self.handle(xp, device), self.descriptor.handle, ctypes.byref(size))
        self.weight_bytes = size.value

    def handle(self, xp: Any, device: int) -> Any:
        """This thread's handle, on the current stream."""
        return self.library.handles.on(device, current_stream(xp))

    def places(self, xp: Any, device: int, base: int) -> list[list[Place]]:
        """For each direction its gates, the input's first: where they lie in a block at address `base`."""
        matrix, bias = Descriptor(self.library, "Tensor"), Descriptor(self.library, "Tensor")
        found = []
        for direction in range(self.directions):
            gates = []
            for gate in range(2 * GATES[self.cell]):
                at, bias_at = ctypes.c_void_p(), ctypes.c_void_p()
                self.library.call(
                    "cudnnGetRNNWeightParams",
                    self.handle(xp, device),
                    self.descriptor.handle,
                    direction,
                    self.weight_bytes,
                    base,
                    gate,
                    matrix.handle,
                    ctypes.byref(at),
                    bias.handle,
                    ctypes.byref(bias_at),
                )
                gates.append(Place((at.value or base) - base, (bias_at.value or base) - base))
            found.append(gates)
        return found

    def filled(self, xp: Any, device: int, part: Callable[[int, int], tuple[Any, Any]]) -> Any:
        """The block of weights.

        Args:
            xp: CuPy.
            device: Number of the current device.
            part: ``part(direction, gate)`` → the gate's matrix (hidden, inputs or hidden) and bias (hidden,).
        """
        block = xp.zeros((self.weight_bytes,), xp.uint8)
        for direction, gates in enumerate(self.places(xp, device, block.data.ptr)):
            for gate, place in enumerate(gates):
                matrix, bias = part(direction, gate)
                for values, start in ((matrix, place.matrix), (bias, place.bias)):
                    view = block[start : start + values.nbytes].view(values.dtype)
                    view[...] = values.reshape((-1,))
        return block

    def read(self, xp: Any, device: int, block: Any, dtype: Any) -> list[list[tuple[Any, Any]]]:
        """The arguments of `filled`, as views of the block: for each direction, each gate's matrix and bias."""
        found = []
        for gates in self.places(xp, device, block.data.ptr):
            parts = []
            for gate, place in enumerate(gates):
                width = self.inputs if gate < GATES[self.cell] else self.hidden
                size = self.hidden * dtype.itemsize
                matrix = block[place.matrix : place.matrix + size * width].view(dtype)
                parts.append((matrix.reshape((self.hidden, width)), block[place.bias : place.bias + size].view(dtype)))
            found.append(parts)
        return found


class Sequences:
    """Runs of a layer over sequences of one length and batch.

    Args:
        layer: The layer.
        steps, batch: Length of the sequences, and how many there are.
        batch_first: Whether the batch is the first axis of data, rather than the second.
        xp: CuPy.
        device: Number of the current device.
    """

    def __init__(self, layer: Layer, steps: int, batch: int, *, batch_first: bool, xp: Any, device: int) -> None:
        self._layer = layer
        library = layer.library
        layout = _BATCH_MAJOR if batch_first else _SEQUENCE_MAJOR
        lengths = descriptors.ints((steps,) * batch)

        def data(width: int) -> Descriptor:
            made = Descriptor(library, "RNNData")
            library.call(
                "cudnnSetRNNDataDescriptor",
                made.handle,
                LEGACY_CODES[layer.dtype],
                layout,
                steps,
                batch,
                width,
                lengths,
                None,
            )
            return made

        self._x, self._y = data(layer.inputs), data(layer.directions * layer.hidden)
        dims = (layer.directions, batch, layer.hidden)
        self._state = descriptors.tensor(library, Tensor("state", dims, channels_first(dims), layer.dtype))
        workspace, reserve = ctypes.c_size_t(), ctypes.c_size_t()
        library.call(
            "cudnnGetRNNTempSpaceSizes",
            layer.handle(xp, device),
            layer.descriptor.handle,
            _INFERENCE,
            self._x.handle,
            ctypes.byref(workspace),
            ctypes.byref(reserve),
        )
        self._workspace = workspace.value

    def __call__(self, xp: Any, device: int, weights: int, addresses: Sequence[int | None]) -> None:
        """Enqueue a run.

        Args:
            xp: CuPy.
            device: Number of the current device.
            weights: Address of the layer's block.
            addresses: Of x, y, the state before and after, and for an LSTM the cell's before and after; None for a
                state of zeros before, and for one that is not used after. States are (directions, batch, hidden).
        """
        x, y, before, after, cell_before, cell_after = addresses
        layer = self._layer
        with Scratch(xp, self._workspace) as scratch:
            layer.library.call(
                "cudnnRNNForward",
                layer.handle(xp, device),
                layer.descriptor.handle,
                _INFERENCE,
                None,  # lengths on the device: all are alike
                self._x.handle,
                x,
                self._y.handle,
                y,
                self._state.handle,
                before,
                after,
                self._state.handle,
                cell_before,
                cell_after,
                layer.weight_bytes,
                weights,
                self._workspace,
                scratch,
                0,
                None,
            )
