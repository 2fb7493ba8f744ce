"""A loaded engine, and the contexts that it lends: one for each frame.

All that a run writes belongs to a context, which one frame has at a time; contexts are lent from a pool and given back.
Not yet run on a device, as `context`. Comes after `context`; does not depend on sessions.
"""

from __future__ import annotations

import hashlib
import threading
from collections.abc import Sequence
from typing import Any

import ml_dtypes
import numpy as np

from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.code.cache import CodeCache, code_key
from ort_py_tensorrt.context import Allocate, Context, Tensor, address_of, said
from ort_py_tensorrt.profiles import Profile, Range
from ort_py_tensorrt.refitting import refit
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.toolkit import Toolkit

__all__ = ["ContextSettings", "Engine", "load_engine"]

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


@dataclass(frozen=True, slots=True)
class ContextSettings:
    """The settings that contexts are made with.

    Attributes:
        allocate: Makes an array of the device: shape and type.
        graphs: Whether the library captures runs, and replays them.
        kernels: Keeps the kernels that TensorRT-RTX compiles when a context is made; None where they are not kept.
    """

    allocate: Allocate
    graphs: bool = False
    kernels: CodeCache | None = None


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
                f"{self.toolkit.variant.title} makes no context of an engine: {said(errors)}.",
                fix="Free memory of the GPU, or leave the region to the next provider.",
            )
        scratch, size = None, int(self._native.device_memory_size_v2)
        if size:
            scratch = settings.allocate((size,), np.dtype(np.uint8))
            native.set_device_memory(address_of(scratch), size)
        return Context(self.toolkit, native, self.outputs, settings.allocate, scratch)


def load_engine(toolkit: Toolkit, plan: bytes, settings: ContextSettings, weights: RegionModel | None = None) -> Engine:
    """Deserialise an engine. The current device is the one that it runs on.

    Args:
        toolkit: The library.
        plan: The engine.
        settings: How contexts are made.
        weights: The region, for an engine that was built without its weights; None for one that has them.

    Raises:
        EPFail: It was made by another version, for another device, or is damaged, or does not take the weights.
    """
    with toolkit.errors() as errors:
        runtime = toolkit.module.Runtime(toolkit.logger)
        native = runtime.deserialize_cuda_engine(plan)
    if native is None:
        raise EPFail(
            f"{toolkit.variant.title} {toolkit.version} does not load an engine: {said(errors)}.",
            fix="Build the engine with this version, for this device.",
        )
    if weights is not None:
        try:
            refit(toolkit, native, weights)
        except BaseException:
            del native  # before its runtime, whatever keeps this frame alive
            raise
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
