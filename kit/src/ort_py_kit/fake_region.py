"""Compiled regions of the fake device: their nodes run one after another through the device's kernels.

Stands for a vendor's compiler: the engine sees one call with the values of the border. An instance checks that it
serves one thread at a time, and no run after it was closed.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from ort_py.contracts import CompiledRegion, FrameResources, KernelDef, NodeSpec, RegionInstance, RegionView
from ort_py.devices import HOST
from ort_py_kit.fake_array import FakeArray
from ort_py_kit.fake_memory import FakeDevice
from ort_py_kit.fake_module import module_of
from ort_py_kit.fake_transfer import FakeTransfer
from ort_py_kit.kernel_runner import LocalKernelContext, find_kernel


class _Step:
    """One node with its kernel bound."""

    def __init__(self, node: NodeSpec, definition: KernelDef, call: Callable[..., Any]) -> None:
        self.inputs = tuple(None if value is None else value.name for value in node.inputs)
        self.outputs = tuple(None if value is None else value.name for value in node.outputs)
        self.host_inputs = definition.host_inputs
        self.contiguous = not definition.strided
        self.single = definition.outputs == 1
        self.call = call


class FakeRegion(CompiledRegion):
    """A region "compiled" for the fake device. Immutable.

    Attributes:
        inputs, outputs: Names of the values at its border, in the view's order.
        instances: Instances made so far.
    """

    def __init__(
        self, region: RegionView, kernels: Sequence[KernelDef], owner: FakeDevice, transfer: FakeTransfer
    ) -> None:
        self.inputs = tuple(value.name for value in region.inputs)
        self.outputs = tuple(value.name for value in region.outputs)
        self.instances: list[FakeRegionInstance] = []
        self.owner = owner
        self.transfer = transfer
        stream = owner.create_stream()
        with stream:  # a factory may make arrays
            self.steps = [self._bind(node, kernels, region) for node in region.nodes]
        self.constants: dict[str, np.ndarray[Any, Any]] = {}
        self.weights: dict[str, FakeArray] = {}
        for value in region.initializers:
            array = region.constant(value.name)
            assert array is not None
            self.constants[value.name] = array
            self.weights[value.name] = transfer.copy(array, HOST, owner.device, stream)
        stream.synchronize()
        readers = [
            (step.inputs[place], place in step.host_inputs) for step in self.steps for place in range(len(step.inputs))
        ]
        self._wanted = frozenset(
            place
            for place, name in enumerate(self.inputs)
            if name in region.host_inputs and all(on_host for one, on_host in readers if one == name)
        )

    @property
    def host_inputs(self) -> frozenset[int]:
        """Inputs that all of its kernels read on the host and that are there: nothing has to be waited for."""
        return self._wanted

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        instance = FakeRegionInstance(self, frame)
        self.instances.append(instance)
        return instance

    def _bind(self, node: NodeSpec, kernels: Sequence[KernelDef], region: RegionView) -> _Step:
        kernel = find_kernel(kernels, node)
        constants = {
            position: region.constant(value.name)
            for position, value in enumerate(node.inputs)
            if value is not None and value.constant
        }
        context = LocalKernelContext(node, module_of(self.owner), constants)
        return _Step(node, kernel, kernel.factory(context))


class FakeRegionInstance(RegionInstance):
    """One frame's state of a region.

    Attributes:
        closed: Whether `close` was called.
    """

    def __init__(self, region: FakeRegion, frame: FrameResources) -> None:
        self.closed = False
        self._region = region
        self._stream = frame.stream
        self._inputs: tuple[Any, ...] | None = None
        self._busy = threading.Lock()

    def bind(self, inputs: Sequence[Any], outputs: Sequence[Any]) -> None:
        assert not self.closed, "bind() after close()"
        assert len(inputs) == len(self._region.inputs), f"{len(inputs)} inputs for {self._region.inputs}"
        assert len(outputs) == len(self._region.outputs), f"{len(outputs)} outputs for {self._region.outputs}"
        for place, (name, value) in enumerate(zip(self._region.inputs, inputs, strict=True)):
            if place in self._region.host_inputs:
                assert isinstance(value, np.ndarray), f"'{name}' is a {type(value).__name__}, not on the host"
                continue
            assert isinstance(value, FakeArray), f"'{name}' is a {type(value).__name__}, not on the device"
            assert value.flags.c_contiguous, f"'{name}' is not C-contiguous"
        self._inputs = tuple(inputs)

    def __call__(self) -> Sequence[Any]:
        assert self._busy.acquire(blocking=False), "two threads call one instance"
        try:
            assert self._inputs is not None, "called before bind()"
            assert self._stream is self._region.owner.current_stream, "another stream than the frame's is current"
            values: dict[str | None, Any] = {None: None}
            values.update(self._region.weights)
            values.update(zip(self._region.inputs, self._inputs, strict=True))
            self._inputs = None
            for step in self._region.steps:
                results = step.call(*[self._fetch(step, position, values) for position in range(len(step.inputs))])
                # The kernel may make more than the node has, or fewer.
                made = [results] if step.single else list(results)
                values.update(dict.fromkeys(step.outputs))
                values.update(zip(step.outputs, made, strict=False))
                values[None] = None
            return [self._own(values[name]) for name in self._region.outputs]
        finally:
            self._busy.release()

    def close(self) -> None:
        self.closed = True

    def _fetch(self, step: _Step, position: int, values: dict[str | None, Any]) -> Any:
        name = step.inputs[position]
        value = values[name]
        if position in step.host_inputs and isinstance(value, FakeArray):
            if name in self._region.constants:
                return self._region.constants[name]
            value = self._region.transfer.copy(value, self._region.owner.device, HOST, self._stream)
            assert self._stream is not None
            self._stream.synchronize()
            return value
        if position not in step.host_inputs and isinstance(value, np.ndarray | np.generic):
            return self._region.transfer.copy(value, HOST, self._region.owner.device, self._stream)
        if step.contiguous and isinstance(value, FakeArray):
            return module_of(self._region.owner).ascontiguousarray(value) if value.ndim else value
        return value

    def _own(self, value: Any) -> Any:
        """An array of its own for the caller, on the device and C-contiguous: Shape makes its result on the host."""
        if isinstance(value, np.ndarray | np.generic):
            return self._region.transfer.copy(value, HOST, self._region.owner.device, self._stream)
        return value.copy()
