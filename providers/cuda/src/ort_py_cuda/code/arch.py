"""The target of the compiler: the architecture of the current device, or PTX if the compiler does not support it yet.

Comes after `driver` and `nvrtc`; before `kernel`.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache

from ort_py.errors import EPFail
from ort_py_cuda.code import driver as _driver
from ort_py_cuda.code import nvrtc

__all__ = ["OLDEST", "target_of", "target_of_device"]

OLDEST = 75
"""Turing: the oldest architecture that today's compilers and our kernels know."""


def target_of(architecture: int, known: Sequence[int]) -> str:
    """The target for NVRTC: ``sm_90``, or ``compute_120`` if the device is newer than the compiler.

    Args:
        architecture: Ten times the device's major number plus its minor one.
        known: Architectures of the compiler, ascending.

    Raises:
        EPFail: The device is older than `OLDEST`, or than all that the compiler knows.
    """
    older = [one for one in known if one <= architecture]
    if architecture < OLDEST or not older:
        raise EPFail(
            f"A device of compute capability {architecture // 10}.{architecture % 10} cannot run generated kernels.",
            why=f"NVRTC {_listed(known)}; kernels are written for {OLDEST // 10}.{OLDEST % 10} and newer",
            fix="Use a newer device, or another provider for this one.",
        )
    if architecture in known:
        return f"sm_{architecture}"
    if older[-1] // 10 == architecture // 10:
        return f"sm_{older[-1]}"  # machine code runs on later minor numbers of its major one
    return f"compute_{older[-1]}"


@cache
def target_of_device(device: int) -> str:
    """`target_of` for a device, by its ordinal."""
    found = _driver.driver()
    major, minor = (found.attribute(one, device) for one in (found.MAJOR, found.MINOR))
    return target_of(10 * major + minor, nvrtc.architectures())


def _listed(known: Sequence[int]) -> str:
    return f"compiles for {', '.join(f'{one // 10}.{one % 10}' for one in known)}" if known else "names no architecture"
