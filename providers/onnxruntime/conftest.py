"""Where the provider is not installed, its tests are not collected: its entry points would not be found."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ort_py_onnxruntime") else ["tests"]
