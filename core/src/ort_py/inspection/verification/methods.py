"""The verification of one session's runs, as its session has it.

Makes the runners of a session's engines, and the verifier when the first of them is made. Sessions that verify nothing
get plain runners. The work is done by `verifier`.
"""

from __future__ import annotations

import weakref
from typing import TYPE_CHECKING

from ort_py.engine.runner import Runner
from ort_py.inspection.verification.report import VerificationReport
from ort_py.options.verify_share import share_of

if TYPE_CHECKING:
    from ort_py.engine.engine import Engine
    from ort_py.execution.program import Program
    from ort_py.inspection.verification.verified import Verified
    from ort_py.inspection.verification.verifier import Verifier
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
        """Make the runner of a program, which has runs verified where the session wants that.

        Args:
            lanes: Steps that may run at the same time.
        """
        if not self._share:
            return Runner(program, lanes, pressure)
        from ort_py.inspection.verification.runner import VerifiedRunner
        from ort_py.inspection.verification.verifier import Verifier

        if self.verifier is None:
            self.verifier = Verifier(self._session, engine, self._share)
        if not self.verifier.active:
            return Runner(program, lanes, pressure)
        return VerifiedRunner(program, lanes, pressure, self.verifier)

    def report(self) -> VerificationReport:
        return VerificationReport() if self.verifier is None else self.verifier.report()

    def wait(self, seconds: float | None) -> VerificationReport:
        """Wait until no run waits for its verification, at most so many seconds; returns what was found so far."""
        return VerificationReport() if self.verifier is None else self.verifier.wait(seconds)

    def close(self) -> None:
        """Stop verifying, without waiting."""
        if self.verifier is not None:
            self.verifier.close()
