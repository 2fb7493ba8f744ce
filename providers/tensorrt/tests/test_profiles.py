"""Profiles: where sizes come from, which runs an engine admits, and what the next engine is built for."""

from __future__ import annotations

from typing import Any

import pytest

from ort_py.errors import OptionError
from ort_py_tensorrt.profiles import Profile, Range, declared
from providers.tensorrt.tests.asking import region_of, rtx_wishes

OPEN = "g (float[N, 32] x, float[32, 8] w) => (float[N, 8] y) { y = MatMul(x, w) }"
SIZES = {"min": 1, "opt": 4, "max": 9}
GIVEN: dict[str, Any] = {f"nv_profile_{kind}_shapes": f"x:{size}x32" for kind, size in SIZES.items()}


def test_declared_sizes_are_the_profile() -> None:
    found = declared(region_of("g (float[2, 3] x) => (float[2, 3] y) { y = Relu(x) }").inputs, rtx_wishes())
    assert found == Profile.of(["x"], [(2, 3)])
    assert found.static


def test_open_sizes_wait_for_a_run() -> None:
    assert declared(region_of(OPEN).inputs, rtx_wishes()) is None


def test_given_sizes_are_the_profile_of_their_input() -> None:
    found = declared(region_of(OPEN).inputs, rtx_wishes(**GIVEN))
    assert found is not None
    assert found.ranges == (Range((1, 32), (4, 32), (9, 32)), Range((32, 8), (32, 8), (32, 8)))
    assert not found.static


@pytest.mark.parametrize("shape", ["4x33", "4", "4x32x1"])
def test_given_sizes_that_the_model_does_not_have_are_refused(shape: str) -> None:
    given: dict[str, Any] = {f"nv_profile_{kind}_shapes": f"x:{shape}" for kind in ("min", "opt", "max")}
    with pytest.raises(OptionError, match="profile of input 'x' does not fit the model"):
        declared(region_of(OPEN).inputs, rtx_wishes(**given))


def test_an_observed_shape_admits_itself_alone() -> None:
    found = Profile.of(["x", "y"], [(2, 3), ()])
    assert found.admits([(2, 3), ()])
    assert not found.admits([(3, 3), ()])
    assert not found.admits([(2, 3, 1), ()])


def test_larger_sizes_grow_to_a_power_of_two() -> None:
    """A sequence that becomes one longer with each run is followed by few builds."""
    found = Profile.of(["x"], [(1, 3)])
    builds = 0
    for length in range(1, 1001):
        if not found.admits([(length, 3)]):
            found = found.widened([(length, 3)])
            builds += 1
    assert builds == 10
    assert found.ranges[0].least == (1, 3)
    assert found.ranges[0].largest == (1024, 3)


def test_a_widened_profile_admits_what_it_did_and_is_optimised_for_the_new_shape() -> None:
    found = Profile.of(["x"], [(8, 8)]).widened([(2, 8)])
    assert found.ranges == (Range((2, 8), (2, 8), (8, 8)),)


def test_a_profile_is_plain_data() -> None:
    found = Profile.of(["x", "y"], [(2, 3), ()]).widened([(5, 3), ()])
    assert Profile.from_json(found.to_json()) == found
