"""Compiled regions: what `IExecutionProvider.compile` returns and how the engine runs it.

A `CompiledRegion` is immutable and shared by threads. What one run may write (scratch, native handles, streams)
belongs to a `RegionInstance`, of which a frame has one; two threads never call one instance.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from dataclasses import field
from typing import TYPE_CHECKING, Any

from ort_py.errors import EPFail, Location
from ort_py.lazy_dataclass import dataclass

if TYPE_CHECKING:
    import numpy as np

    from ort_py.contracts.graph_view import Array
    from ort_py.contracts.memory import IStream


class RunDeclined(Exception):
    """An instance cannot answer this one run, though nothing failed: raised by `RegionInstance.bind` or the call.

    The engine then computes the region's nodes for this run with the kernels of the session's providers on the host,
    and asks the instance again in the next run; after several such answers in a row it pauses asking for a while. The
    inputs of the run must be unchanged. On a device they are copied to the host for this, and the results back.

    Args:
        reason: Why, in words: a line of reports.
        early: Whether nothing was computed before. Then there is nothing to be saved by a pause, and there is none.
    """

    def __init__(self, reason: str, *, early: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.early = early


class RegionNotReady(EPFail):
    """A region is still being made: raised by `compile`, or by an instance whose inputs have shapes of a new kind.

    The session goes on without the provider, if it may, and takes it in again before the first run for which `ready`
    returns True. It is then compiled again, so what was made has to be found there.

    Args:
        what: As for all errors, like `where`, `why` and `fix`.
        ready: Returns whether the region can be had now. It is called before each run, by any thread. It raises an
            exception with the reason if the region will never be ready; the provider then stays left out.
    """

    def __init__(
        self,
        what: str,
        *,
        where: Location | str = "",
        why: Iterable[str] | str = (),
        fix: str = "",
        ready: Callable[[], bool] = lambda: False,
    ) -> None:
        super().__init__(what, where=where, why=why, fix=fix)
        self.ready = ready


@dataclass(frozen=True, slots=True)
class RequiredOutputs:
    """Shapes that the operators of a region require for one set of input shapes.

    Attributes:
        shapes: Shape of each output; None where values decide it.
        dtypes: Element type of each output; None where it is not known.
    """

    shapes: tuple[tuple[int, ...] | None, ...]
    dtypes: tuple[np.dtype[Any] | None, ...]

    def check(self, shapes: Iterable[tuple[int, ...]], dtypes: Iterable[np.dtype[Any]]) -> None:
        """Compare the outputs that the region makes with those that are required.

        Args:
            shapes: Shape of each output.
            dtypes: Element type of each output.

        Raises:
            EPFail: An output differs.
        """
        for place, (shape, dtype) in enumerate(zip(shapes, dtypes, strict=True)):
            wanted, kind = self.shapes[place], self.dtypes[place]
            if (wanted is not None and shape != wanted) or (kind is not None and dtype != kind):
                right = f"{'?' if wanted is None else list(wanted)} of {'any type' if kind is None else kind}"
                raise EPFail(
                    f"A compiled region makes an output of shape {list(shape)} of {dtype} where the operators "
                    f"require {right}.",
                    why=f"output {place} of the region",
                    fix=(
                        "This is a defect of the provider that compiled the region: please report it together with "
                        "the model."
                    ),
                )


@dataclass(frozen=True, slots=True)
class FrameResources:
    """Resources that a frame lends to its instances.

    Attributes:
        stream: The frame's stream on the provider's device, None on the host.
        threads: Threads the instance may use.
        admit: Checks inputs of new shapes against the operators' constraints and the limits of the session, and returns
            the outputs that the region has to make of them. It raises what `RegionInstance.bind` may let through. None
            where the engine checks each run itself. See `RegionInstance.admits_shapes`.
        shared: Whatever instances of the frame have in common, under keys of their providers; gone with the frame.
            Only in sessions with a parallel executor do two instances of a frame run at the same time.
    """

    stream: IStream | None = None
    threads: int = 1
    admit: Callable[[Sequence[Array]], RequiredOutputs] | None = None
    shared: dict[Any, Any] = field(default_factory=dict)


class RegionInstance(ABC):
    """Native state of a region for one frame. Used by one thread at a time."""

    @property
    def admits_shapes(self) -> bool:
        """Optional. True if `bind` calls `FrameResources.admit` itself for shapes that are new to it, and for elements
        of `CompiledRegion.compared_inputs`.

        An instance that compares shapes anyway saves the engine from comparing them too. It must call
        `RequiredOutputs.check` with the outputs that it is going to make, before it runs for the first time with these
        shapes. Read once, after `CompiledRegion.instantiate`.
        """
        return False

    @abstractmethod
    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        """Required. Called before each run, with that run's arrays; what depends on shapes only need not be redone.

        Args:
            inputs: One array an input of the region, in order; the instance must keep what it reads alive.
            outputs: Arrays to write to and to return: C-contiguous, of the output's type, apart from each other and the
                inputs (but see `CompiledRegion.inplace`), of the shape that the last run of these input shapes had.
                None where the instance makes the array itself; it does so too where the output has another shape this
                time, because values decide it.

        Raises:
            RunDeclined: This run is to be answered otherwise.
            Exception: Any other error becomes an `ExecutionError` that names the region, and run fallback follows.
        """

    @abstractmethod
    def __call__(self) -> Sequence[Array]:
        """Required. Run once (enqueue, where there is a stream); returns one array an output, in order.

        Arrays made by the instance belong to the caller: they are C-contiguous, no two are the same or overlap, none is
        an input or a view of one, and the next run does not overwrite them. An instance that makes several native calls
        calls the function that `current_time_check` returns between them, where it returns one.

        Raises:
            RunDeclined: This run is to be answered otherwise; what was written to the outputs does not matter.
            Exception: As `bind`.
        """

    def reserved_bytes(self) -> int:
        """Optional. Bytes on the region's device that it keeps between runs: scratch memory, buffers of its own.

        Asked for reports, from any thread, also while it runs; its errors are logged.
        """
        return 0

    def close(self) -> None:  # noqa: B027 - optional
        """Optional. Called once when the frame goes; must not raise."""


class CompiledRegion(ABC):
    """A region a provider has compiled. Immutable, called from any thread."""

    @abstractmethod
    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """Required. Make the state of one frame. Called once a frame, on the thread that runs it."""

    @property
    def host_inputs(self) -> frozenset[int]:
        """Optional. Places of the inputs that its instances want as arrays of the host, whatever the region's device.

        Right for those of `RegionView.host_inputs`; for another one each run waits for what computes it and copies it.
        Read once, when the session is planned. An instance reads such an array in `bind` or in the call, no later.
        """
        return frozenset()

    @property
    def compared_inputs(self) -> frozenset[int]:
        """Optional. Places of the inputs whose elements its instances compare as they compare shapes.

        Only for instances with `RegionInstance.admits_shapes`: they call `FrameResources.admit` for elements of these
        inputs that are new to them too. Read once a frame.
        """
        return frozenset()

    @property
    def inplace(self) -> tuple[tuple[int, int], ...]:
        """Optional. (place of an input, place of an output) that may be one array of the host, each at most once.

        `RegionInstance.bind` may then be handed the array of the input for the output, where the caller gave one memory
        for both and nothing else reads the input: a cache, of which a run writes only what is new. The run may still be
        answered by others after it was declined, so what it has written must not change the answer. Read once, when
        outputs are bound for the first time.
        """
        return ()

    def serialize(self) -> bytes | None:
        """Optional. The artifact for the compile cache; None where it cannot be kept.

        Called once, right after `IExecutionProvider.compile`, on the thread that makes the session and before the first
        instance is made. It is called only where the session has a cache, and, unless the user named the folder of the
        cache, only where compiling took long enough to be worth keeping; never for a region that was restored. All that
        a run needs has to be in the artifact, weights too: it is restored in other processes. What it raises counts as
        a failure to compile the region.
        """
        return None

    def remarks(self) -> Sequence[str]:
        """Optional. Remarks about how the region has run since it was compiled, one per line. `session.plan` shows
        them.

        E.g. why it does less than its claim said. Asked from any thread, also while it runs; its errors are logged.
        """
        return ()

    def close(self) -> None:  # noqa: B027 - optional
        """Optional. Called once, after all its instances were closed."""


class FunctionRegion(CompiledRegion):
    """A region that is one stateless, thread-safe function ``f(*inputs) -> sequence of outputs``."""

    def __init__(self, function: Callable[..., Sequence[Any]]) -> None:
        self._function = function

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """A new instance around the function."""
        return _FunctionInstance(self._function)


class _FunctionInstance(RegionInstance):
    def __init__(self, function: Callable[..., Sequence[Any]]) -> None:
        self._function = function
        self._inputs: tuple[Array, ...] = ()

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        self._inputs = tuple(inputs)

    def __call__(self) -> Sequence[Array]:
        # Inputs are bound again for each run, so the instance keeps none alive between runs.
        inputs, self._inputs = self._inputs, ()
        return self._function(*inputs)
