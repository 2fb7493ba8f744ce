"""A session as onnxruntime's C binding has it: other orders of arguments, the same results."""

from __future__ import annotations

import numpy as np
import pytest

from core.tests.small_models import CPU, RELU, model_bytes
from ort_py import InferenceSession, OrtValue
from ort_py.api.session_io_binding import SessionIOBinding
from ort_py.values.vector import OrtValueVector


@pytest.fixture
def session() -> InferenceSession:
    """A session with one input and one output."""
    return InferenceSession(model_bytes(RELU), providers=CPU)


def feed(session: InferenceSession) -> tuple[str, OrtValue]:
    """An input's name and a value for it."""
    (argument,) = session.get_inputs()
    shape = [size if isinstance(size, int) else 2 for size in argument.shape]
    return argument.name, OrtValue.ortvalue_from_numpy(np.full(shape, -1, np.float32))


def test_values_are_fed_first(session: InferenceSession) -> None:
    """Feeds, names, options; the results are a vector."""
    name, value = feed(session)
    (output,) = session.get_outputs()
    results = session._sess.run_with_ort_values({name: value}, [output.name], None)
    assert isinstance(results, OrtValueVector)
    assert [not result.numpy().any() for result in results] == [True]


def test_a_binding_of_the_handle(session: InferenceSession) -> None:
    """It is made from the handle and run by it."""
    name, value = feed(session)
    binding = SessionIOBinding(session._sess)
    binding.bind_ortvalue_input(name, value)
    binding.bind_output(session.get_outputs()[0].name, value._device)
    session._sess.run_with_iobinding(binding, None)
    assert not binding.get_outputs()[0].numpy().any()


def test_a_binding_of_the_session_is_run_too(session: InferenceSession) -> None:
    """The session's own binding is accepted."""
    name, value = feed(session)
    binding = session.io_binding()
    binding.bind_ortvalue_input(name, value)
    binding.bind_output(session.get_outputs()[0].name)
    session._sess.run_with_iobinding(binding)
    assert not binding.copy_outputs_to_cpu()[0].any()


def test_descriptions_are_attributes(session: InferenceSession) -> None:
    handle = session._sess
    assert handle.inputs_meta is session.get_inputs()
    assert handle.outputs_meta is session.get_outputs()
    assert handle.overridable_initializers == session.get_overridable_initializers()
    assert handle.model_meta.graph_name == session.get_modelmeta().graph_name
    assert handle.session_options.logid == session.get_session_options().logid
    assert handle.get_profiling_start_time_ns == session.get_profiling_start_time_ns()


def test_everything_else_is_the_sessions(session: InferenceSession) -> None:
    """Methods of the session can be called on the handle; two handles of it are equal."""
    assert session._sess.get_providers() == session.get_providers()
    assert session._sess == session._sess
    assert len({session._sess, session._sess}) == 1
