"""The values of options, read once and without the prefixes of their names.

Comes after `options`; does not depend on the library or on a device.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ort_py.contracts import SessionContext
from ort_py.errors import OptionError
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.options import OPTIONS as CUDA_OPTIONS
from ort_py_cuda.options import Wishes as CudaWishes
from ort_py_cuda.options import wishes_of as cuda_wishes_of
from ort_py_tensorrt.variants import Variant

__all__ = ["BuildWishes", "Shapes", "Wishes", "wishes_of"]

Shapes = Mapping[str, tuple[int, ...]]

_CAPABILITIES = ("SM75", "SM80", "SM86", "SM89", "SM120", "SM121")

_RANGES: tuple[tuple[str, int, int], ...] = (
    ("build_seconds", 0, 10**9),
    ("max_rebuilds", 0, 2**63 - 1),
    ("{prefix}_max_workspace_size", 0, 2**63 - 1),
    ("{prefix}_max_shared_mem_size", 0, 2**63 - 1),
    ("{prefix}_auxiliary_streams", -1, 2**31 - 1),
)
"""For numbers that the library or the clock is given, the least and the largest."""


@dataclass(frozen=True, slots=True)
class BuildWishes:
    """The settings that an engine is built with. Two engines of one region and profile are the same if these are.

    Attributes:
        precision: ``"float32"``, ``"float16"`` or ``"bfloat16"``.
        normalisations_in_float32: Whether normalisations stay in float32.
        tf32: Whether products of float32 may be computed in TF32.
        strict_nans: Whether NaN has to come out where ONNX says so.
        workspace: Bytes of scratch memory; 0 for no limit.
        shared_memory: Bytes of shared memory of a block; 0 for the library's default.
        level: The builder's level; -1 for the library's default.
        auxiliary_streams: -1 for the library's default.
        sparse: Whether sparse weights are looked for.
        any_device: Whether the engine has to run on other devices than this one.
        stripped: Whether it is built without its weights.
        capabilities: Names of compute capabilities to build for; empty for the library's default.
    """

    precision: str = "float32"
    normalisations_in_float32: bool = True
    tf32: bool = False
    strict_nans: bool = True
    workspace: int = 0
    shared_memory: int = 0
    level: int = -1
    auxiliary_streams: int = -1
    sparse: bool = False
    any_device: bool = False
    stripped: bool = False
    capabilities: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Wishes:
    """Options, read.

    Attributes:
        cuda: What ort-py-cuda opens the device with.
        build: What engines are built with.
        least: Smallest shapes by input, as given.
        best: Shapes to optimise for.
        largest: Largest shapes.
        build_seconds: Limit of one build; None for none.
        background: Whether sessions do not wait for builds.
        rebuilds: How often an engine may be built again.
        iterations: How often the parser is asked about a graph.
        smallest_region: Least number of nodes.
        excluded: Operators that are left to others.
        claim_small: Whether regions are taken that do not pay.
        trusts_engines: Whether engines in models are loaded.
        engine_folder: Folder of files beside a model; empty where there is none.
        embeds: Whether models that are written contain their engines.
        caches: Whether engines are kept on disk.
        cache_folder: Where; empty for the session's cache.
        timing: Whether times are kept.
        timing_folder: Where; empty for the folder of the engines.
        runtime_cache_folder: Where compiled kernels are kept; empty where they are not.
        graphs: Whether runs are captured.
        detailed_log: Whether everything is logged.
    """

    cuda: CudaWishes
    build: BuildWishes
    least: Shapes
    best: Shapes
    largest: Shapes
    build_seconds: float | None
    background: bool
    rebuilds: int
    iterations: int
    smallest_region: int
    excluded: frozenset[str]
    claim_small: bool
    trusts_engines: bool
    engine_folder: str
    embeds: bool
    caches: bool
    cache_folder: str
    timing: bool
    timing_folder: str
    runtime_cache_folder: str
    graphs: bool
    detailed_log: bool


def wishes_of(variant: Variant, options: Mapping[str, Any], context: SessionContext) -> Wishes:
    """Read options that were validated against those of the variant.

    Raises:
        OptionError: A value is none, or two contradict each other.
    """

    def given(name: str, default: Any) -> Any:
        return options.get(f"{variant.prefix}_{name}", default)

    shapes = [_shapes(variant, f"profile_{kind}_shapes", given) for kind in ("min", "opt", "max")]
    _agree(variant, *shapes)
    _check_numbers(variant, options)
    if options["build_in_background"] and not (context.caches and given("engine_cache_enable", True)):
        raise OptionError(
            "build_in_background is set, and engines are not kept.",
            why="sessions find engines that were built in the background in the cache",
            fix="Allow the cache, or leave out build_in_background.",
        )
    return Wishes(
        cuda=_cuda_wishes(options, context),
        build=BuildWishes(
            precision=_precision(given, context),
            normalisations_in_float32=bool(given("layer_norm_fp32_fallback", True)),
            tf32=bool(options["use_tf32"]),
            strict_nans=not context.fast_math,
            workspace=int(given("max_workspace_size", 0)),
            shared_memory=int(given("max_shared_mem_size", 0)),
            level=int(given("builder_optimization_level", -1)),
            auxiliary_streams=int(given("auxiliary_streams", -1)),
            sparse=bool(given("sparsity_enable", False)),
            any_device=bool(given("engine_hw_compatible", False)),
            stripped=bool(given("weight_stripped_engine_enable", False)),
            capabilities=_capabilities(str(options.get("compute_capabilities", ""))),
        ),
        least=shapes[0],
        best=shapes[1],
        largest=shapes[2],
        build_seconds=float(options["build_seconds"]) or None,
        background=bool(options["build_in_background"]),
        rebuilds=int(options["max_rebuilds"]),
        iterations=max(1, int(given("max_partition_iterations", 16))),
        smallest_region=int(given("min_subgraph_size", 1)),
        excluded=frozenset(_words(str(given("op_types_to_exclude", "")))),
        claim_small=bool(options["claim_small"]),
        trusts_engines=bool(options["allow_embedded_engines"]),
        engine_folder=str(given("ep_context_file_path", "")),
        embeds=bool(given("ep_context_embed_mode", 1)),
        caches=context.caches and bool(given("engine_cache_enable", True)),
        cache_folder=str(given("engine_cache_path", "")),
        timing=context.caches and bool(given("timing_cache_enable", False)),
        timing_folder=str(given("timing_cache_path", "")),
        runtime_cache_folder=str(given("runtime_cache_path", "")),
        graphs=bool(given("cuda_graph_enable", False)),
        detailed_log=bool(given("detailed_build_log", False)),
    )


def _check_numbers(variant: Variant, options: Mapping[str, Any]) -> None:
    """Check numbers among the options.

    Raises:
        OptionError: One is out of its range, or none.
    """
    for pattern, least, most in _RANGES:
        name = pattern.format(prefix=variant.prefix)
        if name in options and not least <= options[name] <= most:
            raise OptionError(
                f"{name} is {options[name]}.", why=f"it is from {least} to {most}", fix="Set it to such a number."
            )


def _cuda_wishes(options: Mapping[str, Any], context: SessionContext) -> CudaWishes:
    names = ("device_id", "user_compute_stream", "has_user_compute_stream", "use_tf32")
    defaults = {spec.name: spec.default for spec in CUDA_OPTIONS}
    return cuda_wishes_of(defaults | {name: options[name] for name in names}, context)


def _precision(given: Any, context: SessionContext) -> str:
    wanted = [
        name for name, option in (("float16", "fp16_enable"), ("bfloat16", "bf16_enable")) if given(option, False)
    ]
    if len(wanted) > 1:
        raise OptionError(
            "trt_fp16_enable and trt_bf16_enable are both set.",
            why="an engine computes in the types of its network, of which there is one",
            fix="Set one of them.",
        )
    return wanted[0] if wanted else context.precision


def _capabilities(text: str) -> tuple[str, ...]:
    found = tuple(_words(text.upper()))
    unknown = [one for one in found if one not in _CAPABILITIES]
    if unknown:
        raise OptionError(
            f"compute_capabilities names {', '.join(unknown)}.",
            why=f"TensorRT-RTX builds for {', '.join(_CAPABILITIES)}",
            fix="Name some of these, separated by commas.",
        )
    return found


def _shapes(variant: Variant, name: str, given: Any) -> Shapes:
    """Read ``x:1x3x224x224,y:1x8``. Names may contain colons."""
    found: dict[str, tuple[int, ...]] = {}
    for one in _words(str(given(name, ""))):
        value, separated, sizes = one.rpartition(":")
        shape = tuple(int(size) if size.isdecimal() else -1 for size in sizes.split("x")) if sizes else ()
        if not separated or not value or min(shape, default=0) < 0:
            raise OptionError(
                f"{variant.prefix}_{name} contains {one!r}.",
                why="an entry is the name of an input, a colon, and its sizes",
                fix="Write x:1x3x224x224, with commas between entries.",
            )
        found[value] = shape
    return found


def _agree(variant: Variant, least: Shapes, best: Shapes, largest: Shapes) -> None:
    """Check that three lists of shapes are a profile.

    Raises:
        OptionError: They name different inputs, or sizes are out of order.
    """
    if not least.keys() == best.keys() == largest.keys():
        raise OptionError(
            f"{variant.prefix}_profile_min_shapes, …_opt_shapes and …_max_shapes name different inputs.",
            why="a profile has three shapes of each input",
            fix="Name the same inputs in all three.",
        )
    for name, low in least.items():
        middle, high = best[name], largest[name]
        ordered = len(low) == len(middle) == len(high) and all(
            a <= b <= c for a, b, c in zip(low, middle, high, strict=True)
        )
        if not ordered:
            raise OptionError(
                f"The profile of input '{name}' is {low}, {middle}, {high}.",
                why="sizes must not decrease from the least to the largest shape, and all three have one rank",
                fix=f"Correct {variant.prefix}_profile_min_shapes, …_opt_shapes or …_max_shapes.",
            )


def _words(text: str) -> list[str]:
    return [word.strip() for word in text.split(",") if word.strip()]
