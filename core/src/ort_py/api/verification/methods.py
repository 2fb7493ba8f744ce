"""What a session tells of its verification: a base of `InferenceSession`. The work is done by `verifier`."""

from __future__ import annotations

from typing import TYPE_CHECKING, cast

from ort_py.api.verification.report import VerificationReport
from ort_py.engine.runner import Runner
from ort_py.options.verify_share import share_of

if TYPE_CHECKING:
    from ort_py.api.session import InferenceSession
    from ort_py.api.verification.verifier import Verifier
    from ort_py.execution.program import Program

__all__ = ["VerificationMethods"]


class VerificationMethods:
    """`InferenceSession.verification` and `finish_verification`."""

    _verifier: Verifier | None = None

    @property
    def verification(self) -> VerificationReport:
        """What repeating runs with the NumPy provider has found so far; see `SessionOptions.verify`."""
        return VerificationReport() if self._verifier is None else self._verifier.report()

    def finish_verification(self, seconds: float | None = None) -> VerificationReport:
        """Wait until the picked runs are verified.

        Args:
            seconds: The longest time to wait, None for any.

        Returns:
            What was found so far; `waiting` is above 0 where the time was too short.
        """
        return VerificationReport() if self._verifier is None else self._verifier.wait(seconds)

    def _new_runner(self, program: Program, lanes: int) -> Runner:
        """A runner for the session's program, which has runs verified where the session shall."""
        session = cast("InferenceSession", self)  # the only class that has this base
        pressure = session._joined_pressure()
        share = share_of(session._options.verify)
        if not share:
            return Runner(program, lanes, pressure)
        from ort_py.api.verification.runner import VerifiedRunner
        from ort_py.api.verification.verifier import Verifier

        if self._verifier is None:
            self._verifier = Verifier(session, share)
        if not self._verifier.active:
            return Runner(program, lanes, pressure)
        return VerifiedRunner(program, lanes, pressure, self._verifier)

    def _close_verification(self) -> None:
        """Stop verifying; waits for nothing."""
        if self._verifier is not None:
            self._verifier.close()
