"""Attributes of onnxruntime's sessions that programs read although their names are private: a base of sessions.

Each is one of the session's public answers under another name. It is independent of how a session is made or run.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from ort_py.engine.recipe import FileReference

if TYPE_CHECKING:
    from ort_py.compat.session_handle import SessionHandle


class _Answer:
    """An attribute that asks the session.

    No property: a subclass that keeps something of its own under the name may assign to it.
    """

    def __init__(self, ask: Callable[[Any], Any]) -> None:
        self._ask = ask

    def __get__(self, session: object | None, owner: type) -> Any:
        return self if session is None else self._ask(session)


def _path(session: Any) -> str | None:
    source = session.engine.recipe.source
    return source.path if isinstance(source, FileReference) else None


def _bytes(session: Any) -> bytes | None:
    source = session.engine.recipe.source
    return source if isinstance(source, bytes) else None


def _handle(session: Any) -> SessionHandle:
    from ort_py.compat.session_handle import SessionHandle  # few programs ask

    return SessionHandle(session)


class PrivateNames:
    """Private names of onnxruntime's session that programs read.

    Attributes:
        _sess: The session as onnxruntime's handle in C, which programs pass on to `SessionIOBinding` and call.
        _model_path: Absolute path of the model, None where it was given as bytes.
        _model_bytes: The model's bytes where it was given as bytes and they were kept; None otherwise.
        _providers, _provider_options: As `get_providers` and `get_provider_options`.
        _sess_options: As `get_session_options`.
        _inputs_meta, _outputs_meta, _overridable_initializers: As `get_inputs` and its relatives.
        _model_meta: As `get_modelmeta`.
    """

    _sess = _Answer(_handle)
    _model_path = _Answer(_path)
    _model_bytes = _Answer(_bytes)
    _providers = _Answer(lambda session: session.get_providers())
    _provider_options = _Answer(lambda session: session.get_provider_options())
    _sess_options = _Answer(lambda session: session.get_session_options())
    _inputs_meta = _Answer(lambda session: session.get_inputs())
    _outputs_meta = _Answer(lambda session: session.get_outputs())
    _overridable_initializers = _Answer(lambda session: session.get_overridable_initializers())
    _model_meta = _Answer(lambda session: session.get_modelmeta())
