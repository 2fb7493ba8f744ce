"""ONNX's backend interface: `prepare` a model, `run` it, ask what is supported. See `ort_py.compat.backend`."""

from ort_py.compat.backend import is_compatible, prepare, run, supports_device

__all__ = ["is_compatible", "prepare", "run", "supports_device"]
