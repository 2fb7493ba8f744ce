"""Whether there is a CUDA device, what it is called, and its measured ceilings: copies, and matrix products by type.

`python -m benchmarks.gpu_device` prints them as JSON. Measured with CuPy; TF32 in a process of its own, as CuPy decides
about it when it is imported.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

__all__ = ["Ceilings", "ceilings", "copy_rate", "main", "no_device", "product_rate", "rate"]

PRECISIONS = ("float32", "tf32", "float16")
_ROOT = Path(__file__).resolve().parent.parent
_SECONDS = 0.5
_COPIED = 1 << 30
_SIDE = 8192


def no_device(open_library: Callable[[str], Any] = ctypes.CDLL) -> str | None:
    """The driver's explanation why there is no CUDA device, or None. Imports no package."""
    name = "nvcuda.dll" if sys.platform == "win32" else "libcuda.so.1"
    try:
        driver = open_library(name)
    except OSError as error:
        return f"no CUDA device: NVIDIA's driver is not installed ({error})"
    status = driver.cuInit(0)
    if status:
        return f"no CUDA device: cuInit of {name} says {status}"
    count = ctypes.c_int()
    status = driver.cuDeviceGetCount(ctypes.byref(count))
    if status or not count.value:
        return f"no CUDA device: cuDeviceGetCount says {status}, {count.value} devices"
    return None


@dataclass(frozen=True, slots=True)
class Ceilings:
    """Measured ceilings of a device.

    Attributes:
        name: Of the device, with its memory.
        software: Versions that matter.
        copied: Bytes a second, read and written, of a copy on the device.
        operations: Floating operations a second of a large square product, by precision.
        failed: Why a precision is missing, by precision.
    """

    name: str
    software: str
    copied: float
    operations: Mapping[str, float]
    failed: Mapping[str, str]


def rate(amount: float, run: Callable[[], Any], synchronise: Callable[[], Any], seconds: float = _SECONDS) -> float:
    """Amount a second of the fastest of several turns; a turn is as many runs as keep the device busy for a while.

    Args:
        amount: Of one run: bytes or operations.
        run: Enqueues it.
        synchronise: Waits for the end.
        seconds: How long all turns take, about.
    """
    run()
    synchronise()
    start = time.perf_counter()
    run()
    synchronise()
    runs = max(1, round(seconds / 5 / max(time.perf_counter() - start, 1e-6)))
    best = 0.0
    for _ in range(5):
        start = time.perf_counter()
        for _ in range(runs):
            run()
        synchronise()
        best = max(best, amount * runs / (time.perf_counter() - start))
    return best


def copy_rate(xp: Any, synchronise: Callable[[], Any], nbytes: int = _COPIED, seconds: float = _SECONDS) -> float:
    """Bytes a second that a copy from one array to another reads and writes together."""
    source, target = xp.ones(nbytes // 4, xp.float32), xp.empty(nbytes // 4, xp.float32)
    return rate(2.0 * source.nbytes, lambda: xp.copyto(target, source), synchronise, seconds)


def product_rate(
    xp: Any, dtype: str, synchronise: Callable[[], Any], side: int = _SIDE, seconds: float = _SECONDS
) -> float:
    """Operations a second of the product of two square matrices."""
    left, right, result = (xp.full((side, side), 0.5, dtype) for _ in range(3))
    return rate(2.0 * side**3, lambda: xp.matmul(left, right, out=result), synchronise, seconds)


def ceilings() -> Ceilings:
    """Measured now, in processes that end.

    Raises:
        RuntimeError: A process failed; its last words are in the message.
    """
    found: dict[str, Any] = _in_child("", TF32="0")
    more = _in_child("tf32", TF32="1")
    found["operations"] |= more["operations"]
    found["failed"] |= more["failed"]
    return Ceilings(**found)


def _in_child(precision: str, **cupy: str) -> dict[str, Any]:
    command = [sys.executable, "-m", "benchmarks.gpu_device", *([precision] if precision else [])]
    environment = os.environ | {f"CUPY_{name}": value for name, value in cupy.items()}
    outcome = subprocess.run(command, capture_output=True, text=True, env=environment, cwd=_ROOT, check=False)
    if outcome.returncode:
        raise RuntimeError(f"{' '.join(command)} failed: {outcome.stderr.strip()[-400:]}")
    return dict(json.loads(outcome.stdout))


def _measured(precision: str) -> Ceilings:
    import cupy

    synchronise = cupy.cuda.Device().synchronize
    known = cupy.cuda.runtime.getDeviceProperties(0)
    operations, failed = {}, {}
    for one in [precision] if precision else [one for one in PRECISIONS if one != "tf32"]:
        try:
            operations[one] = product_rate(cupy, "float16" if one == "float16" else "float32", synchronise)
        except Exception as error:  # whatever CuPy or cuBLAS raises is the reason that the table gives
            failed[one] = f"{type(error).__name__}: {error}"
    driver, runtime = cupy.cuda.runtime.driverGetVersion(), cupy.cuda.runtime.runtimeGetVersion()
    return Ceilings(
        f"{known['name'].decode()}, {known['totalGlobalMem'] / 2**30:.0f} GiB, compute capability "
        f"{known['major']}.{known['minor']}, {known['multiProcessorCount']} multiprocessors",
        f"driver for CUDA {driver // 1000}.{driver % 1000 // 10}, runtime {runtime // 1000}.{runtime % 1000 // 10}, "
        f"CuPy {cupy.__version__}",
        copy_rate(cupy, synchronise),
        operations,
        failed,
    )


def main(arguments: list[str]) -> int:
    """Print the measurements. Returns 2 without a device."""
    reason = no_device()
    if reason:
        print(reason, file=sys.stderr)
        return 2
    print(json.dumps(asdict(_measured(arguments[0] if arguments else ""))))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
