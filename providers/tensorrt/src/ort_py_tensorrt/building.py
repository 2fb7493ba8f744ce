"""An engine built from a model: the network, the configuration and the serialised result.

Runs wherever the library is imported, usually in the child process that `jobs` starts. Comes after `parsing`.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from ort_py.errors import EPFail
from ort_py_tensorrt.parsing import Network, parse
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import RegionModel
from ort_py_tensorrt.toolkit import Toolkit
from ort_py_tensorrt.wishes import BuildWishes

__all__ = ["Progress", "build"]

Progress = Callable[[str, int, int], bool]
"""Called with the name of a phase, its step and its number of steps; returns whether to go on."""


def build(
    toolkit: Toolkit,
    model: RegionModel,
    profile: Profile,
    wishes: BuildWishes,
    progress: Progress | None = None,
    times: bytes | None = None,
) -> tuple[bytes, bytes | None]:
    """Build an engine.

    Args:
        toolkit: The library.
        model: The region, in the precision that it is computed in.
        profile: Shapes of its inputs.
        wishes: What it is built with.
        progress: Told about steps.
        times: Times of kernels from earlier builds; None where none are kept.

    Returns:
        The engine, and the times of all builds so far.

    Raises:
        EPFail: The parser refuses the model, or the builder finds no implementation.
    """
    with toolkit.compiling() as errors:
        made = parse(toolkit, model)
        _let_attention_fall_apart(toolkit, made.network)
        config = _configured(toolkit, made, profile, wishes)
        cache = None
        if times is not None and not toolkit.variant.compiles_ahead:
            cache = config.create_timing_cache(times)
            config.set_timing_cache(cache, False)
        monitor = None
        if progress is not None:
            monitor = _monitor(toolkit, progress)
            config.progress_monitor = monitor
        plan = made.builder.build_serialized_network(made.network, config)
        if plan is None:
            raise EPFail(
                f"{toolkit.variant.title} builds no engine of a region.",
                why=errors or "it gives no reason",
                fix="Leave the region to the next provider, or change the options that engines are built with.",
            )
        return bytes(plan), None if cache is None else bytes(config.get_timing_cache().serialize())


def _let_attention_fall_apart(toolkit: Toolkit, network: Any) -> None:
    """Allow several kernels for an attention that no single kernel computes: otherwise the builder fails."""
    for number in range(network.num_layers):
        layer = network.get_layer(number)
        if layer.type == toolkit.module.LayerType.ATTENTION_INPUT:
            layer.__class__ = toolkit.module.IAttentionInputLayer  # the library's way to a layer of its own kind
            layer.attention.decomposable = True


def _configured(toolkit: Toolkit, made: Network, profile: Profile, wishes: BuildWishes) -> Any:
    library, config = toolkit.module, made.builder.create_builder_config()
    flags = library.BuilderFlag
    _set(config, flags.TF32, wishes.tf32)  # the library's default is on
    _set(config, flags.STRICT_NANS, wishes.strict_nans)
    if wishes.sparse:
        _set(config, flags.SPARSE_WEIGHTS, True)
    if wishes.stripped:
        _set(config, flags.STRIP_PLAN, True)
        _set(config, flags.REFIT_IDENTICAL, True)  # the weights are those of the build, so kernels may depend on them
    pools = library.MemoryPoolType
    if wishes.workspace:
        config.set_memory_pool_limit(pools.WORKSPACE, wishes.workspace)
    if wishes.shared_memory:
        config.set_memory_pool_limit(pools.TACTIC_SHARED_MEMORY, wishes.shared_memory)
    if wishes.level >= 0:
        config.builder_optimization_level = wishes.level
    if wishes.auxiliary_streams >= 0:
        config.max_aux_streams = wishes.auxiliary_streams
    if wishes.any_device:
        config.hardware_compatibility_level = library.HardwareCompatibilityLevel.AMPERE_PLUS
    if wishes.capabilities:
        config.num_compute_capabilities = len(wishes.capabilities)
        for place, name in enumerate(wishes.capabilities):
            config.set_compute_capability(library.ComputeCapability.__members__[name], place)
    _add_profile(toolkit, made, config, profile)
    return config


def _add_profile(toolkit: Toolkit, made: Network, config: Any, profile: Profile) -> None:
    """Add the shapes of inputs whose sizes the model leaves open.

    Raises:
        EPFail: The library does not take them.
    """
    inputs = [made.network.get_input(number) for number in range(made.network.num_inputs)]
    open_inputs = {one.name for one in inputs if -1 in tuple(one.shape)}
    if not open_inputs:
        return
    shapes = made.builder.create_optimization_profile()
    for name, one in zip(profile.names, profile.ranges, strict=True):
        if name in open_inputs:
            shapes.set_shape(name, one.least, one.best, one.largest)
    if config.add_optimization_profile(shapes) < 0:
        raise EPFail(
            f"{toolkit.variant.title} does not take the shapes of a profile.",
            why=str(profile.to_json()),
            fix="Correct the shapes that the options give.",
        )


def _set(config: Any, flag: Any, wanted: bool) -> None:
    if wanted:
        config.set_flag(flag)
    else:
        config.clear_flag(flag)


def _monitor(toolkit: Toolkit, progress: Progress) -> Any:
    base: Any = toolkit.module.IProgressMonitor

    class Monitor(base):  # type: ignore[misc]  # the library has no types
        def __init__(self) -> None:
            base.__init__(self)
            self._steps: dict[str, int] = {}

        def phase_start(self, name: str, parent: str | None, steps: int) -> None:
            self._steps[name] = steps

        def step_complete(self, name: str, step: int) -> bool:
            return progress(name, step + 1, self._steps.get(name, 0))

        def phase_finish(self, name: str) -> None:
            self._steps.pop(name, None)

    return Monitor()
