"""Models prepared for ONNX's backend interface, as its test suites and converters use it.

After `api`: makes sessions and asks them. Options that write files are refused, since whoever calls through this
interface passes on what somebody else said.
"""

from __future__ import annotations

import os
from typing import Any, NoReturn

import onnx
from onnx.backend.base import Backend

from ort_py.api.session import InferenceSession
from ort_py.backend.backend_rep import OnnxRuntimeBackendRep, set_options
from ort_py.compat.environment import get_device
from ort_py.discovery import get_available_providers
from ort_py.errors import NotYetError, UsageError
from ort_py.options import SessionOptions

__all__ = ["OnnxRuntimeBackend", "is_compatible", "prepare", "run", "supports_device"]

_EXCLUDED = "ORT_ONNX_BACKEND_EXCLUDE_PROVIDERS"


class OnnxRuntimeBackend(Backend):
    """ONNX's backend interface over sessions."""

    @classmethod
    def is_compatible(cls, model: Any, device: str | None = None, **kwargs: Any) -> bool:
        """Whether the device is supported; the model is not looked at."""
        return cls.supports_device(get_device() if device is None else device)

    @classmethod
    def supports_device(cls, device: str) -> bool:
        """Whether a device is there: ``"CPU"`` always, what `get_device` names too. Case matters."""
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
        set_options(options, kwargs)
        if device is not None and not cls.supports_device(device):
            raise UsageError(
                f"The device '{device}' is not supported.",
                why=f"usable is '{get_device()}'",
                fix="Name a device for which supports_device() is True, or install its provider.",
            )
        excluded = os.environ.get(_EXCLUDED, "").split(",")
        providers = [name for name in get_available_providers() if name not in excluded]
        session = InferenceSession(model, options, providers)
        session.disable_fallback()  # whoever tests a provider wants its failures
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
            "Single nodes cannot be run through this interface.", fix="Make a model of the node, and run it."
        )


is_compatible = OnnxRuntimeBackend.is_compatible
prepare = OnnxRuntimeBackend.prepare
run = OnnxRuntimeBackend.run_model
supports_device = OnnxRuntimeBackend.supports_device
