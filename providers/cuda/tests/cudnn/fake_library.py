# ruff: noqa: N802 - methods are named after the functions that they stand for
"""A stand-in for libcudnn's older calls: keeps descriptors, checks them, and computes on the host.

Functions are called with what ctypes would hand over: integers, `c_void_p`, arrays and references. Any function can be
made to answer with a status.
"""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np

from providers.cuda.tests.cudnn import semantics
from providers.cuda.tests.cudnn.memory import DTYPES, seen

__all__ = ["FakeLibrary"]

_TYPES = {0: DTYPES["FLOAT"], 2: DTYPES["HALF"], 9: DTYPES["BFLOAT16"]}


class _Function:
    def __init__(self, library: FakeLibrary, name: str) -> None:
        self._library = library
        self._name = name
        self.argtypes: Any = None
        self.restype: Any = None

    def __call__(self, *arguments: Any) -> Any:
        assert self.argtypes is not None, "called without a signature"
        assert len(arguments) == len(self.argtypes), f"{self._name} takes {len(self.argtypes)} arguments"
        for kind, value in zip(self.argtypes, arguments, strict=True):
            kind.from_param(value)  # what ctypes would refuse is refused
        self._library.calls.append(self._name)
        status = self._library.statuses.get(self._name, 0)
        if status:
            return status
        return getattr(self._library, f"do_{self._name.removeprefix('cudnn')}", self._library.ignored)(
            *(value.value if isinstance(value, ctypes.c_void_p) else value for value in arguments)
        )


