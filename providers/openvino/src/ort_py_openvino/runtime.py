"""The process's OpenVINO: imported and started once, when the first session asks for it.

Comes after `installed`; everything else here takes the module and its core from this one.
"""

from __future__ import annotations

from typing import Any

from ort_py.errors import EPFail
from ort_py.platform.forks import ProcessLock
from ort_py_openvino.installed import Missing, find

__all__ = ["check_device", "core", "module"]

_lock = ProcessLock()
_started: list[Any] = []


def module() -> Any:
    """The module ``openvino``.

    Raises:
        EPFail: It is not installed, too old, or does not import.
    """
    found = find()
    if isinstance(found, Missing):
        raise EPFail(f"OpenVINO cannot be used: {found.reason}.", fix=found.fix)
    try:
        import openvino
    except Exception as error:  # a broken installation raises whatever its parts raise
        raise EPFail(
            f"openvino {found.version} is installed and does not import: {error}.",
            fix='pip install --force-reinstall "openvino>=2025.0"',
        ) from error
    return openvino


def core() -> Any:
    """OpenVINO's ``Core``.

    Raises:
        EPFail: As `module`.
    """
    with _lock.held():
        if not _started:
            _started.append(module().Core())
        return _started[0]


def check_device(device: str) -> None:
    """Return whether a device that a user names is there.

    Raises:
        EPFail: It is not; with the devices that are.
    """
    first = device.split(":", 1)
    wanted = first[1].split(",") if len(first) > 1 else ([] if device in {"AUTO", "HETERO", "MULTI"} else [device])
    there = list(core().available_devices)
    families = {name.split(".")[0] for name in there}
    lacking = [
        name for name in (one.strip().strip("-") for one in wanted) if name not in there and name not in families
    ]
    if lacking:
        raise EPFail(
            f"OpenVINO finds no device {', '.join(lacking)} on this machine; it finds {', '.join(there) or 'none'}.",
            fix="set device_type to one of these, or install the driver of the device (for GPU: intel-opencl-icd)",
        )
