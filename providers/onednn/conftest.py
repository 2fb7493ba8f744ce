"""Where the provider is not installed, its tests are not collected: `scripts/test.py` runs them where it is."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ort_py_onednn") else ["tests"]
