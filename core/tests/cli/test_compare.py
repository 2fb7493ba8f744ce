"""``ort-py compare``."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest

from core.tests.cli.conftest import Call, Save
from core.tests.inspection.comparison.wrong_kernels import WRONG, wrong_provider
from ort_py.discovery import default_catalog

CHAIN = 'g (float[N, 3] x) => (float[N, 3] y) { ["bent"] a = Tanh(x) y = Exp(a) }'
BOTH = f"{WRONG},CPUExecutionProvider"


@pytest.fixture
def wrong() -> Iterator[None]:
    """An accelerator whose Tanh is wrong."""
    wrong_provider("Tanh", lambda xp, x: xp.tanh(x) + x.dtype.type(1e-3))
    yield
    default_catalog().reset()


def test_levels_are_compared_by_default(call: Call, save: Save) -> None:
    """No optimisation against all of it; equal is exit code 0."""
    outcome = call("compare", save(CHAIN))
    assert outcome.code == 0
    assert "equal within the tolerance" in outcome.out
    assert "at ORT_DISABLE_ALL" in outcome.out
    assert "'x' is generated with 'N' = 1" in outcome.err


@pytest.mark.usefixtures("wrong")
def test_providers(call: Call, save: Save) -> None:
    """The node is named; different is exit code 1."""
    outcome = call("compare", save(CHAIN), "--a", "CPUExecutionProvider", "--b", BOTH, "--dim", "N=4")
    assert outcome.code == 1
    assert f"first difference: value 'a' of Tanh 'bent' on {WRONG}" in outcome.out
    assert "input x: float[4, 3]" in outcome.out


@pytest.mark.usefixtures("wrong")
def test_json(call: Call, save: Save) -> None:
    """The same as data, with providers and a level on one side."""
    report = call("compare", save(CHAIN), "--a", "CPUExecutionProvider@basic", "--b", BOTH, "--json").report
    assert report["a"]["configuration"] == "CPUExecutionProvider at ORT_ENABLE_BASIC"
    assert report["differences"][0]["value"] == "a"


@pytest.mark.usefixtures("wrong")
def test_tolerance(call: Call, save: Save) -> None:
    sides = ("--a", "CPUExecutionProvider", "--b", BOTH)
    assert call("compare", save(CHAIN), *sides, "--tolerance", "float=0.1,0.1").code == 0


def test_bisect(call: Call, save: Save) -> None:
    """Between the levels of the two sides."""
    outcome = call("compare", save(CHAIN), "--bisect", "--a", "basic")
    assert outcome.code == 0
    assert "ORT_ENABLE_ALL against ORT_ENABLE_BASIC" in outcome.out


def test_bisect_needs_two_levels(call: Call, save: Save) -> None:
    outcome = call("compare", save(CHAIN), "--bisect", "--a", "all")
    assert (outcome.code, outcome.out) == (1, "")
    assert "must be two optimisation levels" in outcome.err


@pytest.mark.parametrize(
    ("arguments", "text"),
    [
        (("--a", "CPUExecutionProvider@most"), "'most' is not a level; there are disable, basic"),
        (("--b", ""), "names no provider"),
        (("--tolerance", "float=1"), "'float=1' is not TYPE=REL,ABS"),
    ],
)
def test_wrong_arguments(call: Call, save: Save, arguments: Any, text: str) -> None:
    outcome = call("compare", save(CHAIN), *arguments)
    assert (outcome.code, outcome.out) == (2, "")
    assert text in outcome.err


def test_a_tolerance_of_no_type(call: Call, save: Save) -> None:
    """Is refused with the one that is meant."""
    outcome = call("compare", save(CHAIN), "--tolerance", "flaot=1,1")
    assert outcome.code == 1
    assert "Did you mean 'float" in outcome.err
