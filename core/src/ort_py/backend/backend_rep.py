"""A session behind ONNX's interface of prepared models."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from onnx.backend.base import BackendRep

from ort_py.api.session import InferenceSession
from ort_py.errors import UsageError
from ort_py.options import RunOptions

__all__ = ["OnnxRuntimeBackendRep", "refuse_option"]

_ALLOWED = frozenset({"log_severity_level", "log_verbosity_level", "logid", "only_execute_path_to_fetches"})
"""Attributes of `RunOptions` that may be given as keywords."""


class OnnxRuntimeBackendRep(BackendRep):
    """A prepared model.

    Args:
        session: The session it runs.
    """

    def __init__(self, session: InferenceSession) -> None:
        self._session = session

    def run(self, inputs: Any, **kwargs: Any) -> Any:
        """Run the model.

        Args:
            inputs: A list with a value for each input, in order, or the value of the only one.
            **kwargs: Attributes of `RunOptions`; unknown ones are ignored.

        Returns:
            A list of all outputs.

        Raises:
            UsageError: An option may not be set here, or one value was given for several inputs; a builtin
                RuntimeError too.
            OrtPyError: As `InferenceSession.run`.
        """
        options = RunOptions()
        for name, value in kwargs.items():
            if name in _ALLOWED:
                setattr(options, name, value)
            elif hasattr(options, name):
                raise refuse_option(name, "RunOptions", _ALLOWED)
        names = [argument.name for argument in self._session.get_inputs()]
        if isinstance(inputs, list):
            return self._session.run(None, {name: inputs[index] for index, name in enumerate(names)}, options)
        if len(names) != 1:
            raise UsageError(
                f"The model has {len(names)} inputs, one value was given.", fix="Pass a list with a value for each."
            )
        return self._session.run(None, {names[0]: inputs}, options)


def refuse_option(name: str, owner: str, allowed: Iterable[str]) -> UsageError:
    """The error for an option that exists and may not be set through this interface."""
    return UsageError(
        f"{owner}.{name} cannot be set through the backend interface.",
        why=f"it takes {', '.join(sorted(allowed))}",
        fix="Make a session with this option, and pass the session as the model.",
    )
