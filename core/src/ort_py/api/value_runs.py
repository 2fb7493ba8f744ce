"""Runs of a session with values and bindings instead of plain feeds: a base of `InferenceSession`.

Unwraps what goes in, calls `run`, wraps what comes out. Knows nothing of plans, slots or frames.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, cast

from ort_py.api.io_binding import IOBinding
from ort_py.api.placed_runs import run_placed
from ort_py.api.private_names import PrivateNames
from ort_py.engine.run_arguments import check_run_options, name_list
from ort_py.enums import OrtAllocatorType, OrtMemType
from ort_py.errors import ArgumentTypeError, Location
from ort_py.options import RunOptions
from ort_py.values.copying import copy_tensors
from ort_py.values.device_tensor import DeviceTensor
from ort_py.values.memory_info import OrtMemoryInfo
from ort_py.values.ort_value import OrtValue
from ort_py.values.vector import OrtValueVector

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.values.device import OrtDevice

__all__ = ["ValueRuns"]


class ValueRuns(PrivateNames):
    """What `InferenceSession` can do with `OrtValue` and `IOBinding`."""

    def io_binding(self) -> IOBinding:
        """A new binding for this session."""
        return IOBinding(_session(self))

    def run_with_iobinding(self, iobinding: IOBinding, run_options: RunOptions | None = None) -> None:
        """Run with what is bound; results are asked of the binding.

        Args:
            iobinding: A binding of this session.
            run_options: Options of this run.

        Raises:
            ValueError: The binding belongs to another session.
            ArgumentTypeError: It is no binding, or the options are none.
            BindingError: No output is bound, the run failed, or a bound buffer does not fit its result.
        """
        if not isinstance(iobinding, IOBinding):
            raise ArgumentTypeError(
                f"An IOBinding is wanted, not {type(iobinding).__name__}.", fix="Make one with session.io_binding()."
            )
        if iobinding._session is not self:
            raise ValueError("This IOBinding belongs to another session: use the one that made it.")
        check_run_options(run_options)
        iobinding._iobinding.run(run_options)

    def run_with_ort_values(
        self,
        output_names: Sequence[str] | None,
        input_dict_ort_values: Mapping[str, OrtValue],
        run_options: RunOptions | None = None,
    ) -> list[OrtValue]:
        """`run` with values in and out; results are on the host.

        Args:
            output_names: Outputs wanted, in order; None or empty for all.
            input_dict_ort_values: A value for each input; those on a device of the session are read there.
            run_options: Options of this run.

        Raises:
            ArgumentTypeError: A feed is no OrtValue, or another argument of a wrong type.
            OrtPyError: As `run`.
        """
        feed = {name: _bare(name, value) for name, value in input_dict_ort_values.items()}
        session, names = _session(self), name_list(output_names)
        types = {argument.name: argument.type for argument in session.get_outputs()}
        if any(isinstance(value, DeviceTensor) for value in feed.values()):
            results = run_placed(session, names, feed, {}, run_options)
        else:
            results = session.run(names, feed, run_options)
        return [OrtValue.of_output(found, types[name]) for name, found in zip(names or types, results, strict=True)]

    def run_with_ortvaluevector(
        self,
        run_options: RunOptions | None,
        feed_names: Sequence[str],
        feeds: OrtValueVector,
        fetch_names: Sequence[str],
        fetches: OrtValueVector,
        fetch_devices: Sequence[OrtDevice],
    ) -> None:
        """`run` with vectors of values.

        Args:
            run_options: Options of this run.
            feed_names: Names of the inputs fed.
            feeds: Their values.
            fetch_names: Outputs wanted, in order.
            fetches: Filled with the results; tensors that are in it already are written to.
            fetch_devices: Where each is wanted; results are on the host.

        Raises:
            ArgumentTypeError: Feeds or fetches are no vector.
            OrtPyError: As `run`, or a tensor in `fetches` does not fit its result.
        """
        for vector in (feeds, fetches):
            if not isinstance(vector, OrtValueVector):
                raise ArgumentTypeError(
                    f"An OrtValueVector is wanted, not {type(vector).__name__}.", fix="push_back() each."
                )
        named = dict(zip(feed_names, feeds, strict=True))
        results = self.run_with_ort_values(fetch_names, named, run_options)
        given = list(fetches)
        kept = [(result, old) for result, old in zip(results, given, strict=False) if old.is_tensor()]
        if kept:
            copy_tensors([result for result, _ in kept], [old for _, old in kept])
        fetches._assign(
            given[index] if index < len(given) and given[index].is_tensor() else result
            for index, result in enumerate(results)
        )

    def create_ortvalue_from_shape_and_type(
        self, shape: Sequence[int], element_type: Any, device_type: str, device_id: int = 0, vendor_id: int = -1
    ) -> OrtValue:
        """`OrtValue.ortvalue_from_shape_and_type`: what usable providers have memory of, sessions can reach."""
        return OrtValue.ortvalue_from_shape_and_type(shape, element_type, device_type, device_id, vendor_id)

    def get_input_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each input is taken from: the host."""
        return [_host_memory() for _ in _session(self).get_inputs()]

    def get_output_memory_infos(self) -> list[OrtMemoryInfo]:
        """Where each output is given: on the host."""
        return [_host_memory() for _ in _session(self).get_outputs()]


def _session(runs: ValueRuns) -> InferenceSession:
    return cast("InferenceSession", runs)  # the only class that has this base


def _bare(name: str, value: Any) -> Any:
    if not isinstance(value, OrtValue):
        raise ArgumentTypeError(
            f"The feed of '{name}' is no OrtValue but {type(value).__name__}.",
            where=Location(value=name),
            fix="Use run(), or OrtValue.ortvalue_from_numpy().",
        )
    return value._value


def _host_memory() -> OrtMemoryInfo:
    return OrtMemoryInfo("Cpu", OrtAllocatorType.ORT_ARENA_ALLOCATOR, 0, OrtMemType.DEFAULT)
