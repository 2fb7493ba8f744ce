"""Where the provider is not installed, its tests are not collected: there is no library for it on that platform."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ort_py_xnnpack") else ["tests"]
