"""The options of CUDAExecutionProvider, named as onnxruntime names them, and what their values mean.

What onnxruntime's provider takes and has no meaning here is in `WITHOUT_MEANING`: it is not declared, so the core
accepts it, ignores it and lists it in the session's load report. It is independent of devices: whether there is one of
a number is asked where it is opened.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ort_py.contracts import OptionSpec, SessionContext
from ort_py.errors import OptionError
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.settings import Settings

__all__ = ["OPTIONS", "WITHOUT_MEANING", "ExternalAllocator", "Wishes", "wishes_of"]

_NO_LIMIT = 2**64 - 1
"""onnxruntime's default of `gpu_mem_limit`: the largest size_t."""

OPTIONS: tuple[OptionSpec, ...] = (
    OptionSpec("device_id", int, 0, "Number of the GPU, as CUDA counts those that CUDA_VISIBLE_DEVICES leaves."),
    OptionSpec(
        "gpu_mem_limit",
        int,
        _NO_LIMIT,
        "Bytes of device memory that the session's pool may take; 0 or the default for no limit.",
    ),
    OptionSpec(
        "allocator",
        str,
        "pool",
        "pool: CuPy's pool, shared by the sessions of the process that set no limit. async: cudaMallocAsync, the "
        "driver's pool, which all libraries of the process share.",
        ("pool", "async"),
    ),
    OptionSpec(
        "user_compute_stream",
        str,
        "",
        "Address of a cudaStream_t, as a decimal or 0x number, which all runs are enqueued on. The caller keeps it "
        "alive. Without it each frame has a stream of its own.",
    ),
    OptionSpec("has_user_compute_stream", bool, False, "Set where user_compute_stream is, as onnxruntime does."),
    OptionSpec("use_tf32", bool, False, "Multiply float32 in TF32 (10 bits): faster, 1e-3 off. onnxruntime's is on."),
    OptionSpec(
        "cudnn_conv_algo_search",
        str,
        "HEURISTIC",
        "How convolutions choose their algorithm: HEURISTIC asks cuDNN, EXHAUSTIVE tries all at the first run of each "
        "shape, DEFAULT takes cuDNN's first.",
        ("EXHAUSTIVE", "HEURISTIC", "DEFAULT"),
    ),
    OptionSpec(
        "cudnn_conv_use_max_workspace", bool, True, "Let convolutions take the scratch memory of the fastest algorithm."
    ),
    OptionSpec(
        "prefer_nhwc",
        bool,
        True,
        "Compute convolutions of float16 and bfloat16 with the channels last, as tensor cores want them.",
    ),
    OptionSpec(
        "enable_cuda_graph",
        bool,
        False,
        "Capture what runs of one shape enqueue, and replay it: one launch for all kernels of a region.",
    ),
    OptionSpec("gpu_external_alloc", str, "", "Address of a function void *(size_t): device memory comes from it."),
    OptionSpec("gpu_external_free", str, "", "Address of a function void (void *): takes back what the other gave."),
    OptionSpec(
        "gpu_external_empty_cache", str, "", "Address of a function void (): gives unused memory back to the system."
    ),
)

WITHOUT_MEANING: dict[str, str] = {
    "arena_extend_strategy": "CuPy's pool asks for what is needed, rounded to 512 bytes",
    "default_memory_arena_cfg": "there is no arena of onnxruntime's",
    "do_copy_in_default_stream": "copies go on the stream of their frame, ordered with its kernels",
    "cudnn_conv1d_pad_to_nc1d": "cuDNN is asked for one-dimensional convolutions as they are",
    "enable_skip_layer_norm_strict_mode": "sums are always made in float32",
    "fuse_conv_bias": "bias, activation and residual are fused wherever cuDNN has a plan for it",
    "prefer_nhwc_layout": "an older name of prefer_nhwc",
    "sdpa_kernel": "cuDNN chooses",
    "tunable_op_enable": "see cudnn_conv_algo_search",
    "tunable_op_tuning_enable": "see cudnn_conv_algo_search",
    "tunable_op_max_tuning_duration_ms": "see cudnn_conv_algo_search",
    "use_ep_level_unified_stream": "each frame has one stream; user_compute_stream makes it one for all",
}
"""Options of onnxruntime's provider that change nothing here, and why."""


