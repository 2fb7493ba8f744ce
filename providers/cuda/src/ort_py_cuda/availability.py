"""Whether this machine can run the provider: driver, GPUs, CuPy and NVIDIA's libraries, each lack with its fix.

Asks metadata, folders and the driver; imports no CuPy and makes no context, so that it is fork-safe. Comes after
`driver`, `installed` and `libraries`; before the plug-in, which hands the answer to the core.
"""

from __future__ import annotations

from collections.abc import Sequence
from importlib.metadata import PackageNotFoundError, version

from ort_py.contracts import Availability
from ort_py.devices import Device
from ort_py.lazy_dataclass import dataclass
from ort_py_cuda import libraries
from ort_py_cuda.driver import Driver, Gpu, read_driver, visible, wanted_devices
from ort_py_cuda.installed import CuPy, Missing, find_cupy, install_command

__all__ = ["DEVICE_KIND", "examine", "too_old"]

DEVICE_KIND = "cuda"
"""Kind of the device, as onnxruntime spells it."""

_OLDEST_GPU: dict[int, tuple[int, int]] = {12: (5, 0), 13: (7, 5)}
"""Compute capability from which NVIDIA's libraries run, by CUDA version."""

_OLDEST_DRIVER: dict[int, str] = {12: "525", 13: "580"}
"""Driver of Linux that first runs a CUDA version."""

_DRIVERS = "https://www.nvidia.com/drivers"


@dataclass(frozen=True, slots=True)
class _Part:
    """A library that some operators need.

    Attributes:
        library: Key of `libraries.LIBRARIES`.
        title: Its name for users.
        without: What happens where it is missing; empty where nothing works.
    """

    library: str
    title: str
    without: str = ""


_PARTS = (
    _Part("nvrtc", "NVRTC"),
    _Part("cublas", "cuBLAS"),
    _Part("cublasLt", "cuBLASLt"),
    _Part("cudnn", "cuDNN", "convolutions, pooling and attention take slower kernels"),
    _Part("cufft", "cuFFT", "DFT and STFT fail over to the next provider"),
    _Part("cusolver", "cuSOLVER", "Det and Inverse fail over to the next provider"),
)


def examine(driver: Driver | None = None) -> Availability:
    """Look at everything that a session needs.

    Args:
        driver: What the driver says; asked where None.

    Returns:
        Not available with all that is wrong, and what mends the first of it; or available with the versions found and
        what works less well.
    """
    said = driver if driver is not None else read_driver()
    cupy = find_cupy()
    wrong: list[tuple[str, str]] = []  # (reason, fix)
    gpus = _hardware(said, wrong)
    if isinstance(cupy, Missing):
        fix = install_command(_suits(said)) if cupy.fix == install_command() else cupy.fix
        wrong.append((cupy.reason, fix))
    else:
        _together(said, gpus, cupy, wrong)
    lacking = _lacking(cupy.major if isinstance(cupy, CuPy) else 0) if not isinstance(cupy, Missing) else []
    wrong += [(f"{part.title} is not installed", fix) for part, fix in lacking if not part.without]
    if wrong:
        return Availability(False, "; ".join(reason for reason, _ in wrong), _joined([fix for _, fix in wrong]))
    assert isinstance(cupy, CuPy)
    less = [f"without {part.title}: {part.without} ({fix})" for part, fix in lacking]
    less += _front_end()
    count = 1 if gpus is None else len(gpus)
    return Availability(
        True,
        reason="; ".join([_found(said, gpus, cupy), *less]),
        devices=tuple(Device(DEVICE_KIND, index) for index in range(count)),
    )


def _hardware(driver: Driver, wrong: list[tuple[str, str]]) -> tuple[Gpu, ...] | None:
    """The GPUs that CUDA will show; None where they cannot be asked for before CUDA starts."""
    if not driver.loads:
        wrong.append((f"there is no NVIDIA driver ({driver.error})", f"install NVIDIA's driver: {_DRIVERS}"))
        return None
    if driver.gpus is None:
        return None
    wanted = wanted_devices()
    shown = visible(driver.gpus, wanted)
    if not driver.gpus:
        wrong.append(("the driver shows no GPU", "check that nvidia-smi lists one, and that a container was given it"))
    elif not shown:
        wrong.append(
            (
                f"CUDA_VISIBLE_DEVICES={wanted!r} hides all {len(driver.gpus)} GPUs",
                f"unset CUDA_VISIBLE_DEVICES, or name one of 0 to {len(driver.gpus) - 1}",
            )
        )
    return shown


