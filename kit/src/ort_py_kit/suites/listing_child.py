"""Run in a fresh interpreter: load one plug-in, probe its provider, and print what that did as one line of JSON.

Its arguments are the plug-in's module and the provider's name.
"""

from __future__ import annotations

import importlib
import json
import os
import signal
import sys
import threading
import time
from pathlib import Path
from typing import Any

_FORK_SECONDS = 10

_NO_VENDORS = {"ort_py", "numpy", "ml_dtypes", "pluggy", "_cffi_backend"}
"""Packages that a light plug-in may import: what ort-py itself stands on, and the twin of ctypes that compiled bindings
open their libraries with."""


def main(module: str, name: str) -> dict[str, Any]:
    """Load, probe, fork; what was seen."""
    import ort_py.contracts
    import ort_py.discovery
    import ort_py.hooks  # noqa: F401 - what every process has that lists providers

    own = module.partition(".")[0]
    before, threads = set(sys.modules), _threads()
    plugin = importlib.import_module(module)
    (factory,) = [one for one in plugin.ort_py_providers() if one.name == name]
    loaded = set(sys.modules)
    waited, start = _waited(), time.perf_counter()
    answer = factory.probe()
    seconds = time.perf_counter() - start
    seconds -= _waited() - waited
    probed = set(sys.modules)
    return {
        "seconds": seconds,
        "imported": [
            *((one, "import of the plug-in") for one in _foreign(loaded - before, own)),
            *((one, "probe") for one in _foreign(probed - loaded, own)),
        ],
        "threads": max(0, _threads() - threads),
        "forked": _forked(factory, bool(answer)),
    }


def _foreign(modules: set[str], own: str) -> list[str]:
    """Top-level packages among some modules that are neither Python's nor the plug-in's nor ort-py's."""
    tops = {module.partition(".")[0] for module in modules}
    known = {*sys.stdlib_module_names, *_NO_VENDORS, own}
    return sorted(
        top for top in tops - known if not top.startswith(("ort_py_", "__")) and top not in sys.builtin_module_names
    )


def _waited() -> float:
    """Seconds that this thread was ready without a processor, if the system counts them: a busy machine is not a fault
    of the probe.
    """
    try:
        return int(Path("/proc/thread-self/schedstat").read_text(encoding="ascii").split()[1]) / 1e9
    except (OSError, ValueError, IndexError):
        return 0.0


def _threads() -> int:
    tasks = Path("/proc/self/task")
    return len(list(tasks.iterdir())) if tasks.is_dir() else threading.active_count()


def _forked(factory: Any, expected: bool) -> str:
    """Describe a failure in a forked child; ``""`` if there is none or the system has no fork."""
    if not hasattr(os, "fork"):
        return ""
    child = os.fork()
    if not child:
        code = 2
        try:
            signal.alarm(_FORK_SECONDS)  # ends a child that hangs
            code = 0 if bool(factory.probe()) is expected else 1
        finally:
            os._exit(code)
    _, status = os.waitpid(child, 0)
    code = os.waitstatus_to_exitcode(status)
    answers = {0: "", 1: "gives another answer", 2: "raises", -signal.SIGALRM: f"hangs for {_FORK_SECONDS} s"}
    return answers.get(code, f"ends the process with {code}")


if __name__ == "__main__":
    sys.stdout.write("\n" + json.dumps(main(*sys.argv[1:3])) + "\n")
