"""Where the provider is not installed, its tests are not collected: they need coremltools."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ort_py_coreml") and find_spec("coremltools") else ["tests"]
