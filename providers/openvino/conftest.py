"""Where the provider or OpenVINO is not installed, its tests are not collected: `scripts/test.py` installs both."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ort_py_openvino") and find_spec("openvino") else ["tests"]
