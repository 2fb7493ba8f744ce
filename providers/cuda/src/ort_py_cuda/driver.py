"""NVIDIA's driver and the devices it shows, asked without making a context.

`cuInit` in a process makes CUDA useless in children that it forks later, so a probe must not call it. The driver's CUDA
version needs no `cuInit`. The devices are read from what Linux shows of the driver, which takes no time; elsewhere they
are asked of NVML, which ships with the driver and knows nothing of contexts. It does not depend on Python packages.
Comes before `availability`.
"""

from __future__ import annotations

import ctypes
import os
import re
import sys
from collections.abc import Callable
from dataclasses import field
from pathlib import Path
from typing import Any

from ort_py.lazy_dataclass import dataclass

__all__ = ["Driver", "Gpu", "read_driver", "visible", "wanted_devices"]

_SHOWN = Path("/proc/driver/nvidia")
_TEXT_BYTES = 96
"""What NVML asks for names, identities and versions."""


@dataclass(frozen=True, slots=True)
class Gpu:
    """One GPU.

    Attributes:
        name: Product name.
        capability: Compute capability, (9, 0); None if it is not known before CUDA starts.
        uuid: ``GPU-…``.
    """

    name: str
    capability: tuple[int, int] | None = None
    uuid: str = ""

    def __str__(self) -> str:
        return self.name if self.capability is None else f"{self.name} ({self.capability[0]}.{self.capability[1]})"


@dataclass(frozen=True, slots=True)
class Driver:
    """Facts that the driver reports.

    Attributes:
        loads: Whether its library can be loaded.
        error: The error message of loading it.
        cuda: The newest CUDA it can run, (13, 0); (0, 0) where it does not say.
        version: Its own version, ``"580.65.06"``.
        gpus: The GPUs of the machine; None if they could not be listed.
    """

    loads: bool
    error: str = ""
    cuda: tuple[int, int] = (0, 0)
    version: str = ""
    gpus: tuple[Gpu, ...] | None = field(default=None)


def read_driver(open_library: Callable[[str], Any] | None = None, shown: Path = _SHOWN) -> Driver:
    """Ask the driver.

    Args:
        open_library: Opens a library by name; ``ctypes.CDLL`` where None.
        shown: Folder in which Linux shows the driver.
    """
    opens = open_library or ctypes.CDLL
    windows = sys.platform == "win32"
    try:
        cuda = opens("nvcuda.dll" if windows else "libcuda.so.1")
    except OSError as error:
        return Driver(False, str(error))
    number = ctypes.c_int(0)
    known = cuda.cuDriverGetVersion(ctypes.byref(number)) == 0
    version = (number.value // 1000, number.value % 1000 // 10) if known else (0, 0)
    if (shown / "gpus").is_dir():
        return Driver(True, "", version, _shown_version(shown), _shown_gpus(shown))
    try:
        nvml = opens("nvml.dll" if windows else "libnvidia-ml.so.1")
    except OSError:
        return Driver(True, cuda=version)
    if nvml.nvmlInit_v2() != 0:
        return Driver(True, cuda=version)
    try:
        return Driver(True, "", version, _text(nvml.nvmlSystemGetDriverVersion), _gpus(nvml))
    finally:
        nvml.nvmlShutdown()


def visible(gpus: tuple[Gpu, ...], wanted: str | None) -> tuple[Gpu, ...]:
    """The GPUs that CUDA_VISIBLE_DEVICES leaves, in its order.

    Args:
        gpus: All of them.
        wanted: The variable's value; None where it is not set.

    Returns:
        CUDA reads the list up to the first entry that is not a GPU. A part of a GPU (``MIG-…``) counts as one like the
        first GPU, as all parts are of GPUs that have them.
    """
    if wanted is None:
        return gpus
    found: list[Gpu] = []
    for entry in (part.strip() for part in wanted.split(",")):
        if entry.startswith("MIG-"):
            match: list[Gpu] = list(gpus[:1])
        elif entry.isdigit():
            match = [gpus[int(entry)]] if int(entry) < len(gpus) else []
        else:
            match = [gpu for gpu in gpus if entry and gpu.uuid.startswith(entry)]
        if len(match) != 1 or (match[0] in found and not entry.startswith("MIG-")):
            break
        found.append(match[0])
    return tuple(found)


def wanted_devices() -> str | None:
    """CUDA_VISIBLE_DEVICES."""
    return os.environ.get("CUDA_VISIBLE_DEVICES")


def _shown_version(folder: Path) -> str:
    try:
        text = (folder / "version").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
    found = re.search(r"Kernel Module\s+(?:for\s+\S+\s+)?(\d[\d.]*)", text)
    return found.group(1) if found else ""


def _shown_gpus(folder: Path) -> tuple[Gpu, ...]:
    found: list[Gpu] = []
    for path in sorted((folder / "gpus").glob("*/information")):
        try:
            lines = path.read_text(encoding="utf-8", errors="replace").splitlines()
        except OSError:
            continue  # a GPU that this process may not see
        entries = dict(line.split(":", 1) for line in lines if ":" in line)
        found.append(Gpu(entries.get("Model", "GPU").strip(), None, entries.get("GPU UUID", "").strip()))
    return tuple(found)


def _gpus(nvml: Any) -> tuple[Gpu, ...] | None:
    count = ctypes.c_uint(0)
    if nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)) != 0:
        return None
    found: list[Gpu] = []
    for index in range(count.value):
        handle = ctypes.c_void_p()
        if nvml.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(handle)) != 0:
            continue  # a GPU that this process may not open
        major, minor = ctypes.c_int(0), ctypes.c_int(0)
        if nvml.nvmlDeviceGetCudaComputeCapability(handle, ctypes.byref(major), ctypes.byref(minor)) != 0:
            continue
        name = _text(nvml.nvmlDeviceGetName, handle)
        uuid = _text(nvml.nvmlDeviceGetUUID, handle)
        found.append(Gpu(name, (major.value, minor.value), uuid))
    return tuple(found)


def _text(function: Any, *arguments: Any) -> str:
    buffer = ctypes.create_string_buffer(_TEXT_BYTES)
    if function(*arguments, buffer, ctypes.c_uint(len(buffer))) != 0:
        return ""
    return buffer.value.decode("utf-8", "replace")
