"""Pools, convolutions and batch normalisation through libcudnn's older calls.

They serve where the front end has no node (pools), where it is missing, and where it has no plan. Each object is made
for one set of shapes, holds its descriptors, and may be called by any thread. Comes after `descriptors`; recurrent
layers are in `recurrence`.
"""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from typing import Any

from ort_py_cuda.cudnn import descriptors
from ort_py_cuda.cudnn.choice import Choice
from ort_py_cuda.cudnn.descriptors import Descriptor
from ort_py_cuda.cudnn.element_types import HALVES
from ort_py_cuda.cudnn.errors import Unsupported
from ort_py_cuda.cudnn.graphs import Activation, Sizes, Tensor, WindowOf
from ort_py_cuda.cudnn.library import AlgorithmPerformance, Cudnn
from ort_py_cuda.cudnn.workspace import Scratch, capturing, current_stream

__all__ = [
    "AVERAGE_INCLUDING",
    "AVERAGE_OF_PICTURE",
    "MAXIMUM",
    "BatchNorm",
    "Convolution",
    "Finish",
    "Pool",
    "activation_mode",
]

MAXIMUM, AVERAGE_INCLUDING, AVERAGE_OF_PICTURE = 0, 1, 2
"""``cudnnPoolingMode_t``: the latter two count padding or leave it out."""

_SPATIAL = 1
_ALGORITHMS = 8

_ONE = ctypes.byref(ctypes.c_float(1.0))
_ZERO = ctypes.byref(ctypes.c_float(0.0))

_MODES = {"Sigmoid": 0, "Relu": 1, "Tanh": 2, "Elu": 4}
_CLIPPED = 3


def activation_mode(activation: Activation) -> tuple[int, float] | None:
    """``cudnnActivationMode_t`` and coefficient of an activation; None where it has none."""
    if activation.name == "Clip" and activation.low == 0 and activation.high is not None and activation.high > 0:
        return _CLIPPED, activation.high
    mode = _MODES.get(activation.name)
    return None if mode is None else (mode, activation.alpha)


class _Call:
    """The common part of the calls: the library, and this thread's handle on the current stream."""

    __slots__ = ("_library",)

    def __init__(self, library: Cudnn) -> None:
        self._library = library

    def _handle(self, xp: Any, device: int) -> Any:
        return self._library.handles.on(device, current_stream(xp))


class Pool(_Call):
    """MaxPool or AveragePool of pictures with the same padding on both sides.

    Args:
        library: libcudnn.
        mode: `MAXIMUM`, `AVERAGE_INCLUDING` or `AVERAGE_OF_PICTURE`.
        x, y: The pictures, of 4 or 5 axes.
        kernel, begin, strides: One entry a spatial axis.
    """

    __slots__ = ("_pool", "_x", "_y")

    def __init__(
        self, library: Cudnn, mode: int, x: Tensor, y: Tensor, kernel: Sizes, begin: Sizes, strides: Sizes
    ) -> None:
        super().__init__(library)
        self._pool = descriptors.pooling(library, mode, kernel, begin, strides)
        self._x = descriptors.tensor(library, x)
        self._y = descriptors.tensor(library, y)

    def __call__(self, xp: Any, device: int, addresses: Sequence[int]) -> None:
        """Enqueue it; `addresses` are those of x and y."""
        x, y = addresses
        self._library.call(
            "cudnnPoolingForward",
            self._handle(xp, device),
            self._pool.handle,
            _ONE,
            self._x.handle,
            x,
            _ZERO,
            self._y.handle,
            y,
        )


