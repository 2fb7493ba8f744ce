"""Models prepared for ONNX's backend interface, as its test suites and converters use it.

After `api`: makes sessions and asks them. Options that write files are refused, since callers of this
interface pass on options of others.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from typing import Any, NoReturn

import onnx
from onnx.backend.base import Backend, BackendRep

from ort_py.api.session import InferenceSession
from ort_py.compat.environment import get_device
from ort_py.discovery import get_available_providers
from ort_py.errors import NotYetError, UsageError
from ort_py.options import RunOptions, SessionOptions, specs_of
from ort_py.options.option_set import OptionSet

_EXCLUDED = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"


class OnnxRuntimeBackendRep(BackendRep):
    """A prepared model."""

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
        _set_options(options, kwargs)
        names = [argument.name for argument in self._session.get_inputs()]
        if isinstance(inputs, list):
            return self._session.run(None, {name: inputs[index] for index, name in enumerate(names)}, options)
        if len(names) != 1:
            raise UsageError(
                f"The model has {len(names)} inputs, but one value was given.",
                fix="Pass a list with one value for each input.",
            )
        return self._session.run(None, {names[0]: inputs}, options)


class OnnxRuntimeBackend(Backend):
    """ONNX's backend interface over sessions."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Return whether the device is supported; the model is not looked at."""
        return cls.supports_device(get_device() if device is None else device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Return whether a device is there: ``"CPU"`` always, what `get_device` names too. Case matters."""
        return device in ("CPU", get_device())

    @classmethod
    def prepare(cls, model: Any, device: str | None = None, **kwargs: Any) -> OnnxRuntimeBackendRep:
        """Make a session ready to be run.

        Args:
            model: Path, bytes, ``onnx.ModelProto`` (checked first), a session, or what this returned.
            device: A device that must be supported; None for any.
            **kwargs: Attributes of `SessionOptions`; unknown ones are ignored.

        Raises:
            UsageError: An option may not be set here, or the device is not supported; a builtin RuntimeError too.
            OrtPyError: As for a new session.
        """
        if isinstance(model, OnnxRuntimeBackendRep):
            return model
        if isinstance(model, InferenceSession):
            return OnnxRuntimeBackendRep(model)
        if not isinstance(model, str | bytes):
            model = model.SerializeToString()
            onnx.checker.check_model(model)
        options = SessionOptions()
        _set_options(options, kwargs)
        if device is not None and not cls.supports_device(device):
            raise UsageError(
                f"The device '{device}' is not supported.",
                why=f"usable is '{get_device()}'",
                fix="Name a device for which supports_device() is True, or install its provider.",
            )
        excluded = os.environ.get(_EXCLUDED, "").split(",")
        providers = [name for name in get_available_providers() if name not in excluded]
        session = InferenceSession(model, options, providers)
        session.disable_fallback()  # a test of a provider must see its failures
        return OnnxRuntimeBackendRep(session)

    @classmethod
    def run_model(cls, model: Any, inputs: Any, device: str | None = None, **kwargs: Any) -> Any:
        """`prepare` and run.

        Args:
            model, device: As `prepare`.
            inputs: A list with a value for each input, or the value of the only one.
            **kwargs: Options of the session and of the run.

        Returns:
            A list of all outputs.

        Raises:
            OrtPyError: As `prepare` and `OnnxRuntimeBackendRep.run`.
        """
        return cls.prepare(model, device, **kwargs).run(inputs, **kwargs)

    @classmethod
    def run_node(
        cls, node: Any, inputs: Any, device: str | None = None, outputs_info: Any = None, **kwargs: Any
    ) -> NoReturn:
        """Not there: onnxruntime has none either.

        Raises:
            NotYetError: Always; a builtin NotImplementedError too.
        """
        raise NotYetError(
            "Single nodes cannot be run through this interface.", fix="Wrap the node in a model and run the model."
        )


def _set_options(options: OptionSet, given: Mapping[str, Any]) -> None:
    """Set options that callers of this interface may set: onnxruntime's, except those that are guarded.

    Args:
        options: Receives the values.
        given: Values by name. Names that are not options are ignored.

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


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
