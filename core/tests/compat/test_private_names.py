"""Private attributes that programs written for onnxruntime read: public answers under another name."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import onnx

from core.tests.small_models import CPU, RELU, model_bytes
from ort_py import InferenceSession


def test_the_model_given_as_bytes() -> None:
    """The bytes are there, a path is not."""
    content = model_bytes(RELU)
    session = InferenceSession(content, providers=CPU)
    assert (session._model_bytes, session._model_path) == (content, None)


def test_the_model_given_as_a_path(tmp_path: Path) -> None:
    """The absolute path is there, bytes are not."""
    path = tmp_path / "model.onnx"
    path.write_bytes(model_bytes(RELU))
    session = InferenceSession(path, providers=CPU)
    assert (session._model_path, session._model_bytes) == (str(path), None)


def test_the_model_given_as_a_message() -> None:
    session = InferenceSession(onnx.load_from_string(model_bytes(RELU)), providers=CPU)
    assert (session._model_path, session._model_bytes) == (None, None)


def test_answers_under_other_names() -> None:
    """They are those of the public methods."""
    session = InferenceSession(model_bytes(RELU), providers=CPU)
    assert session._sess.handled_session is session
    assert session._inputs_meta is session.get_inputs()
    assert session._outputs_meta is session.get_outputs()
    assert session._overridable_initializers == session.get_overridable_initializers()
    assert session._providers == session.get_providers()
    assert session._provider_options == session.get_provider_options()
    assert session._sess_options.logid == session.get_session_options().logid
    assert session._model_meta.graph_name == session.get_modelmeta().graph_name


def test_a_subclass_may_have_its_own() -> None:
    """An attribute that a subclass assigns under such a name is kept, also in a copy."""

    class Mine(InferenceSession):
        def __init__(self, *given: Any, **named: Any) -> None:
            super().__init__(*given, **named)
            self._providers = "mine"

    assert Mine(model_bytes(RELU), providers=CPU)._providers == "mine"
