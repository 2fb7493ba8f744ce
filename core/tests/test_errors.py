"""The exceptions: their four parts, codes, bases, and what survives pickling."""

from __future__ import annotations

import pickle

import onnxruntime.capi.onnxruntime_pybind11_state as peer
import pytest

from ort_py import errors
from ort_py.errors import Location, OrtPyError

CODES = {
    "Fail": 1,
    "InvalidArgument": 2,
    "NoSuchFile": 3,
    "NoModel": 4,
    "EngineError": 5,
    "RuntimeException": 6,
    "InvalidProtobuf": 7,
    "ModelLoaded": 8,
    "NotImplemented": 9,
    "InvalidGraph": 10,
    "EPFail": 11,
    "ModelLoadCanceled": 12,
    "ModelRequiresCompilation": 13,
    "NotFound": 14,
    "DeviceReset": 15,
}


def classes() -> list[type[OrtPyError]]:
    """Every exception class of the module."""
    return [kind for kind in vars(errors).values() if isinstance(kind, type) and issubclass(kind, OrtPyError)]


def test_message_has_four_parts_in_order() -> None:
    """The parts are what, where, why and what to do, one below the other."""
    error = errors.InvalidGraph("The graph is wrong.", where=Location(node="n"), why="it is cyclic", fix="Cut it.")
    assert str(error) == "The graph is wrong.\n  where: node 'n'\n  why: it is cyclic\n  what to do: Cut it."


def test_several_reasons_are_listed() -> None:
    """All reasons are shown, one a line, in the order they were found."""
    error = errors.Fail("It failed.", why=["first", "second"])
    assert str(error).splitlines() == ["It failed.", "  why:", "    - first", "    - second"]


def test_absent_parts_leave_no_line() -> None:
    """A message without where, why and fix is one line."""
    assert str(errors.Fail("It failed.")) == "It failed."


def test_empty_reasons_are_dropped() -> None:
    """Reasons that turned out empty do not make empty bullets."""
    assert errors.Fail("It failed.", why=["", "one"]).why == ("one",)


def test_location_names_operator_provider_value_path_and_file() -> None:
    """A full location says everything it knows."""
    where = Location("n", "Gelu", "com.microsoft", "CPUExecutionProvider", "x", ("outer", "inner"), "m.onnx")
    text = str(where)
    for part in ("node 'n'", "com.microsoft.Gelu", "CPUExecutionProvider", "'x'", "'outer' > 'inner'", "file 'm.onnx'"):
        assert part in text, part


def test_location_of_free_text_is_empty() -> None:
    """`location` is a record also where the place is only known as text."""
    assert errors.Fail("It failed.", where="somewhere").location == Location()


@pytest.mark.parametrize("name", CODES)
def test_codes_are_those_of_onnxruntime(name: str) -> None:
    """Each class that onnxruntime has carries its status number."""
    assert getattr(errors, name).code == CODES[name]


def test_every_class_of_onnxruntime_is_here() -> None:
    """No exception class that applications import from onnxruntime is missing."""
    wanted = {name for name, kind in vars(peer).items() if isinstance(kind, type) and issubclass(kind, Exception)}
    assert wanted <= set(vars(errors))


@pytest.mark.parametrize(
    ("name", "builtin"),
    [
        ("MissingInputError", ValueError),
        ("OptionError", ValueError),
        ("NoSuchFile", FileNotFoundError),
        ("ProviderNotAvailableError", RuntimeError),
        ("ProviderNotFoundError", RuntimeError),
    ],
)
def test_builtin_base_of_classes_that_replace_one(name: str, builtin: type[Exception]) -> None:
    """Where onnxruntime raises a builtin class, ours can be caught as that."""
    assert issubclass(getattr(errors, name), builtin)


@pytest.mark.parametrize("kind", classes(), ids=lambda kind: kind.__name__)
def test_pickling_keeps_all_parts(kind: type[OrtPyError]) -> None:
    """An error that crosses a process border says the same on the other side."""
    error = kind("It failed.", where=Location(node="n", op_type="Add"), why=("a", "b"), fix="Do this.")
    copy = pickle.loads(pickle.dumps(error))
    assert type(copy) is kind
    assert (str(copy), copy.location) == (str(error), error.location)
