"""A compiled region: its engine, which is built again for shapes that it does not admit, and the state of a frame.

Comes after `engine_source` and `execution`; before `provider`.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from ort_py.contracts import Array, CompiledRegion, FrameResources, RegionInstance, RegionView, current_time_check
from ort_py.errors import EPFail
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.capture import CapturedRuns, Capturing
from ort_py_cuda.modules import cupy
from ort_py_tensorrt.artifact import Artifact, pack
from ort_py_tensorrt.context import Context
from ort_py_tensorrt.engine_source import EngineSource
from ort_py_tensorrt.execution import Engine
from ort_py_tensorrt.profiles import Profile
from ort_py_tensorrt.region_model import RegionModel

__all__ = ["Border", "EngineRegion", "Loader"]

Loader = Callable[[bytes, RegionModel | None], Engine]
"""Deserialises an engine on the session's device. The model is the region's where the engine has no weights."""

Shapes = tuple[tuple[int, ...], ...]


@dataclass(frozen=True, slots=True)
class Border:
    """Values that enter and leave a region.

    Attributes:
        inputs: Names of the inputs, as the engine has them, in the region's order.
        outputs: Names of the outputs.
    """

    inputs: tuple[str, ...]
    outputs: tuple[str, ...]

    @classmethod
    def of(cls, region: RegionView) -> Border:
        """Return the border of a region that is to become an engine."""
        return cls(tuple(one.name for one in region.inputs), tuple(one.name for one in region.outputs))


class EngineRegion(CompiledRegion):
    """A region. Threads share it.

    Args:
        border: Its inputs and outputs.
        load: Deserialises engines.
        source: Where engines for other shapes come from; None if there is only one.
        device: Number of the GPU.
        facts: What has to be equal for its engine to be valid elsewhere.
        capturing: Captures runs; None where they are not captured, or where the library does it.
    """

    def __init__(
        self,
        border: Border,
        load: Loader,
        source: EngineSource | None,
        device: int,
        facts: Mapping[str, Any],
        capturing: Capturing | None = None,
    ) -> None:
        self.border = border
        self.capturing = capturing
        self._load = load
        self._source = source
        self._device = device
        self._facts = facts
        self._lock = threading.Lock()
        self._plan: bytes | None = None
        self._profile: Profile | None = None
        self._engine: Engine | None = None
        self._retired: list[Engine] = []

    @property
    def profile(self) -> Profile | None:
        """Shapes that the present engine was built for; None if there is no engine yet."""
        return self._profile

    def adopt(self, plan: bytes, profile: Profile | None, weights: RegionModel | None = None) -> None:
        """Take an engine for the present one.

        Args:
            plan: The engine.
            profile: Shapes that it was built for; None if only the engine says.
            weights: The region, if the engine has no weights of its own.

        Raises:
            EPFail: It does not load, or has another border.
        """
        engine = self._load(plan, weights)
        missing = [name for name in self.border.outputs if name not in engine.outputs]
        missing += [name for name in engine.inputs if name not in self.border.inputs]
        if missing:
            engine.close()
            raise EPFail(
                f"An engine does not fit its region: {', '.join(missing)}.",
                why="it has inputs that the region does not have, or lacks outputs",
                fix="Build the engine again.",
            )
        if self._engine is not None:
            self._retired.append(self._engine)
        self._engine, self._plan = engine, plan if weights is None else None  # the cache of sessions has no weights
        self._profile = engine.profile(self.border.inputs) if profile is None else profile

    def engine_for(self, shapes: Shapes, check: Callable[[], None] | None) -> Engine:
        """Return an engine that admits some shapes; builds it if the present one does not.

        Args:
            shapes: Shapes of the inputs of a run.
            check: Raises if the run is to end.

        Raises:
            RegionNotReady: It is being built in the background.
            EPFail: None can be built, or the region has been built too often.
        """
        with self._lock:
            if self._engine is None or self._profile is None or not self._profile.admits(shapes):
                self._renew(shapes, check)
            assert self._engine is not None
            return self._engine

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """Return a frame's state. The engine's bytes were only needed to keep them elsewhere, which has happened."""
        self._plan = None
        return _Instance(self, frame)

    def serialize(self) -> bytes | None:
        """Return the engine, or None if it is built at the first run or has no weights."""
        if self._plan is None or self._profile is None:
            return None
        return pack(Artifact(self._facts, self._profile, self.border.inputs, self.border.outputs, self._plan))

    def remarks(self) -> Sequence[str]:
        """Say how often the engine was built again, and why runs are not captured."""
        count = 0 if self._source is None else self._source.rebuilds.count
        built = (f"its engine was built again {count} times for other shapes",) if count else ()
        return (*built, *(() if self.capturing is None else self.capturing.remarks()))

    def close(self) -> None:
        """Release the engines."""
        engines = [*self._retired, *([] if self._engine is None else [self._engine])]
        self._retired, self._engine, self._source = [], None, None
        for engine in engines:
            engine.close()

    def _renew(self, shapes: Shapes, check: Callable[[], None] | None) -> None:
        source, names = self._source, self.border.inputs
        if source is None:
            raise EPFail(
                f"An engine was not built for inputs of the shapes {', '.join(map(str, shapes))}.",
                why="it was restored without its region, so that it cannot be built again"
                if self._profile is None
                else f"it was built for {self._profile.to_json()}",
                fix="Compile the model with a profile that has these shapes.",
            )
        profile = self._wanted(source, Profile.of(names, shapes), shapes)
        self.adopt(source.engine(profile, check), profile, source.weights)
        self._plan = None
        self._release_retired()

    def _wanted(self, source: EngineSource, observed: Profile, shapes: Shapes) -> Profile:
        """Return the profile of the next engine."""
        if self._profile is None:
            kept = source.last_profile()
            return kept if kept is not None and kept.names == observed.names and kept.admits(shapes) else observed
        wanted = self._profile.widened(shapes)
        if not source.rebuilds.admit(wanted, source.wishes.rebuilds):
            prefix = source.toolkit.variant.prefix
            raise EPFail(
                f"An engine was built again {source.wishes.rebuilds} times, and its inputs have yet other shapes: "
                f"{', '.join(map(str, shapes))}. The options {prefix}_profile_min_shapes, …_opt_shapes and "
                "…_max_shapes name them beforehand.",
                fix="Give the least and largest shapes, or allow more builds with max_rebuilds.",
            )
        return wanted

    def _release_retired(self) -> None:
        """Close engines that no frame uses any longer. Their work may still be queued on the device."""
        if not self._retired:
            return
        with cupy().cuda.Device(self._device) as device:
            device.synchronize()
        for engine in [one for one in self._retired if not one.lent]:
            self._retired.remove(engine)
            engine.close()


class _Instance(RegionInstance):
    """A frame's state: contexts of the engine, on the frame's stream."""

    def __init__(self, region: EngineRegion, frame: FrameResources) -> None:
        self._region = region
        self._stream = frame.stream
        self._lease: _Lease | None = None
        self._inputs: Sequence[Array] = ()
        self._outputs: Sequence[Array | None] = ()

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        """Note this run's arrays."""
        self._inputs, self._outputs = inputs, outputs

    def __call__(self) -> Sequence[Array]:
        """Enqueue the run.

        Raises:
            RegionNotReady: An engine for these shapes is being built in the background.
            EPFail: The engine cannot be built for these shapes, or the library refuses the run.
        """
        module = cupy()
        inputs = [one if one.flags.c_contiguous else module.ascontiguousarray(one) for one in self._inputs]
        outputs, self._inputs, self._outputs = self._outputs, (), ()
        engine = self._region.engine_for(tuple([tuple(one.shape) for one in inputs]), current_time_check())
        lease = self._lease
        if lease is None or lease.engine is not engine:
            self.close()
            lease = self._lease = _Lease(self._region, engine, self._handle())
        try:
            return lease.run(inputs, outputs)
        except BaseException:
            self._give_back(usable=False)
            raise

    def reserved_bytes(self) -> int:
        """Return the bytes of scratch memory and of captured runs."""
        return 0 if self._lease is None else self._lease.reserved_bytes()

    def close(self) -> None:
        """Give the contexts back."""
        self._give_back(usable=True)

    def _handle(self) -> int:
        return 0 if self._stream is None else self._stream.handle

    def _give_back(self, *, usable: bool) -> None:
        lease, self._lease = self._lease, None
        if lease is None:
            return
        if self._stream is not None:
            try:
                self._stream.synchronize()  # its work must be done before another frame uses the contexts
            except Exception:  # the stream's failure is that of its run, which has reported it
                usable = False
        lease.end(usable=usable)