class BatchNorm(_Call):
    """``(x - mean) / sqrt(variance + epsilon) · scale + bias`` by channel; the four parameters are float32.

    Args:
        library: libcudnn.
        x, y: Pictures of the same sizes, of 4 or 5 axes.
        epsilon: Added to the variance.
    """

    __slots__ = ("_epsilon", "_parameters", "_x", "_y")

    def __init__(self, library: Cudnn, x: Tensor, y: Tensor, epsilon: float) -> None:
        super().__init__(library)
        self._x = descriptors.tensor(library, x)
        self._y = descriptors.tensor(library, y)
        dims = (1, x.dims[1], *(1 for _ in x.dims[2:]))
        strides = (x.dims[1], *(1 for _ in x.dims[1:]))
        self._parameters = descriptors.tensor(library, Tensor("parameters", dims, strides, "float32"))
        self._epsilon = epsilon

    def __call__(self, xp: Any, device: int, addresses: Sequence[int]) -> None:
        """Enqueue it; `addresses` are those of x, scale, bias, mean, variance and y."""
        x, scale, bias, mean, variance, y = addresses
        self._library.call(
            "cudnnBatchNormalizationForwardInference",
            self._handle(xp, device),
            _SPATIAL,
            _ONE,
            _ZERO,
            self._x.handle,
            x,
            self._y.handle,
            y,
            self._parameters.handle,
            scale,
            bias,
            mean,
            variance,
            self._epsilon,
        )


class Finish(_Call):
    """Operations after a convolution, in place: a picture and a bias are added, then an activation is applied.

    Args:
        library: libcudnn.
        y: What it is applied to.
        bias: Sizes (1, M, 1…), or None.
        z: Of the sizes of `y`, or None.
        activation: What `activation_mode` has a mode for, or None.
    """

    __slots__ = ("_activation", "_added", "_y")

    def __init__(
        self, library: Cudnn, y: Tensor, bias: Tensor | None, z: Tensor | None, activation: Activation | None
    ) -> None:
        super().__init__(library)
        mode = None if activation is None else activation_mode(activation)
        if activation is not None and mode is None:
            raise Unsupported(f"cuDNN's older calls have no activation {activation.name}.")
        self._y = descriptors.tensor(library, y)
        self._added = [descriptors.tensor(library, one) for one in (z, bias) if one is not None]
        self._activation = None if mode is None else descriptors.activation(library, *mode)

    def __call__(self, xp: Any, device: int, added: Sequence[int], y: int) -> None:
        """Enqueue it; `added` are the addresses of z and bias, where there are any."""
        handle = self._handle(xp, device)
        whole = self._y.handle
        for one, address in zip(self._added, added, strict=True):
            self._library.call("cudnnAddTensor", handle, _ONE, one.handle, address, _ONE, whole, y)
        if self._activation is not None:
            mode = self._activation.handle
            self._library.call("cudnnActivationForward", handle, mode, _ONE, whole, y, _ZERO, whole, y)


