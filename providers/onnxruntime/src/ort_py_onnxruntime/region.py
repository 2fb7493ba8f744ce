"""A compiled region: a session of onnxruntime, and for each frame an IOBinding that is made once and run again.

Comes after `sessions`. A run whose arrays lie where those of the run before lay binds nothing; onnxruntime reads the
inputs and writes the outputs in place. Outputs whose shape a run decides are made by onnxruntime.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from ort_py.contracts import Array, CompiledRegion, FrameResources, RegionInstance
from ort_py_onnxruntime.native import FORKS, check_process, native

__all__ = ["OnnxruntimeRegion"]


class OnnxruntimeRegion(CompiledRegion):
    """A session that threads share.

    Args:
        session: Of onnxruntime.
        weights: Values that it reads as long as it lives.
        threads: Its threads.
    """

    def __init__(self, session: Any, weights: dict[str, Any], threads: int) -> None:
        self._session = session
        self._weights = weights
        self._threads = threads
        self._forks = FORKS.count

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """An IOBinding of its own."""
        check_process(self._forks, self._threads)
        return _Instance(self._session, self._threads, self._forks)

    def close(self) -> None:
        """Let go of the session, then of the weights that it reads."""
        self._session = None
        self._weights = {}


class _Instance(RegionInstance):
    def __init__(self, session: Any, threads: int, forks: int) -> None:
        real = native()
        self._session = session
        self._threads = threads
        self._forks = forks
        self._host = real.OrtDevice(real.OrtDevice.cpu(), real.OrtDevice.default_memory(), 0)
        self._options = real.RunOptions()
        self._inputs = [value.name for value in session.inputs_meta]
        self._outputs = [value.name for value in session.outputs_meta]
        self._binding = real.SessionIOBinding(session)
        self._bound: list[Any] = [None] * (len(self._inputs) + len(self._outputs))
        self._given: Sequence[Array] = ()
        self._made: list[Array] | None = None
        self._shapes_vary = False

    def bind(self, inputs: Sequence[Array], outputs: Sequence[Array | None]) -> None:
        """Bind what lies elsewhere than in the run before."""
        self._given = given = [np.asarray(array) for array in inputs]  # a kernel of NumPy's may give a scalar
        made = [array for array in outputs if array is not None]
        self._made = None
        if self._shapes_vary or len(made) < len(outputs) or not all(array.size for array in (*given, *made)):
            return
        self._made = made
        binding, bound = self._binding, self._bound
        for place, (name, array) in enumerate(zip(self._inputs, given, strict=True)):
            key = (array.__array_interface__["data"][0], array.shape)
            if bound[place] != key:
                binding.bind_input(name, self._host, array.dtype.type, array.shape, key[0])
                bound[place] = key
        first = len(given)
        for place, (name, array) in enumerate(zip(self._outputs, made, strict=True), first):
            key = (array.__array_interface__["data"][0], array.shape)
            if bound[place] != key:
                binding.bind_output(name, self._host, array.dtype.type, array.shape, key[0])
                bound[place] = key

    def __call__(self) -> Sequence[Array]:
        """Run.

        Raises:
            EPFail: In a forked child, where the session's threads are missing.
            Exception: Whatever onnxruntime raises.
        """
        if self._forks != FORKS.count:
            check_process(self._forks, self._threads)
        given, self._given = self._given, ()
        made, self._made = self._made, None
        if made is not None:
            try:
                self._session.run_with_iobinding(self._binding, self._options)
            except Exception:  # an output may have another shape this time: then a run that binds nothing succeeds
                results = self._unbound(given)
                self._shapes_vary = True
                return results
            return made
        return self._unbound(given)

    def _unbound(self, given: Sequence[Array]) -> Sequence[Array]:
        results = self._session.run(self._outputs, dict(zip(self._inputs, given, strict=True)), None)
        # A value that passes through onnxruntime unchanged must still be an array of its own.
        owned: list[Array] = []
        for result in results:
            shared = any(np.may_share_memory(result, array) for array in (*given, *owned))
            owned.append(np.array(result) if shared else result)
        return owned

    def close(self) -> None:
        """Let go of the binding before the session."""
        self._binding = None
        self._session = None
