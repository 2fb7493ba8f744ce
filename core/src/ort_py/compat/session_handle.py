"""The handle in C that onnxruntime's sessions hold as ``_sess``: a few libraries call it past the session.

Its methods have the session's names and, in two places, another order of arguments. Everything else is the session's.
It does not depend on how a session is made or run.
"""

from __future__ import annotations

import copy
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

from ort_py.api.io_binding import IOBinding
from ort_py.api.session_io_binding import SessionIOBinding
from ort_py.engine.engine import Engine
from ort_py.values.ort_value import OrtValue
from ort_py.values.vector import OrtValueVector

if TYPE_CHECKING:
    from ort_py.engine.metadata import ModelMetadata, NodeArg
    from ort_py.options import RunOptions, SessionOptions


class SessionHandle:
    """A session as onnxruntime's C binding has it.

    Args:
        session: The session; held.
    """

    __slots__ = ("handled_session",)

    def __init__(self, session: Any) -> None:
        self.handled_session = session

    def __repr__(self) -> str:
        return f"<SessionHandle of {self.handled_session!r}>"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, SessionHandle) and other.handled_session is self.handled_session

    def __hash__(self) -> int:
        return hash(self.handled_session)

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__") or name == "handled_session":
            raise AttributeError(f"a session's handle has no attribute '{name}'")
        return getattr(self.handled_session, name)

    def run_with_ort_values(
        self, feeds: Mapping[str, OrtValue], output_names: Sequence[str], run_options: RunOptions | None = None
    ) -> OrtValueVector:
        """`InferenceSession.run_with_ort_values` with the feeds first and a vector of results."""
        results = OrtValueVector()
        for value in self.handled_session.run_with_ort_values(output_names, feeds, run_options):
            results.push_back(value)
        return results

    def run_with_iobinding(self, binding: SessionIOBinding | IOBinding, run_options: RunOptions | None = None) -> None:
        """`InferenceSession.run_with_iobinding`, of the binding's own handle too."""
        if isinstance(binding, SessionIOBinding):
            binding.run(run_options)
        else:
            self.handled_session.run_with_iobinding(binding, run_options)

    @property
    def _engine(self) -> Engine:
        engine: Engine = self.handled_session.engine
        return engine

    @property
    def inputs_meta(self) -> list[NodeArg]:
        """The same as `InferenceSession.get_inputs`."""
        return self._engine.description.inputs

    @property
    def outputs_meta(self) -> list[NodeArg]:
        """The same as `InferenceSession.get_outputs`."""
        return self._engine.description.outputs

    @property
    def overridable_initializers(self) -> list[NodeArg]:
        """The same as `InferenceSession.get_overridable_initializers`."""
        return self._engine.description.overridable

    @property
    def model_meta(self) -> ModelMetadata:
        """The same as `InferenceSession.get_modelmeta`."""
        return self._engine.description.metadata

    @property
    def session_options(self) -> SessionOptions:
        """The same as `InferenceSession.get_session_options`."""
        return copy.copy(self._engine.options)

    @property
    def get_profiling_start_time_ns(self) -> int:
        """The same as the session's method of this name, which is a property in onnxruntime's binding."""
        return self._engine.profiling_started_ns