def _together(driver: Driver, gpus: Sequence[Gpu] | None, cupy: CuPy, wrong: list[tuple[str, str]]) -> None:
    """Return whether the driver and the GPUs go with the CUDA that CuPy is built for."""
    major = cupy.major
    if not major:
        return
    if driver.loads and driver.cuda != (0, 0) and driver.cuda[0] < major:
        has = f"driver {driver.version} runs" if driver.version else "the driver runs"
        older = _suits(driver)
        fix = f"update the driver to {_OLDEST_DRIVER[major]} or later: {_DRIVERS}"
        if older and older < major:
            fix += f"; or pip uninstall -y {cupy.distribution} && {install_command(older)}"
        wrong.append(
            (f"{has} CUDA up to {driver.cuda[0]}.{driver.cuda[1]}, and {cupy.distribution} needs {major}.0", fix)
        )
    old = [too_old(gpu.name, gpu.capability, cupy) for gpu in gpus or () if gpu.capability is not None]
    if old and len(old) == len(gpus or ()):
        wrong += [one for one in old if one is not None] if all(old) else []


def too_old(name: str, capability: tuple[int, int], cupy: CuPy) -> tuple[str, str] | None:
    """Explain why a GPU is too old for the CUDA that CuPy is built for, with the fix, or return None.

    Args:
        name: Of the GPU.
        capability: Its compute capability.
        cupy: The CuPy that is installed.
    """
    least = _OLDEST_GPU.get(cupy.major, (0, 0))
    if capability >= least:
        return None
    fix = "use a newer GPU"
    if cupy.major > 12 and capability >= _OLDEST_GPU[12]:
        fix = f"pip uninstall -y {cupy.distribution} && {install_command(12)}"
    return (
        f"{name} has compute capability {capability[0]}.{capability[1]}, "
        f"and CUDA {cupy.major} needs {least[0]}.{least[1]}",
        fix,
    )


def _suits(driver: Driver) -> int:
    """The CUDA version to install for a driver; 0 where none of ours runs on it."""
    if driver.cuda == (0, 0):
        return 13
    return next((major for major in sorted(_OLDEST_GPU, reverse=True) if driver.cuda[0] >= major), 0)


def _lacking(major: int) -> list[tuple[_Part, str]]:
    """Libraries that neither a wheel nor a toolkit brings, with the command that does."""
    found: list[tuple[_Part, str]] = []
    for part in _PARTS:
        if libraries.find(part.library, major) is None:
            wheels = libraries.LIBRARIES[part.library].wheels
            if part.library == "cublasLt" and any(other.library == "cublas" for other, _ in found):
                continue  # the same wheel
            fix = install_command(major) if not part.without else f"pip install {wheels.get(major or 13)}"
            found.append((part, fix))
    if not libraries.include_folders():
        found.append((_Part("cudart", "cuda_fp16.h of the CUDA runtime"), install_command(major)))
    return found


def _front_end() -> list[str]:
    """Remarks about cuDNN's front end."""
    try:
        version("nvidia-cudnn-frontend")
    except PackageNotFoundError:
        return [
            "without cuDNN's front end: convolutions take slower kernels "
            '(pip install "nvidia-cudnn-frontend>=1.18,<1.29")'
        ]
    return []


def _found(driver: Driver, gpus: Sequence[Gpu] | None, cupy: CuPy) -> str:
    parts = [f"{cupy.distribution} {cupy.version}"]
    if driver.cuda != (0, 0):
        own = f" {driver.version}" if driver.version else ""
        parts.append(f"driver{own} for CUDA {driver.cuda[0]}.{driver.cuda[1]}")
    cudnn = libraries.wheel_version("cudnn", cupy.major)
    if cudnn is not None:
        parts.append(f"cuDNN {cudnn}")
    if gpus is None:
        parts.append("the driver does not list its GPUs before CUDA starts")
    else:
        parts += [str(gpu) for gpu in gpus]
    return ", ".join(parts)


def _joined(fixes: Sequence[str]) -> str:
    return "; ".join(dict.fromkeys(fixes))
