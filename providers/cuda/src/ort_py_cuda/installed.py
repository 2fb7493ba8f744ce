"""The installed CuPy, as its metadata describes it: nothing of it is imported.

Two distributions write the one folder `cupy`: cupy-cuda12x and cupy-cuda13x. Comes before `modules`, which imports it,
and `libraries`, which looks for NVIDIA's libraries of the same CUDA.
"""

from __future__ import annotations

import re
from importlib.metadata import PackageNotFoundError, version
from importlib.util import find_spec

from ort_py.lazy_dataclass import dataclass

__all__ = ["EXTRAS", "OLDEST", "CuPy", "Missing", "cuda_major", "find_cupy", "install_command"]

OLDEST = (14, 0)
"""The first CuPy with `Stream.from_external`, and whose NumPy is 2."""

EXTRAS: dict[str, int] = {"cupy-cuda13x": 13, "cupy-cuda12x": 12}
"""Distributions of CuPy and the CUDA of each, the newest first."""

_OTHERS = ("cupy", "cupy-cuda11x", "cupy-rocm-5-0", "cupy-rocm-4-3", "cupy-rocm-7-0")
"""Other distributions that write the folder `cupy`: built from source, too old, or for other devices."""


@dataclass(frozen=True, slots=True)
class CuPy:
    """CuPy is there.

    Attributes:
        distribution: The name it is installed under.
        version: As its metadata says, e.g. ``"14.2.0"``.
        major: The CUDA it is built for; 0 where its name does not say, because it was built from source.
    """

    distribution: str
    version: str
    major: int


@dataclass(frozen=True, slots=True)
class Missing:
    """It is not, or cannot work.

    Attributes:
        reason: What was found.
        fix: The command that mends it.
    """

    reason: str
    fix: str


def install_command(major: int = 13) -> str:
    """The command that installs everything that one version of CUDA needs."""
    return f'pip install "ort-py-cuda[cuda{major or 13}]"'


def find_cupy() -> CuPy | Missing:
    """Look for the distributions that bring CuPy and for its folder."""
    there = {name: found for name in (*EXTRAS, *_OTHERS) if (found := _version(name)) is not None}
    if not there:
        if find_spec("cupy") is None:
            return Missing("CuPy is not installed", install_command())
        return Missing(
            "there is a folder cupy, but no distribution that it belongs to", f"{install_command()} --force-reinstall"
        )
    if len(there) > 1:
        names = " and ".join(f"{name} {found}" for name, found in there.items())
        major = max(EXTRAS.get(name, 0) for name in there)
        return Missing(
            f"{names} are both installed: they write the same folder, and neither is whole",
            f"pip uninstall -y {' '.join(there)} && {install_command(major)}",
        )
    ((name, found),) = there.items()
    if name.startswith("cupy-rocm"):
        return Missing(f"{name} {found} is CuPy for AMD's devices", f"pip uninstall -y {name} && {install_command()}")
    numbers = tuple(int(number) for number in re.findall(r"\d+", found)[:2])
    if numbers < OLDEST:
        fix = install_command(EXTRAS.get(name, 13))
        return Missing(
            f"{name} {found} is installed; {OLDEST[0]}.{OLDEST[1]} is the oldest that works",
            f"{fix} --upgrade" if name in EXTRAS else f"pip uninstall -y {name} && {fix}",
        )
    if find_spec("cupy") is None:
        return Missing(
            f"{name} {found} is installed, but its folder cupy is not there",
            f"{install_command(EXTRAS.get(name, 13))} --force-reinstall",
        )
    return CuPy(name, found, EXTRAS.get(name, 0))


def cuda_major() -> int:
    """The CUDA that this installation is for: that of its CuPy, else of NVIDIA's wheels; 0 where nothing tells."""
    found = find_cupy()
    if isinstance(found, CuPy) and found.major:
        return found.major
    for name, major in (("nvidia-cuda-nvrtc", 13), ("nvidia-cuda-nvrtc-cu12", 12)):
        if _version(name) is not None:
            return major
    return 0


def _version(distribution: str) -> str | None:
    try:
        return version(distribution)
    except PackageNotFoundError:
        return None