class Convolution(_Call):
    """A convolution, or the gradient of one by its picture.

    Args:
        library: libcudnn.
        x, w, y: What is convolved, the weights, and the result, of 4 or 5 axes.
        window: Geometry; the padding is the same on both sides.
        group: Number of groups.
        transposed: ConvTranspose: `x` is the gradient, `y` the picture.
        tf32: float32 operands may be rounded to TF32.

    Raises:
        Unsupported: The padding differs between the sides.
    """

    __slots__ = ("_algorithm", "_convolution", "_strict", "_transposed", "_w", "_x", "_y")

    def __init__(
        self,
        library: Cudnn,
        x: Tensor,
        w: Tensor,
        y: Tensor,
        window: WindowOf,
        group: int,
        *,
        transposed: bool = False,
        tf32: bool = False,
    ) -> None:
        super().__init__(library)
        if window.begin != window.end:
            raise Unsupported(f"cuDNN's older calls pad both sides alike, not {window.begin} and {window.end}.")
        self._x = descriptors.tensor(library, x)
        self._w = descriptors.filters(library, w)
        self._y = descriptors.tensor(library, y)
        self._convolution = descriptors.convolution(library, window, group, x.dtype, tf32=tf32)
        self._transposed = transposed
        self._strict = x.dtype not in HALVES and not tf32
        self._algorithm: tuple[int, int] | None = None

    def choose(self, xp: Any, device: int, addresses: Sequence[int], choice: Choice) -> None:
        """Choose the algorithm; call once, before the first call.

        Args:
            xp: CuPy.
            device: Number of the current device.
            addresses: Of x, w and y; y is overwritten where algorithms are timed.
            choice: How to choose.

        Raises:
            Unsupported: No algorithm serves these shapes within the bounds.
        """
        handle = self._handle(xp, device)
        found = self._ranked(handle)
        allowed = [one for one in found if _allowed(one, choice)]
        if allowed and choice.timed and not capturing(xp):
            room = max(one.memory for one in allowed)
            allowed = [one for one in self._timed(xp, handle, addresses, room) if _allowed(one, choice)] or allowed
        for one in allowed:
            memory = self._settled(handle, one)
            if memory is not None and (choice.workspace is None or memory <= choice.workspace):
                self._algorithm = one.algo, memory
                return
        raise Unsupported("cuDNN's older calls have no algorithm for this convolution.")

    def __call__(self, xp: Any, device: int, addresses: Sequence[int]) -> None:
        """Enqueue it; `addresses` are those of x, w and y."""
        assert self._algorithm is not None, "choose first"
        x, w, y = addresses
        algorithm, memory = self._algorithm
        handle = self._handle(xp, device)
        name = "cudnnConvolutionBackwardData" if self._transposed else "cudnnConvolutionForward"
        first, second = (self._w.handle, w), (self._x.handle, x)
        if not self._transposed:
            first, second = second, first
        with Scratch(xp, memory) as scratch:
            self._library.call(
                name,
                handle,
                _ONE,
                *first,
                *second,
                self._convolution.handle,
                algorithm,
                scratch,
                memory,
                _ZERO,
                self._y.handle,
                y,
            )

    def _order(self) -> tuple[str, tuple[Descriptor, Descriptor]]:
        return ("BackwardData", (self._w, self._x)) if self._transposed else ("Forward", (self._x, self._w))

    def _settled(self, handle: Any, found: Any) -> int | None:
        """Bytes that an algorithm wants with the math that it was found with; None where it serves nothing after all.

        An entry holds for its own math type, which the descriptor then has to have. Where float32 must stay float32 no
        other is set: the entries' default means TF32.
        """
        name, (first, second) = self._order()
        if not self._strict:
            self._library.call("cudnnSetConvolutionMathType", self._convolution.handle, found.math_type)
        size = ctypes.c_size_t()
        try:
            self._library.call(
                f"cudnnGetConvolution{name}WorkspaceSize",
                handle,
                first.handle,
                second.handle,
                self._convolution.handle,
                self._y.handle,
                found.algo,
                ctypes.byref(size),
            )
        except Unsupported:
            return None
        return size.value

    def _ranked(self, handle: Any) -> list[Any]:
        """Algorithms in the order in which the library expects them to be fast."""
        name, (first, second) = self._order()
        results = (AlgorithmPerformance * _ALGORITHMS)()
        count = ctypes.c_int()
        self._library.call(
            f"cudnnGetConvolution{name}Algorithm_v7",
            handle,
            first.handle,
            second.handle,
            self._convolution.handle,
            self._y.handle,
            _ALGORITHMS,
            ctypes.byref(count),
            results,
        )
        return list(results[: count.value])

    def _timed(self, xp: Any, handle: Any, addresses: Sequence[int], room: int) -> list[Any]:
        """Algorithms by the time they took here."""
        name, (first, second) = self._order()
        x, w, y = addresses
        results = (AlgorithmPerformance * _ALGORITHMS)()
        count = ctypes.c_int()
        with Scratch(xp, room) as scratch:
            self._library.call(
                f"cudnnFindConvolution{name}AlgorithmEx",
                handle,
                first.handle,
                w if self._transposed else x,
                second.handle,
                x if self._transposed else w,
                self._convolution.handle,
                self._y.handle,
                y,
                _ALGORITHMS,
                ctypes.byref(count),
                results,
                scratch,
                room,
            )
        return list(results[: count.value])


def _allowed(found: Any, choice: Choice) -> bool:
    fits = choice.workspace is None or found.memory <= choice.workspace
    return found.status == 0 and fits and (found.determinism == 1 or not choice.deterministic)
