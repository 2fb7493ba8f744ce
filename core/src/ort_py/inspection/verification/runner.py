"""A runner that hands some of its runs to the session's verifier. Sessions that verify nothing never make one.

A run is picked, and its inputs are copied, before it starts: it may write its outputs over its inputs, and the caller
may write to them as soon as it has returned.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.engine.run_arguments import name_list
from ort_py.engine.runner import Runner
from ort_py.execution.frame import Frame
from ort_py.execution.program import Program
from ort_py.platform.memory_pressure import MemoryPressure

if TYPE_CHECKING:
    from ort_py.inspection.verification.verifier import Verifier


class VerifiedRunner(Runner):
    """Runs one program, and has a share of the runs verified."""

    def __init__(self, program: Program, lanes: int, pressure: MemoryPressure | None, verifier: Verifier) -> None:
        super().__init__(program, lanes, pressure)
        self.verifier = verifier

    def needs_host_values(self) -> bool:
        """Return whether the next run of the calling thread is verified: what is verified is on the host."""
        return self.verifier.decide()

    def run(
        self,
        output_names: Sequence[str] | None,
        input_feed: Mapping[str, Any],
        before: Callable[[Frame], object] | None = None,
    ) -> list[Any]:
        verifier = self.verifier
        if verifier.passes() or not (number := verifier.pick()):
            return Runner.run(self, output_names, input_feed, before)
        names = name_list(output_names)
        try:
            feed = self.prepare(input_feed)
        except Exception:  # the run itself says what is wrong with the feed
            verifier.drop()
            return super().run(names, input_feed, before)
        picked = verifier.begin(number, names or list(self._output_by_name), feed)
        if picked is None:
            return super().run(names, feed, before)
        try:
            results = super().run(names, feed, before)
        except BaseException:
            verifier.abandon(picked)
            raise
        verifier.submit(picked, results)
        return results
