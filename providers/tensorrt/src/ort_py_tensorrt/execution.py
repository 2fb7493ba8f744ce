"""A loaded engine, and contexts that run it: one for each frame, on its stream.

All that a run writes belongs to a context, which one frame has at a time; contexts are lent from a pool and given
back. Inputs and outputs are addresses of the session's own memory. An output whose shape only the run decides comes
from an allocator that the library calls. Not yet run on a device: a stand-in for the library checks the order and the
arguments of the calls. Comes after `toolkit`; does not depend on sessions.
"""

from __future__ import annotations

import contextlib
import hashlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.code.cache import CodeCache, code_key
from ort_py_tensorrt.profiles import Profile, Range
from ort_py_tensorrt.toolkit import Toolkit

__all__ = ["Context", "ContextSettings", "Engine", "Tensor", "load_engine"]

_DTYPES: dict[str, Any] = {
    "FLOAT": np.float32,
    "HALF": np.float16,
    "BF16": ml_dtypes.bfloat16,
    "INT8": np.int8,
    "UINT8": np.uint8,
    "INT32": np.int32,
    "INT64": np.int64,
    "BOOL": np.bool_,
}
"""Types of inputs and outputs by the library's names."""

_ALIGNMENT = 256
"""Bytes to which the library wants addresses aligned: arrays that are cut from the session's memory need not be."""


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """How contexts are made.

    Attributes:
        allocate: Makes an array of the device: shape and type.
        graphs: Whether the library captures runs, and replays them.
        kernels: Keeps the kernels that TensorRT-RTX compiles when a context is made; None where they are not kept.
    """

    allocate: Callable[[tuple[int, ...], np.dtype[Any]], Any]
    graphs: bool = False
    kernels: CodeCache | None = None


@dataclass(frozen=True, slots=True)
class Tensor:
    """An input or output of an engine.

    Attributes:
        name: Its name.
        dtype: Its type.
        shape: Its shape, with -1 for sizes that a run decides.
    """

    name: str
    dtype: np.dtype[Any]
    shape: tuple[int, ...]


class Engine:
    """A deserialised engine.

    Args:
        toolkit: The library.
        runtime: The library's runtime, which has to live as long.
        native: The library's engine.
        settings: How contexts are made.
        name: Identifies its content.
    """

    def __init__(self, toolkit: Toolkit, runtime: Any, native: Any, settings: ContextSettings, name: str = "") -> None:
        self.toolkit = toolkit
        self._name = name
        self._kernels: Any = None
        self._runtime = runtime
        self._native: Any = native
        self._settings = settings
        self._lock = threading.Lock()
        self._idle: list[Context] = []
        self._lent = 0
        library = toolkit.module
        names = [native.get_tensor_name(number) for number in range(native.num_io_tensors)]
        reads = {name for name in names if native.get_tensor_mode(name) == library.TensorIOMode.INPUT}
        self.inputs = {name: self._tensor(name) for name in names if name in reads}
        self.outputs = {name: self._tensor(name) for name in names if name not in reads}

    @property
    def allocate(self) -> Callable[[tuple[int, ...], np.dtype[Any]], Any]:
        """Makes an array of the device."""
        return self._settings.allocate

    @property
    def lent(self) -> int:
        """Number of contexts that instances have."""
        return self._lent

    def profile(self, names: Sequence[str]) -> Profile:
        """Return the shapes that the engine was built for.

        Args:
            names: Its inputs, in order.
        """
        shapes = [self._native.get_tensor_profile_shape(name, 0) for name in names]
        return Profile(tuple(names), tuple(Range(*(tuple(one) for one in three)) for three in shapes))

    def take(self) -> Context:
        """Lend a context, to one frame at a time: its scratch memory is used in the order of one stream.

        Raises:
            EPFail: The library makes none.
            MemoryError: There is no memory for what it writes.
        """
        with self._lock:
            self._lent += 1
            if self._idle:
                return self._idle.pop()
        try:
            return self._new_context()
        except BaseException:
            with self._lock:
                self._lent -= 1
            raise

    def give(self, context: Context, *, usable: bool = True) -> None:
        """Take a context back, whose stream the caller has waited for.

        Args:
            context: From `take`.
            usable: Whether it may be lent again. After a run that failed it may not.
        """
        with self._lock:
            self._lent -= 1
            if usable and self._native is not None:
                self._idle.append(context)
                return
        context.close()

    def close(self) -> None:
        """Release idle contexts, then the engine, then the runtime. The caller has waited for all work."""
        with self._lock:
            idle, self._idle = self._idle, []
            native, self._native = self._native, None
        for context in idle:
            context.close()
        if self._kernels is not None and self._settings.kernels is not None:
            self._settings.kernels.put(self._name, bytes(self._kernels.serialize()))
            self._kernels = None
        del native
        self._runtime = None

    def _tensor(self, name: str) -> Tensor:
        return Tensor(name, _dtype(self._native.get_tensor_dtype(name)), tuple(self._native.get_tensor_shape(name)))

    def _kernel_cache(self, configuration: Any, kept: CodeCache) -> Any:
        """Return the kernels of all contexts: those that another process has left, if they fit this device."""
        with self._lock:
            if self._kernels is None:
                self._kernels = configuration.create_runtime_cache()
                found = kept.get(self._name)
                if found is not None:
                    self._kernels.deserialize(found)  # refuses what does not fit, and is empty then
            return self._kernels

    def _new_context(self) -> Context:
        library, settings = self.toolkit.module, self._settings
        strategy = library.ExecutionContextAllocationStrategy.USER_MANAGED
        with self.toolkit.errors() as errors:
            if self.toolkit.variant.compiles_ahead:
                configuration = self._native.create_runtime_config()
                configuration.set_execution_context_allocation_strategy(strategy)
                if settings.kernels is not None:
                    configuration.set_runtime_cache(self._kernel_cache(configuration, settings.kernels))
                if settings.graphs:
                    configuration.cuda_graph_strategy = library.CudaGraphStrategy.WHOLE_GRAPH_CAPTURE
                native = self._native.create_execution_context(configuration)
            else:
                native = self._native.create_execution_context(strategy)
        if native is None:
            raise EPFail(
                f"{self.toolkit.variant.title} makes no context of an engine: {_said(errors)}.",
                fix="Free memory of the GPU, or leave the region to the next provider.",
            )
        scratch, size = None, int(self._native.device_memory_size_v2)
        if size:
            scratch = settings.allocate((size,), np.dtype(np.uint8))
            native.set_device_memory(_address(scratch), size)
        return Context(self, native, scratch)


