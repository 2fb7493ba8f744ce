"""A compiled region: a session of onnxruntime, and for each frame a binding of its inputs and outputs.

Comes after `sessions`, `binding` and `device_region`, which has the runs with values on a device. Outputs whose shape a
run decides are made by onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import Array, CompiledRegion, FrameResources, RegionInstance
from ort_py_onnxruntime.binding import Binding, Shape
from ort_py_onnxruntime.device_region import DeviceInstance
from ort_py_onnxruntime.device_values import Residence
from ort_py_onnxruntime.native import FORKS, check_process, native

__all__ = ["OnnxruntimeRegion"]


class OnnxruntimeRegion(CompiledRegion):
    """A session that threads share.

    Args:
        session: Of onnxruntime.
        weights: Values that it reads as long as it lives.
        threads: Its threads.
        artifact: What another process can make the region of; None where it cannot.
        residence: The device of its inputs and outputs; None for the host.
    """

    def __init__(
        self,
        session: Any,
        weights: dict[str, Any],
        threads: int,
        artifact: bytes | None = None,
        residence: Residence | None = None,
    ) -> None:
        self._residence = residence
        self._session = session
        self._weights = weights
        self._threads = threads
        self._artifact = artifact
        self._forks = FORKS.count

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """A binding of its own."""
        check_process(self._forks, self._threads)
        if self._residence is not None:
            return DeviceInstance(self._session, frame, self._residence)
        return _Instance(self._session, frame, self._threads, self._forks)

    def serialize(self) -> bytes | None:
        """Return what the provider's compiler made, or None if it gives nothing away."""
        artifact, self._artifact = self._artifact, None
        return artifact

    def close(self) -> None:
        """Let go of the session, then of the weights that it reads."""
        self._session = None
        self._weights = {}


class _Instance(RegionInstance):
    def __init__(self, session: Any, frame: FrameResources, threads: int, forks: int) -> None:
        self._session = session
        self._admit = frame.admit
        self._threads = threads
        self._forks = forks
        self._options = native().RunOptions()
        self._inputs = [value.name for value in session.inputs_meta]
        self._outputs = [value.name for value in session.outputs_meta]
        self._binding = Binding(session, self._inputs, self._outputs)
        self._shapes: tuple[Shape, ...] | None = None
        self._required: Any = None
        self._fits = False
        self._shapes_vary = False
        self._given: list[Any] = []
        self._wanted: Sequence[Array | None] = ()

    @property
    def admits_shapes(self) -> bool:
        """True: shapes are compared here anyway."""
        return True

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        """Hand over this run's arrays.

        Raises:
            RunDeclined: The engine's check of new shapes leaves them to others.
        """
        # A kernel of NumPy's may give a scalar.
        given = [array if type(array) is np.ndarray else np.asarray(array) for array in inputs]
        shapes = tuple([array.shape for array in given])
        if shapes != self._shapes:
            self._shapes, self._fits = None, False
            self._required = None if self._admit is None else self._admit(given)
            self._prepare(given, outputs)
            self._shapes = shapes
        self._given, self._wanted = given, outputs
        if self._fits:
            self._binding.load(given, outputs)

    def __call__(self) -> Sequence[Array]:
        """Run.

        Raises:
            EPFail: In a forked child, where the session's threads are missing; or an output has another shape than the
                operators require.
            Exception: Whatever onnxruntime raises.
        """
        if self._forks != FORKS.count:
            check_process(self._forks, self._threads)
        given, self._given = self._given, []
        wanted, self._wanted = self._wanted, ()
        if not self._outputs:  # unoptimised nodes that nothing reads: onnxruntime refuses to run for no output
            return ()
        if not self._fits:
            return self._unbound(given, wanted)
        try:
            self._session.run_with_iobinding(self._binding.native, self._options)
        except Exception:  # an output may have another shape this time: then a run that binds nothing succeeds
            self._fits = False
            self._fits, self._shapes_vary = False, True
            return self._unbound(given, wanted)
        return self._binding.results()

    def _prepare(self, given: Sequence[Any], outputs: Sequence[Array | None]) -> None:
        """Bind for new shapes of inputs, where those of the outputs are known."""
        if self._required is not None:
            shapes, dtypes = self._required.shapes, self._required.dtypes
        else:
            shapes = tuple([None if array is None else array.shape for array in outputs])
            dtypes = tuple([None if array is None else array.dtype for array in outputs])
        if not self._shapes_vary and all(one is not None for one in (*shapes, *dtypes)):
            self._fits = self._binding.prepare(given, shapes, dtypes)

    def _unbound(self, given: Sequence[Any], wanted: Sequence[Array | None]) -> Sequence[Array]:
        results = self._session.run(self._outputs, dict(zip(self._inputs, given, strict=True)), self._options)
        shapes, dtypes = [array.shape for array in results], [array.dtype for array in results]
        if self._required is not None:
            self._required.check(shapes, dtypes)
        if not self._shapes_vary:
            self._fits = self._binding.prepare(given, shapes, dtypes)
        owned: list[Array] = []
        for result, array in zip(results, wanted, strict=True):
            if array is not None and array.shape == result.shape:
                array[...] = result
                owned.append(array)
                continue
            # A value that passes through onnxruntime unchanged must still be an array of its own.
            shared = any(np.may_share_memory(result, other) for other in (*given, *owned))
            owned.append(np.array(result) if shared else result)
        return owned

    def reserved_bytes(self) -> int:
        """Bytes of the memory that small values are copied through."""
        return self._binding.reserved_bytes()

    def close(self) -> None:
        """Let go of the binding before the session."""
        self._binding.close()
        self._session = None
