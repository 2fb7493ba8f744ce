"""The public surface is onnxruntime's: names, signatures, enumerations, defaults. Differences are listed with reasons.

The installed onnxruntime is asked, not a copy of its surface: a newer one that has more makes these tests fail.
"""

from __future__ import annotations

import enum
import inspect
from types import ModuleType
from typing import Any

import onnxruntime as theirs
import pytest
from onnxruntime.capi import onnxruntime_pybind11_state as their_state

import ort_py as ours

_ACCIDENT = "a module or name that onnxruntime leaks from its own imports"

MISSING: dict[str, str] = {
    "contextlib": _ACCIDENT,
    "onnxruntime_validation": _ACCIDENT,
    "import_capi_exception": _ACCIDENT,
}
"""Top-level names of onnxruntime that ort-py does not have, and why."""

MEMBERS: dict[str, dict[str, str]] = {}
"""Members of onnxruntime's classes that ours lack, and why."""

SIGNATURES: dict[str, str] = {}
"""Functions and methods whose signatures differ in more than further optional parameters, and why."""


def _public(thing: Any) -> set[str]:
    """Public names, without submodules that another test has imported."""
    names = {name for name in dir(thing) if not name.startswith("_")}
    return {name for name in names if name == "capi" or not _is_submodule(thing, name)}


def _is_submodule(thing: Any, name: str) -> bool:
    value = getattr(thing, name, None) if isinstance(thing, ModuleType) else None
    return isinstance(value, ModuleType) and value.__name__ == f"{thing.__name__}.{name}"


_MADE_WITHOUT_ARGUMENTS = ("RunOptions", "SessionOptions")
"""Classes whose attributes are seen on an object."""

_NAMES = sorted(_public(theirs) - set(MISSING))
_CLASSES = [name for name in _NAMES if inspect.isclass(getattr(theirs, name))]


def test_every_top_level_name_is_there() -> None:
    assert sorted(name for name in _NAMES if not hasattr(ours, name)) == []


def test_listed_names_are_really_missing() -> None:
    """The list of differences does not outlive them."""
    assert sorted(name for name in MISSING if hasattr(ours, name) or not hasattr(theirs, name)) == []


@pytest.mark.parametrize("name", _NAMES)
def test_names_are_of_one_kind(name: str) -> None:
    """Each public name has the same kind as in onnxruntime: class, function or string."""
    left, right = getattr(ours, name), getattr(theirs, name)
    assert inspect.isclass(left) == inspect.isclass(right)
    assert callable(left) == callable(right)
    assert isinstance(left, ModuleType) == isinstance(right, ModuleType)
    assert isinstance(left, str) == isinstance(right, str)


@pytest.mark.parametrize("name", _CLASSES)
def test_classes_have_every_public_member(name: str) -> None:
    kind = getattr(ours, name)
    has = (
        _public(kind())
        if name in _MADE_WITHOUT_ARGUMENTS
        else {key for key in _public(getattr(theirs, name)) if hasattr(kind, key)}
    )
    if issubclass(kind, enum.Enum):
        has |= {"name", "value"}  # Python's enumerations have them on members only
    lacking = _public(getattr(theirs, name)) - has - set(MEMBERS.get(name, {}))
    assert sorted(lacking) == []


def _enumerations(module: Any) -> list[str]:
    """pybind's enumerations and Python's."""
    found = []
    for name in _public(module):
        kind = getattr(module, name)
        if inspect.isclass(kind) and (hasattr(kind, "__members__") or issubclass(kind, enum.Enum)):
            found.append(name)
    return sorted(found)


@pytest.mark.parametrize("name", _enumerations(theirs))
def test_enumerations_have_the_same_members_and_numbers(name: str) -> None:
    """By name, by `int()`, and equal to the plain number where onnxruntime's are."""
    left, right = getattr(ours, name), getattr(theirs, name)
    assert {key: int(value) for key, value in left.__members__.items()} == {
        key: int(value) for key, value in right.__members__.items()
    }
    for key, value in right.__members__.items():
        assert left.__members__[key].name == value.name
        assert int(left.__members__[key].value) == int(value.value)


@pytest.mark.parametrize("kind", ["SessionOptions", "RunOptions"])
def test_options_have_the_same_defaults(kind: str) -> None:
    """Numbers, strings and flags; enumerations by their numbers."""
    left, right = getattr(ours, kind)(), getattr(theirs, kind)()
    for name in _public(right):
        expected = getattr(right, name)
        if callable(expected):
            continue
        found = getattr(left, name)
        assert (int(found) if hasattr(expected, "__members__") else found) == (
            int(expected) if hasattr(expected, "__members__") else expected
        ), name


def _written_in_python() -> list[str]:
    """Functions and methods of onnxruntime whose signatures Python can tell, as ``function`` or ``Class.method``."""
    found = []
    for name in _NAMES:
        thing = getattr(theirs, name)
        if inspect.isfunction(thing):
            found.append(name)
        elif inspect.isclass(thing):
            members = inspect.getmembers_static(thing)
            methods = [
                key
                for key, value in members
                if isinstance(value, staticmethod | classmethod) or inspect.isfunction(value)
            ]
            found += [f"{name}.{key}" for key in methods if not key.startswith("_") or key == "__init__"]
    return found


def _tells(path: str) -> bool:
    try:
        _signature(theirs, path)
    except ValueError:
        return False  # written in C++
    return True


def _signature(module: Any, path: str) -> inspect.Signature:
    thing = module
    for part in path.split("."):
        thing = getattr(thing, part)
    return inspect.signature(thing)


@pytest.mark.parametrize("path", [path for path in _written_in_python() if path not in SIGNATURES and _tells(path)])
def test_signatures_begin_alike(path: str) -> None:
    """Names, order and defaults of parameters; ours may have further optional ones behind them."""
    left = list(_signature(ours, path).parameters.values())
    right = list(_signature(theirs, path).parameters.values())
    assert [(one.name, one.kind, one.default) for one in left[: len(right)]] == [
        (one.name, one.kind, one.default) for one in right
    ]
    for one in left[len(right) :]:
        assert one.default is not inspect.Parameter.empty or one.kind in (one.VAR_KEYWORD, one.VAR_POSITIONAL)


def test_exceptions_have_their_names_and_home() -> None:
    """All classes of the C module, under one base of ours that `except Exception` still catches."""
    import ort_py.capi.onnxruntime_pybind11_state as our_state

    for name in _public(their_state):
        kind = getattr(their_state, name)
        if inspect.isclass(kind) and issubclass(kind, Exception):
            assert issubclass(getattr(our_state, name), Exception)
            assert getattr(our_state, name) is getattr(ours, name)
