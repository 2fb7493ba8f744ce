"""Ranges of tensors, found by running a model on examples."""

from ort_py.compat.absent import absent_names
from ort_py.compat.quantization.calibrate import *  # noqa: F403 - every public name

__getattr__ = absent_names(__name__)
