"""A stand-in for the runtime half of TensorRT: engines whose runs onnxruntime computes, on a simulated GPU.

It checks what the library's documentation demands of every call: the order (shapes, then addresses, then the run),
that shapes lie in the profile, that addresses are memory of the device, aligned to 256 bytes and large enough, and that
a context has memory for what it writes and is used on one stream at a time. A context keeps its engine alive and an
engine its runtime, as the library's own Python objects do, so no other order of releases is possible; the events say
that they are released at all. A run happens when its stream gets there, so that memory that was dropped too early is
seen as poison. What the library itself does on a device is not known from this.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Callable, Sequence
from types import SimpleNamespace
from typing import Any

import ml_dtypes
import numpy as np
import onnx
import onnxruntime
from onnx.reference import ReferenceEvaluator

from ort_py_tensorrt.job_files import Request
from providers.cuda.tests.stand_in.machine import Machine, Stream

__all__ = ["StandInLibrary"]

_KINDS = {
    np.dtype(kind): name
    for name, kind in {
        "FLOAT": np.float32,
        "HALF": np.float16,
        "BF16": ml_dtypes.bfloat16,
        "INT8": np.int8,
        "UINT8": np.uint8,
        "INT32": np.int32,
        "INT64": np.int64,
        "BOOL": np.bool_,
    }.items()
}

_SCRATCH = 4096


class StandInLibrary:
    """The library's module: the real one, if it is installed, with another runtime.

    Args:
        machine: The simulated GPU.
        real: The module whose parser and builder are used; None where there is none.

    Attributes:
        events: What happened, in order.
        hides_shapes: Whether engines say the shapes of their outputs in a run only.
        refuses: Name of a call that fails, with an error in the log.
    """

    def __init__(self, machine: Machine, real: Any = None) -> None:
        self.machine = machine
        self.real = real
        self.requests: dict[bytes, Request] = {}
        self.events: list[str] = []
        self.hides_shapes = False
        self.refuses = ""
        self.graphs: list[bool] = []
        self.__version__ = "1.7.1" if real is None else real.__version__
        self.TensorIOMode = SimpleNamespace(INPUT="in", OUTPUT="out")
        self.ExecutionContextAllocationStrategy = SimpleNamespace(USER_MANAGED="user", STATIC="static")
        self.CudaGraphStrategy = SimpleNamespace(DISABLED=False, WHOLE_GRAPH_CAPTURE=True)
        self.IOutputAllocator = _Base

    def __getattr__(self, name: str) -> Any:
        if name == "ILogger" and self.real is None:
            return _Base
        return getattr(self.real, name)

    def know(self, plan: bytes, request: Request) -> bytes:
        """Note what an engine computes."""
        self.requests[plan] = request
        return plan

    def Runtime(self, logger: Any) -> _Runtime:  # noqa: N802 - the library's name
        return _Runtime(self, logger)

    def Refitter(self, engine: _Engine, logger: Any) -> _Refitter:  # noqa: N802 - the library's name
        return _Refitter(self, engine, logger)

    def OnnxParserRefitter(self, refitter: _Refitter, logger: Any) -> _ParserRefitter:  # noqa: N802 - likewise
        return _ParserRefitter(refitter, logger)

    def said_no(self, name: str, logger: Any) -> bool:
        """Return whether a call is to fail; if so, there is a reason in the log."""
        if name != self.refuses:
            return False
        logger.log(1, f"{name} was refused")
        return True


class _Base:
    def __init__(self) -> None:
        pass


class _Runtime:
    def __init__(self, library: StandInLibrary, logger: Any) -> None:
        self.library, self.logger = library, logger

    def deserialize_cuda_engine(self, plan: bytes) -> _Engine | None:
        if self.library.said_no("deserialize_cuda_engine", self.logger):
            return None
        request = self.library.requests.get(bytes(plan))
        if request is None:
            self.logger.log(1, "the engine does not conform to the expected format")
            return None
        return _Engine(self, request)

    def __del__(self) -> None:
        self.library.events.append("runtime gone")


class _Engine:
    def __init__(self, runtime: _Runtime, request: Request) -> None:
        self.runtime, self.request, self.library = runtime, request, runtime.library
        self.contexts = 0
        graph = request.model.proto.graph
        self.ranges = dict(zip(request.profile.names, request.profile.ranges, strict=True))
        self.reads = [one.name for one in graph.input]
        self.writes = [one.name for one in graph.output]
        self.dtypes = {
            one.name: onnx.helper.tensor_dtype_to_np_dtype(one.type.tensor_type.elem_type)
            for one in (*graph.input, *graph.output)
        }
        self.lacks_weights = request.wishes.stripped
        self.computed = _computed(_inline(request))
        self.num_io_tensors = len(self.reads) + len(self.writes)
        self.device_memory_size_v2 = _SCRATCH

    def get_tensor_name(self, number: int) -> str:
        return [*self.reads, *self.writes][number]

    def get_tensor_mode(self, name: str) -> str:
        return "in" if name in self.reads else "out"

    def get_tensor_dtype(self, name: str) -> str:
        return f"DataType.{_KINDS[self.dtypes[name]]}"

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        if name in self.ranges:
            one = self.ranges[name]
            return tuple(low if low == high else -1 for low, high in zip(one.least, one.largest, strict=True))
        return (-1,)

    def get_tensor_profile_shape(self, name: str, index: int) -> list[tuple[int, ...]]:
        assert index == 0
        one = self.ranges[name]
        return [one.least, one.best, one.largest]

    def create_runtime_config(self) -> _RuntimeConfig:
        return _RuntimeConfig()

    def create_execution_context(self, how: Any = "static") -> _Context | None:
        assert not self.lacks_weights, "an engine without weights runs"
        if self.library.said_no("create_execution_context", self.runtime.logger):
            return None
        strategy = how.strategy if isinstance(how, _RuntimeConfig) else how
        self.library.graphs.append(bool(getattr(how, "cuda_graph_strategy", False)))
        return _Context(self, needs_memory=strategy == "user")

    def __del__(self) -> None:
        if not hasattr(self, "device_memory_size_v2"):
            return  # it was not made
        self.library.events.append("engine gone")


class _Refitter:
    """Puts weights into an engine."""

    def __init__(self, library: StandInLibrary, engine: _Engine, logger: Any) -> None:
        self.library, self.engine, self.logger = library, engine, logger
        self.ready = False

    def refit_cuda_engine(self) -> bool:
        if self.library.said_no("refit_cuda_engine", self.logger):
            return False
        assert self.ready, "the engine is refitted before its weights are known"
        assert not self.engine.contexts, "an engine with contexts is refitted"
        self.engine.lacks_weights = False
        self.library.events.append("refitted")
        return True


class _ParserRefitter:
    """Reads weights from a model; they are those that the engine was built with."""

    num_errors = 0

    def __init__(self, refitter: _Refitter, logger: Any) -> None:
        self.refitter, self.logger = refitter, logger
        self.model: onnx.ModelProto | None = None
        self.weights: dict[str, bytes] = {}

    def load_model_proto(self, model: bytes) -> bool:
        assert self.model is None, "one model for each"
        self.model = onnx.ModelProto.FromString(model)
        return True

    def load_initializer(self, name: str, address: int, size: int) -> bool:
        assert self.model is not None, "the model comes first"
        assert name in {one.name for one in self.model.graph.initializer}
        self.weights[name] = ctypes.string_at(address, size)
        return True

    def refit_model_proto(self) -> bool:
        if self.refitter.library.said_no("refit_model_proto", self.logger):
            return False
        wanted = self.refitter.engine.request.model
        assert self.model is not None
        assert self.model.graph == wanted.proto.graph
        assert self.weights == {name: array.tobytes() for name, array in wanted.weights.items()}
        self.refitter.ready = True
        return True


class _KernelCache:
    """Kernels that were compiled: the number of contexts that used them."""

    def __init__(self) -> None:
        self.content = b"kernels"

    def deserialize(self, blob: bytes) -> bool:
        self.content = bytes(blob) + b"+"
        return True

    def serialize(self) -> bytes:
        return self.content


class _RuntimeConfig:
    cuda_graph_strategy = False
    strategy = "static"
    kernels: _KernelCache | None = None

    def create_runtime_cache(self) -> _KernelCache:
        return _KernelCache()

    def set_runtime_cache(self, cache: _KernelCache) -> bool:
        self.kernels = cache
        return True

    def set_execution_context_allocation_strategy(self, strategy: str) -> None:
        self.strategy = strategy


class _Context:
    def __init__(self, engine: _Engine, *, needs_memory: bool) -> None:
        self.engine, self.library = engine, engine.library
        engine.contexts += 1
        self.needs_memory = needs_memory
        self.memory = 0
        self.shapes: dict[str, tuple[int, ...]] = {}
        self.addresses: dict[str, int] = {}
        self.allocators: dict[str, Any] = {}
        self.inferred = False
        self.last: Stream | None = None
        self.working = 0

    def set_device_memory(self, memory: int, size: int) -> None:
        assert size >= _SCRATCH
        self._expect_memory(memory, size)
        self.memory = memory

    def set_input_shape(self, name: str, shape: tuple[int, ...]) -> bool:
        if self._no("set_input_shape"):
            return False
        assert name in self.engine.reads
        if not self.engine.ranges[name].admits(tuple(shape)):
            self.engine.runtime.logger.log(1, f"{name}: {shape} is not in the profile")
            return False
        self.shapes[name] = tuple(shape)
        self.inferred = False
        return True

    def set_tensor_address(self, name: str, memory: int) -> bool:
        if self._no("set_tensor_address"):
            return False
        assert name in (*self.engine.reads, *self.engine.writes)
        self._expect_memory(memory, 1)
        self.addresses[name] = memory
        return True

    def set_output_allocator(self, name: str, allocator: Any) -> bool:
        if self._no("set_output_allocator"):
            return False
        assert name in self.engine.writes
        if allocator is None:
            del self.allocators[name]
        else:
            self.allocators[name] = allocator
        return True

    def infer_shapes(self) -> list[str]:
        self.inferred = True
        return [name for name in self.engine.reads if name not in self.shapes]

    def get_tensor_shape(self, name: str) -> tuple[int, ...]:
        assert self.inferred, "shapes of outputs follow from those of inputs"
        shape = self._results(self._zeros())[name].shape
        return (-1,) * len(shape) if self.library.hides_shapes else shape

    def execute_async_v3(self, stream_handle: int) -> bool:
        if self._no("execute_async_v3"):
            return False
        machine, engine = self.library.machine, self.engine
        assert self.inferred
        assert self.memory or not self.needs_memory, "the context has no memory for what it writes"
        stream = machine.stream_of(stream_handle)
        assert not self.working or self.last is stream, "a context is used on two streams at a time"
        self.last = stream
        sizes = {name: array.nbytes for name, array in self._results(self._zeros()).items()}
        shapes = {name: array.shape for name, array in self._results(self._zeros()).items()}
        targets = {}
        for name in engine.writes:
            if name in self.allocators:
                targets[name] = self.allocators[name].reallocate_output_async(name, 0, sizes[name], 256, stream_handle)
                if not targets[name]:
                    engine.runtime.logger.log(1, "no memory for an output")
                    return False
                self.allocators[name].notify_shape(name, shapes[name])
            else:
                targets[name] = self.addresses[name]
            self._expect_memory(targets[name], sizes[name])
        sources = {name: self.addresses[name] for name in engine.reads}
        shapes_now = dict(self.shapes)
        for name, address in sources.items():
            self._expect_memory(address, self._nbytes(name, shapes_now[name]))
        self.working += 1

        def work() -> None:
            self.working -= 1
            feeds = {}
            for name, address in sources.items():
                raw = machine.at(address, self._nbytes(name, shapes_now[name]))[0]
                feeds[name] = raw.view(engine.dtypes[name]).reshape(shapes_now[name]).copy()
            machine.at(self.memory, _SCRATCH)[0].fill(0x5A)
            for name, array in self._results(feeds).items():
                machine.at(targets[name], array.nbytes)[0][:] = np.ascontiguousarray(array).reshape(-1).view(np.uint8)

        stream.enqueue("engine", work)
        return True

    def __del__(self) -> None:
        self.engine.contexts -= 1
        self.library.events.append("context gone")

    def _no(self, name: str) -> bool:
        return self.library.said_no(name, self.engine.runtime.logger)

    def _nbytes(self, name: str, shape: Sequence[int]) -> int:
        return math.prod(shape) * int(self.engine.dtypes[name].itemsize)

    def _expect_memory(self, address: int, nbytes: int) -> None:
        assert address % 256 == 0, f"{address:#x} is not aligned"
        assert self.library.machine.at(address, nbytes)[1] == 0, "no memory of the GPU"

    def _zeros(self) -> dict[str, Any]:
        return {name: np.zeros(shape, self.engine.dtypes[name]) for name, shape in self.shapes.items()}

    def _results(self, feeds: dict[str, Any]) -> dict[str, Any]:
        return dict(zip(self.engine.writes, self.engine.computed(feeds), strict=True))


def _computed(model: bytes) -> Callable[[dict[str, Any]], Any]:
    """Return what computes a model: onnxruntime, or ONNX's reference for what that does not have."""
    proto = onnx.ModelProto.FromString(model)
    kinds = {one.type.tensor_type.elem_type for one in (*proto.graph.input, *proto.graph.output)}
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 4
    try:
        if onnx.TensorProto.BFLOAT16 in kinds:
            raise ValueError("onnxruntime takes no arrays of bfloat16")
        session = onnxruntime.InferenceSession(model, options, providers=["CPUExecutionProvider"])
    except Exception:  # its exceptions have no base of their own
        reference = ReferenceEvaluator(proto)
        return lambda feeds: reference.run(None, feeds)
    return lambda feeds: session.run(None, feeds)


def _inline(request: Request) -> bytes:
    """Return the request's model with its weights."""
    made = onnx.ModelProto()
    made.CopyFrom(request.model.proto)
    for tensor in made.graph.initializer:
        if tensor.name in request.model.weights:
            del tensor.external_data[:]
            tensor.ClearField("data_location")
            tensor.raw_data = request.model.weights[tensor.name].tobytes()
    return bytes(made.SerializeToString())
