"""Wrong allocators, copies and transforms are caught, each with a message that says what to change."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from ort_py.discovery import default_catalog
from tests.kit.broken.devices import PROVIDERS
from tests.kit.inner import run_inside

pytest_plugins = ("pytester",)

SUITE = """
from ort_py_kit import {suite}

class TestBroken({suite}):
    provider = "{name}ExecutionProvider"
    plugin = "tests.kit.broken.devices"
"""

TRANSFORM_SUITE = """
from ort_py_kit import TransformSuite
from tests.kit.broken import rules

class TestBroken(TransformSuite):
    transforms = [rules.{name}()]
    models = {{"two": "g (float[3] x) => (float[3] y) {{ a = Relu(x)\\n y = Neg(a) }}"}}
    no_match = {{"one": "g (float[3] x) => (float[3] y) {{ y = Neg(x) }}"}}
"""

CAUGHT: dict[str, tuple[str, str, str, str]] = {
    "WrongShape": ("AllocatorSuite", "test_arrays_are_as_asked", "asked for float32(2, 3, 5)", "correct `empty`"),
    "OneBlock": ("AllocatorSuite", "test_arrays_hold_what_is_written", "array 4 of 8", "nothing else uses"),
    "WrongError": ("AllocatorSuite", "test_too_much_is_a_memory_error", "raises ValueError", "raise MemoryError"),
    "OddFigures": ("AllocatorSuite", "test_its_figures_follow", "trim() returns None", "correct `stats` and `trim`"),
    "CopiesAnything": ("DataTransferSuite", "test_it_knows_its_pairs", "nowhere", "compare both devices"),
    "OneWay": ("DataTransferSuite", "test_it_knows_its_pairs", "no data transfer from fake:0 to cpu", "both ways"),
    "Narrows": (
        "DataTransferSuite",
        "test_bytes_arrive",
        "float64(5, 7): comes back as float32",
        "keep shape and type",
    ),
    "SharesHost": ("DataTransferSuite", "test_copies_are_no_views", "two copies on the host share", "take a snapshot"),
    "OneBuffer": ("DataTransferSuite", "test_threads_copy_at_once", "other numbers back", "per stream or per call"),
}
"""For each device the suite, the check that finds it out, what it says, and a word of what to change."""

RULES: dict[str, tuple[str, str, str]] = {
    "Forgets": ("test_models_are_changed", "'y'", "correct pattern or replacement"),
    "DoesNothing": ("test_models_are_changed", "no transform changed anything", "correct pattern"),
    "TakesToo": ("test_others_stay", "changed it", "what the pattern does not say"),
    "NeverRests": ("test_they_come_to_rest", "finds something in its own result", "what you have written"),
    "Unnamed": ("test_they_are_named", "is not a name", "correct `name`"),
    "Remembers": ("test_they_serve_threads", "another graph", "local variables"),
}


@pytest.fixture(autouse=True)
def forgotten() -> Iterator[None]:
    """Providers are forgotten afterwards."""
    default_catalog().reset()
    yield
    default_catalog().reset()


def caught(pytester: pytest.Pytester, text: str, check: str, found: str, fix: str) -> None:
    """Run one check of a suite, and look at its message."""
    printed = run_inside(pytester, text, "-k", check).stdout.str()
    assert f"TestBroken.{check} _" in printed, printed
    assert found in printed, printed
    assert [line for line in printed.splitlines() if line.startswith("What to change:") and fix in line], printed


@pytest.mark.parametrize("name", sorted(CAUGHT))
def test_a_device_is_caught(name: str, pytester: pytest.Pytester) -> None:
    suite, *rest = CAUGHT[name]
    caught(pytester, SUITE.format(suite=suite, name=name), *rest)


@pytest.mark.parametrize("name", sorted(RULES))
def test_a_transform_is_caught(name: str, pytester: pytest.Pytester) -> None:
    caught(pytester, TRANSFORM_SUITE.format(name=name), *RULES[name])


def test_every_wrong_device_has_its_check() -> None:
    """The table names all of them."""
    assert {f"{name}ExecutionProvider" for name in CAUGHT} == set(PROVIDERS)


def test_a_sound_transform_passes(pytester: pytest.Pytester) -> None:
    outcomes = run_inside(pytester, TRANSFORM_SUITE.format(name="NegOfRelu")).parseoutcomes()
    assert outcomes == {"passed": 6}
