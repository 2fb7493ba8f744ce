"""The choice of plans and algorithms: a session's settings, in the terms of both interfaces to cuDNN."""

from __future__ import annotations

from ort_py.lazy_dataclass import dataclass
from ort_py_cuda.settings import Settings

__all__ = ["Choice"]


@dataclass(frozen=True, slots=True)
class Choice:
    """Bounds on what may be chosen, and whether candidates are timed.

    Attributes:
        timed: Candidates are timed on the first run's arrays, rather than taken from the library's heuristics.
        workspace: Most bytes of scratch memory, None for any amount.
        deterministic: Results must not differ from run to run.
    """

    timed: bool = False
    workspace: int | None = None
    deterministic: bool = False

    @staticmethod
    def of(settings: Settings) -> Choice:
        """Make the choice from a session's settings. onnxruntime's DEFAULT, one fixed algorithm, is not better than the
        heuristics' choice.
        """
        return Choice(
            settings.convolution_search == "EXHAUSTIVE", settings.convolution_workspace, settings.deterministic
        )