class _Lease:
    """The contexts that a frame has of one engine: one for runs, and one whose runs are captured.

    A captured run repeats the work of its context as it was, so that no other shapes may be set there afterwards.
    """

    def __init__(self, region: EngineRegion, engine: Engine, stream: int) -> None:
        self.engine = engine
        self._region = region
        self._stream = stream
        self._contexts: dict[bool, Context] = {}
        capturing = region.capturing
        self._captured = None if capturing is None else CapturedRuns(capturing, self._repeatable, self._plain)

    def run(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> Sequence[Array]:
        """Enqueue a run.

        Raises:
            EPFail: The library refuses it.
        """
        return self._enqueue(inputs, outputs) if self._captured is None else self._captured(inputs)

    def reserved_bytes(self) -> int:
        """Return the bytes of scratch memory and of captured runs."""
        scratch = sum(context.scratch_bytes for context in self._contexts.values())
        return scratch + (0 if self._captured is None else self._captured.reserved_bytes())

    def end(self, *, usable: bool) -> None:
        """Give the contexts back, whose work is done."""
        if self._captured is not None:
            self._captured.drop()
        for context in self._contexts.values():
            self.engine.give(context, usable=usable)
        self._contexts.clear()

    def _repeatable(self, inputs: Sequence[Array]) -> list[Array]:
        context = self._contexts.get(True)
        if context is not None and context.decided:  # by the run that warmed up
            raise EPFail(f"Runs that decide the shape of {', '.join(context.decided)} cannot be repeated.")
        return self._enqueue(inputs, [None] * len(self._region.border.outputs), captured=True)

    def _plain(self, inputs: Sequence[Array]) -> list[Array]:
        return self._enqueue(inputs, [None] * len(self._region.border.outputs))

    def _enqueue(
        self, inputs: Sequence[Array], outputs: Sequence[Array | None], *, captured: bool = False
    ) -> list[Array]:
        if captured not in self._contexts:
            self._contexts[captured] = self.engine.take()
        border, reads = self._region.border, self.engine.inputs
        read = [pair for pair in zip(border.inputs, inputs, strict=True) if pair[0] in reads]
        written = list(zip(border.outputs, outputs, strict=True))
        return self._contexts[captured].run(read, written, self._stream)
