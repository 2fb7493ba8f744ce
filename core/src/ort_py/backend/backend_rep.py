"""A session behind ONNX's interface of prepared models."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from onnx.backend.base import BackendRep

from ort_py.api.session import InferenceSession
from ort_py.errors import UsageError
from ort_py.options import RunOptions, specs_of
from ort_py.options.option_set import OptionSet

__all__ = ["OnnxRuntimeBackendRep", "set_options"]


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
        set_options(options, kwargs)
        names = [argument.name for argument in self._session.get_inputs()]
        if isinstance(inputs, list):
            return self._session.run(None, {name: inputs[index] for index, name in enumerate(names)}, options)
        if len(names) != 1:
            raise UsageError(
                f"The model has {len(names)} inputs, one value was given.", fix="Pass a list with a value for each."
            )
        return self._session.run(None, {names[0]: inputs}, options)


def set_options(options: OptionSet, given: Mapping[str, Any]) -> None:
    """Set options that whoever calls through this interface may set: onnxruntime's, but those that are guarded.

    Args:
        options: Receives the values.
        given: Values by name. Names that are no options are ignored.

    Raises:
        UsageError: An option exists and may not be set through this interface.
    """
    allowed = {spec.name for spec in specs_of(type(options)) if spec.onnxruntime_name and not spec.guarded}
    for name, value in given.items():
        if name in allowed:
            setattr(options, name, value)
        elif hasattr(options, name):
            raise UsageError(
                f"{type(options).__name__}.{name} cannot be set through the backend interface.",
                why=f"it takes {', '.join(sorted(allowed))}",
                fix="Make a session with this option, and pass the session as the model.",
            )