@dataclass(frozen=True, slots=True)
class ExternalAllocator:
    """Addresses of C functions that device memory comes from.

    Attributes:
        allocate: ``void *(size_t)``.
        free: ``void (void *)``.
        empty_cache: ``void ()``; 0 where there is none.
    """

    allocate: int
    free: int
    empty_cache: int = 0


@dataclass(frozen=True, slots=True)
class Wishes:
    """Options, read.

    Attributes:
        device: Number of the GPU.
        memory_limit: Bytes; None for no limit.
        asynchronous: Whether memory comes from cudaMallocAsync.
        external: Functions that memory comes from instead; None for none.
        user_stream: Handle of the caller's stream; None where frames have their own.
        graphs: Whether runs are captured.
        settings: What kernels read.
        cache_folder: Where the session keeps what is compiled; None where it names no folder.
        caches: Whether anything compiled is kept on disk.
    """

    device: int
    memory_limit: int | None
    asynchronous: bool
    external: ExternalAllocator | None
    user_stream: int | None
    graphs: bool
    settings: Settings
    cache_folder: str | None = None
    caches: bool = True


def wishes_of(options: Mapping[str, Any], context: SessionContext) -> Wishes:
    """Read options that were validated against `OPTIONS`.

    Raises:
        OptionError: A value is none, or two contradict each other.
    """
    device, limit = int(options["device_id"]), int(options["gpu_mem_limit"])
    if device < 0:
        raise OptionError(f"device_id is {device}.", why="devices are counted from 0", fix="Set it to 0 or more.")
    if limit < 0:
        raise OptionError(f"gpu_mem_limit is {limit}.", why="it is a number of bytes", fix="Set it to 0 for no limit.")
    asynchronous = options["allocator"] == "async"
    external = _external(options)
    if external is not None and (asynchronous or limit not in {0, _NO_LIMIT}):
        raise OptionError(
            "gpu_external_alloc is given together with allocator='async' or gpu_mem_limit.",
            why="memory of the caller's functions is the caller's to limit",
            fix="Leave out the one or the other.",
        )
    return Wishes(
        device,
        None if limit in {0, _NO_LIMIT} else limit,
        asynchronous,
        external,
        _stream(options),
        bool(options["enable_cuda_graph"]),
        Settings(
            tf32=bool(options["use_tf32"]) or context.precision != "float32",
            convolution_search=str(options["cudnn_conv_algo_search"]),
            convolution_workspace=None if options["cudnn_conv_use_max_workspace"] else 32 << 20,
            channels_last=bool(options["prefer_nhwc"]),
            deterministic=context.deterministic,
            graphs=bool(options["enable_cuda_graph"]),
            device=device,
        ),
        context.cache_folder,
        context.caches,
    )


def _stream(options: Mapping[str, Any]) -> int | None:
    text = str(options["user_compute_stream"]).strip()
    if text:
        return _address("user_compute_stream", text)
    if options["has_user_compute_stream"]:
        raise OptionError(
            "has_user_compute_stream is set, and user_compute_stream is not.",
            fix="Pass the address of the stream: str(stream.ptr) of CuPy's, str(stream.cuda_stream) of torch's.",
        )
    return None


def _external(options: Mapping[str, Any]) -> ExternalAllocator | None:
    names = ("gpu_external_alloc", "gpu_external_free", "gpu_external_empty_cache")
    allocate, free, empty = (_address(name, str(options[name]).strip() or "0") for name in names)
    if not allocate and not free:
        return None
    if not (allocate and free):
        raise OptionError(
            "Of gpu_external_alloc and gpu_external_free only one is given.",
            why="what the one gives, the other takes back",
            fix="Give both addresses, or neither.",
        )
    return ExternalAllocator(allocate, free, empty)


def _address(name: str, text: str) -> int:
    try:
        address = int(text, 0)
    except ValueError:
        address = -1
    if not 0 <= address < 2**64:
        raise OptionError(
            f"{name} is {text!r}.",
            why="it must be an address as a number, e.g. '94738271' or '0x5a5a1f00'",
            fix="Pass str(address).",
        )
    return address
