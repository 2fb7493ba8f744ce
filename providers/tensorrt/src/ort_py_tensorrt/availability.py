"""Whether this machine can run one of the providers: its library, and all that ort-py-cuda needs for a GPU.

Asks metadata, folders and the driver, and imports no library. Comes after `installed`, before the plug-in.
"""

from __future__ import annotations

from ort_py.contracts import Availability
from ort_py_cuda import availability as cuda
from ort_py_tensorrt.installed import Missing, find
from ort_py_tensorrt.variants import Variant

__all__ = ["examine", "examine_compiler"]


def examine(variant: Variant) -> Availability:
    """Look at everything that a session needs.

    Returns:
        Not available, with all that is wrong; or available, with the versions that were found.
    """
    found, device = find(variant), cuda.examine()
    if isinstance(found, Missing):
        reasons, fixes = [found.reason], [found.fix]
        if not device:
            reasons.append(device.reason)
            # The extra installs what ort-py-cuda needs too, but no driver.
            fixes += [fix for fix in device.fix.split("; ") if not fix.startswith("pip install")]
        return Availability(False, "; ".join(reasons), "; ".join(fixes))
    if not device:
        return Availability(False, f"{found} is installed, but no GPU can be used: {device.reason}", device.fix)
    return Availability(True, f"{found}; {device.reason}", devices=device.devices)


def examine_compiler(variant: Variant) -> Availability:
    """Return whether engines can be written here. TensorRT-RTX needs no GPU for that."""
    if not variant.compiles_ahead:
        return examine(variant)
    found = find(variant)
    if isinstance(found, Missing):
        return Availability(False, found.reason, found.fix)
    return Availability(True, str(found))