class Context:
    """A context of an engine.

    Args:
        engine: The engine.
        native: The library's context.
        scratch: Memory that its runs write to; None where they need none.
    """

    def __init__(self, engine: Engine, native: Any, scratch: Any | None) -> None:
        self._engine = engine
        self._native: Any = native
        self._scratch = scratch
        self._shapes: dict[str, tuple[int, ...]] = {}
        self._allocators: dict[str, Any] = {}

    @property
    def engine(self) -> Engine:
        """The engine that it belongs to."""
        return self._engine

    @property
    def scratch_bytes(self) -> int:
        """Bytes of its scratch memory."""
        return 0 if self._scratch is None else int(self._scratch.nbytes)

    def run(
        self,
        inputs: Sequence[tuple[str, Any]],
        outputs: Sequence[tuple[str, Any | None]],
        stream: int,
    ) -> list[Any]:
        """Enqueue one run.

        Args:
            inputs: Names and arrays of the device; the caller keeps them until the stream has passed.
            outputs: Names, and arrays to write to; None where one is made.
            stream: The ``cudaStream_t``.

        Returns:
            The arrays of the outputs. Their content is there when the stream has passed.

        Raises:
            EPFail: The library refuses a shape, an address or the run.
        """
        held: list[Any] = []  # until the run is enqueued: its memory would be given to an output
        with self._engine.toolkit.errors() as errors:
            for name, array in inputs:
                shape = tuple(array.shape)
                if self._shapes.get(name) != shape:
                    self._expect(self._native.set_input_shape(name, shape), f"the shape {shape} of '{name}'", errors)
                    self._shapes[name] = shape
                held.append(array if _address(array) % _ALIGNMENT == 0 else array.copy())
                self._expect(self._native.set_tensor_address(name, _address(held[-1])), f"memory of '{name}'", errors)
            missing = self._native.infer_shapes()
            self._expect(not missing, f"a run without {', '.join(map(str, missing))}", errors)
            made = [self._output(name, array, errors) for name, array in outputs]
            self._expect(self._native.execute_async_v3(stream), "a run", errors)
        results: list[Any] = []
        for (_, given), one in zip(outputs, made, strict=True):
            array = one.array() if isinstance(one, _Allocation) else one
            if given is not None and given is not array and given.shape == array.shape:
                given[...] = array
                array = given
            results.append(array)
        return results

    def close(self) -> None:
        """Release the context, then the memory that it wrote to."""
        self._native = None
        self._allocators.clear()
        self._scratch = None

    def _output(self, name: str, given: Any | None, errors: Sequence[str]) -> Any:
        """Give an output its memory. Returns the array, or what will have it after the run."""
        shape = tuple(self._native.get_tensor_shape(name))
        dtype, allocate = self._engine.outputs[name].dtype, self._engine.allocate
        if min(shape, default=0) < 0:
            allocation = _Allocation(dtype, allocate)
            self._allocators[name] = self._allocator(allocation)
            self._expect(
                self._native.set_output_allocator(name, self._allocators[name]), f"an allocator of '{name}'", errors
            )
            return allocation
        if name in self._allocators:
            del self._allocators[name]
            self._native.set_output_allocator(name, None)
        fits = given is not None and tuple(given.shape) == shape and _address(given) % _ALIGNMENT == 0
        array = given if fits else allocate(shape, dtype)
        self._expect(self._native.set_tensor_address(name, _address(array)), f"memory of '{name}'", errors)
        return array

    def _allocator(self, allocation: _Allocation) -> Any:
        base: Any = self._engine.toolkit.module.IOutputAllocator

        class Allocator(base):  # type: ignore[misc]  # the library has no types
            def __init__(self) -> None:
                base.__init__(self)

            def reallocate_output_async(self, name: str, memory: int, size: int, alignment: int, stream: int) -> int:
                return allocation.reallocate(size)

            def reallocate_output(self, name: str, memory: int, size: int, alignment: int) -> int:
                return allocation.reallocate(size)

            def notify_shape(self, name: str, shape: Sequence[int]) -> None:
                allocation.shape = tuple(shape)

        return Allocator()

    def _expect(self, answer: object, what: str, errors: Sequence[str]) -> None:
        if not answer:
            raise EPFail(
                f"{self._engine.toolkit.variant.title} refuses {what}: {_said(errors)}.",
                fix="Leave the region to the next provider.",
            )