class FakeLibrary:
    """The library.

    Attributes:
        statuses: What functions answer, by name, rather than doing their work.
        live: Descriptors that exist.
        order: Where it notes what happened.
        calls: Names of the functions that were called.
        math: Math types that convolutions were set to.
        found: Names of the calls that looked for algorithms.
        scratch: Bytes that algorithms and recurrent layers ask for.
        unsized: Algorithms that serve nothing when they are asked for their memory.
        entry_math: Kind of math of the algorithms that are found.
    """

    def __init__(self, order: list[Any] | None = None) -> None:
        self.order: list[Any] = [] if order is None else order
        self.statuses: dict[str, int] = {}
        self.live: dict[int, dict[str, Any]] = {}
        self.streams: dict[int, int] = {}
        self.destroyed: list[int] = []
        self.calls: list[str] = []
        self.math: list[int] = []
        self.found: list[str] = []
        self.scratch = 160
        self.unsized: set[int] = set()
        self.entry_math = 2
        self._next = 1000
        self._functions: dict[str, _Function] = {}

    def __getattr__(self, name: str) -> Any:
        if not name.startswith("cudnn") or name in self.__dict__.get("missing", ()):
            raise AttributeError(name)
        return self._functions.setdefault(name, _Function(self, name))

    def ignored(self, *arguments: Any) -> int:
        return 0

    def do_GetErrorString(self, status: int) -> bytes:
        return b"CUDNN_STATUS_OF_THE_STAND_IN"

    def do_GetLastErrorString(self, text: Any, size: int) -> None:
        text.value = b"what happened last"

    # Handles and descriptors

    def _new(self, target: Any, **facts: Any) -> int:
        self._next += 1
        target._obj.value = self._next
        self.live[self._next] = facts
        return 0

    def do_Create(self, target: Any) -> int:
        return self._new(target, kind="handle")

    def do_Destroy(self, handle: int) -> int:
        self.destroyed.append(handle)
        del self.live[handle]
        return 0

    def do_SetStream(self, handle: int, stream: int) -> int:
        self.streams[handle] = stream
        self.order.append(("stream", handle, stream))
        return 0

    def do_SetTensorNdDescriptor(self, it: int, kind: int, rank: int, dims: Any, strides: Any) -> int:
        assert rank >= 3
        self.live[it].update(dims=list(dims), strides=list(strides), dtype=_TYPES[kind])
        return 0

    def do_SetFilterNdDescriptor(self, it: int, kind: int, layout: int, rank: int, dims: Any) -> int:
        order = [0, *range(2, rank), 1] if layout else list(range(rank))
        strides, step = [0] * rank, 1
        for axis in reversed(order):
            strides[axis] = step
            step *= dims[axis]
        self.live[it].update(dims=list(dims), strides=strides, dtype=_TYPES[kind])
        return 0

    def do_SetConvolutionNdDescriptor(
        self, it: int, rank: int, pad: Any, stride: Any, dilation: Any, mode: int, compute: int
    ) -> int:
        assert mode == 1
        assert compute == 0
        self.live[it].update(pad=list(pad), stride=list(stride), dilation=list(dilation))
        return 0

    def do_SetConvolutionGroupCount(self, it: int, group: int) -> int:
        self.live[it]["group"] = group
        return 0

    def do_SetConvolutionMathType(self, it: int, math: int) -> int:
        self.math.append(math)
        return 0

    def do_SetPoolingNdDescriptor(
        self, it: int, mode: int, nan: int, rank: int, kernel: Any, pad: Any, stride: Any
    ) -> int:
        assert nan == 1
        assert all(p < k for p, k in zip(pad, kernel, strict=True))
        self.live[it].update(mode=mode, kernel=list(kernel), pad=list(pad), stride=list(stride))
        return 0

    def do_SetActivationDescriptor(self, it: int, mode: int, nan: int, coefficient: float) -> int:
        self.live[it].update(mode=mode, coefficient=coefficient)
        return 0

    # Work

    def _view(self, it: int, address: int) -> Any:
        facts = self.live[it]
        return seen(address, facts["dims"], facts["strides"], facts["dtype"])

    def _runs(self, handle: int, what: str) -> None:
        assert self.live[handle]["kind"] == "handle"
        self.order.append(("execute", handle, self.streams[handle], what))

    def do_PoolingForward(
        self, handle: int, it: int, alpha: Any, x: int, x_at: int, beta: Any, y: int, y_at: int
    ) -> int:
        self._runs(handle, "pool")
        facts, picture, result = self.live[it], self._view(x, x_at), self._view(y, y_at)
        sizes = [
            (n + 2 * p - k) // s + 1
            for n, p, k, s in zip(picture.shape[2:], facts["pad"], facts["kernel"], facts["stride"], strict=True)
        ]
        assert list(result.shape[2:]) == sizes, "cuDNN's own formula gives other sizes"
        result[...] = semantics.pool(picture, facts["mode"], sizes, facts["kernel"], facts["pad"], facts["stride"])
        return 0

    def do_AddTensor(self, handle: int, alpha: Any, a: int, a_at: int, beta: Any, c: int, c_at: int) -> int:
        self._runs(handle, "add")
        target = self._view(c, c_at)
        target[...] = target.astype(np.float64) + self._view(a, a_at).astype(np.float64)
        return 0

    def do_ActivationForward(
        self, handle: int, it: int, alpha: Any, x: int, x_at: int, beta: Any, y: int, y_at: int
    ) -> int:
        self._runs(handle, "activation")
        facts, values = self.live[it], self._view(x, x_at).astype(np.float64)
        modes: dict[int, Any] = {
            0: lambda v: 1 / (1 + np.exp(-v)),
            1: lambda v: np.maximum(v, 0),
            2: np.tanh,
            3: lambda v: np.clip(v, 0, facts["coefficient"]),
        }
        self._view(y, y_at)[...] = modes[facts["mode"]](values)
        return 0

    def do_BatchNormalizationForwardInference(self, handle: int, mode: int, alpha: Any, beta: Any, *rest: Any) -> int:
        self._runs(handle, "norm")
        x, x_at, y, y_at, small, scale, bias, mean, variance, epsilon = rest
        assert mode == 1
        assert self.live[small]["dtype"] is np.float32
        s, b, m, v = (self._view(small, at).astype(np.float64) for at in (scale, bias, mean, variance))
        self._view(y, y_at)[...] = (self._view(x, x_at).astype(np.float64) - m) / np.sqrt(v + epsilon) * s + b
        return 0

    def _algorithms(self, name: str, count: Any, results: Any) -> int:
        self.found.append(name)
        count._obj.value = 3
        for place, (algorithm, status, determinism) in enumerate(((6, 3000, 1), (1, 0, 0), (0, 0, 1))):
            results[place].algo, results[place].status = algorithm, status
            results[place].memory, results[place].determinism = self.scratch * (2 - determinism), determinism
            results[place].math_type = self.entry_math
        return 0

    def _sized(self, algorithm: int, size: Any) -> int:
        size._obj.value = self.scratch * (1 + algorithm)
        return 3000 if algorithm in self.unsized else 0

    def do_GetConvolutionForwardWorkspaceSize(self, *arguments: Any) -> int:
        return self._sized(*arguments[-2:])

    def do_GetConvolutionBackwardDataWorkspaceSize(self, *arguments: Any) -> int:
        return self._sized(*arguments[-2:])

    def do_GetConvolutionForwardAlgorithm_v7(self, *arguments: Any) -> int:
        return self._algorithms("forward", *arguments[-2:])

    def do_GetConvolutionBackwardDataAlgorithm_v7(self, *arguments: Any) -> int:
        return self._algorithms("backward", *arguments[-2:])

    def do_FindConvolutionForwardAlgorithmEx(self, *arguments: Any) -> int:
        return self._algorithms("timed forward", *arguments[-4:-2])

    def do_FindConvolutionBackwardDataAlgorithmEx(self, *arguments: Any) -> int:
        return self._algorithms("timed backward", *arguments[-4:-2])

    def do_ConvolutionForward(
        self, handle: int, alpha: Any, x: int, x_at: int, w: int, w_at: int, it: int, algorithm: int, *rest: Any
    ) -> int:
        scratch, room, _, y, y_at = rest
        self._runs(handle, f"convolution {algorithm}")
        assert bool(scratch) == bool(room)
        facts, result = self.live[it], self._view(y, y_at)
        assert self.live[x]["dims"][1] == self.live[w]["dims"][1] * facts["group"]
        result[...] = semantics.conv_fprop(
            self._view(x, x_at), self._view(w, w_at), result.shape[2:], facts["pad"], facts["stride"], facts["dilation"]
        )
        return 0

    def do_ConvolutionBackwardData(
        self, handle: int, alpha: Any, w: int, w_at: int, dy: int, dy_at: int, it: int, algorithm: int, *rest: Any
    ) -> int:
        _, _, _, dx, dx_at = rest
        self._runs(handle, f"gradient {algorithm}")
        facts, result = self.live[it], self._view(dx, dx_at)
        result[...] = semantics.conv_dgrad(
            self._view(dy, dy_at),
            self._view(w, w_at),
            result.shape[1:],
            facts["pad"],
            facts["stride"],
            facts["dilation"],
        )
        return 0

    # Recurrent layers: weights lie in the block in an order of the stand-in's own, biases first

    def do_SetRNNDescriptor_v8(self, it: int, *facts: int) -> int:
        _, cell, bias, two, mode, kind, _, math, inputs, hidden, projected, layers, _, flags = facts
        assert (bias, mode, layers, flags, projected) == (2, 0, 1, 1, hidden)
        self.math.append(math)
        gates = {0: 1, 1: 1, 2: 4, 3: 3}[cell]
        self.live[it].update(
            cell=cell, directions=1 + two, gates=2 * gates, inputs=inputs, hidden=hidden, dtype=_TYPES[kind]
        )
        return 0

    def _parts(self, it: int) -> dict[tuple[int, int], tuple[int, int, int, int]]:
        """(direction, gate) → bytes where bias and matrix begin, rows and columns of the matrix."""
        facts = self.live[it]
        size, at = np.dtype(facts["dtype"]).itemsize, 0
        found = {}
        for direction in range(facts["directions"]):
            for gate in reversed(range(facts["gates"])):
                columns = facts["inputs"] if gate < facts["gates"] // 2 else facts["hidden"]
                bias, matrix = at, at + 16 * -(-facts["hidden"] * size // 16)
                at = matrix + 16 * -(-facts["hidden"] * columns * size // 16)
                found[direction, gate] = bias, matrix, facts["hidden"], columns
        self.live[it]["bytes"] = at
        return found

    def do_GetRNNWeightSpaceSize(self, handle: int, it: int, size: Any) -> int:
        self._parts(it)
        size._obj.value = self.live[it]["bytes"]
        return 0

    def do_GetRNNWeightParams(
        self, handle: int, it: int, direction: int, size: int, base: int, gate: int, *rest: Any
    ) -> int:
        _, matrix_at, _, bias_at = rest
        bias, matrix, _, _ = self._parts(it)[direction, gate]
        matrix_at._obj.value, bias_at._obj.value = base + matrix, base + bias
        return 0

    def do_SetRNNDataDescriptor(
        self, it: int, kind: int, layout: int, steps: int, batch: int, width: int, lengths: Any, fill: Any
    ) -> int:
        assert list(lengths) == [steps] * batch
        self.live[it].update(layout=layout, steps=steps, batch=batch, width=width, dtype=_TYPES[kind])
        return 0

    def do_GetRNNTempSpaceSizes(self, handle: int, it: int, mode: int, x: int, work: Any, reserve: Any) -> int:
        work._obj.value = self.scratch
        return 0

    def _sequences(self, it: int, address: int) -> Any:
        facts = self.live[it]
        steps, batch, width = facts["steps"], facts["batch"], facts["width"]
        strides = (width, steps * width, 1) if facts["layout"] == 2 else (batch * width, width, 1)
        return seen(address, (steps, batch, width), strides, facts["dtype"])

    def do_RNNForward(self, handle: int, it: int, mode: int, lengths: Any, *rest: Any) -> int:
        x, x_at, y, y_at, state, hx, hy, _, cx, cy, size, weights, room, scratch, _, _ = rest
        self._runs(handle, "recurrent")
        facts = self.live[it]
        assert size == facts["bytes"]
        assert bool(room) == bool(scratch)
        kind = facts["dtype"]
        gates = [
            [
                (
                    seen(weights + matrix, (rows, columns), (columns, 1), kind),
                    seen(weights + bias, (rows,), (1,), kind),
                )
                for bias, matrix, rows, columns in (self._parts(it)[d, g] for g in range(facts["gates"]))
            ]
            for d in range(facts["directions"])
        ]
        zeros = np.zeros(self.live[state]["dims"])
        before = zeros if not hx else self._view(state, hx)
        memory = (zeros if not cx else self._view(state, cx)) if facts["cell"] == 2 else None
        out, last, cell = semantics.recurrent(facts["cell"], self._sequences(x, x_at), gates, before, memory)
        self._sequences(y, y_at)[...] = out
        if hy:
            self._view(state, hy)[...] = last
        if cy:
            self._view(state, cy)[...] = cell
        return 0


def _kinds() -> None:
    """Creating and ending descriptors is the same for all kinds."""
    for kind in ("Tensor", "Filter", "Convolution", "Pooling", "Activation", "RNN", "RNNData", "Dropout"):

        def create(self: FakeLibrary, target: Any, kind: str = kind) -> int:
            return self._new(target, kind=kind)

        def destroy(self: FakeLibrary, it: int) -> int:
            del self.live[it]
            return 0

        setattr(FakeLibrary, f"do_Create{kind}Descriptor", create)
        setattr(FakeLibrary, f"do_Destroy{kind}Descriptor", destroy)


_kinds()
