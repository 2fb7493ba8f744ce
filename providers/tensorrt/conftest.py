"""Where the provider is not installed, its tests are not collected; what needs a library of TensorRT's skips itself."""

from __future__ import annotations

from importlib.util import find_spec

collect_ignore = [] if find_spec("ort_py_tensorrt") and find_spec("ort_py_cuda") else ["tests"]
