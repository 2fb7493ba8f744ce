"""What operators of services ask of a session: to be warm before the first request, and to say what it is.

A base of `InferenceSession`: signatures and documentation only. What they do is in `warmup` and `fingerprint`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Any, cast

from ort_py.execution.frame import session_closed
from ort_py.execution.memory_pressure import pressure_of_process

if TYPE_CHECKING:
    from ort_py.api.fingerprint import Fingerprint
    from ort_py.api.selection_explanation import SelectionExplanation
    from ort_py.api.session import InferenceSession
    from ort_py.api.warmup import WarmupReport
    from ort_py.engine.load_report import LoadReport
    from ort_py.execution.memory_pressure import MemoryPressure
    from ort_py.planning.plan import ExecutionPlan

__all__ = ["TRIM_KEY", "ServiceMethods"]

TRIM_KEY = "session.trim_when_memory_is_short"
"""Config entry: ``"0"`` leaves the session alone when the memory of its control group runs short."""

_logger = logging.getLogger("ort_py.session")


class ServiceMethods:
    """`InferenceSession.warmup`, `explain_selection`, `fingerprint`, and the report that has it."""

    _fingerprint: tuple[ExecutionPlan, Fingerprint] | None = None

    def warmup(
        self,
        shapes: Mapping[str, Any] | Sequence[Mapping[str, Any]] | None = None,
        *,
        progress: Callable[[int, int, str], object] | None = None,
        seconds: float | None = None,
    ) -> WarmupReport:
        """Run once and again with each of the shapes that will come, so that no request pays for being the first.

        Args:
            shapes: One mapping or a list of them. Keys are names of inputs or of symbolic dimensions. An input has a
                shape, ``{"x": (1, 3, 224, 224)}``, where a dimension may be left to its name, ``("batch", 3, 224,
                224)``; zeros of that shape are fed. Or it has a real value, an array or `OrtValue`, which is fed as it
                is. A dimension has a size or a list of sizes: ``{"batch": [1, 8], "length": 128}`` means two shapes.
                None where the model declares all sizes.
            progress: Called with (done, total, what comes next) before each shape, and with (total, total, "") at the
                end. What it raises ends the warm-up.
            seconds: Begin no further shape after this time; those left out are in the report. A shape under way is
                finished: what takes long then is a compiler, which cannot be stopped.

        Returns:
            Seconds of the first and the second run of each shape.

        Raises:
            InvalidArgument: An unknown name, a wrong rank or size, a size that is missing, or an input that cannot be
                made up.
            OrtPyError: A run failed.
            KeyboardInterrupt: Ctrl-C; what is warm stays warm.
        """
        from ort_py.api.warmup import warm_up

        return warm_up(_session(self), shapes, progress, seconds)

    def explain_selection(self) -> SelectionExplanation:
        """Which providers were considered for the session, in rank order, and why each was taken or not."""
        from ort_py.api.selection_explanation import selection_of

        session = _session(self)
        return selection_of(session, session._built.selection, session._recipe.providers)

    @property
    def fingerprint(self) -> Fingerprint:
        """A short hash of model, versions, providers, options and plan; equal on machines that would run the same.

        ``str()`` gives the hash, `parts` what it is made of, `differences` what distinguishes it from another. Logged
        when a session is created, where the logger ``ort_py.session`` takes INFO.

        Raises:
            InvalidArgument: The session was closed before it was asked.
        """
        session = _session(self)
        assembled, known = session._built.assembled, self._fingerprint
        if assembled is None:
            if known is None:
                raise session_closed()
            return known[1]
        plan = assembled.program.plan
        if known is None or known[0] is not plan:  # planned again: somebody else runs some of the nodes now
            from ort_py.api.fingerprint import fingerprint_of

            known = self._fingerprint = (plan, fingerprint_of(session._built, plan, session._options))
        return known[1]

    @property
    def load_report(self) -> LoadReport:
        """Seconds and notes of each stage of creation, and the session's fingerprint."""
        session = _session(self)
        closed = session._built.assembled is None and self._fingerprint is None
        return replace(session._built.report, fingerprint="" if closed else str(self.fingerprint))

    def _profile_facts(self) -> dict[str, str]:
        """What the profile says about the session, where there is one to write."""
        if _session(self)._built.recorder is None or _session(self)._built.assembled is None:
            return {}
        return {"fingerprint": str(self.fingerprint)}

    def _joined_pressure(self) -> MemoryPressure | None:
        """What tells when memory is short, which trims this session then; None where nothing limits it."""
        if _session(self)._options.entry(TRIM_KEY, "1") == "0":
            return None
        pressure = pressure_of_process()
        if pressure is not None:
            pressure.join(_session(self))
        return pressure

    def _log_fingerprint(self) -> None:
        if _logger.isEnabledFor(logging.INFO):
            _logger.info("session of %s: fingerprint %r", _session(self)._built.title, self.fingerprint)


def _session(methods: ServiceMethods) -> InferenceSession:
    return cast("InferenceSession", methods)  # the only class that has this base
