"""Questions to the process and settings of it: onnxruntime's module functions that belong to no session.

Settings are few: where log messages start, the seed of random operators, the threads of sessions that ask for none. It
does not depend on models. What a provider is, and which there are, is `discovery`'s business.
"""

from __future__ import annotations

import importlib.metadata
import logging
import os
import platform
import sys
from pathlib import Path

from ort_py.devices import DeviceClass
from ort_py.discovery import default_catalog
from ort_py.errors import UsageError
from ort_py.installed import version_of
from ort_py.kernels.seeds import set_process_seed
from ort_py.logs import lazy_logger
from ort_py.platform.processors import set_default_threads

_logger = lazy_logger("ort_py.environment")

_LEVELS = (logging.DEBUG, logging.INFO, logging.WARNING, logging.ERROR, logging.CRITICAL)
"""Levels of `logging` for onnxruntime's severities: verbose, info, warning, error, fatal."""


def get_device() -> str:
    """``"GPU"`` where a usable provider has one, else ``"CPU"``."""
    kinds = {record.device_class for record in default_catalog().records() if record.usable}
    return "GPU" if DeviceClass.GPU in kinds else "CPU"


def get_version_string() -> str:
    """The version of ort-py."""
    return _own_version()


def get_build_info() -> str:
    """One line with the versions of ort-py, Python and their dependencies."""
    parts = [f"{name} {version}" for name in ("numpy", "onnx") if (version := version_of(name))]
    return f"ORT Build Info: ort-py {_own_version()}, Python {platform.python_version()}, {', '.join(parts)}"


def has_collective_ops() -> bool:
    """Return whether there are operators that exchange tensors between processes; there are none."""
    return False


def set_seed(seed: int, /) -> None:
    """Make random operators without a seed of their own reproducible.

    Each such node of a session created from now on gets a stream of its own, which goes on from run to run; the same
    program gives the same numbers in every process with the same seed. They are not onnxruntime's numbers.

    Args:
        seed: Any 64-bit integer.

    Raises:
        TypeError: It is something else.
    """
    if not hasattr(seed, "__index__") or not -(2**63) <= int(seed) < 2**63:
        raise TypeError(f"A seed must be a 64-bit integer, not {seed!r}.")
    set_process_seed(int(seed))


def set_default_logger_severity(severity: int, /) -> None:
    """Set the level of the logger ``ort_py``, below which all of ort-py's messages are.

    Args:
        severity: 0 verbose, 1 info, 2 warning, 3 error, 4 fatal.

    Raises:
        TypeError: It is not an integer.
        UsageError: It is another number; a builtin RuntimeError too.
    """
    number = _whole("A severity", severity)
    if not 0 <= number < len(_LEVELS):
        raise UsageError(
            f"The log severity must be a number from 0 to 4, not {number}.",
            fix="Use 0 (verbose), 1 (info), 2 (warning), 3 (error) or 4 (fatal).",
        )
    logging.getLogger("ort_py").setLevel(_LEVELS[number])


def set_default_logger_verbosity(verbosity: int, /) -> None:
    """Do nothing, for compatibility: messages have levels and no verbosity within them.

    Raises:
        TypeError: It is not an integer.
    """
    _logger.debug("verbosity %d has no effect; set the level instead", _whole("A verbosity", verbosity))


def set_global_thread_pool_sizes(intra_op_num_threads: int = 0, inter_op_num_threads: int = 0) -> None:
    """Set how many threads sessions created from now on use, where their options leave it open.

    There is one pool a process anyway, so sessions need no other options than before, and this may be called again.

    Args:
        intra_op_num_threads: Threads of one run; 0 or less leaves it to ort-py.
        inter_op_num_threads: Accepted for compatibility.

    Raises:
        TypeError: One of them is not an integer.
    """
    threads = _whole("A number of threads", intra_op_num_threads)
    _whole("A number of threads", inter_op_num_threads)
    set_default_threads(threads)


def enable_telemetry_events() -> None:
    """Do nothing: ort-py has no telemetry."""


def disable_telemetry_events() -> None:
    """Do nothing: ort-py has no telemetry."""


def print_debug_info() -> None:
    """Print versions, places and providers to stdout, as onnxruntime does: this is what the caller asked for."""
    sys.stdout.write("\n".join(_debug_lines()) + "\n")


def _debug_lines() -> list[str]:
    lines = [f"ort-py version: {_own_version()}", f"platform: {platform.platform()}"]
    lines += ["", "Python package, version and location:"]
    found = {
        distribution.name: f"{distribution.name}=={distribution.version} at {distribution.locate_file('')}"
        for distribution in importlib.metadata.distributions()
        if distribution.name and _concerns(distribution.name)
    }
    lines += [found[name] for name in sorted(found)]
    lines += ["", "Providers:", *(str(record) for record in default_catalog().records())]
    lines += ["", "Environment variables:"]
    lines += [f"{name}={value}" for name, value in sorted(os.environ.items()) if name.startswith("ORT_PY_")]
    lines += [f"{name}={os.environ[name]}" for name in ("OMP_NUM_THREADS",) if name in os.environ]
    return [*lines, "", f"Python {platform.python_version()} at {Path(sys.executable)}"]


def _concerns(distribution: str) -> bool:
    name = distribution.lower().replace("_", "-")
    return name.startswith(("ort-py", "onnxruntime")) or name in ("numpy", "onnx", "ml-dtypes", "protobuf", "pluggy")


def _own_version() -> str:
    # The package itself says it; only asked in a call, when it has long been imported.
    found: str = sys.modules["ort_py"].__version__
    return found


def _whole(what: str, value: int) -> int:
    if not hasattr(value, "__index__"):
        raise TypeError(f"{what} is an integer, not {value!r}.")
    return int(value)
