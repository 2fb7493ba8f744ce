"""Enumerations of quantisation."""

from ort_py.compat.absent import absent_names
from ort_py.compat.quantization.quant_utils import *  # noqa: F403 - every public name

__getattr__ = absent_names(__name__)
