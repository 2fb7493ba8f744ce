"""Three tiny models to try a runtime with, by the names onnxruntime ships them under."""

from ort_py.compat.datasets import *  # noqa: F403 - every public name
