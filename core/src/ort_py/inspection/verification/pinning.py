"""A session moved to the NumPy provider after a wrong result. Comes before `verifier`, which decides about it."""

from __future__ import annotations

from ort_py.discovery import CPU_ROLE, FallbackRecord
from ort_py.inspection.verification.outcome import Finding
from ort_py.inspection.verification.verified import Verified


def pin(session: Verified, finding: Finding) -> None:
    """Make the session again on the plain NumPy provider; where that fails, it stays as it was.

    Runs under way end as they began. It is on record in the session's fallback report, and `session.state` is degraded.

    Raises:
        OrtPyError: The session is closed, or the NumPy provider cannot run the model.
    """
    options = session.engine.options
    former = options.pin_cpu, options.strict
    options.pin_cpu, options.strict = True, ""
    try:
        session.set_providers([CPU_ROLE])
    except BaseException:
        options.pin_cpu, options.strict = former
        raise
    provider = finding.provider or "The session"
    record = FallbackRecord("run", provider, f"a result was wrong: {finding.reason}", finding.node, CPU_ROLE)
    session.engine.recovery.moved.add(provider)
    session.engine.fallbacks.note(record)
