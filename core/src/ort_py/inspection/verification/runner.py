"""The verification of one session's runs, seen from the session: the runners that hand some runs to the verifier.

Sessions that verify nothing get plain runners, and never import `verifier`, which does the work.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.engine.run_arguments import name_list
from ort_py.engine.runner import Runner
from ort_py.inspection.verification.report import VerificationReport
from ort_py.options.verify_share import share_of

if TYPE_CHECKING:
    from ort_py.engine.engine import Engine
    from ort_py.execution.frame import Frame
    from ort_py.execution.program import Program
    from ort_py.inspection.verification.verifier import Verified, Verifier
    from ort_py.options import SessionOptions
    from ort_py.platform.memory_pressure import MemoryPressure


class Verification:
    """Verifies a share of a session's runs, or none.

    Args:
        session: The session; held weakly, so that a session that is dropped is closed.
    """

    def __init__(self, session: Verified, options: SessionOptions) -> None:
        self._session = weakref.ref(session)
        self._share = share_of(options.verify)
        self.verifier: Verifier | None = None

    def make_runner(self, engine: Engine, program: Program, lanes: int, pressure: MemoryPressure | None) -> Runner:
        """Make the runner of a program: a `VerifiedRunner` if the session verifies runs.

        Args:
            lanes: Steps that may run at the same time.
        """
        if not self._share:
            return Runner(program, lanes, pressure)
        from ort_py.inspection.verification.verifier import Verifier

        if self.verifier is None:
            self.verifier = Verifier(self._session, engine, self._share)
        if not self.verifier.active:
            return Runner(program, lanes, pressure)
        return VerifiedRunner(program, lanes, pressure, self.verifier)

    def report(self) -> VerificationReport:
        return VerificationReport() if self.verifier is None else self.verifier.report()

    def wait(self, seconds: float | None) -> VerificationReport:
        """Wait until no run waits for its verification, at most so many seconds, and return the report."""
        return VerificationReport() if self.verifier is None else self.verifier.wait(seconds)

    def close(self) -> None:
        """Stop verifying, without waiting."""
        if self.verifier is not None:
            self.verifier.close()


class VerifiedRunner(Runner):
    """Runs one program, and has a share of the runs verified.

    A run is picked, and its inputs are copied, before it starts: it may write its outputs over its inputs, and the
    caller may write to them as soon as it has returned.
    """

    def __init__(self, program: Program, lanes: int, pressure: MemoryPressure | None, verifier: Verifier) -> None:
        super().__init__(program, lanes, pressure)
        self.verifier = verifier

    def needs_host_values(self) -> bool:
        """Return whether the calling thread's next run is verified, which needs its values on the host."""
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
        except Exception:  # the run raises the error about the feed itself
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