class _Allocation:
    """Memory of an output whose shape the run decides."""

    def __init__(self, dtype: np.dtype[Any], allocate: Callable[..., Any]) -> None:
        self._dtype = dtype
        self._allocate = allocate
        self._bytes: Any = None
        self.shape: tuple[int, ...] | None = None

    def reallocate(self, size: int) -> int:
        """Return the address of new memory; 0, which the library takes for a failure, if there is none."""
        with contextlib.suppress(MemoryError):
            self._bytes = self._allocate((max(size, 1),), np.dtype(np.uint8))
            return _address(self._bytes)
        return 0

    def array(self) -> Any:
        """Return the output, of the shape that the library reported."""
        if self.shape is None or self._bytes is None:
            raise EPFail(
                "An engine did not say which shape an output has.",
                fix="Leave the region to the next provider, and report this together with the model.",
            )
        count = int(np.prod(self.shape, dtype=np.int64)) * self._dtype.itemsize
        return self._bytes[:count].view(self._dtype).reshape(self.shape)


def load_engine(toolkit: Toolkit, plan: bytes, settings: ContextSettings) -> Engine:
    """Deserialise an engine. The current device is the one that it runs on.

    Raises:
        EPFail: It was made by another version, for another device, or is damaged.
    """
    with toolkit.errors() as errors:
        runtime = toolkit.module.Runtime(toolkit.logger)
        native = runtime.deserialize_cuda_engine(plan)
    if native is None:
        raise EPFail(
            f"{toolkit.variant.title} {toolkit.version} does not load an engine: {_said(errors)}.",
            fix="Build the engine with this version, for this device.",
        )
    name = code_key([toolkit.variant.module, toolkit.version, hashlib.sha256(plan).hexdigest()])
    return Engine(toolkit, runtime, native, settings, name)


def _dtype(kind: Any) -> np.dtype[Any]:
    """Return NumPy's type for one of the library's.

    Raises:
        EPFail: There is none of its size.
    """
    found = _DTYPES.get(str(kind).rpartition(".")[2])
    if found is None:
        raise EPFail(
            f"An engine reads or writes {kind}, which is no type of arrays.",
            fix="Leave the region to the next provider.",
        )
    made: np.dtype[Any] = np.dtype(found)
    return made


def _said(errors: Sequence[str]) -> str:
    return "; ".join(errors) or "it gives no reason"


def _address(array: Any) -> int:
    return int(array.data.ptr)
