"""Facts about the machine and its limits that decide what runs here and how fast. Reads; changes nothing."""

from __future__ import annotations

import os
import platform
import re
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from ort_py.cache.location import FOLDER_VARIABLE, cache_bytes, cache_folder
from ort_py.cache.store import CacheStore
from ort_py.errors import OptionError
from ort_py.installed import version_of
from ort_py.platform.control_groups import cpu_quota, limited_groups
from ort_py.platform.processors import processor_facts, thread_count

_FEATURES = re.compile(r"^(sse4_[12]|avx\w*|fma|f16c|amx_\w+|asimd\w*|sve\w*|bf16|i8mm|fphp)$")
"""Flags of ``/proc/cpuinfo`` that numeric libraries choose their code by."""

_PACKAGES = ("numpy", "onnx", "ml_dtypes", "protobuf", "pluggy")


def machine_facts(environment: Mapping[str, str] = os.environ, root: Path = Path("/")) -> dict[str, Any]:
    """Facts in the types that JSON has.

    Args:
        root: Root of the file system that describes processors and control groups.
    """
    model, features = _processor(root)
    threads = thread_count(0, environment, root)
    quota = cpu_quota(root)
    memory = [found for group in limited_groups(root) if (found := group.read()) is not None]
    return {
        "ort_py": sys.modules["ort_py"].__version__,
        "python": platform.python_version(),
        "implementation": platform.python_implementation(),
        "executable": sys.executable,
        "platform": platform.platform(),
        "machine": platform.machine(),
        "packages": {name: version_of(name) for name in _PACKAGES},
        "processor": model,
        "features": features,
        "threads": {"count": threads.count, "reason": threads.reason},
        "cgroup": {
            "processors": None if quota is None else {"quota": quota.processors, "group": quota.group},
            "memory": [{"group": one.group, "limit": one.limit, "used": one.used} for one in memory],
        },
        "cache": _cache(environment),
        "environment": {name: text for name, text in sorted(environment.items()) if name.startswith("ORT_PY_")},
    }


def _processor(root: Path) -> tuple[str, list[str]]:
    """The processor's name and its instruction sets, as far as the system tells."""
    facts = processor_facts(root)
    flags = facts.get("flags") or facts.get("Features", "")
    name = facts.get("model name") or platform.processor() or platform.machine()
    return name, [flag for flag in flags.split() if _FEATURES.match(flag)]


def _cache(environment: Mapping[str, str]) -> dict[str, Any]:
    folder = cache_folder("", environment)
    if folder is None:
        return {
            "folder": None,
            "state": "off",
            "note": f"{FOLDER_VARIABLE} switches it off, or there is no home folder",
        }
    facts: dict[str, Any] = {"folder": folder}
    try:
        facts["bytes"] = cache_bytes(environment)
        # A folder that is not there yet is made with the first entry; looking must not make it.
        if not Path(folder).is_dir():
            return facts | {"state": "not made yet", "note": ""}
        private = CacheStore(folder, facts["bytes"]).usable
    except (OptionError, OSError) as error:
        return facts | {"state": "unusable", "note": str(error)}
    if private:
        return facts | {"state": "private", "note": ""}
    return facts | {"state": "not private", "note": "others can write to it, so nothing is cached; see `ort-py cache`"}
