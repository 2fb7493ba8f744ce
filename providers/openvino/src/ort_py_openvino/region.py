"""A compiled region: OpenVINO's compiled model and the order of the region's inputs and outputs in it.

Immutable, shared by threads; each frame has an infer request of its own (`instance`), so as many threads can run a
session as have frames.
"""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from ort_py.contracts import CompiledRegion, FrameResources, RegionInstance, RegionView
from ort_py.errors import EPFail
from ort_py_openvino.artifacts import pack
from ort_py_openvino.attention import needs_plain_loops
from ort_py_openvino.build import model_of
from ort_py_openvino.elements import data_type_of_port
from ort_py_openvino.forks import CALLS, Inheritance
from ort_py_openvino.instance import Copy, OpenVINOInstance, Port
from ort_py_openvino.made_inside import made_inside
from ort_py_openvino.not_finite import NO_LOOKS, Looks, looks_of
from ort_py_openvino.properties import Target
from ort_py_openvino.runtime import core
from ort_py_openvino.turns import Turns

__all__ = ["OpenVINORegion", "imported"]


class OpenVINORegion(CompiledRegion):
    """A region on a device.

    Args:
        compiled: OpenVINO's compiled model.
        inputs: Names of the region's inputs; the model has those that it reads, in the same order.
        outputs: Number of the region's outputs; the model has them in the same order.
        target: What it was compiled for.
        kept: What must stay in memory as long as the model does.
        looks: What its instances look for.
        flagged: Whether the model has one more output, which is a flag of values inside: see `made_inside`.
        plain: Whether it was compiled without generated loops: see `attention`.

    Raises:
        EPFail: The model has another number of outputs, an input that is none of the region's, or one of a type that no
            array has.
    """

    def __init__(
        self,
        compiled: Any,
        inputs: Sequence[str],
        outputs: int,
        target: Target,
        kept: Any = None,
        looks: Looks = NO_LOOKS,
        *,
        flagged: bool = False,
        plain: bool = False,
    ) -> None:
        self._looks = looks
        self._plain = plain
        self._compiled = compiled
        self._target = target
        self._kept = kept
        self._inheritance = Inheritance(compiled, target)
        self._turns = Turns()
        self._flag = len(compiled.outputs) - 1 if flagged else None
        if len(compiled.outputs) != outputs + flagged:
            raise EPFail(
                f"OpenVINO's model has {len(compiled.outputs) - flagged} outputs, its region {outputs}.",
                fix="run it with another provider",
            )
        self._names = inputs
        self.places = _places(compiled, inputs)
        self.inputs: list[Port] = []
        for index, (port, place) in enumerate(zip(compiled.inputs, self.places, strict=True)):
            bounds = str(port.get_partial_shape()) if inputs[place] in target.shapes else ""
            self.inputs.append(replace(_port(port, index), name=inputs[place], bounds=bounds))
        # One tensor may be two outputs, or an input and an output where nothing is computed in between: OpenVINO then
        # writes to one array, or to none.
        read = {
            (name, port.get_element_type().get_type_name()): index
            for index, port in enumerate(compiled.inputs)
            for name in port.get_names()
        }
        self.outputs: list[Port | Copy] = []
        written: dict[tuple[str, str], int] = {}
        for index, port in enumerate(compiled.outputs[:outputs]):
            # The type counts, too: what a cast that was left out has made has the names of what it was made of.
            names = [(name, port.get_element_type().get_type_name()) for name in port.get_names()]
            given = next((read[name] for name in names if name in read), None)
            earlier = next((written[name] for name in names if name in written), None)
            if given is not None:
                self.outputs.append(Copy(self.places[given], of_input=True))
            elif earlier is not None:
                self.outputs.append(Copy(earlier, of_input=False))
            else:
                written |= dict.fromkeys(names, index)
                self.outputs.append(_port(port, index))

    @classmethod
    def of(cls, region: RegionView, target: Target) -> OpenVINORegion:
        """Compile a region.

        Raises:
            RuntimeError: OpenVINO's, where it cannot.
        """
        looks = looks_of(region.nodes)
        looked_at = made_inside(region, looks)
        model, kept = model_of(region, target.shapes, looked_at)
        plain = needs_plain_loops(region, looked_at)
        try:
            compiled = _compiled(model, target, plain=plain)
        except RuntimeError:
            if plain or target.without_generated_loops() == target:
                raise
            plain = True  # the generator refuses some products that the plug-in computes without it
            compiled = _compiled(model, target, plain=plain)
        names = [value.name for value in region.inputs]
        return cls(compiled, names, len(region.outputs), target, kept, looks, flagged=bool(looked_at), plain=plain)

    def instantiate(self, frame: FrameResources) -> RegionInstance:
        """An infer request.

        Raises:
            EPFail: In a forked child, for a device whose threads it does not have.
        """
        self._inheritance.check()
        with CALLS.work(), self._turns.making():
            request = self._compiled.create_infer_request()
        return OpenVINOInstance(
            request, self.inputs, self.places, self.outputs, self._inheritance, self._turns, self._looks, self._flag
        )

    def serialize(self) -> bytes | None:
        """OpenVINO's export, None for devices that export nothing."""
        try:
            exported = self._compiled.export_model()
        except RuntimeError:
            return None
        blob = exported.getvalue() if isinstance(exported, io.BytesIO) else bytes(exported)
        header = {
            "inputs": list(self._names),
            "outputs": len(self.outputs),
            "looks": self._looks.to_json(),
            "flagged": self._flag is not None,
            "plain": self._plain,
        }
        return pack(header, blob, self._target)

    def close(self) -> None:
        """Let go of the compiled model."""
        self._compiled = self._kept = None
        self._inheritance.close()


def imported(header: dict[str, Any], blob: bytes, target: Target) -> OpenVINORegion:
    """A region from what `serialize` gave.

    Raises:
        RuntimeError: OpenVINO's, where it does not import it.
    """
    plain = bool(header["plain"])
    properties = (target.without_generated_loops() if plain else target).properties
    with CALLS.work():
        compiled = core().import_model(io.BytesIO(blob), target.device, dict(properties))
    looks = Looks.from_json(header["looks"])
    return OpenVINORegion(
        compiled, header["inputs"], header["outputs"], target, looks=looks, flagged=bool(header["flagged"]), plain=plain
    )


def _compiled(model: Any, target: Target, *, plain: bool) -> Any:
    properties = (target.without_generated_loops() if plain else target).properties
    with CALLS.work():
        return core().compile_model(model, target.device, dict(properties))


def _places(compiled: Any, inputs: Sequence[str]) -> list[int]:
    """The region's input for each input of the model: OpenVINO's reader drops inputs that are not read."""
    if len(compiled.inputs) == len(inputs):
        return list(range(len(inputs)))
    known = {name: number for number, name in enumerate(inputs)}
    found: list[int] = []
    for port in compiled.inputs:
        number = next((known[name] for name in port.get_names() if name in known), None)
        if number is None:
            raise EPFail(
                f"OpenVINO's model reads {port.get_any_name()}, which is not an input of its region.",
                fix="run it with another provider",
            )
        found.append(number)
    return found


def _port(port: Any, index: int) -> Port:
    data_type = data_type_of_port(port)
    if data_type is None:
        raise EPFail(
            f"OpenVINO gives {port.get_any_name()} as {port.get_element_type()}, a type that arrays here do not have.",
            fix="run the model with another provider",
        )
    shape = port.get_partial_shape()
    static = tuple(int(dim) for dim in port.get_shape()) if shape.is_static else None
    return Port(index, data_type, static)
