"""Targets of the compiler for each device."""

from __future__ import annotations

import pytest

from ort_py.errors import EPFail
from ort_py_cuda.code.arch import target_of

KNOWN = (75, 80, 86, 90, 100, 120)


@pytest.mark.parametrize(
    ("device", "target"),
    [(75, "sm_75"), (90, "sm_90"), (89, "sm_86"), (87, "sm_86"), (121, "sm_120"), (130, "compute_120")],
)
def test_targets(device: int, target: str) -> None:
    """The device's own, an earlier one of its major number, or PTX where there is none of that."""
    assert target_of(device, KNOWN) == target


def test_devices_that_are_too_old() -> None:
    with pytest.raises(EPFail, match=r"compute capability 7\.0 cannot run generated kernels") as caught:
        target_of(70, KNOWN)
    assert "NVRTC compiles for 7.5, 8.0" in str(caught.value)


def test_a_compiler_that_knows_later_ones_only() -> None:
    with pytest.raises(EPFail, match="cannot run generated kernels"):
        target_of(75, (80, 90))
